"""One holder is moved so that a claim fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from claimsmith.allocate.policy.moves import Holder, Move, plan_move
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.testing.builders import (
    allocated,
    capacity,
    claim,
    device,
    device_id,
    node,
    request,
    result,
    slice_,
    snapshot,
)
from tests.unit.allocate.cards import cards, check, holds, placer, wants
from tests.unit.allocate.solving import number_shares


def node_of(holder: ResourceClaim) -> str:
    assert holder.allocation is not None
    return holder.allocation.results[0].pool


def move(
    cluster: ClusterSnapshot,
    wanted: ResourceClaim,
    *,
    holders: Iterable[Holder] | None = None,
) -> Move | None:
    """The move that is planned, with both allocations checked; all holders may move unless others are named."""
    everyone = [Holder(claim=item, node=node_of(item)) for item in cluster.allocated_claims()]
    found = plan_move(
        placer(cluster),
        (wanted,),
        holders=everyone if holders is None else holders,
        nodes=tuple(cluster.nodes.values()),
        share_ids=number_shares(),
    )
    if found is not None:
        left = dict(cluster.claims)
        gone = left.pop(found.holder.claim.ref)
        without = replace(cluster, claims=left)
        check(without, found.placed.node, wanted, found.placed.results[0])
        placed = replace(wanted, allocation=found.placed.results[0])
        beside = replace(without, claims={**left, wanted.ref: placed})
        check(beside, found.moved.node, replace(gone, allocation=None), found.moved.results[0])
    return found


def spot(decision: Allocation) -> str:
    return f"{decision.node}/" + ",".join(item.device for item in decision.results[0].results)


def test_a_small_holder_goes_aside_on_its_own_card() -> None:
    found = move(cards("node-a", holders=[holds("h", "s1-0"), holds("i", "s1-2")]), wants(2))

    assert found is not None
    assert spot(found.placed).removeprefix("node-a/") in {"s2-0", "s2-2"}
    assert found.moved.node == "node-a"


def test_a_holder_goes_to_another_node() -> None:
    cluster = cards("node-a", "node-b", holders=[holds("h", "s1-0"), holds("i", "s2-0", on="node-b")])
    found = move(cluster, wants(4))

    assert found is not None
    assert (found.holder.claim.metadata.name, spot(found.placed), found.moved.node) == ("h", "node-a/s4-0", "node-b")


def test_the_holder_whose_new_place_costs_least_is_moved() -> None:
    holders = [
        holds("two", "s2-0"),
        holds("one", "s1-0", on="node-b"),
        holds("three", "s2-2", on="node-c"),
        holds("four", "s1-0", on="node-c"),
    ]
    found = move(cards("node-a", "node-b", "node-c", holders=holders), wants(4))

    assert found is not None
    assert (found.holder.claim.metadata.name, spot(found.moved)) == ("one", "node-c/s1-1")


def test_nothing_is_moved_that_does_not_help() -> None:
    holders = [holds("h", "s2-0"), holds("i", "s1-2")]

    assert move(cards("node-a", holders=holders), wants(4)) is None


def test_nobody_is_moved_who_must_stay() -> None:
    held = holds("h", "s1-0"), holds("i", "s2-0", on="node-b")
    cluster = cards("node-a", "node-b", holders=held)
    pinned = Holder(claim=held[0], node="node-a", nodes=frozenset({"node-a"}))

    assert move(cluster, wants(4), holders=[pinned]) is None


def test_only_the_holders_that_are_named_are_moved() -> None:
    held = holds("h", "s1-0"), holds("i", "s2-0", on="node-b")
    named = Holder(claim=held[1], node="node-b")
    found = move(cards("node-a", "node-b", holders=held), wants(4), holders=[named])

    assert found is not None
    assert (spot(found.placed), spot(found.moved)) == ("node-b/s4-0", "node-a/s2-2")


def test_a_holder_of_several_devices_moves_with_all_of_them() -> None:
    held = holds("h", "s1-0", "s1-1"), holds("i", "s1-0", on="node-b"), holds("j", "s1-3", on="node-b")
    found = move(cards("node-a", "node-b", holders=held), wants(4), holders=[Holder(claim=held[0], node="node-a")])

    assert found is not None
    assert (spot(found.placed), spot(found.moved)) == ("node-a/s4-0", "node-b/s1-1,s1-2")


def test_the_cluster_is_as_before() -> None:
    cluster = cards("node-a", holders=[holds("h", "s1-0"), holds("i", "s1-2")])
    planner = placer(cluster)
    before = dict(planner.cluster.uses)
    holders = [Holder(claim=item, node="node-a") for item in cluster.allocated_claims()]
    nodes = tuple(cluster.nodes.values())
    found = plan_move(planner, (wants(2),), holders=holders, nodes=nodes, share_ids=number_shares())

    assert found is not None
    assert planner.cluster.uses == before


def test_a_holder_whose_device_is_not_to_be_seen_is_left_alone() -> None:
    vanished = replace(holds("h", "s1-0"), spec=claim("h").spec)
    lost = replace(vanished, allocation=replace(vanished.allocation, results=(result("gone", request="r"),)))  # type: ignore[type-var]

    assert (
        move(cards("node-a", holders=[lost, holds("i", "s4-0")]), wants(4), holders=[Holder(claim=lost, node="node-a")])
        is None
    )


def part_of(name: str, units: int, *, of: str = "", on: str = "node-a") -> ResourceClaim:
    """A claim for a part of a shared device, which it has when the device is named."""
    wanted = claim(name, request("r", capacity={"units": units}))
    if not of:
        return wanted
    return allocated(wanted, result(device_id(of, pool=on), share=f"share-{name}", consumed={"units": units}), node=on)


def test_holders_of_equal_parts_are_told_apart_by_what_else_is_in_use_of_their_devices() -> None:
    """Without `c` there is room for 80 of 100; without `a`, which has just as much, there is not."""
    gpus = [
        device(name, capacity={"units": capacity(100)}, allow_multiple_allocations=True)
        for name in ("gpu-0", "gpu-1", "gpu-2")
    ]
    held = (
        *(part_of("a", 30, of="gpu-0"), part_of("b", 60, of="gpu-0")),
        *(part_of("c", 30, of="gpu-1"), part_of("d", 10, of="gpu-1")),
        part_of("e", 70, of="gpu-2", on="node-b"),
    )
    slices = slice_(*gpus[:2], name="a", node="node-a"), slice_(gpus[2], name="b", node="node-b")
    found = move(snapshot(node("node-a"), node("node-b"), *slices, *held), part_of("wanted", 80))

    assert found is not None
    assert (found.holder.claim.metadata.name, spot(found.placed), spot(found.moved)) == (
        "c",
        "node-a/gpu-1",
        "node-b/gpu-2",
    )

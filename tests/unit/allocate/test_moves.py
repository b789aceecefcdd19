"""One holder is moved so that a claim fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from claimsmith.allocate.moves import Holder, Move, plan_move
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.testing.builders import claim, result
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

"""A move of one holder is found exactly when there is one: the planner against trying everything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from hypothesis import assume, given
from hypothesis import strategies as st

from claimsmith.allocate.policy.moves import Holder, plan_move
from claimsmith.allocate.policy.objective import FRAGMENTATION
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Pending
from tests.unit.allocate.cards import cards, check, holds, wants
from tests.unit.allocate.solving import number_shares

NODES = ("node-a", "node-b")
PLACES = {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)}
Spot = tuple[str, int, int]
"""Node, size and first slot of a partition."""


def list_slots(spot: Spot) -> set[tuple[str, int]]:
    node, size, start = spot
    return {(node, slot) for slot in range(start, start + size)}


@st.composite
def layouts(draw: st.DrawFn) -> list[Spot]:
    """Partitions that are held, none of which overlap."""
    found: list[Spot] = []
    sizes = st.tuples(st.sampled_from(NODES), st.sampled_from(sorted(PLACES)))
    for node, size in draw(st.lists(sizes, min_size=1, max_size=8)):
        spot = (node, size, draw(st.sampled_from(PLACES[size])))
        if not any(list_slots(spot) & list_slots(other) for other in found):
            found.append(spot)
    return found


def list_spots(size: int) -> Iterator[Spot]:
    yield from ((node, size, start) for node, start in product(NODES, PLACES[size]))


def can_move(held: list[Spot], size: int) -> bool:
    """Whether some holder can go elsewhere so that a partition of the size fits, by trying all of it."""
    for holder in held:
        used = {slot for other in held if other != holder for slot in list_slots(other)}
        for wanted in list_spots(size):
            if not list_slots(wanted) & used:
                taken = used | list_slots(wanted)
                if any(not list_slots(spot) & taken for spot in list_spots(holder[1])):
                    return True
    return False


def name_holders(held: list[Spot]) -> Mapping[Spot, ResourceClaim]:
    return {spot: holds(f"h-{place}", f"s{spot[1]}-{spot[2]}", on=spot[0]) for place, spot in enumerate(held)}


@given(held=layouts(), size=st.sampled_from(sorted(PLACES)))
def test_a_move_is_found_exactly_when_there_is_one(held: list[Spot], size: int) -> None:
    holders = name_holders(held)
    cluster = cards(*NODES, holders=holders.values())
    nodes, wanted = tuple(cluster.nodes.values()), wants(size)
    placer = Placer(PreparedCluster.from_snapshot(cluster), FRAGMENTATION)
    assume(isinstance(placer.place((wanted,), nodes=nodes, share_ids=number_shares()), Pending))
    may_move = [Holder(claim=claim, node=spot[0]) for spot, claim in holders.items()]
    found = plan_move(placer, (wanted,), holders=may_move, nodes=nodes, share_ids=number_shares())

    assert (found is not None) == can_move(held, size)


@given(held=layouts(), size=st.sampled_from(sorted(PLACES)))
def test_a_placed_partition_passes_the_checker_and_one_is_refused_only_if_none_fits(
    held: list[Spot], size: int
) -> None:
    cluster = cards(*NODES, holders=name_holders(held).values())
    placer = Placer(PreparedCluster.from_snapshot(cluster), FRAGMENTATION)
    decision = placer.place((wants(size),), nodes=tuple(cluster.nodes.values()), share_ids=number_shares())
    used = {slot for spot in held for slot in list_slots(spot)}

    assert isinstance(decision, Pending) == all(list_slots(spot) & used for spot in list_spots(size))
    if not isinstance(decision, Pending):
        check(cluster, decision.node, wants(size), decision.results[0])  # type: ignore[union-attr]

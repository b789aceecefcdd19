"""What a long-lived scheduler remembers stays bounded, whatever comes and goes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import count
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

import pytest

from claimsmith.allocate.explain.tally import tally_reasons
from claimsmith.allocate.policy import nodestates, placing
from claimsmith.allocate.policy.objective import FRAGMENTATION
from claimsmith.allocate.policy.placing import Placer, place_claims
from claimsmith.allocate.prepared import changes, forms, groups, index, kinds
from claimsmith.allocate.search.decide import allocate_first
from claimsmith.cel import CelEnvironment
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision
from claimsmith.testing.builders import (
    allocated,
    capacity,
    claim,
    device,
    node,
    quantity,
    request,
    slice_,
    snapshot,
)

DRIVER = "gpu.example.test"
FULL, ROUND = 24, 16
"""Pods, or changes, after which all limits have been reached, and over which the least of what is kept is taken."""
SMALL = 8
NODES = tuple(node(f"n{number}") for number in range(3))
_PASSED_OVER = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, CelEnvironment)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a few pods reach."""
    for module, names in (
        (index, ("KNOWN_TEXTS_MAX", "KNOWN_GROUPS_MAX", "KNOWN_SHAPES_MAX")),
        (groups, ("KNOWN_STATES_MAX",)),
        (kinds, ("KNOWN_VALUES_MAX", "KNOWN_KINDS_MAX")),
        (changes, ("KEPT_MAX",)),
        (forms, ("KNOWN_CAPACITIES_MAX", "KNOWN_SHARED_MAX", "KNOWN_FORMS_MAX")),
        (nodestates, ("KNOWN_STATES_MAX", "KNOWN_SHAPES_MAX")),
        (placing, ("JOURNAL_MAX", "TABLES_MAX", "RATED_MAX")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, SMALL)
    monkeypatch.setattr("claimsmith.allocate.policy.demand.KNOWN_PODS_MAX", SMALL)


def count_kept(*roots: object) -> int:
    """How many objects are kept alive by these."""
    seen, todo = {id(root) for root in roots}, list(roots)
    while todo:
        for found in gc.get_referents(todo.pop()):
            if id(found) not in seen and not isinstance(found, _PASSED_OVER):
                seen.add(id(found))
                todo.append(found)
    return len(seen)


def wants(number: int) -> ResourceClaim:
    """A claim that reads an attribute and asks for an amount that no other one does."""
    text = f'device.attributes["{DRIVER}"].kind == "gpu" && !has(device.attributes["{DRIVER}"].extra{number})'
    return claim(f"c{number}", request("r", text, capacity={"memory": quantity(1000 + number)}))


def make_cluster() -> index.PreparedCluster:
    shared = device(
        "x", attributes={"kind": "gpu"}, capacity={"memory": capacity(10_000)}, allow_multiple_allocations=True
    )
    slices = [slice_(shared, name=item.name, node=item.name, pool=item.name) for item in NODES]
    return index.PreparedCluster.from_snapshot(snapshot(*NODES, *slices))


def grow(change: Callable[[int], object], *roots: object) -> int:
    """By how many objects what is kept grows while changes come that never came before."""
    kept: list[int] = []
    for number in range(FULL + 4 * ROUND):
        change(number)
        if FULL <= number < FULL + ROUND or number >= FULL + 3 * ROUND:
            kept.append(count_kept(*roots))
    return min(kept[ROUND:]) - min(kept[:ROUND])


def come_and_go(cluster: index.PreparedCluster, decide: Callable[[ResourceClaim], Decision]) -> Callable[[int], None]:
    """Give what lets one pod come and go."""

    def change(number: int) -> None:
        wanted = wants(number)
        decision = decide(wanted)
        assert isinstance(decision, Allocation), decision
        held = allocated(wanted, *decision.results[0].results)
        cluster.see_claim(None, held)
        cluster.see_claim(held, None)

    return change


def share_ids() -> Callable[[], str]:
    numbers = count()
    return lambda: f"s{next(numbers)}"


def test_a_scheduler_by_policy_forgets_what_pods_of_the_past_asked_for() -> None:
    cluster, ids = make_cluster(), share_ids()
    placer = Placer(cluster, FRAGMENTATION)

    def decide(wanted: ResourceClaim) -> Decision:
        placer.observe((wanted,))
        return placer.place((wanted,), nodes=NODES, share_ids=ids)

    assert grow(come_and_go(cluster, decide), cluster, placer) < 2 * ROUND


def test_placers_that_live_for_one_pod_leave_nothing_behind() -> None:
    cluster, ids = make_cluster(), share_ids()

    def decide(wanted: ResourceClaim) -> Decision:
        return place_claims(cluster, (wanted,), nodes=NODES, policy=FRAGMENTATION, share_ids=ids)

    assert grow(come_and_go(cluster, decide), cluster) < 2 * ROUND


def test_placers_that_live_for_one_question_leave_nothing_behind_while_nothing_changes() -> None:
    cluster, wanted = make_cluster(), wants(0)

    def change(_: int) -> None:
        place_claims(cluster, (wanted,), nodes=NODES, policy=FRAGMENTATION, share_ids=str)

    assert grow(change, cluster) < 2 * ROUND


def test_ratings_of_ever_new_combinations_of_requests_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodestates, "KNOWN_STATES_MAX", 1_000)
    cluster = make_cluster()
    placer = Placer(cluster, FRAGMENTATION)

    def change(number: int) -> None:
        amounts = (1 + (number >> place & 1) for place in range(7))
        asked = [request(f"r{place}", capacity={"memory": quantity(amount)}) for place, amount in enumerate(amounts)]
        placer.place((claim("c", *asked),), nodes=NODES, share_ids=str)

    assert grow(change, cluster, placer) < 2 * ROUND


def test_the_search_forgets_what_pods_of_the_past_asked_for() -> None:
    cluster, ids = make_cluster(), share_ids()

    def decide(wanted: ResourceClaim) -> Decision:
        tally_reasons(cluster, (wanted,), nodes=NODES)
        return allocate_first(cluster, (wanted,), nodes=NODES, share_ids=ids)

    assert grow(come_and_go(cluster, decide), cluster) < 2 * ROUND


def test_slices_that_are_published_anew_again_and_again_leave_nothing_behind() -> None:
    cluster, wanted = make_cluster(), claim("c")

    def change(number: int) -> None:
        made = device(f"x{number}", attributes={"kind": f"k{number}"}, capacity={f"m{number}": capacity(number)})
        cluster.replace_slices(tuple(slice_(made, name=item.name, node=item.name, pool=item.name) for item in NODES))
        place_claims(cluster, (wanted,), nodes=NODES, policy=FRAGMENTATION, share_ids=str)
        allocate_first(cluster, (wanted,), nodes=NODES, share_ids=str)

    assert grow(change, cluster) < 2 * ROUND

"""Each deviation from upstream shows on a problem of its own, and is gone when it alone is switched off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.search.decide import allocate
from claimsmith.model.decision import Allocation, Decision
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation
from claimsmith.model.features import Features
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    match,
    request,
    slice_,
    sub,
)
from claimsmith.testing.conformance.compare import describe
from tests.unit.allocate.solving import number_shares, problem

GROUP = "gpu.example.test/group"
ONE, TWO = device("one", attributes={"group": 1}), device("two", attributes={"group": 2})
FIRST_GROUP = 'device.attributes["gpu.example.test"].group == 1'
EVERY = sub("all", "true", allocation_mode="All")
UNREADABLE = NodeSelector(
    terms=(NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="zone", operator="Near"),)),)
)
COUNTERS = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"units": 4}),))
CUT = slice_(device("mid", counters=[consumes("card", {"units": 2})]), name="devices", slice_count=2)
OLD_GATES = replace(Features.none(), partitionable_devices=True)
FAR = slice_(name="far", node="node-b", pool="p", slice_count=1, shared_counters=(counter_set("card", {"u": 1}),))

SCENES: dict[Deviation, tuple[Callable[[], AllocationProblem], str, str]] = {
    Deviation.SELECTOR_ERROR: (
        lambda: problem(
            slice_(device("odd"), ONE), claim("c", request("r", 'device.attributes["gpu.example.test"].group == 1'))
        ),
        "feasible",
        "error (cel-runtime",
    ),
    Deviation.ALL_WITH_CONSTRAINT: (
        lambda: problem(
            slice_(ONE, TWO), claim("c", alternatives("r", EVERY, sub("few", "true")), constraints=[match(GROUP)])
        ),
        "feasible",
        "error (all-constraint",
    ),
    Deviation.ALL_WHILE_INCOMPLETE: (
        lambda: problem(slice_(ONE, slice_count=2), claim("c", request("r", allocation_mode="All"))),
        "error (all-incomplete-pool, this node",
        "error (all-incomplete-pool, every node",
    ),
    Deviation.ALL_OVER_LIMIT: (
        lambda: problem(
            slice_(*(device(f"d{number}") for number in range(33))), claim("c", request("r", allocation_mode="All"))
        ),
        "error (limit, this node",
        "error (limit, every node",
    ),
    Deviation.INVALID_POOL: (
        lambda: problem(slice_(ONE, ONE, pool="twice"), claim("c")),
        "infeasible",
        "error (invalid-pool",
    ),
    Deviation.NODE_SELECTOR: (
        lambda: problem(slice_(ONE), slice_(TWO, node=None, pool="net", node_selector=UNREADABLE), claim("c")),
        "feasible",
        "error (node-selector",
    ),
    Deviation.STABLE_POOLS: (
        lambda: problem(FAR, slice_(ONE, name="near", pool="p", slice_count=2), claim("c"), features=OLD_GATES),
        "feasible",
        "infeasible",
    ),
    Deviation.VANISHED_DEVICE: (
        lambda: problem(COUNTERS, CUT, allocated(claim("held"), "gone"), claim("c")),
        "infeasible",
        "feasible",
    ),
}


def ask(asked: AllocationProblem, deviations: frozenset[Deviation]) -> str:
    """Return the decision in a few words, with the reach of an error."""
    decision: Decision = allocate(asked, share_ids=number_shares(), deviations=deviations)
    reach = "this node" if getattr(decision, "node_only", False) else "every node"
    return describe(decision).replace(":", f", {reach}:", 1)


@pytest.mark.parametrize("deviation", Deviation)
def test_a_deviation_shows_and_can_be_switched_off_by_itself(deviation: Deviation) -> None:
    make, ours, theirs = SCENES[deviation]

    assert ask(make(), OURS).startswith(ours)
    assert ask(make(), OURS - {deviation}).startswith(theirs)
    assert ask(make(), OURS - {deviation}) == ask(make(), LIKE_UPSTREAM)


def test_a_step_of_0_passes_the_device_over() -> None:
    odd = device(
        "odd", capacity={"memory": capacity(10, default=1, minimum=1, step=0)}, allow_multiple_allocations=True
    )
    wanted = claim("c", request("r", capacity={"memory": 2}))

    assert ask(problem(slice_(odd), wanted), OURS) == "infeasible"


@pytest.mark.parametrize("mode", ["ExactCount", "All"])
def test_an_amount_that_cant_be_told_is_warned_of(mode: Literal["ExactCount", "All"]) -> None:
    stepless = capacity(10, default=1, minimum=1, step=0)
    odd = device("odd", capacity={"memory": stepless}, allow_multiple_allocations=True)
    fine = device("zz", capacity={"memory": capacity(10)}, allow_multiple_allocations=True)
    wanted = claim("c", request("r", capacity={"memory": 2}, allocation_mode=mode))
    decision = allocate(problem(slice_(odd, fine), wanted), share_ids=number_shares())

    assert isinstance(decision, Allocation)
    assert [(warning.kind, [id.device for id in warning.devices]) for warning in decision.warnings] == [
        ("capacity-error", ["odd"])
    ]

"""Judges rows of upstream's own test table as they were first recorded: devices in use by name, answers without kind.

Such a row can't hold shares that are in use, nor numbers beyond exa, which upstream prints without their suffix. When
our answer is another one, the row itself is looked at: if its answer breaks rules on what the row holds, or is right
with shares in use that it can't hold, then the record is not whole, and is reported as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from claimsmith.allocate.prepared.usage import AllocatedState, DeviceUse
from claimsmith.api.resource import parse_allocation_result
from claimsmith.model.claim import AllocationResult
from claimsmith.model.decision import Allocation
from claimsmith.model.deviations import LIKE_UPSTREAM
from claimsmith.model.names import DeviceId
from claimsmith.testing.conformance.allocator import decide, judge_node
from claimsmith.testing.conformance.compare import Expectation, compare_exactly, verify_decision
from claimsmith.testing.conformance.errorkinds import find_error_kind
from claimsmith.testing.conformance.outcome import CaseOutcome
from claimsmith.testing.conformance.records import RecordedProblem, parse_problem

__all__ = ["judge_table"]

_INTERRUPTED: Final = ("context deadline exceeded", "context canceled")
"""How Go says that somebody gave up waiting."""


def judge_table(record: Mapping[str, Any], name: str, *, like_upstream: bool) -> CaseOutcome:
    """Judge a row of upstream's own test table.

    Raises:
        InputError: The record is not understood.
    """
    problem = parse_problem(record)
    expected = _parse_expectation(record)
    outcome = replace(judge_node(problem, problem.nodes[0], expected, like_upstream=like_upstream), name=name)
    lacks = _find_lack(problem, expected) if outcome.differences else ""
    return replace(outcome, differences=(), deviations=(), lacks=lacks) if lacks else outcome


def _parse_expectation(record: Mapping[str, Any]) -> Expectation:
    if error := str(record.get("error") or ""):
        if error.endswith(_INTERRUPTED):
            return Expectation(verdict="timeout")
        return Expectation(verdict="error", error_kind=find_error_kind(error))
    results = record["results"]
    if results is None:
        return Expectation(verdict="infeasible")
    allocation = tuple(parse_allocation_result(item) for item in results)
    return Expectation(verdict="feasible", allocation=allocation, ordered=True)


def _find_lack(problem: RecordedProblem, expected: Expectation) -> str:
    """Return what the record does not hold; empty when it is whole as far as can be told."""
    if broken := _find_contradiction(problem, expected.allocation):
        return f"numbers that its answer was made with: by the record itself the answer is {broken}"
    for devices, state in _complete(problem):
        completed = replace(problem, state=state)
        decision = decide(
            completed,
            completed.nodes[0],
            claims=completed.claims,
            allocated=completed.allocated,
            deviations=LIKE_UPSTREAM,
        )
        if not compare_exactly(expected, decision):
            return f"shares in use: its answer is right when shares use up {', '.join(map(str, devices))}"
    return ""


def _find_contradiction(problem: RecordedProblem, answer: tuple[AllocationResult, ...]) -> str:
    """Return the rule that the recorded answer breaks on what was recorded."""
    node = problem.nodes[0]
    decision = Allocation(node=node.name, results=answer)
    broken = verify_decision(
        problem, node, decision, claims=problem.claims, allocated=problem.allocated, deviations=LIKE_UPSTREAM
    )
    return broken[0] if answer and broken else ""


def _complete(problem: RecordedProblem) -> Iterator[tuple[tuple[DeviceId, ...], AllocatedState]]:
    """Yield states in which shares use up the capacity of one more device, or of all that have any."""
    if not problem.features.consumable_capacity:
        return
    full = {
        DeviceId(made.driver, made.pool, device.name): DeviceUse(
            shares=1, tracked=True, consumed={name: capacity.value.nanos for name, capacity in device.capacity.items()}
        )
        for made in problem.slices
        for device in made.devices
        if device.capacity and DeviceId(made.driver, made.pool, device.name) not in problem.state.uses
    }
    for devices in (*((device,) for device in full), tuple(full)):
        yield devices, AllocatedState(uses={**problem.state.uses, **{device: full[device] for device in devices}})

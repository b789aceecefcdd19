"""Comparing one decision with what upstream answered for one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.api.resource import parse_allocation_result
from claimsmith.model.claim import AllocationResult, DeviceResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending, Refused, Undecided
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.node import Node
from claimsmith.testing.conformance.records import RecordedProblem

__all__ = ["Expectation", "compare_exactly", "compare_verdict", "describe", "verify_decision"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What upstream answered for one node.

    Args:
        verdict: feasible, infeasible, error or timeout.
        allocation: Upstream's; empty where it is not known, as in a case that upstream did not finish.
        ordered: Whether upstream's order of devices is defined, so that its devices must be ours.
        node_only: Whether an error rules out this node alone; None where that was not recorded.
    """

    verdict: str
    error_kind: str = ""
    node_only: bool | None = None
    allocation: tuple[AllocationResult, ...] = ()
    ordered: bool = False

    @classmethod
    def parse(cls, answer: Mapping[str, Any], *, ordered: bool) -> Expectation:
        """Return the expectation of one entry of `upstream.results`."""
        return cls(
            verdict=str(answer.get("verdict")),
            error_kind=str(answer.get("errorKind") or ""),
            node_only=bool(answer.get("nodeOnlyError")),
            allocation=tuple(parse_allocation_result(item) for item in answer.get("allocation") or []),
            ordered=ordered,
        )

    @property
    def is_open(self) -> bool:
        """Whether upstream gave no answer: it ran out of time, or its process would have ended."""
        return self.verdict == "timeout" or self.error_kind == "panic"

    def describe(self) -> str:
        """Return the verdict and the kind of an error."""
        return f"{self.verdict} {self.error_kind}".strip()


def describe(decision: Decision) -> str:
    """Return the decision in one word, with what makes it clearer."""
    match decision:
        case Allocation():
            return "feasible"
        case Pending():
            return "infeasible"
        case Refused(kind=kind, text=text):
            return f"error ({kind}: {text})"
        case Undecided(steps=steps):
            return f"undecided after {steps} steps"


def compare_exactly(expected: Expectation, decision: Decision) -> list[str]:
    """Return what differs from upstream's answer: verdict, kind of error, and devices where their order is defined."""
    if problem := compare_verdict(expected, decision):
        return problem
    if isinstance(decision, Allocation) and expected.allocation and expected.ordered:
        return _compare_exactly(expected.allocation, decision.results)
    return []


def compare_verdict(expected: Expectation, decision: Decision) -> list[str]:
    """Return the difference between the decision's verdict and upstream's, with the kind and reach of an error."""
    match decision:
        case Allocation():
            agrees = expected.verdict == "feasible"
        case Pending():
            agrees = expected.verdict == "infeasible"
        case Refused(kind=kind, node_only=node_only):
            agrees = expected.verdict == "error" and kind == (expected.error_kind or kind)
            if agrees and expected.node_only not in (None, node_only):
                reach = "this node" if expected.node_only else "every node"
                return [f"{describe(decision)}, upstream: for {reach}"]
        case _:
            agrees = False
    return [] if agrees else [f"{describe(decision)}, upstream: {expected.describe()}"]


def _compare_exactly(theirs: Sequence[AllocationResult], ours: Sequence[AllocationResult]) -> list[str]:
    theirs, ours = renumber_shares(theirs), renumber_shares(ours)
    differences = []
    for place, (their, our) in enumerate(zip(theirs, ours, strict=True)):
        if [_plain(r) for r in their.results] != [_plain(r) for r in our.results]:
            differences.append(f"claim {place}: devices {_names(our)}, upstream's {_names(their)}")
        elif their.config != our.config:
            differences.append(f"claim {place}: config {our.config}, upstream's {their.config}")
        if their.node_selector != our.node_selector:
            differences.append(f"claim {place}: node selector {our.node_selector}, upstream's {their.node_selector}")
    return differences


def renumber_shares(results: Sequence[AllocationResult]) -> list[AllocationResult]:
    """Return the results with share ids numbered in their order, so that random ones compare."""
    number = 0
    renumbered = []
    for allocation in results:
        devices = []
        for result in allocation.results:
            number += result.share_id is not None
            devices.append(replace(result, share_id=None if result.share_id is None else str(number)))
        renumbered.append(replace(allocation, results=tuple(devices)))
    return renumbered


def _plain(result: DeviceResult) -> DeviceResult:
    """Return the result with an absent adminAccess and a false one made equal."""
    return replace(result, admin_access=result.admin_access or None)


def _names(allocation: AllocationResult) -> str:
    return ", ".join(f"{result.request}={result.device_id}" for result in allocation.results)


def verify_decision(
    problem: RecordedProblem,
    node: Node,
    decision: Decision,
    *,
    claims: tuple[ResourceClaim, ...],
    allocated: tuple[ResourceClaim, ...],
    deviations: frozenset[Deviation] = OURS,
) -> list[str]:
    """Return the rules that an allocation breaks."""
    if not isinstance(decision, Allocation):
        return []
    uses = problem.state.uses
    case = VerifyCase(
        node=node,
        claims=claims,
        slices=problem.slices,
        classes=problem.classes,
        allocated=allocated,
        taken=frozenset(device for device, use in uses.items() if use.dedicated),
        shared={device: use.consumed for device, use in uses.items() if use.shares},
        features=problem.features,
        deviations=deviations,
    )
    return [f"not valid: {violation}" for violation in verify_allocation(case, decision.results)]

"""Judges recorded allocation problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.search.decide import allocate
from claimsmith.errors import FieldError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Decision, Undecided
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation
from claimsmith.model.node import Node
from claimsmith.testing.conformance.compare import (
    Expectation,
    compare_exactly,
    compare_verdict,
    describe,
    verify_decision,
)
from claimsmith.testing.conformance.deviations import PANIC, UNFINISHED, Explained, find_reasons
from claimsmith.testing.conformance.outcome import CaseOutcome
from claimsmith.testing.conformance.records import RecordedProblem, get_field, parse_problem
from claimsmith.testing.conformance.shares import ShareIds

__all__ = ["SEARCH_STEPS_MAX", "decide", "is_ordered", "judge_node", "judge_problem"]

SEARCH_STEPS_MAX: Final = 500_000
"""Steps after which a recorded case counts as not decided."""

_ORDERED: Final = frozenset({"incubating", "experimental"})
"""Upstream's implementations that walk pools in a defined order."""


def decide(
    problem: RecordedProblem,
    node: Node,
    *,
    claims: tuple[ResourceClaim, ...],
    allocated: tuple[ResourceClaim, ...],
    deviations: frozenset[Deviation] = OURS,
) -> Decision:
    """Return our decision for claims on one node of a recorded problem."""
    asked = AllocationProblem(
        node=node,
        claims=claims,
        slices=problem.slices,
        classes=problem.classes,
        allocated=allocated,
        state=problem.state,
        features=problem.features,
    )
    return allocate(asked, share_ids=ShareIds(), budget_steps=SEARCH_STEPS_MAX, deviations=deviations)


def judge_problem(record: Mapping[str, Any], name: str, *, like_upstream: bool) -> CaseOutcome:
    """Judge a problem of one or several nodes.

    A truth that is known from how the problem was made must hold too, unless exactly upstream's answer is asked for.

    Raises:
        InputError: The record is not understood.
    """
    problem = parse_problem(record)
    upstream = get_field(record, "upstream", dict)
    answers = get_field(upstream, "results", list)
    if [answer.get("node") for answer in answers] != [node.name for node in problem.nodes]:
        raise FieldError("upstream.results", len(answers), allowed="one for each node", hint="record the case anew")
    truth = str((record.get("meta") or {}).get("truth") or "")
    ordered = is_ordered(problem, str(upstream.get("impl")))
    outcome = CaseOutcome(name=name)
    for node, answer in zip(problem.nodes, answers, strict=True):
        expected = Expectation.parse(answer, ordered=ordered)
        outcome = outcome.join(judge_node(problem, node, expected, truth=truth, like_upstream=like_upstream))
    return outcome


def is_ordered(problem: RecordedProblem, implementation: str) -> bool:
    """Tell whether upstream's order of devices is defined: one implementation walks pools at random."""
    return implementation in _ORDERED or len({made.pool_id for made in problem.slices}) < 2


def judge_node(
    problem: RecordedProblem, node: Node, expected: Expectation, *, truth: str = "", like_upstream: bool
) -> CaseOutcome:
    """Judge our decision on one node: valid, upstream's, or else deviating in a way that is known.

    Args:
        truth: feasible or infeasible, where that is known; empty otherwise.
    """

    def ask(deviations: frozenset[Deviation]) -> Decision:
        return decide(problem, node, claims=problem.claims, allocated=problem.allocated, deviations=deviations)

    deviations = LIKE_UPSTREAM if like_upstream else OURS
    decision = ask(deviations)
    wrong = verify_decision(
        problem, node, decision, claims=problem.claims, allocated=problem.allocated, deviations=deviations
    )
    reasons: tuple[Explained, ...] = ()
    if expected.is_open:
        wrong += _judge_open(decision, truth)
        name = PANIC if expected.error_kind else UNFINISHED
        reasons = () if like_upstream else (Explained(name, f"{describe(decision)}, upstream: {expected.describe()}"),)
    else:
        different = compare_exactly(expected, decision)
        if truth and not like_upstream:
            wrong += compare_verdict(Expectation(verdict=truth), decision)
        if different and not like_upstream:
            reasons = _explain(expected, ask, different)
        wrong += [] if reasons else different
    return CaseOutcome(
        name="",
        differences=tuple(f"{node.name}: {text}" for text in wrong),
        deviations=tuple(Explained(found.deviation, f"{node.name}: {found.text}") for found in reasons),
        steps=decision.steps,
    )


def _judge_open(decision: Decision, truth: str) -> list[str]:
    """Judge a case that upstream did not finish: by the truth, or else by nothing but validity and an end."""
    if truth:
        return compare_verdict(Expectation(verdict=truth), decision)
    return [f"undecided after {decision.steps} steps"] if isinstance(decision, Undecided) else []


def _explain(
    expected: Expectation, ask: Callable[[frozenset[Deviation]], Decision], different: list[str]
) -> tuple[Explained, ...]:
    """Return the deviations without which the answer is upstream's."""
    reasons = find_reasons(lambda deviations: not compare_exactly(expected, ask(deviations)))
    return tuple(Explained(reason, "; ".join(different)) for reason in reasons)

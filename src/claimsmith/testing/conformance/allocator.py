"""Judges recorded allocation problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from claimsmith.allocate.problem import AllocationProblem
from claimsmith.allocate.search import allocate
from claimsmith.allocate.usage import AllocatedState
from claimsmith.api.resource import parse_allocation_result
from claimsmith.errors import FieldError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Decision
from claimsmith.model.node import Node
from claimsmith.testing.conformance.compare import Expectation, compare_decision, verify_decision
from claimsmith.testing.conformance.outcome import CaseOutcome
from claimsmith.testing.conformance.records import RecordedProblem, get_field, parse_problem
from claimsmith.testing.conformance.shares import ShareIds

__all__ = ["SEARCH_STEPS_MAX", "decide", "is_ordered", "judge_problem", "judge_table"]

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
    like_upstream: bool = False,
) -> Decision:
    """Return our decision for claims on one node of a recorded problem."""
    asked = AllocationProblem(
        node=node,
        claims=claims,
        slices=problem.slices,
        classes=problem.classes,
        allocated=allocated,
        state=AllocatedState.from_devices(problem.taken),
        features=problem.features,
    )
    return allocate(asked, share_ids=ShareIds(), budget_steps=SEARCH_STEPS_MAX, like_upstream=like_upstream)


def judge_problem(record: Mapping[str, Any], name: str, *, like_upstream: bool) -> CaseOutcome:
    """Judge a problem of one or several nodes.

    A known truth counts more than upstream's verdict, unless exactly upstream's is asked for.

    Raises:
        InputError: The record is not understood.
    """
    problem = parse_problem(record)
    upstream = get_field(record, "upstream", dict)
    answers = get_field(upstream, "results", list)
    if [answer.get("node") for answer in answers] != [node.name for node in problem.nodes]:
        raise FieldError("upstream.results", len(answers), allowed="one for each node", hint="record the case anew")
    truth = (record.get("meta") or {}).get("truth")
    ordered = is_ordered(problem, str(upstream.get("impl")))
    differences: list[str] = []
    steps = 0
    for node, answer in zip(problem.nodes, answers, strict=True):
        expected = Expectation.parse(answer, ordered=ordered)
        known_better = expected.verdict == "timeout" or not like_upstream
        if truth is not None and expected.verdict != truth and known_better:
            expected = Expectation(verdict=str(truth))
        found, used = _judge_node(problem, node, expected, like_upstream=like_upstream)
        differences += [f"{node.name}: {text}" for text in found]
        steps += used
    return CaseOutcome(name=name, differences=tuple(differences), steps=steps)


def judge_table(record: Mapping[str, Any], name: str, *, like_upstream: bool) -> CaseOutcome:
    """Judge a row of upstream's own test table.

    Raises:
        InputError: The record is not understood.
    """
    problem = parse_problem(record)
    results = record["results"]
    if record.get("error"):
        expected = Expectation(verdict="error")
    elif results is None:
        expected = Expectation(verdict="infeasible")
    else:
        expected = Expectation(
            verdict="feasible", allocation=tuple(parse_allocation_result(item) for item in results), ordered=True
        )
    differences, steps = _judge_node(problem, problem.nodes[0], expected, like_upstream=like_upstream)
    return CaseOutcome(name=name, differences=tuple(differences), steps=steps)


def is_ordered(problem: RecordedProblem, implementation: str) -> bool:
    """Tell whether upstream's order of devices is defined: one implementation walks pools at random."""
    return implementation in _ORDERED or len({made.pool_id for made in problem.slices}) < 2


def _judge_node(
    problem: RecordedProblem, node: Node, expected: Expectation, *, like_upstream: bool
) -> tuple[list[str], int]:
    decision = decide(problem, node, claims=problem.claims, allocated=problem.allocated, like_upstream=like_upstream)
    found = compare_decision(expected, decision, problem.claims, like_upstream=like_upstream)
    found += verify_decision(problem, node, decision, claims=problem.claims, allocated=problem.allocated)
    return found, decision.steps

"""Judges recorded sequences of pods: how many find a place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS
from claimsmith.model.node import Node
from claimsmith.testing.conformance.allocator import decide, is_ordered
from claimsmith.testing.conformance.compare import Expectation, compare_exactly, verify_decision
from claimsmith.testing.conformance.outcome import CaseOutcome
from claimsmith.testing.conformance.records import RecordedProblem, get_field, parse_problem

__all__ = ["judge_sequence"]


def judge_sequence(record: Mapping[str, Any], name: str, *, like_upstream: bool) -> CaseOutcome:
    """Judge pods that come one after the other.

    At least as many as upstream places find a place, at most the optimum; like upstream it is each pod's own answer.

    Raises:
        InputError: The record is not understood.
    """
    problem = parse_problem(record)
    upstream = get_field(record, "upstream", dict)
    placed_by_upstream, answers = get_field(upstream, "placed", int), get_field(upstream, "sequence", list)
    deviations = LIKE_UPSTREAM if like_upstream else OURS
    optimum = get_field(get_field(record, "meta", dict), "optimum", int)
    allocated = problem.allocated
    placed, steps = 0, 0
    differences: list[str] = []
    for place, claims in enumerate(problem.sequence):
        for node in _allowed_nodes(problem, place):
            decision = decide(problem, node, claims=claims, allocated=allocated, deviations=deviations)
            steps += decision.steps
            differences += verify_decision(
                problem, node, decision, claims=claims, allocated=allocated, deviations=deviations
            )
            if like_upstream and answers[place].get("node", node.name) == node.name:
                expected = Expectation.parse(answers[place], ordered=is_ordered(problem, str(upstream.get("impl"))))
                differences += [f"pod {place}: {text}" for text in compare_exactly(expected, decision)]
            if isinstance(decision, Allocation):
                allocated += _commit(claims, decision, place)
                placed += 1
                break
    if not placed_by_upstream <= placed <= optimum:
        differences.append(f"{placed} pods placed, allowed {placed_by_upstream} to {optimum}")
    return CaseOutcome(name=name, differences=tuple(differences), steps=steps)


def _allowed_nodes(problem: RecordedProblem, place: int) -> tuple[Node, ...]:
    if not problem.sequence_nodes:
        return problem.nodes
    return tuple(node for node in problem.nodes if node.name in problem.sequence_nodes[place])


def _commit(claims: tuple[ResourceClaim, ...], decision: Allocation, place: int) -> tuple[ResourceClaim, ...]:
    """Return the claims with what they got; share ids are made unique in the sequence."""
    committed = []
    for claim, result in zip(claims, decision.results, strict=True):
        devices = tuple(
            replace(device, share_id=None if device.share_id is None else f"{place}-{device.share_id}")
            for device in result.results
        )
        committed.append(replace(claim, allocation=replace(result, results=devices)))
    return tuple(committed)

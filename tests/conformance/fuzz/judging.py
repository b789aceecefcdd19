"""Compares our answers with upstream's, in both modes, by the judge of recorded cases.

Like upstream, nothing may differ. By default, a difference must fall under a deviation that docs/deviations.md
explains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from claimsmith.cel import CelEnvironment
from claimsmith.cel.ast import MapExpr, walk
from claimsmith.cel.checker import check
from claimsmith.cel.parser import parse
from claimsmith.errors import CelCompileError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Decision, Refused
from claimsmith.model.node import Node
from claimsmith.testing.conformance.allocator import decide, is_ordered
from claimsmith.testing.conformance.compare import Expectation, compare_decision, describe, verify_decision
from claimsmith.testing.conformance.expressions import judge_expression
from claimsmith.testing.conformance.records import RecordedProblem, parse_problem

__all__ = ["DEVIATIONS", "Judgement", "judge_answer"]

Json = dict[str, Any]

DEVIATIONS: Final = {
    "selector-error": "An expression that fails on one device",
    "all-with-constraint": "All devices, and a constraint that excludes one",
    "invalid-pool": "An invalid pool",
    "node-selector": "A slice whose node selector can't be read",
    "vanished-device": "A device in use that is no longer published",
    "stable-pools": "Pools while all newer gates are off",
    "unfinished": "A search that upstream does not finish",
    "panic": "What makes upstream panic",
    "map-key": "Keys of maps",
    "time-zone": "Time zones by name",
}
"""Names of all ways in which an answer may differ, and where docs/deviations.md explains them."""

_ERRORS: Final = {
    "cel-runtime": "selector-error",
    "cel-compile": "selector-error",
    "derived-runtime": "selector-error",
    "derived-compile": "selector-error",
    "capacity": "selector-error",
    "all-constraint": "all-with-constraint",
    "invalid-pool": "invalid-pool",
    "node-selector": "node-selector",
}
"""Kinds of upstream's errors that need not end an allocation, and the deviation that avoids them."""
_KEYS: Final = frozenset({"bool", "int", "uint", "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one question came to.

    Args:
        verdict: Upstream's.
        differences: What nothing explains.
        deviations: Names of what explains the other differences.
    """

    verdict: str
    differences: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()


def judge_answer(question: Json, answer: Json) -> Judgement:
    """Return how our answer to a question compares with upstream's."""
    try:
        if "expression" in question:
            return _judge_expression(question, answer)
        return _judge_problem(question, answer)
    except Exception as error:  # whatever our code raises is a difference
        return Judgement(verdict="", differences=(f"failed: {type(error).__name__}: {error}",))


def _judge_problem(question: Json, answer: Json) -> Judgement:
    problem = parse_problem(question)
    differences, deviations, verdicts = [], [], []
    for node, result in zip(problem.nodes, answer["results"] or (), strict=True):
        expected = Expectation.parse(result, ordered=is_ordered(problem, answer["impl"]))
        verdicts.append(f"{expected.verdict} {expected.error_kind}".strip())
        if expected.verdict == "timeout" or expected.error_kind == "panic":
            deviations.append("panic" if expected.error_kind else "unfinished")
            continue
        exact = _decide(problem, node, like_upstream=True)
        found = compare_decision(expected, exact, problem.claims, like_upstream=True)
        found += verify_decision(problem, node, exact, claims=problem.claims, allocated=problem.allocated)
        differences += [f"{node.name}, like upstream: {text}" for text in found]
        found, name = _judge_default(problem, node, expected, stable=answer["impl"] == "stable")
        differences += [f"{node.name}, by default: {text}" for text in found]
        deviations += [name] if name else []
    return Judgement(
        verdict=", ".join(sorted(set(verdicts))), differences=tuple(differences), deviations=tuple(deviations)
    )


def _decide(
    problem: RecordedProblem, node: Node, *, like_upstream: bool, allocated: tuple[ResourceClaim, ...] | None = None
) -> Decision:
    held = problem.allocated if allocated is None else allocated
    return decide(problem, node, claims=problem.claims, allocated=held, like_upstream=like_upstream)


def _judge_default(
    problem: RecordedProblem, node: Node, expected: Expectation, *, stable: bool
) -> tuple[list[str], str]:
    """Return what nothing explains, and the deviation that explains the rest."""
    decision = _decide(problem, node, like_upstream=False)
    broken = verify_decision(problem, node, decision, claims=problem.claims, allocated=problem.allocated)
    found = compare_decision(expected, decision, problem.claims, like_upstream=False)
    if expected.verdict == "error" and not broken:
        return _explain_error(expected, decision, stable=stable)
    if not found or broken:
        return found + broken, ""
    if _agrees_without_vanished(problem, node, expected):
        return [], "vanished-device"
    if stable:
        return [], "stable-pools"
    return found, ""


def _explain_error(expected: Expectation, decision: Decision, *, stable: bool) -> tuple[list[str], str]:
    if isinstance(decision, Refused) and decision.kind == expected.error_kind:
        return [], ""
    if stable and expected.error_kind in ("all-incomplete-pool", "all-invalid-pool"):
        return [], "stable-pools"
    if expected.error_kind in _ERRORS:
        return [], _ERRORS[expected.error_kind]
    return [f"{describe(decision)}, upstream: error {expected.error_kind}"], ""


def _agrees_without_vanished(problem: RecordedProblem, node: Node, expected: Expectation) -> bool:
    """Tell whether nothing would differ if devices in use that no current slice publishes were free."""
    generations: dict[object, int] = {}
    for made in problem.slices:
        generations[made.pool_id] = max(made.generation, generations.get(made.pool_id, 0))
    published = {
        (made.driver, made.pool, device.name)
        for made in problem.slices
        if made.generation == generations[made.pool_id]
        for device in made.devices
    }
    remaining = tuple(_keep_published(claim, published) for claim in problem.allocated)
    if remaining == problem.allocated:
        return False
    decision = _decide(problem, node, like_upstream=False, allocated=remaining)
    return not compare_decision(expected, decision, problem.claims, like_upstream=False)


def _keep_published(claim: ResourceClaim, published: set[tuple[str, str, str]]) -> ResourceClaim:
    if claim.allocation is None:
        return claim
    results = tuple(r for r in claim.allocation.results if (r.driver, r.pool, r.device) in published)
    return replace(claim, allocation=replace(claim.allocation, results=results))


def _judge_expression(question: Json, answer: Json) -> Judgement:
    outcome = judge_expression({**question, "upstream": answer}, question["name"])
    if outcome.agrees:
        return Judgement(verdict=answer["verdict"])
    name = _name_deviation(question, answer, outcome.differences)
    if name:
        return Judgement(verdict=answer["verdict"], deviations=(name,))
    return Judgement(verdict=answer["verdict"], differences=outcome.differences)


def _name_deviation(question: Json, answer: Json, differences: tuple[str, ...]) -> str:
    if any("unknown time zone" in text for text in differences):
        return "time-zone"
    if answer["verdict"] == "panic" and "unhashable type" not in answer["compileError"]:
        return "panic"
    texts = " ".join(str(answer.get(key, "")) for key in ("compileError", "newCompileError", "runtimeError"))
    if "unhashable type" in texts or _has_odd_keys(question["expression"]):
        return "map-key"
    return ""


def _has_odd_keys(text: str) -> bool:
    """Tell whether a map of the expression has keys that are none by the language's rules, or may have."""
    environment = CelEnvironment(list_attributes=True)
    try:
        checked = check(parse(text), text=text, environment=environment)
    except CelCompileError:
        return False
    return any(
        str(checked.types[entry.key.id]) not in _KEYS
        for expr in walk(checked.tree)
        if isinstance(expr, MapExpr)
        for entry in expr.entries
    )

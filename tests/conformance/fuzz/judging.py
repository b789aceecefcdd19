"""Compares our answers with upstream's, in both modes, by the judge of recorded cases.

Like upstream, nothing may differ. By default, a difference must come from deviations that docs/deviations.md explains:
without them the answer must be upstream's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.allocate.search.engine import PATIENCE, SearchLimits
from claimsmith.model.decision import Allocation, Decision, Refused, Undecided
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation
from claimsmith.model.node import Node
from claimsmith.testing.conformance.allocator import SEARCH_STEPS_MAX, is_ordered, judge_node
from claimsmith.testing.conformance.compare import Expectation, describe, verify_decision
from claimsmith.testing.conformance.deviations import PANIC, UNFINISHED
from claimsmith.testing.conformance.expressions import judge_expression
from claimsmith.testing.conformance.records import RecordedProblem, parse_problem
from claimsmith.testing.conformance.shares import ShareIds
from tests.conformance.fuzz.engines import compare_engines
from tests.conformance.fuzz.stops import find_odd_keys, names_zone

__all__ = ["OF_SELECTORS", "Judgement", "judge_answer"]

Json = dict[str, Any]
Modes = frozenset[Deviation]

MODES: Final[dict[str, Modes]] = {"like upstream": LIKE_UPSTREAM, "by default": OURS}
OF_SELECTORS: Final = {
    "map-key": "Keys of maps", "time-zone": "Time zones by name", "format-text": "Texts of `validate()`",
}  # fmt: skip
"""Ids and headings of the deviations that random expressions meet."""
HARD_STEPS_MAX: Final = 20_000
"""Steps of our search where upstream has no answer to compare it with."""
EASY_STEPS_MAX: Final = 50_000
"""Steps of a search that is done once more in another way."""
UNDECIDED: Final = f"upstream aborts, by default we are undecided after {EASY_STEPS_MAX:,} steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one question came to.

    Args:
        verdict: Upstream's.
        differences: What nothing explains.
        deviations: Names of what explains the other differences.
        stops: Why there is nothing to compare, or what upstream did until there was.
    """

    verdict: str
    differences: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()


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
    differences: list[str] = []
    deviations: list[str] = []
    stops: list[str] = []
    verdicts = set()
    for node, result in zip(problem.nodes, answer["results"] or (), strict=True):
        expected = Expectation.parse(result, ordered=is_ordered(problem, answer["impl"]))
        verdicts.add(expected.describe())
        for mode, deviating in MODES.items():
            if expected.is_open:
                found, named = _judge_alone(problem, node, deviating), [PANIC if expected.error_kind else UNFINISHED]
            elif deviating and expected.verdict == "error" and _is_hard(problem, node, deviating):
                found, named = [], []
                stops.append(UNDECIDED)
            else:
                outcome = judge_node(problem, node, expected, like_upstream=not deviating)
                found = [*outcome.differences, *_compare_patience(problem, node, deviating)]
                named = [explained.deviation for explained in outcome.deviations]
            differences += [f"{node.name}, {mode}: {text.removeprefix(f'{node.name}: ')}" for text in found]
            deviations += named if deviating else []
    return Judgement(
        verdict=", ".join(sorted(verdicts)),
        differences=tuple(differences),
        deviations=tuple(deviations),
        stops=tuple(stops),
    )


def _is_hard(problem: RecordedProblem, node: Node, deviating: Modes) -> bool:
    """Tell whether our search takes long, where upstream aborts."""
    decision = _search(problem, node, deviating, limits=SearchLimits(budget_steps=EASY_STEPS_MAX))
    return isinstance(decision, Undecided)


def _judge_alone(problem: RecordedProblem, node: Node, deviating: Modes) -> list[str]:
    """Return what is wrong with our answer where upstream has none."""
    decision = _search(problem, node, deviating, limits=SearchLimits(budget_steps=HARD_STEPS_MAX))
    claims, allocated = problem.claims, problem.allocated
    return verify_decision(problem, node, decision, claims=claims, allocated=allocated, deviations=deviating)


def _compare_patience(problem: RecordedProblem, node: Node, deviating: Modes) -> list[str]:
    """Return how the decision changes when the search counts ahead and compares devices from its first failure on.

    No answer may depend on when it begins to: most random problems are too small for it ever to begin by itself.
    """
    patient = _search(problem, node, deviating, limits=SearchLimits(budget_steps=EASY_STEPS_MAX))
    if isinstance(patient, Undecided):
        return []
    limits = SearchLimits(budget_steps=SEARCH_STEPS_MAX, patience=0)
    hasty = _search(problem, node, deviating, limits=limits)
    if isinstance(hasty, Undecided) or _essence(patient) == _essence(hasty):
        return []
    return [f"with patience 0 {describe(hasty)}, with patience {PATIENCE} {describe(patient)}"]


def _search(problem: RecordedProblem, node: Node, deviating: Modes, *, limits: SearchLimits) -> Decision:
    """Return the bare decision, without explanations."""
    asked = AllocationProblem(
        node=node,
        claims=problem.claims,
        slices=problem.slices,
        classes=problem.classes,
        allocated=problem.allocated,
        state=problem.state,
        features=problem.features,
    )
    cluster = PreparedCluster.from_problem(asked, deviations=deviating)
    return next(allocate_on_nodes(cluster, problem.claims, nodes=(node,), share_ids=ShareIds(), limits=limits))


def _essence(decision: Decision) -> object:
    """Return what must not depend on how a decision was found."""
    if isinstance(decision, Allocation):
        return decision.results
    return decision.kind if isinstance(decision, Refused) else type(decision)


def _judge_expression(question: Json, answer: Json) -> Judgement:
    outcome = judge_expression({**question, "upstream": answer}, question["name"])
    engines = tuple(compare_engines(question))
    if outcome.agrees:
        return Judgement(verdict=answer["verdict"], differences=engines)
    name = _name_deviation(question, answer, outcome.differences)
    if name:
        return Judgement(verdict=answer["verdict"], differences=engines, deviations=(name,))
    return Judgement(verdict=answer["verdict"], differences=outcome.differences + engines)


def _name_deviation(question: Json, answer: Json, differences: tuple[str, ...]) -> str:
    if names_zone(question["expression"]):
        return "time-zone"
    if ".validate(" in question["expression"] and all(text.startswith("value ") for text in differences):
        return "format-text"
    texts = " ".join(str(answer.get(key, "")) for key in ("compileError", "newCompileError", "runtimeError"))
    if answer["verdict"] == "panic" and "unhashable type" not in texts:
        return PANIC
    if "unhashable type" in texts or find_odd_keys(question["expression"]):
        return "map-key"
    return ""

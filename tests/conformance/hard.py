"""The hard families of recorded problems: steps that our search takes, by family and size."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

from claimsmith.model.decision import Allocation, Decision, Pending
from claimsmith.testing.conformance.allocator import decide
from claimsmith.testing.conformance.records import RecordedProblem, parse_problem
from tests.conformance.recorded import read_lines

__all__ = ["SQUARE_FAMILIES", "HardCase", "solve", "solve_hard"]

SQUARE_FAMILIES = {
    "count-pigeonhole": 1,
    "requests-pigeonhole": 2,
    "claims-pigeonhole": 2,
    "match-last-group": 2,
    "distinct-missing-value": 2,
    "mig-count": 32,
    "mig-claims": 64,
    "mig-4g-last": 128,
    "mig-easy-order": 8,
    "first-available-counters": 32,
    "first-available-match": 16,
    "gpu-nic-numa": 4,
    "impossible-last": 2,
    "impossible-last-count": 1,
    "all-constraint-error": 8,
}
"""Families that counting or symmetry decides, and the factor of n² that their steps stay below."""


class HardCase(NamedTuple):
    """One problem, what is true of it by construction, and what it came to.

    Args:
        upstream_steps: Steps of upstream's search, which has not ended if it ran out of time.
        record: The problem as it was recorded.
    """

    family: str
    size: int
    truth: str
    verdict: str
    steps: int
    upstream_verdict: str
    upstream_steps: int
    record: Mapping[str, Any]


def solve_hard(families: Container[str] | None = None) -> Iterator[HardCase]:
    """Solve every problem of the families; None: of all."""
    for line in read_lines("hard"):
        record: dict[str, Any] = json.loads(line)
        if families is not None and record["meta"]["family"] not in families:
            continue
        upstream, meta, decision = record["upstream"]["results"][0], record["meta"], solve(parse_problem(record))
        verdict = {Allocation: "feasible", Pending: "infeasible"}.get(type(decision), "undecided")
        yield HardCase(
            meta["family"],
            meta["n"],
            meta["truth"],
            verdict,
            decision.steps,
            upstream["verdict"],
            upstream["steps"],
            record,
        )


def solve(problem: RecordedProblem) -> Decision:
    """Return the decision about a problem of one node: the cluster is prepared and searched."""
    return decide(problem, problem.nodes[0], claims=problem.claims, allocated=problem.allocated)

"""The solver beside the search on recorded problems: both find devices, or neither; run as a program, on all of them.

python -m tests.conformance.joint [FILE…]
"""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from claimsmith.allocate.batch import Batch, JointLimits, Member
from claimsmith.allocate.cpsat.decide import Solved, solve_batch
from claimsmith.allocate.cpsat.layout import lay_out
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.policy.objective import FIRST
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.decision import Allocation
from claimsmith.model.node import Node
from claimsmith.testing.conformance.records import RecordedProblem, parse_problem
from tests.conformance.recorded import read_lines

__all__ = ["Comparison", "compare_nodes"]

FILES = ("allocator", "drawn", "probes", "table", "upstream-table")
LIMITS = JointLimits(search=SearchLimits(budget_steps=200_000), solver_effort=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What search and solver say of the claims of one pod on one node.

    Args:
        verdict: both, neither, search, solver: who found devices; unmodelled: the solver has no say.
    """

    case: str
    node: str
    verdict: str
    text: str = ""


def compare_nodes(record: Mapping[str, Any]) -> Iterator[Comparison]:
    """Give the comparison for each node of a recorded problem; the solver starts from nothing."""
    if not record.get("claims"):
        return
    problem = name_apart(parse_problem(record))
    cluster = build_cluster(problem)
    for node in problem.nodes:
        verdict, text = compare_node(cluster, problem, node)
        yield Comparison(case=problem.name, node=node.name, verdict=verdict, text=text)


def name_apart(problem: RecordedProblem) -> RecordedProblem:
    """Return the problem with a name of its own for each claim: some records have claims without."""
    named = (
        replace(claim, metadata=replace(claim.metadata, name=f"{claim.metadata.name}-{place}"))
        for place, claim in enumerate(problem.claims)
    )
    return replace(problem, claims=tuple(named))


def build_cluster(problem: RecordedProblem) -> PreparedCluster:
    """Return the cluster of a recorded problem."""
    return PreparedCluster.from_problem(
        AllocationProblem(
            node=problem.nodes[0],
            claims=(),
            slices=problem.slices,
            classes=problem.classes,
            allocated=problem.allocated,
            state=problem.state,
            features=problem.features,
        )
    )


def compare_node(cluster: PreparedCluster, problem: RecordedProblem, node: Node) -> tuple[str, str]:
    """Return who found devices, and why somebody did not."""
    numbers = itertools.count()
    searched = next(
        allocate_on_nodes(
            cluster, problem.claims, nodes=(node,), share_ids=lambda: f"s-{next(numbers)}", limits=LIMITS.search
        )
    )
    solved = solve_alone(cluster, problem, node)
    if solved.problem:
        return "solver", solved.problem
    found = solved.solution is not None and solved.solution.placed[0] is not None
    if solved.gaps:
        return "unmodelled", solved.gaps[0]
    by_search = isinstance(searched, Allocation)
    if found:
        return ("both" if by_search else "solver"), str(searched)
    return ("search" if by_search else "neither"), ""


def solve_alone(cluster: PreparedCluster, problem: RecordedProblem, node: Node) -> Solved:
    """Return the solver's answer for the claims of one pod on one node, with nothing to start from."""
    numbers = itertools.count()
    layout = lay_out(cluster, Batch(members=(Member(name="pod", claims=problem.claims),)), (node,))
    return solve_batch(
        layout,
        Objective.of(layout, FIRST),
        floor=Solution(placed=(None,), order=()),
        limits=LIMITS,
        share_ids=lambda: f"s-{next(numbers)}",
    )


def main(files: list[str]) -> int:
    """Compare on all nodes of all problems; return 1 when they disagree anywhere."""
    counts: Counter[tuple[str, str]] = Counter()
    for file in files or FILES:
        for line in read_lines(file):
            for found in compare_nodes(json.loads(line)):
                counts[file, found.verdict] += 1
                if found.verdict not in ("both", "neither"):
                    print(f"{file} {found.case} {found.node}: {found.verdict}: {found.text}", flush=True)
    for (file, verdict), count in sorted(counts.items()):
        print(f"{file}: {verdict} {count}")
    return int(any(verdict in ("search", "solver") for _, verdict in counts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

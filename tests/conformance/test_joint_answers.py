"""The solver agrees with the search on recorded problems, and batches that first fit wastes reach their optimum."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from claimsmith.allocate.batch import Batch, JointDecision, Member
from claimsmith.allocate.joint import allocate_jointly
from claimsmith.model.decision import Allocation
from claimsmith.testing.conformance.records import parse_problem
from tests.conformance.joint import build_cluster, compare_nodes
from tests.conformance.recorded import PART_LINES, read_lines
from tests.unit.allocate.jointly import check_jointly

STARTS: Final = range(0, len(read_lines("allocator")), PART_LINES)
WASTE: Final = [json.loads(line) for line in read_lines("waste")]


def compare_all(start: int) -> Iterator[tuple[str, str]]:
    for line in read_lines("allocator")[start : start + PART_LINES]:
        for found in compare_nodes(json.loads(line)):
            yield f"{found.case} {found.node}: {found.text}", found.verdict


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_the_solver_finds_devices_exactly_where_search_does(start: int) -> None:
    found = dict(compare_all(start))

    assert {case: verdict for case, verdict in found.items() if verdict in ("search", "solver")} == {}
    assert set(found.values()) == {"both", "neither", "unmodelled"}


def decide(record: dict[str, Any]) -> tuple[JointDecision, int]:
    """Return the checked decision for all pods of a recorded sequence, and how many of them have devices."""
    problem = parse_problem(record)
    allowed = problem.sequence_nodes or ((),) * len(problem.sequence)
    members = tuple(
        Member(name=str(place), claims=claims, nodes=frozenset(names) or None)
        for place, (claims, names) in enumerate(zip(problem.sequence, allowed, strict=True))
    )
    numbers = itertools.count()
    cluster, batch = build_cluster(problem), Batch(members=members)
    decision = allocate_jointly(cluster, batch, nodes=problem.nodes, share_ids=lambda: f"share-{next(numbers)}")
    check_jointly(cluster, batch, decision, nodes=problem.nodes)
    kinds = Counter(type(found) for found in decision.decisions.values())
    return decision, kinds[Allocation]


@pytest.mark.parametrize("record", WASTE, ids=[record["name"] for record in WASTE])
def test_what_first_fit_wastes_is_placed_jointly(record: dict[str, Any]) -> None:
    decision, placed = decide(record)

    assert placed == record["meta"]["optimum"]
    assert (decision.status, decision.fallbacks) == ("optimal", 0)

"""The independent checker passes every allocation that upstream made, in the mode that allows what upstream allows."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest

from claimsmith.model.decision import Allocation
from claimsmith.model.deviations import LIKE_UPSTREAM
from claimsmith.testing.conformance.compare import Expectation, verify_decision
from claimsmith.testing.conformance.records import parse_problem
from tests.conformance.recorded import PART_LINES, read_lines

ALLOCATIONS: Final = {"allocator": 906, "probes": 36, "hard": 36, "upstream-table": 548}
"""Files with recorded allocations, and on how many nodes they have one."""
PARTS: Final = [(file, start) for file in ALLOCATIONS for start in range(0, len(read_lines(file)), PART_LINES)]


def find_broken(record: dict[str, Any]) -> tuple[int, list[str]]:
    """Return how many allocations a record has, and what the checker says of them."""
    problem, broken, count = parse_problem(record), list[str](), 0
    for node, answer in zip(problem.nodes, record["upstream"]["results"], strict=True):
        expected = Expectation.parse(answer, ordered=False)
        if not expected.allocation:
            continue
        count += 1
        decision = Allocation(node=node.name, results=expected.allocation)
        broken += verify_decision(
            problem, node, decision, claims=problem.claims, allocated=problem.allocated, deviations=LIKE_UPSTREAM
        )
    return count, broken


@pytest.mark.parametrize(("file", "start"), PARTS, ids=[f"{file}-{start}" for file, start in PARTS])
def test_what_upstream_allocates_is_valid_like_upstream(file: str, start: int) -> None:
    records = [json.loads(line) for line in read_lines(file)[start : start + PART_LINES]]

    found = {record["name"]: find_broken(record)[1] for record in records}
    assert {name: broken for name, broken in found.items() if broken} == {}


def test_every_recorded_allocation_is_checked() -> None:
    counts = Counter(
        file
        for file in ALLOCATIONS
        for line in read_lines(file)
        for node in json.loads(line)["upstream"]["results"]
        if node.get("allocation")
    )

    assert counts == ALLOCATIONS

"""Sets of reasons against the twin that tries everything: impossible with them, possible without any of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from claimsmith.allocate.explain.changes import apply_changes
from claimsmith.allocate.explain.fixes import FixFinder, NodeSet
from claimsmith.allocate.prepared.problem import AllocationProblem
from tests.property.allocation_twin import find_first
from tests.property.test_search_properties import problems
from tests.unit.allocate.explaining import find_in

EXPLANATIONS = 150


def judge(asked: AllocationProblem) -> None:
    """See that the set is irreducible, by the twin.

    Raises:
        AssertionError: It is not.
    """
    found = find_in(asked)
    if found.fits:
        assert find_first(asked) is not None
        return
    assert find_first(found.relax(found.kept)) is None
    for relaxation, keep in found.kept.items():
        assert find_first(found.relax({**found.kept, relaxation: keep - 1})) is not None, relaxation.id


@pytest.mark.slow
@settings(max_examples=EXPLANATIONS)
@given(problems())
def test_a_set_is_irreducible_whatever_the_problem(asked: AllocationProblem) -> None:
    judge(asked)


@settings(max_examples=25)
@given(problems())
def test_a_set_is_irreducible(asked: AllocationProblem) -> None:
    judge(asked)


@settings(max_examples=25)
@given(problems())
def test_a_fix_makes_the_claims_fit(asked: AllocationProblem) -> None:
    found = find_in(asked)
    fixes = [] if found.fits else FixFinder([NodeSet(nodes=(asked.node.name,), finding=found)]).find()

    for fix in fixes:
        if all(change.op != "add-node" for change in fix.changes):
            changed = apply_changes(replace(asked, allocated=found.case.problem.allocated), fix.changes)
            assert find_first(changed) is not None, fix.text

"""Problems on which upstream is exponential: the right verdict, in few steps where counting or symmetry decides.

`make bench ARGS=hard` shows the steps of every family beside upstream's.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.conformance.hard import SQUARE_FAMILIES, HardCase, solve_hard


@cache
def solved() -> tuple[HardCase, ...]:
    return tuple(solve_hard())


def test_every_verdict_is_true() -> None:
    assert [case for case in solved() if case.verdict != case.truth] == []


@pytest.mark.parametrize(("family", "factor"), SQUARE_FAMILIES.items())
def test_steps_grow_at_most_with_the_square_of_the_size(family: str, factor: int) -> None:
    sizes = {case.size: case.steps for case in solved() if case.family == family}

    assert len(sizes) >= 2
    assert {size: steps for size, steps in sizes.items() if steps > factor * size * size} == {}


def test_other_families_are_searched_and_end() -> None:
    others = {case.family: case.steps for case in solved() if case.family not in SQUARE_FAMILIES}

    assert set(others) == {"bandwidth-3-partition", "counters-pack"}
    assert max(others.values()) < 1_000


def test_upstream_ran_out_of_time_on_some_that_we_decide() -> None:
    assert sum(case.upstream_verdict == "timeout" for case in solved()) == 16

"""Sorting moves items as Go's sort.Slice does, equal ones included."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.cel.go_sort import sort_like_go

# What upstream makes of lists.range(20).sortBy(x, x % 3) and lists.range(60).sortBy(x, x * 7 % 4).
RECORDED: list[tuple[Callable[[int], int], list[int]]] = [
    (lambda x: x % 3, [9, 18, 15, 3, 12, 0, 6, 10, 7, 4, 13, 16, 1, 19, 8, 5, 11, 14, 2, 17]),
    (
        lambda x: x * 7 % 4,
        [
            52,
            48,
            56,
            32,
            4,
            24,
            28,
            8,
            16,
            36,
            0,
            20,
            12,
            40,
            44,
            7,
            15,
            43,
            47,
            19,
            11,
            39,
            51,
            23,
            55,
            35,
            3,
            27,
            59,
            31,
            30,
            6,
            26,
            58,
            34,
            2,
            22,
            54,
            38,
            50,
            18,
            10,
            42,
            46,
            14,
            45,
            17,
            13,
            41,
            49,
            21,
            9,
            29,
            53,
            37,
            5,
            25,
            57,
            33,
            1,
        ],
    ),
]


@pytest.mark.parametrize(("key", "order"), RECORDED)
def test_equal_items_are_left_in_the_order_that_go_leaves_them_in(key: Callable[[int], int], order: list[int]) -> None:
    assert sort_like_go(len(order), lambda one, two: key(one) < key(two)) == order


@given(keys=st.lists(st.integers(-9, 9), max_size=300))
def test_all_items_are_there_and_in_order(keys: list[int]) -> None:
    order = sort_like_go(len(keys), lambda one, two: keys[one] < keys[two])

    assert sorted(order) == list(range(len(keys)))
    assert [keys[place] for place in order] == sorted(keys)


@given(size=st.integers(0, 200), step=st.integers(-5, 5), waves=st.integers(1, 50))
def test_patterns_that_make_bad_pivots_are_sorted_too(size: int, step: int, waves: int) -> None:
    keys = [place % waves * step for place in range(size)]
    order = sort_like_go(size, lambda one, two: keys[one] < keys[two])

    assert [keys[place] for place in order] == sorted(keys)


def test_what_has_no_order_ends_somehow() -> None:
    assert sorted(sort_like_go(100, lambda one, two: (one * two) % 3 == 0)) == list(range(100))

"""What parts of a device are worth."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.allocate.policy.dualprices import find_dual_prices, value_rooms

ROOM = 10


def list_patterns(sizes: list[int]) -> list[tuple[int, ...]]:
    ranges = [range(ROOM // size + 1) for size in sizes]
    return [
        counts
        for counts in product(*ranges)
        if sum(size * count for size, count in zip(sizes, counts, strict=True)) <= ROOM
    ]


@settings(max_examples=60)
@given(st.dictionaries(st.integers(1, ROOM), st.integers(1, 50), min_size=1, max_size=4))
def test_no_pattern_is_worth_more_than_a_device(demand: dict[int, int]) -> None:
    prices = find_dual_prices(demand, ROOM)

    sizes = sorted(prices)
    worth = [sum(prices[s] * n for s, n in zip(sizes, counts, strict=True)) for counts in list_patterns(sizes)]
    assert max(worth) == pytest.approx(1)


@pytest.mark.parametrize(
    ("demand", "devices"),
    [({10: 7}, 7), ({5: 8}, 4), ({6: 10, 4: 10}, 10), ({6: 10}, 10), ({7: 3, 3: 9}, 5), ({3: 9}, 3)],
)
def test_the_demand_is_worth_the_devices_that_it_takes(demand: dict[int, int], devices: int) -> None:
    prices = find_dual_prices(demand, ROOM)

    assert sum(prices[size] * count for size, count in demand.items()) == pytest.approx(devices)


def test_room_in_which_nothing_fits_is_worth_nothing() -> None:
    assert value_rooms({6: 0.75, 4: 0.25}, ROOM) == [0, 0, 0, 0, 0.25, 0.25, 0.75, 0.75, 0.75, 0.75, 1.0]

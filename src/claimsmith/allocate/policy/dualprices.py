"""What a part of a device is worth when parts are packed as tightly as possible: dual prices of packing by patterns.

A pattern is a set of sizes that fit into one device together. The linear program asks for the fewest devices that hold
the whole demand; the dual price of a size says which fraction of a device one more part of that size costs. It is
solved by column generation: the pattern that is worth most under the prices enters, until none is worth more than a
device.

Source: Gilmore and Gomory, A Linear Programming Approach to the Cutting-Stock Problem, 1961.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["find_dual_prices", "value_rooms"]

_TOLERANCE: Final = 1e-9
_ROUNDS_MAX: Final = 2_000
"""Patterns after which the prices are taken as they are; they are then still a price of every size."""


def find_dual_prices(demand: Mapping[int, int], room: int) -> dict[int, float]:
    """Return the price of each size as a fraction of a device.

    Args:
        demand: How many parts of each size are wanted; sizes are whole, from 1 to `room`.
        room: Size of a device in the same unit.
    """
    sizes = sorted(demand, reverse=True)
    base = _Base(sizes, [demand[size] for size in sizes], room)
    for _ in range(_ROUNDS_MAX):
        prices = base.prices()
        values = value_rooms(dict(zip(sizes, prices, strict=True)), room)
        if values[room] <= 1 + _TOLERANCE:
            break
        base.enter(_find_pattern(sizes, prices, values))
    return dict(zip(sizes, base.prices(), strict=True))


def value_rooms(prices: Mapping[int, float], room: int) -> list[float]:
    """Return for each amount of room from 0 on what the best parts that fit into it are worth."""
    values = [0.0] * (room + 1)
    worth = [(size, price) for size, price in prices.items() if price > 0]
    for amount in range(1, room + 1):
        best = values[amount - 1]
        for size, price in worth:
            if size <= amount and values[amount - size] + price > best + _TOLERANCE:
                best = values[amount - size] + price
        values[amount] = best
    return values


def _find_pattern(sizes: Sequence[int], prices: Sequence[float], values: Sequence[float]) -> list[int]:
    """How often each size stands in the pattern that fills a whole device with most worth."""
    counts, left = [0] * len(sizes), len(values) - 1
    while left > 0:
        if values[left] <= values[left - 1] + _TOLERANCE:
            left -= 1
            continue
        place = next(
            place
            for place, size in enumerate(sizes)
            if size <= left and values[left - size] + prices[place] >= values[left] - _TOLERANCE
        )
        counts[place] += 1
        left -= sizes[place]
    return counts


class _Base:
    """The patterns in use, as the inverse of their matrix, and how often each is used."""

    __slots__ = ("_inverse", "_levels")

    def __init__(self, sizes: Sequence[int], demand: Sequence[int], room: int) -> None:
        count = len(sizes)
        diagonal = [1 / (room // size) for size in sizes]
        self._inverse = [[diagonal[row] if row == column else 0.0 for column in range(count)] for row in range(count)]
        self._levels = [demand[row] * diagonal[row] for row in range(count)]

    def prices(self) -> list[float]:
        """Return what one more part of each size costs: every pattern costs one device."""
        return [max(0.0, sum(column)) for column in zip(*self._inverse, strict=True)]

    def enter(self, pattern: Sequence[int]) -> None:
        """Take the pattern into use, in the place of the one that is used up first."""
        effect = [sum(a * b for a, b in zip(row, pattern, strict=True)) for row in self._inverse]
        leaving = min(
            (row for row, value in enumerate(effect) if value > _TOLERANCE),
            key=lambda row: (self._levels[row] / effect[row], row),
        )
        step = self._levels[leaving] / effect[leaving]
        pivot = [value / effect[leaving] for value in self._inverse[leaving]]
        for row, value in enumerate(effect):
            if row == leaving or abs(value) < _TOLERANCE / 1_000:
                continue
            self._levels[row] -= step * value
            self._inverse[row] = [a - value * b for a, b in zip(self._inverse[row], pivot, strict=True)]
        self._inverse[leaving], self._levels[leaving] = pivot, step

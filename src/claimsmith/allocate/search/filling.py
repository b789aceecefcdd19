"""How full shared devices can get: amounts of whole requests don't always add up to what a device has left."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final

__all__ = ["most_filled"]

BITS_MAX: Final = 1 << 20
"""Largest room, in units of the amounts' common divisor, that is looked into exactly."""


def most_filled(amounts: Iterable[int], rooms: Iterable[int]) -> int:
    """Return a bound on the sum of amounts that fit into the rooms: each room holds a sum of some of them.

    Args:
        amounts: Amounts of open requests, in any unit; > 0.
        rooms: What each device has left, in the same unit.
    """
    wanted, left = list(amounts), [room for room in rooms if room > 0]
    unit = gcd(*wanted)
    if not wanted or not left or max(left) // unit > BITS_MAX:
        return sum(left)
    limit = max(left) // unit
    sums = 1
    for amount in wanted:
        sums |= sums << (amount // unit)
        sums &= (1 << (limit + 1)) - 1
    return sum(((sums & ((1 << (room // unit + 1)) - 1)).bit_length() - 1) * unit for room in left)

"""Which combinations of requests a block of devices can serve at once, within the counters that they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from claimsmith.model.names import CounterId

__all__ = ["Consumption", "Pattern", "count_most", "find_patterns", "keep_largest"]

Pattern = tuple[int, ...]
"""How many requests of each kind are served."""

CHOICES_MAX: Final = 4_000
"""Choices after which a block counts as too large to look into."""

Consumption = tuple[tuple[CounterId, int], ...]
"""What a device takes from each counter, in nano units."""


def find_patterns(
    kinds: int, devices: Mapping[tuple[Consumption, frozenset[int]], int], room: Mapping[CounterId, int]
) -> list[Pattern] | None:
    """Return the largest combinations; None when the block is too large to look into.

    Args:
        kinds: Number of kinds of requests.
        devices: How many devices take the same from the counters and are accepted by the same kinds.
        room: What is left of each counter, in nano units.
    """
    states: dict[tuple[Pattern, tuple[int, ...]], None] = {((0,) * kinds, tuple(room.values())): None}
    places = {counter: place for place, counter in enumerate(room)}
    choices = 0
    for (consumption, accepted), count in devices.items():
        taken = [(places[counter], nanos) for counter, nanos in consumption]
        for _ in range(count):
            grown = dict(states)
            for pattern, left in states:
                choices += 1
                rest = _subtract(left, taken)
                if rest is None:
                    continue
                grown.update(((_raise(pattern, kind), rest), None) for kind in accepted)
            if choices > CHOICES_MAX:
                return None
            if len(grown) == len(states):
                break
            states = grown
    return keep_largest({pattern for pattern, _ in states})


def count_most(consumptions: Iterable[Consumption], room: Mapping[CounterId, int]) -> int:
    """Return a bound on how many of the devices fit at once: what the scarcest counter alone allows."""
    known = list(consumptions)
    most = len(known)
    for counter, left in room.items():
        amounts = sorted(dict(consumption).get(counter, 0) for consumption in known)
        fitting = sum(total <= left for total in accumulate(amounts))
        most = min(most, fitting)
    return most


def keep_largest(patterns: Iterable[Pattern]) -> list[Pattern]:
    """Return the patterns that no other one covers."""
    ordered = sorted(patterns, key=sum, reverse=True)
    kept: list[Pattern] = []
    for pattern in ordered:
        if not any(all(a <= b for a, b in zip(pattern, other, strict=True)) for other in kept):
            kept.append(pattern)
    return kept


def _raise(pattern: Pattern, kind: int) -> Pattern:
    """The pattern with one more request of a kind."""
    return tuple(count + (place == kind) for place, count in enumerate(pattern))


def _subtract(left: tuple[int, ...], taken: list[tuple[int, int]]) -> tuple[int, ...] | None:
    """What is left of the counters after one more device; None when it doesn't fit."""
    rest = list(left)
    for place, nanos in taken:
        rest[place] -= nanos
        if rest[place] < 0:
            return None
    return tuple(rest)

"""How many requests would be accepted if all partitions could be laid out anew at every moment: in a run, on average.

For boards of this geometry the question whether a set of partitions fits has a closed form. On average what is refused
then is what comes when the memory of all boards together is in use, whatever lies where.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Final

from claimsmith.replay.mig_arrivals import BOARD_SLICES, PROFILES, Arrival, Mix

__all__ = ["BOARD_MEMORY", "MEMORY_SLICES", "can_hold", "expect_refused", "find_refused_by_repacking"]

BOARD_MEMORY: Final = 8
"""Memory slices of a board."""
MEMORY_SLICES: Final[Mapping[str, int]] = {
    "1g.10gb": 1,
    "1g.20gb": 2,
    "2g.20gb": 2,
    "3g.40gb": 4,
    "4g.40gb": 4,
    "7g.80gb": 8,
}
"""Memory slices of each size, `PROFILES` in their order."""
_LARGE: Final = 1e200
"""Weights of states are scaled down from here on; only their proportions count."""


def can_hold(counts: Mapping[str, int], boards: int) -> bool:
    """Tell whether boards can hold so many partitions of each size, laid out in the best way.

    A board has a lower half of two pairs of memory slices and an upper half of one pair and one whose last slice is of
    no use to `1g.10gb` and `2g.20gb`. Compute slices never run out before memory slices do.

    Args:
        counts: Numbers of partitions by size.
        boards: Number of boards.
    """
    lower = upper = boards - counts.get("7g.80gb", 0)
    in_upper = min(counts.get("3g.40gb", 0), upper)
    lower -= counts.get("4g.40gb", 0) + counts.get("3g.40gb", 0) - in_upper
    upper -= in_upper
    odd = upper
    doubles = counts.get("1g.20gb", 0)
    pairs = 2 * lower + upper - counts.get("2g.20gb", 0) - max(0, doubles - odd)
    singles = 2 * pairs + max(0, odd - doubles)
    return min(lower, upper, pairs) >= 0 and singles >= counts.get("1g.10gb", 0)


def find_refused_by_repacking(arrivals: Iterable[Arrival], boards: int) -> tuple[Arrival, ...]:
    """Return the requests that are refused although everything may be laid out anew; one that fits is accepted."""
    counts: dict[str, int] = {}
    leaving: list[tuple[float, str]] = []
    refused: list[Arrival] = []
    for arrival in arrivals:
        while leaving and leaving[0][0] <= arrival.at:
            counts[heapq.heappop(leaving)[1]] -= 1
        tried = {**counts, arrival.profile: counts.get(arrival.profile, 0) + 1}
        if can_hold(tried, boards):
            counts = tried
            heapq.heappush(leaving, (arrival.until, arrival.profile))
        else:
            refused.append(arrival)
    return tuple(refused)


def expect_refused(mix: Mix, *, load: float, boards: int) -> Mapping[str, float]:
    """Return the share of each size's requests that is refused in the long run if memory may lie anywhere.

    Requests of a size are refused while fewer memory slices are free on all boards together than it takes.

    Args:
        load: Offered compute slices as a share of those of all boards; > 0.
        boards: Number of boards; >= 1.

    Source: Kaufman, Blocking in a Shared Resource Environment, IEEE Transactions on Communications 29 (1981).
    """
    rate = load * BOARD_SLICES * boards / mix.mean_slices / sum(mix.shares)
    offered = [
        (rate * share * MEMORY_SLICES[size], MEMORY_SLICES[size])
        for share, size in zip(mix.shares, PROFILES, strict=True)
    ]
    weights = [1.0]
    for used in range(1, BOARD_MEMORY * boards + 1):
        weights.append(sum(amount * weights[used - size] for amount, size in offered if size <= used) / used)
        if weights[-1] > _LARGE:
            weights = [weight / _LARGE for weight in weights]
    total = sum(weights)
    return {size: sum(weights[-slices:]) / total for size, slices in MEMORY_SLICES.items()}

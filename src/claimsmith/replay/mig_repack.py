"""How many requests would be accepted if all partitions could be laid out anew at every moment: a bound for moves.

For boards of this geometry the question whether a set of partitions fits has a closed form.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from claimsmith.replay.mig_arrivals import Arrival

__all__ = ["can_hold", "find_refused_by_repacking"]


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

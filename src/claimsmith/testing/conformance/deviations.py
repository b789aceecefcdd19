"""Names the deviations that make a recorded answer differ from ours, each as docs/deviations.md has it.

What the allocator deviates in is data, so the reasons are found by trial: they are those deviations without which the
answer would be upstream's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation

__all__ = ["HEADINGS", "PANIC", "UNFINISHED", "Explained", "find_reasons"]

UNFINISHED: Final = "unfinished"
"""Upstream ran out of time."""
PANIC: Final = "panic"
"""Upstream's process would have ended."""

HEADINGS: Final[Mapping[str, str]] = {
    Deviation.SELECTOR_ERROR: "An expression that fails on one device",
    Deviation.ALL_WITH_CONSTRAINT: "All devices, and a constraint that excludes one",
    Deviation.ALL_WHILE_INCOMPLETE: "All devices, while a visible pool is incomplete or invalid",
    Deviation.ALL_OVER_LIMIT: "All devices, of which a node has more than the 32 that a claim can hold",
    Deviation.INVALID_POOL: "An invalid pool",
    Deviation.NODE_SELECTOR: "A slice whose node selector can't be read",
    Deviation.STABLE_POOLS: "Pools while all newer gates are off",
    Deviation.VANISHED_DEVICE: "A device in use that is no longer published",
    UNFINISHED: "A search that upstream does not finish",
    PANIC: "What makes upstream panic",
}
"""Headings of docs/deviations.md by the ids of the deviations that recorded answers can show."""


class Explained(NamedTuple):
    """A difference that is meant.

    Args:
        deviation: Its id.
        text: What differs.
    """

    deviation: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} [{self.deviation}: {HEADINGS[self.deviation]}]"


def find_reasons(agrees: Callable[[frozenset[Deviation]], bool]) -> tuple[Deviation, ...]:
    """Return the deviations that make an answer differ: without any of them it would still differ.

    Args:
        agrees: Tells whether the answer is upstream's when it deviates in these alone.

    Returns:
        None of them when the answer is not upstream's even without any deviation.
    """
    if not agrees(LIKE_UPSTREAM):
        return ()
    needed = list(Deviation)
    for deviation in Deviation:
        fewer = [kept for kept in needed if kept is not deviation]
        if agrees(OURS - frozenset(fewer)):
            needed = fewer
    return tuple(needed)

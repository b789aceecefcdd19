"""What people were last told of each pod or group that waits, so that they are not told the same again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

__all__ = ["EXPLAIN_EVERY_S", "ToldBook"]

K = TypeVar("K")

EXPLAIN_EVERY_S: Final = 15.0
"""What has been tried more than twice gets a new explanation no more often."""
_OFTEN: Final = 2
"""Attempts that are all explained."""


@dataclass(frozen=True, slots=True)
class _Told:
    """A text, and when it was told."""

    message: str
    at_s: float


class ToldBook(Generic[K]):
    """Keeps the last text of each key, such as the uid of a pod.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._told: dict[K, _Told] = {}

    def is_due(self, key: K, *, attempts: int) -> bool:
        """Tell whether it is worth to find out again why something waits.

        Args:
            key: What waits.
            attempts: How often it was tried, this time included.
        """
        told = self._told.get(key)
        return attempts <= _OFTEN or told is None or self._clock() - told.at_s >= EXPLAIN_EVERY_S

    def note(self, key: K, message: str) -> bool:
        """Remember what is told now, and tell whether it is news: another text than last time."""
        told = self._told.get(key)
        self._told[key] = _Told(message, self._clock())
        return told is None or told.message != message

    def forget(self, key: K) -> None:
        """Forget what was told of something that waits no longer."""
        self._told.pop(key, None)

"""Notices that slices have to be put back again and again, as when two publishers disagree, and slows down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeObject

__all__ = ["REPAIRS_AT_ONCE", "Contest", "find_last_manager"]

REPAIRS_AT_ONCE: Final = 6
"""Repairs in a row that need no pause: a kubelet that restarts, or a person who deletes, needs fewer."""
_QUIET_S: Final = 30.0


class Contest:
    """Counts repairs that follow each other closely.

    Args:
        backoff: The pauses once there are too many; the longest must be below 30 s.
        clock: Monotonic seconds.
    """

    def __init__(self, backoff: Backoff | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._backoff = backoff or Backoff(initial_s=0.2, max_s=10.0)
        self._clock = clock
        self._last_write_s = -_QUIET_S
        self.repairs = 0
        """Repairs in a row."""

    @property
    def is_on(self) -> bool:
        """Whether somebody else works against this publisher."""
        return self.repairs > REPAIRS_AT_ONCE

    def reset(self) -> None:
        """Begin anew, since something else is wanted now."""
        self.repairs = 0
        self._backoff.reset()

    def written(self) -> None:
        """Note that slices were written just now."""
        self._last_write_s = self._clock()

    def count(self) -> bool:
        """Count a repair that is about to be made; tell whether a contest begins with it."""
        if self._clock() - self._last_write_s > _QUIET_S:
            self.reset()
        was_on = self.is_on
        self.repairs += 1
        return self.is_on and not was_on

    async def pace(self) -> None:
        """Wait before a repair, if there were too many."""
        if self.is_on:
            await self._backoff.wait()


def find_last_manager(objects: Iterable[KubeObject]) -> str:
    """Return who changed some objects last, by the server's records; empty when that is not recorded."""
    entries = (
        (str(entry.get("time") or ""), str(entry.get("manager") or ""))
        for obj in objects
        for entry in (obj.get("metadata") or {}).get("managedFields") or ()
    )
    return max(entries, default=("", ""))[1]

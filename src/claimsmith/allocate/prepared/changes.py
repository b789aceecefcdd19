"""What has changed in a cluster since somebody looked last, so that each who remembers answers can catch up."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from claimsmith.allocate.prepared.usage import PoolKey

__all__ = ["Change", "ChangeLog"]

KEPT_MAX: Final = 4_096
"""Changes that are kept; who has missed more starts anew."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Args:
        pools: Pools of which devices came into use or became free, or whose slices have changed.
        nodes: Nodes that see other slices than before.
        is_slices: Slices of the pools have changed, not only the use of devices.
    """

    pools: frozenset[PoolKey]
    nodes: frozenset[str] = frozenset()
    is_slices: bool = False


class ChangeLog:
    """The latest changes by number."""

    __slots__ = ("_changes", "number")

    def __init__(self) -> None:
        self._changes: deque[Change] = deque(maxlen=KEPT_MAX)
        self.number = 0
        """How many changes there have been."""

    def add_uses(self, pools: Iterable[PoolKey]) -> None:
        """Note that devices of the pools are used otherwise than before."""
        self._add(Change(frozenset(pools)))

    def add_slices(self, pools: Iterable[PoolKey], nodes: Iterable[str]) -> None:
        """Note that slices of the pools have changed, which the nodes see."""
        self._add(Change(frozenset(pools), frozenset(nodes), is_slices=True))

    def add_all(self) -> None:
        """Note that anything may have changed."""
        self._changes.clear()
        self.number += 1

    def find_since(self, number: int) -> list[Change] | None:
        """Return the changes after the one of a number, oldest first; None when not all of them are known."""
        missed = self.number - number
        if missed > len(self._changes):
            return None
        return [self._changes[place] for place in range(len(self._changes) - missed, len(self._changes))]

    def _add(self, change: Change) -> None:
        self._changes.append(change)
        self.number += 1

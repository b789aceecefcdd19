"""Where the allocator answers otherwise than upstream on purpose, as data: each can be switched off by itself.

docs/deviations.md explains each under the same id, and names the test that shows it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = ["LIKE_UPSTREAM", "OURS", "Deviation"]


class Deviation(StrEnum):
    """One thing that upstream does and we don't; its value is the id of its entry in docs/deviations.md."""

    SELECTOR_ERROR = "selector-error"
    """An expression or an amount that fails on one device passes that device over; upstream aborts the pod."""
    ALL_WITH_CONSTRAINT = "all-with-constraint"
    """A constraint that excludes one of all devices makes the request fail; upstream aborts the pod."""
    ALL_WHILE_INCOMPLETE = "all-while-incomplete"
    """A pool that is not in order refuses a request for all devices on its nodes; upstream aborts the pod."""
    ALL_OVER_LIMIT = "all-over-limit"
    """A node with too many devices for a request for all of them is refused; upstream aborts the pod."""
    INVALID_POOL = "invalid-pool"
    """An invalid pool is a reason; upstream reports an error for the node, whatever was wanted."""
    NODE_SELECTOR = "node-selector"
    """A slice whose node selector can't be read is passed over; upstream aborts the pod."""
    STABLE_POOLS = "stable-pools"
    """Pools are gathered in one way, whatever the gates; upstream's stable implementation has a way of its own."""
    VANISHED_DEVICE = "vanished-device"
    """A device in use that is no longer published keeps its counters; upstream gives them away."""


OURS: Final = frozenset(Deviation)
"""What our own answers deviate in."""
LIKE_UPSTREAM: Final[frozenset[Deviation]] = frozenset()
"""Answer exactly as upstream, also where it is wrong or aborts needlessly."""

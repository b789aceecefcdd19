"""The time of an embedded kubelet, so that tests decide when it passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["Clock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Time of day and pauses.

    Args:
        now_s: Seconds since 1970.
        sleep: Waits for some seconds.
    """

    now_s: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

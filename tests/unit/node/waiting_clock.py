"""The time of waiting calls as tests see it: a pause ends at once, and the clock moves on by its length."""

from __future__ import annotations

import asyncio


class JumpingClock:
    """Moves on whenever somebody waits; `pauses` has the length of each pause that was begun."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.pauses: list[float] = []

    def now_s(self) -> float:
        return self.time_s

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        self.pauses.append(timeout_s)
        await asyncio.sleep(0)
        if not event.is_set():
            self.time_s += timeout_s


class StandingClock:
    """Stands still: only an event ends a pause. `waits` is set once somebody waits."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    def now_s(self) -> float:
        return 0.0

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        self.waits.set()
        await event.wait()

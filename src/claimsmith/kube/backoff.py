"""Pauses that grow after each failure, spread by chance so that many clients don't return at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

__all__ = ["Backoff"]


@dataclass(slots=True, kw_only=True)
class Backoff:
    """The pauses of one retry loop.

    Args:
        initial_s: First pause in seconds; > 0.
        max_s: Longest pause in seconds before the jitter.
        factor: By how much a pause is longer than the one before; >= 1.
        jitter: Up to which part of itself a pause is made longer; >= 0.
        random: Source of the jitter; a seeded one in tests.
        pause: Waits for some seconds.

    Source: defaults of the reflector in k8s.io/client-go v0.37.2 tools/cache/reflector.go.
    """

    initial_s: float = 0.8
    max_s: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    random: Random = field(default_factory=Random)
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    failures: int = 0

    async def wait(self) -> None:
        """Count one more failure and wait before the next try."""
        await self.pause(self.next_s())

    def next_s(self) -> float:
        """Count one more failure and return the pause in seconds that comes before the next try."""
        steps = min(self.failures, 64)
        self.failures += 1
        pause_s = min(self.max_s, self.initial_s * self.factor**steps)
        return pause_s * (1.0 + self.jitter * self.random.random())

    def reset(self) -> None:
        """Forget the failures, after a success."""
        self.failures = 0

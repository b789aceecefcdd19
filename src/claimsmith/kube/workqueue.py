"""Keys that wait for work: each once at a time, after growing pauses when the work failed."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Hashable
from random import Random
from typing import Final, Generic, TypeVar

from claimsmith.errors import ApiError, ConflictError
from claimsmith.kube.backoff import Backoff
from claimsmith.telemetry import get_logger, log_event

__all__ = ["WorkQueue"]

K = TypeVar("K", bound=Hashable)
_RETRY_INITIAL_S: Final = 0.05
_RETRY_MAX_S: Final = 60.0
_log = get_logger("kube")


class WorkQueue(Generic[K]):
    """Work by key, as controllers do it.

    A key that is added while it is worked on is worked on once more afterwards. A failure of one key does not hold up
    the others.

    Args:
        name: Name for the log.
        work: Brings one object into the wanted state; must be safe to repeat.
        workers: Keys that are worked on at the same time; >= 1.
        clock: Monotonic seconds.
        random: Source of the jitter of pauses.

    Source: util/workqueue in k8s.io/client-go v0.37.2.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[K], Awaitable[None]],
        *,
        workers: int = 4,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
    ) -> None:
        self._name, self._work, self._workers = name, work, workers
        self._clock, self._random = clock, random or Random()
        self._ready: dict[K, None] = {}
        self._working: set[K] = set()
        self._again: set[K] = set()
        self._later: list[tuple[float, int, K]] = []
        self._backoffs: dict[K, Backoff] = {}
        self._serials = itertools.count()
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._ready) + len(self._working) + len(self._later)

    def add(self, key: K) -> None:
        """Work on a key as soon as possible."""
        if key in self._working:
            self._again.add(key)
        else:
            self._ready[key] = None
            self._wake.set()

    def add_after(self, key: K, seconds: float) -> None:
        """Work on a key after some seconds."""
        heapq.heappush(self._later, (self._clock() + seconds, next(self._serials), key))
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        slots = asyncio.Semaphore(self._workers)
        async with asyncio.TaskGroup() as group:
            while True:
                await slots.acquire()
                key = await self._next()
                task = group.create_task(self._work_on(key), name=f"{self._name} {key}")
                task.add_done_callback(lambda _: slots.release())

    async def _next(self) -> K:
        while True:
            self._wake.clear()
            now_s = self._clock()
            while self._later and self._later[0][0] <= now_s:
                self.add(heapq.heappop(self._later)[2])
            if self._ready:
                key = next(iter(self._ready))
                del self._ready[key]
                self._working.add(key)
                return key
            timeout_s = self._later[0][0] - now_s if self._later else None
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _work_on(self, key: K) -> None:
        try:
            await self._work(key)
            self._backoffs.pop(key, None)
        except ConflictError as error:
            log_event(_log, logging.DEBUG, "work must be repeated", queue=self._name, key=key, error=error)
            self._retry(key)
        except ApiError as error:
            log_event(_log, logging.INFO, "work failed", queue=self._name, key=key, error=error)
            self._retry(key)
        except Exception:
            _log.exception("work failed unexpectedly queue=%s key=%s", self._name, key)
            self._retry(key)
        finally:
            self._working.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.add(key)

    def _retry(self, key: K) -> None:
        backoff = self._backoffs.setdefault(
            key, Backoff(initial_s=_RETRY_INITIAL_S, max_s=_RETRY_MAX_S, jitter=0.2, random=self._random)
        )
        self.add_after(key, backoff.next_s())

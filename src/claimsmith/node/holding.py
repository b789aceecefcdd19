"""Holds a prepare call open while it can't succeed yet, and tries again: the kubelet waits for an answer for 45 s.

Each failed answer costs the pod 60 to 90 s, since the kubelet then waits for the pod's next regular sync. What waits is
a task of the event loop, never the driver's thread, so that the call that gives the device back gets through.

Source: defaultClientCallTimeout in pkg/kubelet/cm/dra/plugin, SyncPod in pkg/kubelet/kuberuntime of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from claimsmith.errors import (
    CheckpointError,
    ClaimNotReadyError,
    ClaimsmithError,
    DriverAnswerError,
    DriverError,
    InputError,
    ThrottledError,
)
from claimsmith.telemetry import get_logger, log_event

__all__ = ["FindWaste", "HoldClock", "HoldPolicy", "Holding", "LoopClock", "may_pass"]

_SHARE_OF_DEADLINE: Final = 8 / 9
"""Part of the caller's time that may be spent, so that the answer still arrives: 40 of 45 s."""
_TRY_MIN_S: Final = 2.0
"""Seconds that a try gets at least, also the one that begins when the time is up."""
_LASTING: Final = (InputError, DriverAnswerError, CheckpointError)

_Value = TypeVar("_Value")
FindWaste = Callable[[], Awaitable[ClaimsmithError | None]]
"""Gives the reason why nobody needs an answer any more; None while somebody may."""
_log = get_logger("node")


class HoldClock(Protocol):
    """The time of waiting calls."""

    def now_s(self) -> float:
        """Return monotonic seconds."""
        ...

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Return once the event is set, or so many seconds have passed."""
        ...


class LoopClock:
    """Real time."""

    def now_s(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Return once the event is set, or so many seconds have passed."""
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPolicy:
    """How long a call is held open, and how often it is tried meanwhile.

    Args:
        hold_s: Seconds after which the last reason is answered; less when the caller waits less. 0: never held.
        first_pause_s: Seconds before the second try; each further pause is twice as long.
        max_pause_s: Longest pause in seconds. A device that is given back ends a pause at once.
        look_s: Seconds between two looks, within pauses, whether anybody still needs the answer.
    """

    hold_s: float = 40.0
    first_pause_s: float = 0.25
    max_pause_s: float = 5.0
    look_s: float = 1.0


def may_pass(error: Exception) -> bool:
    """Tell whether what kept a claim from being prepared may pass by itself, within the time of one call."""
    if isinstance(error, ClaimNotReadyError):
        return not error.lasts
    return isinstance(error, ClaimsmithError) and not isinstance(error, _LASTING)


class Holding:
    """The calls of one driver that wait.

    Args:
        policy: How long.
        clock: The time.
    """

    def __init__(self, policy: HoldPolicy | None = None, clock: HoldClock | None = None) -> None:
        self._policy, self._clock = policy or HoldPolicy(), clock or LoopClock()
        self._freed = asyncio.Event()
        self.waiting = 0
        """Number of calls that wait now."""
        self.on_waiting: Callable[[int], None] = _ignore
        """Gets that number whenever it changes."""

    def wake(self) -> None:
        """Let all waiting calls try at once: a device may have been given back. In the event loop only."""
        freed, self._freed = self._freed, asyncio.Event()
        freed.set()

    async def hold(
        self,
        attempt: Callable[[], Awaitable[_Value]],
        *,
        subject: object,
        caller_waits_s: float | None = None,
        find_waste: FindWaste | None = None,
    ) -> _Value:
        """Try until it works, fails for good, or the time is up.

        Args:
            attempt: One try.
            subject: What waits, for messages.
            caller_waits_s: Seconds until the caller gives up; None when it does not say.
            find_waste: Tells why nobody needs the answer any more; without it, it is waited for to the end.

        Raises:
            ClaimsmithError: That of the last try, or why nobody needs the answer.
            DriverError: The first try did not end in time.
        """
        hold_s = self._policy.hold_s
        if caller_waits_s is not None:
            hold_s = min(hold_s, caller_waits_s * _SHARE_OF_DEADLINE)
        end_s, pause_s = self._clock.now_s() + hold_s, self._policy.first_pause_s
        last: ClaimsmithError | None = None
        while True:
            freed = self._freed
            try:
                return await self._try(attempt, end_s if hold_s > 0 else None)
            except TimeoutError as error:
                raise last or _no_answer(subject, hold_s) from error
            except ClaimsmithError as error:
                left_s = end_s - self._clock.now_s()
                if left_s <= 0 or not may_pass(error):
                    raise
                if str(error) != str(last):
                    # That another claim has the device is usual; that a driver can't do what it is asked is not.
                    level = logging.WARNING if type(error) is DriverError else logging.INFO
                    log_event(_log, level, "A call waits", subject=subject, reason=error)
                last = error
            await self._pause(freed, min(left_s, _pause_of(last, pause_s)), find_waste)
            pause_s = min(2 * pause_s, self._policy.max_pause_s)

    async def _try(self, attempt: Callable[[], Awaitable[_Value]], end_s: float | None) -> _Value:
        """Try once; what does not end in time goes on in its thread, and nobody waits for it."""
        left_s = None if end_s is None else max(_TRY_MIN_S, end_s - self._clock.now_s())
        async with asyncio.timeout(left_s):
            return await attempt()

    async def _pause(self, freed: asyncio.Event, timeout_s: float, find_waste: FindWaste | None) -> None:
        look_s = timeout_s if find_waste is None else self._policy.look_s
        end_s = self._clock.now_s() + timeout_s
        self._count(1)
        try:
            while (left_s := end_s - self._clock.now_s()) > 0 and not freed.is_set():
                await self._clock.wait(freed, min(left_s, look_s))
                if find_waste is None or freed.is_set():
                    continue
                if (waste := await self._look(find_waste, end_s)) is not None:
                    raise waste
        finally:
            self._count(-1)

    async def _look(self, find_waste: FindWaste, end_s: float) -> ClaimsmithError | None:
        """Look once whether anybody needs the answer; None, too, when that isn't known in time."""
        try:
            async with asyncio.timeout(max(0.0, end_s - self._clock.now_s())):
                return await find_waste()
        except TimeoutError:
            return None

    def _count(self, change: int) -> None:
        self.waiting += change
        self.on_waiting(self.waiting)


def _ignore(waiting: int) -> None:
    del waiting


def _pause_of(error: ClaimsmithError, pause_s: float) -> float:
    """Return the pause after an error; an API server that asks for a longer one gets it."""
    cause = error.__cause__
    return max(pause_s, cause.retry_after_s) if isinstance(cause, ThrottledError) else pause_s


def _no_answer(subject: object, hold_s: float) -> DriverError:
    return DriverError(
        f"claim {subject}: found no answer of the driver after {hold_s:g} s, allowed one within that time; "
        "its call goes on, and the kubelet asks again"
    )

"""Releases claims that the kubelet forgot to give back: those that are over in the API server, yet prepared here.

That happens when the kubelet has lost its books. A claim that is on them is left to it: its containers may still run,
and it will call for the claim itself. Where the books can't be read, a claim must have been over for so long that
containers have ended.

A claim may come into use again while others are released. The kubelet writes it down before it calls prepare, so that
its books, read in the driver's turn, tell for certain; and the claim is read once more before.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.errors import ApiError, ClaimsmithError, NotFoundError, ThrottledError, UnreachableError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.draplugin import ClaimReader
from claimsmith.node.entry import PreparedClaim
from claimsmith.telemetry import get_logger, log_event

__all__ = ["KubeletBooks", "Release", "SweepPolicy", "Sweeper", "find_over_reason"]

_READ_TIMEOUT_S: Final = 10.0
_FAILURES_MAX: Final = 5
_SERVER_ERROR: Final = 500

KubeletBooks = Callable[[], frozenset[str] | None]
"""Gives the uids of the claims for which the kubelet will call itself; None when that can't be told."""
Release = Callable[[ClaimKey, Callable[[], bool]], Awaitable[bool]]
"""Unprepares a claim if a question that is asked in the driver's turn is answered with yes; tells whether it was."""

_log = get_logger("node")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPolicy:
    """How often to look, and how long a claim must have been over.

    Args:
        tick_s: Seconds between two looks while one is due: after the start, after the API server's return, and
            while a claim is suspected.
        quiet_s: Seconds between two looks otherwise; each reads every prepared claim.
        confirm_s: Seconds for which a claim must have been over where the kubelet's books can't be read.
        retry_s: Seconds until a release that failed is tried again; each further time twice as many.
    """

    tick_s: float = 4.0
    quiet_s: float = 60.0
    confirm_s: float = 90.0
    retry_s: float = 8.0


def find_over_reason(entry: PreparedClaim, claim: ResourceClaim | None) -> str | None:
    """Return why a claim that is prepared here needs its devices no longer; None when it may need them.

    Args:
        entry: What is prepared.
        claim: The claim of that name as it is in the API server; None when there is none.
    """
    if claim is None:
        return "it is deleted"
    if claim.uid != entry.claim.uid:
        return "it was deleted and made again"
    if not claim.reserved_for:
        return "nobody uses it"
    drivers = {device.id.driver for device in entry.devices}
    results = claim.allocation.results if claim.allocation is not None else ()
    allocated = {(item.device_id, item.share_id or "") for item in results if item.driver in drivers}
    if allocated != {(device.id, device.share_id) for device in entry.devices}:
        return "it has other devices now"
    return None


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A claim that is over.

    Args:
        since_s: When that was seen first.
        retry_at_s: Before that time it is not released.
        failures: How often a release failed.
    """

    since_s: float
    retry_at_s: float = 0.0
    failures: int = 0


class Sweeper:
    """Looks for claims of one driver that are over, and releases them.

    Args:
        entries: Gives what is prepared.
        claims: Reads claims from the API server.
        release: Unprepares a claim if it is still left then.
        books: Tells for which claims the kubelet will call itself.
        policy: How often to look.
        now_s: Monotonic seconds.
    """

    def __init__(
        self,
        entries: Callable[[], Iterable[PreparedClaim]],
        *,
        claims: ClaimReader,
        release: Release,
        books: KubeletBooks,
        policy: SweepPolicy | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._entries, self._claims, self._release = entries, claims, release
        self._books, self._policy, self._now_s = books, policy or SweepPolicy(), now_s
        self._suspects: dict[str, _Suspect] = {}
        self._is_due = True
        self._next_s = 0.0

    def ask(self) -> None:
        """Ask for a look at the next tick: the API server may have come back."""
        self._is_due = True

    async def run(
        self, *, trouble: Callable[[], object | None], pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Work until cancelled.

        Args:
            trouble: Gives what is wrong with the API server; each new value makes a look due.
            pause: Waits for some seconds.
        """
        known: object | None = None
        while True:
            found = trouble()
            if found is not None and found is not known:
                self.ask()
            known = found
            await self.tick()
            await pause(self._policy.tick_s)

    async def tick(self) -> int:
        """Look, if it is time to; return how many claims were released."""
        if not (self._is_due or self._suspects or self._now_s() >= self._next_s):
            return 0
        self._next_s = self._now_s() + self._policy.quiet_s
        self._is_due = False
        over = await self._find_over()
        self._suspects = {
            entry.claim.uid: self._suspects.get(entry.claim.uid, _Suspect(self._now_s())) for entry in over
        }
        booked = self._books() if over else None
        ripe = [entry for entry in over if self._is_ripe(entry.claim.uid, booked)]
        return sum([await self._try_release(entry) for entry in ripe])

    def _is_ripe(self, uid: str, booked: frozenset[str] | None) -> bool:
        suspect = self._suspects[uid]
        if self._now_s() < suspect.retry_at_s:
            return False
        if booked is not None:
            return uid not in booked
        return self._now_s() - suspect.since_s >= self._policy.confirm_s

    async def _find_over(self) -> list[PreparedClaim]:
        """Return the claims that are over; one that can't be read counts as not over."""
        over = []
        for entry in self._entries():
            try:
                reason = await self._find_reason(entry)
            except (ClaimsmithError, TimeoutError) as error:
                if _is_down(error):
                    break  # The others can't be read either; the next tick tries again.
                continue
            if reason is not None:
                over.append(entry)
        return over

    async def _find_reason(self, entry: PreparedClaim) -> str | None:
        """Return why a claim is over.

        Raises:
            ClaimsmithError, TimeoutError: It can't be read now, which is told; where nobody's can be, a look is due.
        """
        try:
            return find_over_reason(entry, await self._find_claim(entry.claim))
        except (ClaimsmithError, TimeoutError) as error:
            log_event(_log, logging.INFO, "A claim can't be looked up", claim=entry.claim, reason=error)
            if _is_down(error):
                self.ask()
            raise

    async def _find_claim(self, claim: ClaimKey) -> ResourceClaim | None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                return await self._claims.get_claim(_ref(claim))
        except NotFoundError:
            return None

    async def _try_release(self, entry: PreparedClaim) -> bool:
        claim = entry.claim
        try:
            reason = await self._find_reason(entry)
        except (ClaimsmithError, TimeoutError):
            return False
        if reason is None:
            return False
        try:
            done = await self._release(claim, lambda: self._is_ripe(claim.uid, self._books()))
        except ClaimsmithError as error:
            suspect = self._suspects[claim.uid]
            wait_s = self._policy.retry_s * 2.0 ** min(suspect.failures, _FAILURES_MAX)
            self._suspects[claim.uid] = replace(
                suspect, retry_at_s=self._now_s() + wait_s, failures=suspect.failures + 1
            )
            log_event(_log, logging.WARNING, "A leftover stays", claim=claim, uid=claim.uid, reason=error)
            return False
        if not done:
            return False
        self._suspects.pop(claim.uid, None)
        log_event(_log, logging.INFO, "A leftover is unprepared", claim=claim, uid=claim.uid, reason=reason)
        return True


def _ref(claim: ClaimKey) -> ClaimRef:
    return ClaimRef(claim.namespace, claim.name)


def _is_down(error: Exception) -> bool:
    """Whether the API server answers nobody now, rather than not this question."""
    if isinstance(error, UnreachableError | ThrottledError | TimeoutError):
        return True
    return isinstance(error, ApiError) and error.status >= _SERVER_ERROR

"""Waiting for devices that are made ready only after their allocation, before a pod is bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from claimsmith.cluster.cache import ClusterCache
from claimsmith.errors import ConflictError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.binding import find_expiry, find_readiness, has_binding_conditions

__all__ = ["DeviceWait", "Pausing"]

Pausing = Callable[[Pod, str], AbstractAsyncContextManager[None]]
"""Opened while a pod waits, with what it waits for: lets others go on meanwhile."""


class DeviceWait:
    """Waits for binding conditions.

    Args:
        cache: The cluster, which shows what drivers report.
        now: The time of day.
        timeout_s: Seconds that devices get from their allocation on; > 0.
        pausing: Opened while a pod waits.
    """

    def __init__(self, cache: ClusterCache, *, now: Callable[[], datetime], timeout_s: float, pausing: Pausing) -> None:
        self._cache, self._now, self._timeout_s, self._pausing = cache, now, timeout_s, pausing
        self._changed = asyncio.Event()
        cache.subscribe_claims(self._hear)
        cache.subscribe_pods(self._hear)

    def find_problem(self, claim: ResourceClaim) -> str:
        """Return why an allocated claim will not become ready: it failed, or took too long; empty when it may."""
        readiness = find_readiness(claim)
        if readiness.state == "failed":
            return readiness.text
        expiry_s = find_expiry(claim, self._timeout_s)
        if readiness.state == "waiting" and expiry_s is not None and expiry_s <= self._now().timestamp():
            return f"{readiness.text}, for longer than {self._timeout_s:g} s"
        return ""

    async def until_ready(self, pod: Pod, refs: Iterable[ClaimRef]) -> None:
        """Return once the devices of all claims are ready.

        Raises:
            ConflictError: A device failed, took too long, or a claim or the pod is gone.
        """
        claims = tuple(refs)
        if not any(has_binding_conditions(claim) for claim in self._get_claims(claims)):
            return
        waiting = self._look(pod, claims)
        if not waiting:
            return
        async with self._pausing(pod, waiting):
            while self._look(pod, claims):
                self._changed.clear()
                await self._pause(claims)

    async def _pause(self, claims: tuple[ClaimRef, ...]) -> None:
        """Wait for a change, or until the first claim has waited too long."""
        ends = [find_expiry(claim, self._timeout_s) for claim in self._get_claims(claims)]
        known = [end_s for end_s in ends if end_s is not None]
        left_s = max(0.0, min(known) - self._now().timestamp()) if known else self._timeout_s
        try:
            async with asyncio.timeout(left_s + 0.01):
                await self._changed.wait()
        except TimeoutError:
            return

    def _look(self, pod: Pod, claims: tuple[ClaimRef, ...]) -> str:
        """Return what is still waited for; empty when all devices are ready."""
        seen = self._cache.pods.get(pod.ref)
        if seen is None or seen.uid != pod.uid or seen.metadata.deletion_timestamp is not None:
            raise ConflictError(f"pod {pod.ref}: found that it is gone or going, allowed one that waits to be bound")
        waiting = ""
        for claim in self._get_claims(claims):
            problem = self.find_problem(claim)
            if problem:
                raise ConflictError(f"claim {claim.ref}: found that {problem}, allowed ready devices; decide again")
            readiness = find_readiness(claim)
            waiting = waiting or ("" if readiness.state == "ready" else readiness.text)
        return waiting

    def _get_claims(self, refs: Iterable[ClaimRef]) -> list[ResourceClaim]:
        found = []
        for ref in refs:
            claim = self._cache.claims.find(ref)
            if claim is None or claim.allocation is None:
                raise ConflictError(
                    f"claim {ref}: found that it lost its devices, allowed allocated ones; decide again"
                )
            found.append(claim)
        return found

    def _hear(self, old: object, new: object) -> None:
        self._changed.set()

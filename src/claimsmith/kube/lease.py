"""Leader election by a Lease: of several equal processes one works, the others wait."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from claimsmith.api.kinds import LEASE, Kind
from claimsmith.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from claimsmith.kube.client import KubeObject
from claimsmith.kube.reflector import ObjectKey
from claimsmith.telemetry import get_logger, log_event

__all__ = ["LeaderLease", "LeaseClient", "LeaseTimes", "make_identity"]

_log = get_logger("kube")


class LeaseClient(Protocol):
    """What leader election needs of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        """Return one object."""

    async def create(self, kind: Kind, obj: dict[str, Any], *, namespace: str = "") -> KubeObject:
        """Create an object."""

    async def update(self, kind: Kind, obj: dict[str, Any], *, subresource: str = "") -> KubeObject:
        """Replace an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The times of leader election in seconds. Source: defaults of k8s.io/client-go v0.37.2 leaderelection.

    Args:
        duration_s: A lease that nobody renewed for so long may be taken.
        renew_deadline_s: A leader that could not renew for so long stops; < duration_s.
        retry_s: Pause between two tries; < renew_deadline_s.
    """

    duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


class LeaderLease:
    """One candidate for one Lease.

    Whether somebody else's lease has run out is told by the time since this process saw it change, never by comparing
    clocks of two machines.

    Args:
        client: Access to Leases.
        key: Namespace and name of the Lease.
        identity: Name of this candidate; different from all others.
        times: Durations.
        clock: Monotonic seconds.
        pause: Waits for some seconds.
    """

    def __init__(
        self,
        client: LeaseClient,
        key: ObjectKey,
        *,
        identity: str,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._identity, self._pause = client, identity, pause
        self._namespace, self._name = key
        self._times = times or LeaseTimes()
        self._clock = clock
        self._seen_version = ""
        self._seen_at_s = 0.0
        self._held_at_s = 0.0
        self.is_leader = False
        self.last_error: ApiError | None = None
        """Why the Lease could not be asked for last time; None when it could."""

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, do the work while it is held, give it back.

        Returns when the work is done, or when the lease was lost and the work has therefore been cancelled.
        """
        while not await self.try_hold():
            await self._pause(self._times.retry_s)
        task = asyncio.ensure_future(work())
        keeper = asyncio.create_task(self._keep())
        try:
            await asyncio.wait({task, keeper}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            await _cancel(keeper)
            await _cancel(task)
            await self.release()

    async def try_hold(self) -> bool:
        """Take or renew the lease if that is possible, and tell whether this candidate holds it."""
        asked_at_s = self._clock()  # others may count from here on, not from when the answer comes
        try:
            self.is_leader = await self._try_hold()
            self.last_error = None
        except ApiError as error:
            if not self.is_leader and isinstance(error, (AlreadyExistsError, ConflictError)):
                # Another candidate was faster, as it may be.
                self.last_error = None
                return False
            self.last_error = error
            log_event(_log, logging.WARNING, "lease not held", lease=f"{self._namespace}/{self._name}", error=error)
            return False
        if self.is_leader:
            self._held_at_s = asked_at_s
        return self.is_leader

    async def release(self) -> None:
        """Give the lease back, so that another candidate need not wait; does nothing when it is not held."""
        if not self.is_leader:
            return
        self.is_leader = False
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(self._times.renew_deadline_s):
                await self._give_back()

    async def _give_back(self) -> None:
        lease = await self._client.get(LEASE, self._name, namespace=self._namespace)
        spec = lease.setdefault("spec", {})
        if spec.get("holderIdentity") == self._identity:
            spec.update(holderIdentity="", leaseDurationSeconds=1)
            await self._client.update(LEASE, lease)

    async def _keep(self) -> None:
        """Renew until that has failed for too long, or has had no answer."""
        while self._left_s() > 0:
            await self._pause(self._times.retry_s)
            try:
                async with asyncio.timeout(max(0.0, self._left_s())):
                    if not await self.try_hold() and not self.is_leader:
                        return
            except TimeoutError:
                return

    def _left_s(self) -> float:
        """Seconds until this candidate must not count as the leader any more."""
        return self._held_at_s + self._times.renew_deadline_s - self._clock()

    async def _try_hold(self) -> bool:
        try:
            lease = await self._client.get(LEASE, self._name, namespace=self._namespace)
        except NotFoundError:
            await self._client.create(LEASE, self._new_lease())
            return True
        spec = lease.setdefault("spec", {})
        holder = spec.get("holderIdentity") or ""
        self._observe(lease)
        if holder not in ("", self._identity) and not self._has_run_out(spec):
            return False
        if holder != self._identity:
            spec["acquireTime"] = _now_text()
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec.update(
            holderIdentity=self._identity, renewTime=_now_text(), leaseDurationSeconds=int(self._times.duration_s)
        )
        await self._client.update(LEASE, lease)
        return True

    def _observe(self, lease: KubeObject) -> None:
        version = str(lease["metadata"].get("resourceVersion") or "")
        if version != self._seen_version:
            self._seen_version, self._seen_at_s = version, self._clock()

    def _has_run_out(self, spec: dict[str, Any]) -> bool:
        duration_s = float(spec.get("leaseDurationSeconds") or self._times.duration_s)
        return self._clock() - self._seen_at_s >= duration_s

    def _new_lease(self) -> dict[str, Any]:
        now = _now_text()
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._times.duration_s),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }


def make_identity() -> str:
    """Return a name for a candidate that no other process has: host, process and something random."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


async def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task})


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

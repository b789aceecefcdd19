"""The scheduler as a process: of several equal ones one decides, and each tells of itself over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Final

from claimsmith.daemons.scheduler import Scheduler, SchedulerOptions
from claimsmith.daemons.status_server import ListenAddress, Status, listening
from claimsmith.kube.client import KubeClient
from claimsmith.kube.informers import Informers
from claimsmith.kube.lease import LeaderLease, LeaseTimes, make_identity
from claimsmith.kube.reflector import ObjectKey
from claimsmith.telemetry import SCHEDULER_CONTESTED, SCHEDULER_LEADS, SCHEDULER_WAITING, Meter, get_logger, log_event

__all__ = ["SCHEDULER_ACCOUNT", "LeadingScheduler", "SchedulerProcess", "run_scheduler"]

SCHEDULER_ACCOUNT: Final = "claimsmith-scheduler"
"""Name of the Lease, and of the ServiceAccount, its roles and the Deployment.

It is one Lease whatever pods the schedulers take: two that decide at once could give one device to two claims.
"""

_log = get_logger("scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerProcess:
    """How a scheduler runs.

    Args:
        scheduler: What it takes and how it decides.
        namespace: Namespace of its Lease.
        identity: Name among other schedulers; empty for one of its own.
        times: How leaders follow each other.
        listen: Where it tells of itself over HTTP; None: nowhere.
    """

    scheduler: SchedulerOptions = field(default_factory=SchedulerOptions)
    namespace: str = "claimsmith-system"
    identity: str = ""
    times: LeaseTimes = field(default_factory=LeaseTimes)
    listen: ListenAddress | None = None


class LeadingScheduler:
    """Decides while it holds the Lease, and waits for it else.

    Each time it comes to lead it reads the cluster anew, so that nothing of an earlier time counts.

    Args:
        client: The API server.
        process: How it runs.
    """

    def __init__(self, client: KubeClient, process: SchedulerProcess) -> None:
        self._client, self._process = client, process
        self.identity = process.identity or make_identity()
        self.lease_key = ObjectKey(process.namespace, SCHEDULER_ACCOUNT)
        self._lease = LeaderLease(client, self.lease_key, identity=self.identity, times=process.times)
        self._meter = Meter()
        self._leading: tuple[Scheduler, Informers] | None = None

    @property
    def is_deciding(self) -> bool:
        """Whether it leads and has read the cluster."""
        return self._leading is not None and self._leading[0].ready.is_set()

    async def run(self) -> None:
        """Lead and decide, or wait for the lead, until cancelled."""
        lease = f"{self.lease_key.namespace}/{self.lease_key.name}"
        names = ",".join(sorted(self._process.scheduler.names))
        log_event(_log, logging.INFO, "Scheduler runs", names=names, identity=self.identity, lease=lease)
        while True:
            await self._lease.lead(self._work)
            log_event(_log, logging.WARNING, "Scheduler leads no longer", identity=self.identity)

    async def _work(self) -> None:
        """Do what the leader does until cancelled."""
        informers = Informers(self._client)
        scheduler = Scheduler(self._client, informers, self._process.scheduler, meter=self._meter)
        self._leading = scheduler, informers
        log_event(_log, logging.INFO, "Scheduler leads", identity=self.identity)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(informers.run(), name="informers")
                group.create_task(scheduler.run(), name="scheduler")
                await scheduler.ready.wait()
                log_event(_log, logging.INFO, "Scheduler decides", identity=self.identity)
        finally:
            self._leading = None

    def status(self) -> Status:
        """Return what is told over HTTP: one that waits for the lead is ready to take it."""
        samples = dict(self._meter.values())
        scheduler = None if self._leading is None else self._leading[0]
        samples[SCHEDULER_LEADS, ()] = float(scheduler is not None)
        samples[SCHEDULER_WAITING, ()] = float(len(scheduler.queue)) if scheduler is not None else 0.0
        samples[SCHEDULER_CONTESTED, ()] = float(len(scheduler.holders)) if scheduler is not None else 0.0
        return Status(missing=self._list_missing(), samples=samples)

    def _list_missing(self) -> tuple[str, ...]:
        if self._lease.last_error is not None:
            return (f"Lease {'/'.join(self.lease_key)}: can't be asked for ({self._lease.last_error})",)
        if self._leading is None or self.is_deciding:
            return ()
        return self._leading[1].list_missing() or ("the cluster is not read yet",)


async def run_scheduler(client: KubeClient, process: SchedulerProcess | None = None) -> None:
    """Run a scheduler until cancelled, then give its Lease back and close the client.

    Raises:
        ConfigError: The address to listen on can't be used.
    """
    chosen = process or SchedulerProcess()
    leading = LeadingScheduler(client, chosen)
    try:
        async with contextlib.AsyncExitStack() as stack:
            if chosen.listen is not None:
                port = await stack.enter_async_context(listening(chosen.listen, leading.status))
                log_event(_log, logging.INFO, "Scheduler listens", host=chosen.listen.host, port=port)
            await leading.run()
    finally:
        await client.close()

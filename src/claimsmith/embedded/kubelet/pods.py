"""Runs the pods of one node: prepare, start, run, stop, unprepare, report.

Writes to the API server are few: one status when a pod starts, one when it ends, and one deletion when it was asked to
go. Claims are unprepared after the containers have stopped and before the end is reported, so that nobody can free a
device that is still in use.

Source: pkg/kubelet/kubelet.go (SyncPod, SyncTerminatingPod) of kubernetes v1.37.2.

Deviates: prepare-retry, containers-at-once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

from claimsmith.api.kinds import POD, Kind
from claimsmith.embedded.kubelet.addresses import PodAddresses
from claimsmith.embedded.kubelet.admission import PodAdmission
from claimsmith.embedded.kubelet.clock import Clock
from claimsmith.embedded.kubelet.containers import ContainerRuntime, find_exit_code
from claimsmith.embedded.kubelet.dra import PodClaims
from claimsmith.embedded.kubelet.resources import ContainerResources
from claimsmith.embedded.kubelet.status import (
    add_health,
    ended_status,
    format_time,
    rejected_status,
    running_status,
    waiting_status,
)
from claimsmith.embedded.kubelet.views import PodView, find_run_time_s
from claimsmith.errors import ApiError, ConflictError, NotFoundError, PodRejectedError, PodStartError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import PatchesObjects, Preconditions
from claimsmith.kube.events import EventType, ObjectReference
from claimsmith.telemetry import get_logger, log_event

__all__ = ["PodClient", "PodEvents", "PodWorkers"]

_log = get_logger("embedded.kubelet")
_RETRY_S: Final = 0.5
_RETRY_MAX_S: Final = 10.0
_RETRY_JITTER: Final = 0.5
"""Longest pause and its spread. Source: backOffPeriod of pkg/kubelet/kubelet.go, kubernetes v1.37.2."""
_CRASH_S: Final = 10.0
_CRASH_MAX_S: Final = 300.0


class PodClient(PatchesObjects, Protocol):
    """What the workers need of a client."""

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = "",
        preconditions: Preconditions | None = None,
        grace_period_s: int | None = None,
    ) -> dict[str, Any]:
        """Delete an object."""
        ...


class PodEvents(Protocol):
    """Takes events about pods."""

    def record(self, about: ObjectReference, type: EventType, reason: str, message: str) -> None:
        """Note that something happened to an object."""
        ...


@dataclass(slots=True)
class _Worker:
    """One pod that is being run.

    Args:
        ending: Set when the pod must stop, because it is deleted or gone.
        hope: Set when what failed may go well now.
        refresh: Set when its status must be written anew.
        gone: Whether it no longer exists in the API server.
        active: Whether it is admitted and its containers have not ended.
        known: Whether it was running when it was first heard of, as after a restart of the kubelet.
    """

    pod: PodView
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    hope: asyncio.Event = field(default_factory=asyncio.Event)
    refresh: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False
    active: bool = False
    known: bool = False
    started_s: float = 0.0
    restarts: int = 0
    exit_code: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodWorkers:
    """The pods of one node.

    Args:
        claims: Prepares their claims.
        admission: Gives them their devices, or rejects them.
        resources: Tells what their containers get, and how that fares.
        runtime: Starts their containers.
        client: Writes their status.
        addresses: Their addresses.
        host_ip: The node's address.
        spawn: Runs a coroutine in the background until it ends or the kubelet stops.
        survives: Tells whether containers can have gone on while the kubelet was away: not on a machine that is new.
    """

    claims: PodClaims
    admission: PodAdmission
    resources: ContainerResources
    runtime: ContainerRuntime
    client: PodClient
    events: PodEvents
    clock: Clock
    addresses: PodAddresses
    host_ip: str
    spawn: Callable[[Awaitable[None], str], None]
    survives: Callable[[], bool]
    _workers: dict[str, _Worker] = field(default_factory=dict, init=False)

    def update(self, pod: PodView) -> None:
        """Take a pod as it is now; a new one is run, one that is being deleted is stopped."""
        worker = self._workers.get(pod.uid)
        if worker is None:
            known = pod.phase == "Running" and self.survives()
            worker = self._workers[pod.uid] = _Worker(pod, known=known)
            if not pod.finished or pod.uid in self.claims.pods():
                self.spawn(self._run(worker), f"pod {pod}")
        worker.pod = pod
        if pod.deleting:
            worker.ending.set()

    def remove(self, uid: str) -> None:
        """Take note that a pod is gone from the API server; what still runs of it is stopped."""
        if (worker := self._workers.pop(uid, None)) is not None:
            worker.gone = True
            worker.ending.set()
            self.runtime.logs.forget(uid)
            self.addresses.release(uid)

    def wake(self) -> None:
        """Let pods that could not start try again at once, as after a plugin has come."""
        for worker in self._workers.values():
            worker.hope.set()

    def refresh(self, uids: Collection[str]) -> None:
        """Write the status of some running pods anew, since their devices fare otherwise."""
        for uid in uids:
            if (worker := self._workers.get(uid)) is not None:
                worker.refresh.set()

    def active(self) -> tuple[PodView, ...]:
        """Return the pods that are admitted and whose containers have not ended."""
        return tuple(worker.pod for worker in self._workers.values() if worker.active)

    def find(self, namespace: str, name: str) -> PodView | None:
        """Return an active pod; None when there is none of that name."""
        return next((pod for pod in self.active() if (pod.namespace, pod.name) == (namespace, name)), None)

    async def drop_leftovers(self) -> None:
        """Unprepare what pods used that are no longer here, as after a stop of the kubelet."""
        for uid in self.claims.pods() - set(self._workers):
            await self._until_done(partial(self.claims.unprepare, uid), f"leftover {uid}")

    async def _run(self, worker: _Worker) -> None:
        """Run one pod to its end; a fault of ours stops this pod's worker alone."""
        try:
            if not worker.pod.finished and not worker.ending.is_set():
                if not await self._admit(worker):
                    return
                if await self._start(worker):
                    await self._run_containers(worker)
            self.runtime.stop(worker.pod)
            worker.active = False
            await self._until_done(lambda: self.claims.unprepare(worker.pod.uid), str(worker.pod))
            self.addresses.release(worker.pod.uid)
            await self._report_end(worker)
        except Exception:
            _log.exception("The worker of pod %s failed", worker.pod)

    async def _admit(self, worker: _Worker) -> bool:
        """Give a pod its devices; False if it was rejected, which its status then says."""
        pod = worker.pod
        try:
            await self.admission.admit(pod, running=worker.known)
        except PodRejectedError as error:
            self.events.record(_about(pod), "Warning", error.reason, str(error))
            now = format_time(self.clock.now_s())
            await self._write_status(worker, rejected_status(pod, error.reason, str(error), now=now))
            if not worker.gone and worker.pod.deleting:
                await self._until_done(lambda: self._confirm_deletion(worker.pod), str(pod))
            return False
        worker.active = True
        return True

    async def _start(self, worker: _Worker) -> bool:
        """Start a pod, however often it takes; False if it was told to end before."""
        backoff: Backoff | None = None
        while not worker.ending.is_set():
            worker.hope.clear()
            try:
                await self._try_start(worker)
                return True
            except PodStartError as error:
                await self._report_failure(worker, error, first=backoff is None)
            backoff = backoff or self._backoff()
            await self._pause(backoff.next_s(), worker.ending, worker.hope)
        return False

    async def _try_start(self, worker: _Worker) -> None:
        pod = worker.pod
        for container in pod.containers:
            find_run_time_s(pod, container)
        worker.exit_code = find_exit_code(pod)
        cdi_ids = self.claims.recall(pod) if worker.known else await self.claims.prepare(pod)
        grants = await self.resources.grant(pod, cdi_ids, running=worker.known)
        now_s = self.clock.now_s()
        self.runtime.start(pod, grants, now_s=now_s)
        if pod.phase == "Running":
            worker.started_s = _parse_time_s(pod.started_at) or now_s
            self.addresses.take(pod.uid, known=pod.pod_ip)
            return
        worker.started_s = now_s
        await self._write_running(worker)

    async def _run_containers(self, worker: _Worker) -> None:
        """Wait until the containers have ended, or must; failed ones start again if the pod says so."""
        while True:
            await self._wait_run_time(worker)
            if worker.ending.is_set() or worker.exit_code == 0 or worker.pod.restart_policy != "OnFailure":
                return
            await self._pause(min(_CRASH_MAX_S, _CRASH_S * 2.0 ** min(worker.restarts, 16)), worker.ending)
            if worker.ending.is_set():
                return
            if not await self._restart(worker):
                return
            worker.restarts += 1
            worker.started_s = self.clock.now_s()
            await self._write_running(worker)

    async def _restart(self, worker: _Worker) -> bool:
        """Tell plugins that the containers start again, however often it takes; False if the pod must end before."""
        backoff = self._backoff()
        while not worker.ending.is_set():
            try:
                await self.resources.grant(worker.pod, {}, running=False)
                return True
            except PodStartError as error:
                await self._report_failure(worker, error, first=False)
            await self._pause(backoff.next_s(), worker.ending)
        return False

    async def _wait_run_time(self, worker: _Worker) -> None:
        """Wait until the containers have ended, or must; meanwhile the status follows their devices."""
        times = [find_run_time_s(worker.pod, container) for container in worker.pod.containers]
        known = [time_s for time_s in times if time_s is not None]
        lasts_s = math.inf if len(known) < len(times) else max(known, default=0.0)
        while True:
            left_s = lasts_s - (self.clock.now_s() - worker.started_s)
            await self._pause(left_s, worker.ending, worker.refresh)
            if worker.ending.is_set() or not worker.refresh.is_set():
                return
            worker.refresh.clear()
            await self._write_running(worker)

    async def _pause(self, seconds: float, *ends: asyncio.Event) -> None:
        """Wait some seconds, or until one of the events; for ever, if only an event can end it."""
        if seconds <= 0:
            return
        sleep = () if math.isinf(seconds) else (self.clock.sleep(seconds),)
        waits = {asyncio.ensure_future(wait) for wait in (*sleep, *(end.wait() for end in ends))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _until_done(self, act: Callable[[], Awaitable[None]], what: str) -> None:
        """Do something that plugins or the API server may refuse for a while."""
        backoff: Backoff | None = None
        while True:
            try:
                await act()
                return
            except (PodStartError, ApiError) as error:
                log_event(_log, logging.WARNING, "The kubelet tries again", pod=what, reason=error)
            backoff = backoff or self._backoff()
            await backoff.wait()

    async def _report_failure(self, worker: _Worker, error: PodStartError, *, first: bool) -> None:
        pod, message = worker.pod, str(error)
        if error.reason == "FailedPrepareDynamicResources":
            message = f"Failed to prepare dynamic resources: {message}"
        elif error.waiting:
            message = f"Error: {message}"
        self.events.record(_about(pod), "Warning", error.reason, message)
        if first and pod.phase == "Pending":
            now = format_time(self.clock.now_s())
            reason, text = (error.waiting, str(error)) if error.waiting else ("ContainerCreating", "")
            status = waiting_status(pod, reason, text, host_ip=self.host_ip, now=now)
            await self._write_status(worker, status)

    async def _write_running(self, worker: _Worker) -> None:
        pod = worker.pod
        status = running_status(
            pod,
            pod_ip=self.addresses.take(pod.uid, known=pod.pod_ip),
            host_ip=self.host_ip,
            now=format_time(worker.started_s),
            restarts={container.name: worker.restarts for container in pod.containers},
        )
        await self._write_status(worker, status)

    async def _report_end(self, worker: _Worker) -> None:
        """Say that a pod has ended: by deleting it if it is to go, else by its status."""
        pod = worker.pod
        if not worker.gone and not pod.deleting and not pod.finished:
            started, now = format_time(worker.started_s), format_time(self.clock.now_s())
            status = ended_status(pod, exit_code=worker.exit_code, started=started, now=now)
            await self._write_status(worker, status)
            if not worker.pod.deleting:
                return
        if not worker.gone and worker.pod.deleting:
            await self._until_done(lambda: self._confirm_deletion(worker.pod), str(pod))

    async def _confirm_deletion(self, pod: PodView) -> None:
        try:
            await self.client.delete(
                POD, pod.name, namespace=pod.namespace, preconditions=Preconditions(uid=pod.uid), grace_period_s=0
            )
        except (NotFoundError, ConflictError):
            return  # Gone, or another pod has its name by now.

    async def _write_status(self, worker: _Worker, status: Mapping[str, Any]) -> None:
        """Write a status until the API server has taken it, or the pod is gone."""
        pod = worker.pod
        status = add_health(status, self.resources.list_health(pod))

        async def write() -> None:
            if worker.gone:
                return
            try:
                await self.client.patch(
                    POD,
                    pod.name,
                    {"metadata": {"uid": pod.uid}, "status": status},
                    namespace=pod.namespace,
                    subresource="status",
                )
            except (NotFoundError, ConflictError):
                worker.ending.set()  # Gone, or another pod has its name by now.

        await self._until_done(write, str(pod))

    def _backoff(self) -> Backoff:
        return Backoff(initial_s=_RETRY_S, max_s=_RETRY_MAX_S, jitter=_RETRY_JITTER, pause=self.clock.sleep)


def _about(pod: PodView) -> ObjectReference:
    return ObjectReference(
        kind=POD, name=pod.name, namespace=pod.namespace, uid=pod.uid, resource_version=pod.resource_version
    )


def _parse_time_s(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None

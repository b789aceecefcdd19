"""The controller's part after a driver's return: it touches the pods that wait for that driver."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol

from claimsmith.api.core_pods import parse_pod
from claimsmith.api.kinds import EVENT, POD, RESOURCE_CLAIM, Kind
from claimsmith.api.resource import parse_resource_claim
from claimsmith.errors import ClaimsmithError, InputError, NotFoundError
from claimsmith.kube.client import KubeObject
from claimsmith.kube.reflector import ListWatch, Reflector, Selection
from claimsmith.kube.workqueue import WorkQueue
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.driverreturn import RETURN_REASON, DriverReturn
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.returns import PodPatcher, apply_touches, find_claim_refs, plan_touches
from claimsmith.telemetry import get_logger, log_event

__all__ = ["ReturnClient", "ReturnWatcher", "parse_return"]

_STALE_S: Final = 120.0
"""Age of a return after which every kubelet has synced its pods anyway."""

_log = get_logger("controller")


class ReturnClient(PodPatcher, ListWatch, Protocol):
    """What is needed of a client. Rights: list and watch events, list and patch pods, get resourceclaims."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        """Return one object."""
        ...


def parse_return(obj: KubeObject) -> DriverReturn:
    """Return what an Event tells of a driver's return.

    Raises:
        InputError: It tells of something else.
    """
    metadata = obj.get("metadata") or {}
    found = DriverReturn.find(
        str(obj.get("message") or ""),
        node=str((obj.get("involvedObject") or {}).get("name") or ""),
        at=str(obj.get("lastTimestamp") or metadata.get("creationTimestamp") or ""),
        event_uid=str(metadata.get("uid") or ""),
    )
    if found is None:
        raise InputError(
            f"event {metadata.get('name')}: found another message than that of a driver's return; it is left alone"
        )
    return found


class ReturnWatcher:
    """Watches Events of drivers that return, and touches the pods that wait for them.

    Args:
        client: The API server.
        now_s: Seconds since 1970.
    """

    def __init__(self, client: ReturnClient, *, now_s: Callable[[], float] = time.time) -> None:
        self._client, self._now_s = client, now_s
        self._queue: WorkQueue[DriverReturn] = WorkQueue("driver returns", self._work_on)
        self._events = Reflector(
            client, EVENT, parse_return, selection=Selection(field_selector=f"reason={RETURN_REASON}")
        )
        self._events.subscribe(self._take)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="driver return events")
            group.create_task(self._queue.run(), name="driver returns")

    def _take(self, old: DriverReturn | None, new: DriverReturn | None) -> None:
        del old
        if new is not None and not self._is_stale(new):
            self._queue.add(new)

    def _is_stale(self, returned: DriverReturn) -> bool:
        try:
            at_s = datetime.fromisoformat(returned.at).timestamp()
        except ValueError:
            return True
        return self._now_s() - at_s > _STALE_S

    async def _work_on(self, returned: DriverReturn) -> None:
        if self._is_stale(returned):
            return
        pods = await self._read_pods(returned.node)
        claims = {ref: claim for pod in pods for ref in find_claim_refs(pod) if (claim := await self._find_claim(ref))}
        touched = await apply_touches(self._client, plan_touches(returned, pods, claims))
        if touched:
            log_event(
                _log, logging.INFO, "Pods that wait for a driver are touched",
                driver=returned.driver, node=returned.node, pods=touched,
            )  # fmt: skip

    async def _read_pods(self, node: str) -> list[Pod]:
        listed = await self._client.list(POD, field_selector=f"spec.nodeName={node}")
        pods = []
        for obj in listed.items:
            try:
                pods.append(parse_pod(obj))
            except ClaimsmithError as error:
                log_event(_log, logging.WARNING, "A pod can't be read", node=node, reason=error)
        return pods

    async def _find_claim(self, ref: ClaimRef) -> ResourceClaim | None:
        try:
            return parse_resource_claim(await self._client.get(RESOURCE_CLAIM, ref.name, namespace=ref.namespace))
        except (NotFoundError, InputError):
            return None

"""Keeps the DeviceReport of one driver on one node as its devices are."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from claimsmith.api.kinds import DEVICE_REPORT, NODE, Kind
from claimsmith.api.reports import encode_device_report
from claimsmith.errors import AlreadyExistsError, ClaimsmithError, NotFoundError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeObject
from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import DeviceId
from claimsmith.model.report import DeviceHolder, DeviceReport, ReportedDevice, ReportedPool
from claimsmith.telemetry import get_logger, log_event

__all__ = ["ReportClient", "ReportPace", "ReportPublisher", "plan_report", "report_name"]

_NAME_MAX: Final = 253
_EMPTY: Final[dict[str, Any]] = {"counters": None, "devices": None, "models": None}
"""What a merge patch must name to clear it."""

_log = get_logger("publish")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPace:
    """How often a report is written.

    Args:
        interval_s: Seconds from one write to the next; changes in between are written together.
        refresh_s: Seconds after which it is written again though nothing has changed, lest somebody has edited it.
    """

    interval_s: float = 2.0
    refresh_s: float = 300.0


class ReportClient(Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind, name: str) -> KubeObject:
        """Return one object."""
        ...

    async def create(self, kind: Kind, obj: Mapping[str, Any]) -> KubeObject:
        """Create an object."""
        ...

    async def patch(self, kind: Kind, name: str, patch: Mapping[str, Any], *, subresource: str = "") -> KubeObject:
        """Change parts of an object."""
        ...


def report_name(node: str, driver: str) -> str:
    """Return the name of the report of a driver on a node; a long one ends with a digest."""
    name = f"{node}.{driver}"
    if len(name) <= _NAME_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _NAME_MAX - 17].rstrip('-.')}-{digest}"


def plan_report(
    driver: str,
    node: str,
    inventory: Inventory,
    *,
    health: Mapping[DeviceId, DeviceHealth],
    taints: Mapping[DeviceId, Sequence[DeviceTaint]],
    holders: Mapping[DeviceId, Iterable[DeviceHolder]],
) -> DeviceReport:
    """Return the report of the devices that are of this node alone.

    Args:
        driver: Name of the driver.
        node: Name of the node, which is the name of a pool that has none.
        inventory: The devices.
        health: What the driver said last of devices.
        taints: Taints beyond those of the inventory.
        holders: Who holds devices.
    """
    pools = [pool for pool in inventory.pools if not pool.all_nodes and pool.node_selector is None]
    devices = []
    for pool in pools:
        for device in pool.devices:
            found = DeviceId(driver, pool.name or node, device.name)
            more = tuple(taints.get(found, ()))
            held = tuple(sorted(set(holders.get(found, ()))))
            shown = replace(device, taints=(*device.taints, *more)) if more else device
            devices.append(ReportedDevice(pool=found.pool, device=shown, health=health.get(found), holders=held))
    return DeviceReport(
        metadata=Metadata(name=report_name(node, driver)),
        node_name=node,
        driver=driver,
        devices=tuple(devices),
        pools=tuple(
            ReportedPool(pool=pool.name or node, counter_sets=pool.counter_sets) for pool in pools if pool.counter_sets
        ),
    )


class ReportPublisher:
    """Writes a report when it has changed, and now and then when it has not.

    Args:
        client: The API server.
        node: Name of the node.
        pace: How often it is written.
        backoff: Pauses after failures.
    """

    def __init__(
        self, client: ReportClient, *, node: str, pace: ReportPace | None = None, backoff: Backoff | None = None
    ) -> None:
        self.last_error: ClaimsmithError | None = None
        """Why it can't be written now; None when all is well."""
        self.writes = 0
        """How often it was written."""
        self._client, self._node, self._pace = client, node, pace or ReportPace()
        self._backoff = backoff or Backoff(initial_s=1.0, max_s=120.0)
        self._wanted: DeviceReport | None = None
        self._changed = asyncio.Event()
        self._written = asyncio.Event()

    def report(self, wanted: DeviceReport) -> None:
        """Write this from now on; returns at once."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._written.clear()
            self._changed.set()

    async def wait_written(self) -> None:
        """Return once the API server has what was last given to `report`."""
        await self._written.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        await self._changed.wait()
        while True:
            self._changed.clear()
            if not await self._try_to_write():
                await self._backoff.wait()
                continue
            await asyncio.sleep(self._pace.interval_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pace.refresh_s):
                    await self._changed.wait()

    async def _try_to_write(self) -> bool:
        wanted = self._wanted
        assert wanted is not None
        try:
            await self._write(wanted)
        except ClaimsmithError as error:
            if str(error) != str(self.last_error):
                hint = "apply `claimsmith agent --print-manifests`" if isinstance(error, NotFoundError) else "wait"
                log_event(
                    _log, logging.WARNING, "A device report can't be written", driver=wanted.driver, reason=error,
                    hint=hint,
                )  # fmt: skip
            self.last_error = error
            return False
        self.last_error = None
        self.writes += 1
        self._backoff.reset()
        if wanted is self._wanted:
            self._written.set()
        return True

    async def _write(self, wanted: DeviceReport) -> None:
        """Patch the status; make the report first if it is not there."""
        whole = encode_device_report(wanted)
        patch = {"status": {**_EMPTY, **whole["status"]}}
        try:
            await self._client.patch(DEVICE_REPORT, wanted.metadata.name, patch, subresource="status")
        except NotFoundError:
            await self._create(whole)
            await self._client.patch(DEVICE_REPORT, wanted.metadata.name, patch, subresource="status")

    async def _create(self, whole: dict[str, Any]) -> None:
        """Make the report, owned by the node so that it goes with it."""
        node = await self._client.get(NODE, self._node)
        uid = str((node.get("metadata") or {}).get("uid") or "")
        owner = {"apiVersion": NODE.api_version, "kind": NODE.kind, "name": self._node, "uid": uid}
        metadata = {**whole["metadata"], "ownerReferences": [owner]}
        with contextlib.suppress(AlreadyExistsError):
            await self._client.create(DEVICE_REPORT, {**whole, "metadata": metadata})

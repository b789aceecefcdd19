"""What a node's status says of amounts: those of the node itself, those of device plugins, and those that others set.

Source: MachineInfo in pkg/kubelet/nodestatus/setters.go, and kubelet_node_status.go, of kubernetes v1.37.2.

Deviates: node-amounts, machine-anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from claimsmith.api.kinds import NODE, Kind
from claimsmith.embedded.kubelet.devices.allocator import PodDevices
from claimsmith.embedded.kubelet.devices.stock import Amounts
from claimsmith.errors import ApiError, NotFoundError
from claimsmith.kube.client import PatchesObjects
from claimsmith.model.quantity import find_quantity
from claimsmith.telemetry import get_logger, log_event
from claimsmith.validate.names import is_extended_resource_name

__all__ = ["NodeAmounts", "NodeClient", "plan_amounts", "plan_reset"]

_log = get_logger("embedded.kubelet")
_PERIOD_S: Final = 10.0
"""How often the status is looked at. Source: nodeStatusUpdateFrequency of the kubelet's configuration."""

_Texts = Mapping[str, str]


class NodeClient(PatchesObjects, Protocol):
    """What this module needs of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return an object."""
        ...


def plan_amounts(status: Mapping[str, Any], own: _Texts, plugins: Amounts) -> dict[str, dict[str, str | None]]:
    """Return the merge patch that brings a node's capacity and allocatable up to date; empty when they are.

    Amounts that others have set stay; a resource whose plugin is gone for good stays with the amount 0, which tells it
    from one that this node never had.

    Args:
        status: The node's status as it is.
        own: What the node has itself.
        plugins: What its device plugins have.
    """
    old_capacity, old_allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    capacity = {
        **old_capacity,
        **own,
        **{name: str(amount) for name, amount in plugins.capacity.items()},
        **dict.fromkeys(plugins.removed, "0"),
    }
    kept = {name: text for name, text in old_allocatable.items() if name in capacity or not _is_extended(name)}
    allocatable = {**kept, **capacity, **{name: str(amount) for name, amount in plugins.allocatable.items()}}
    patch = {"capacity": _differ(old_capacity, capacity), "allocatable": _differ(old_allocatable, allocatable)}
    return {name: part for name, part in patch.items() if part}


def plan_reset(status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the merge patch that sets all extended resources of a node to 0, as for one that was made anew."""
    found = {
        part: dict.fromkeys((name for name in status.get(part) or {} if _is_extended(name)), "0")
        for part in ("capacity", "allocatable")
    }
    return {part: amounts for part, amounts in found.items() if amounts}


def _differ(old: _Texts, new: _Texts) -> dict[str, str | None]:
    changed: dict[str, str | None] = {name: text for name, text in new.items() if old.get(name) != text}
    return {**changed, **dict.fromkeys(name for name in old if name not in new)}


def _is_extended(name: str) -> bool:
    return is_extended_resource_name(name)


@dataclass(slots=True, kw_only=True)
class NodeAmounts:
    """Keeps the amounts in a node's status as they should be.

    Args:
        name: The node.
        own: What it has itself.
        whole: Returns the status of the node but for its devices, for one that somebody has made anew.
        client: Access to the API server.
        devices: What its plugins have.
    """

    name: str
    own: _Texts
    whole: Callable[[], Mapping[str, Any]]
    client: NodeClient
    devices: PodDevices
    _offered: Mapping[str, int] = field(default_factory=dict, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _removed: dict[str, None] = field(default_factory=dict, init=False)
    _looked_s: float = field(default=0.0, init=False)

    def request(self) -> None:
        """Ask for a look at the status soon."""
        self._changed.set()

    def request_regular(self, now_s: float) -> None:
        """Ask for a look if the last one was ten seconds ago."""
        if now_s - self._looked_s >= _PERIOD_S:
            self._looked_s = now_s
            self.request()

    def offered(self) -> Mapping[str, int]:
        """Return what the node's status offers of extended resources, as it was seen last."""
        return self._offered

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.sync()
            except ApiError as error:
                log_event(_log, logging.WARNING, "Amounts of the node not written", node=self.name, reason=error)

    async def sync(self) -> None:
        """Bring the status up to date; a node that was deleted stays so until the kubelet is started anew.

        Raises:
            ApiError: It can't be read or written.
        """
        amounts = self.devices.count()
        self._removed.update(dict.fromkeys(amounts.removed))
        try:
            status = (await self.client.get(NODE, self.name)).get("status") or {}
        except NotFoundError:
            log_event(_log, logging.DEBUG, "The node was deleted", node=self.name)
            return
        removed = tuple(name for name in self._removed if name not in amounts.capacity)
        wanted = Amounts(capacity=amounts.capacity, allocatable=amounts.allocatable, removed=removed)
        patch: dict[str, Any] = dict(plan_amounts(status, self.own, wanted))
        if not status.get("conditions"):
            patch = {**self.whole(), **patch}
        if patch:
            found = await self.client.patch(NODE, self.name, {"status": patch}, subresource="status")
            status = found.get("status") or {}
        self._removed.clear()
        quantities = {name: find_quantity(str(text)) for name, text in (status.get("allocatable") or {}).items()}
        self._offered = {
            name: amount.value() for name, amount in quantities.items() if amount is not None and _is_extended(name)
        }

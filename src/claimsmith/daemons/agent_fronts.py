"""Which sides of a driver work together, and what one must know of the other. Pure but for the one that withdraws.

A device has one owner at a time: claims, or containers of device plugins. Both sides offer what is free. What one of
them has given away, the other one does not offer, until it is given back; who is first is for the ledger to say.

    claims have it       → the device plugin reports it unhealthy, and refuses to give it
    a container has it   → a taint in the slices, and a prepare for it waits
    a foreign plugin's   → the same, and a warning event
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from claimsmith.api.kinds import RESOURCE_SLICE
from claimsmith.daemons.agent_driver import Taints
from claimsmith.daemons.agent_options import FrontEnds
from claimsmith.errors import NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.model.device import DeviceTaint
from claimsmith.model.names import DeviceId
from claimsmith.model.report import DeviceHolder
from claimsmith.node.deviceplugins import DeviceUse
from claimsmith.node.entry import Grant, PreparedClaim

__all__ = [
    "IN_USE_KEY",
    "Sides",
    "find_new_foreign",
    "plan_holders",
    "plan_sides",
    "plan_use_taints",
    "withdraw_slices",
]

IN_USE_KEY: Final = "claimsmith.dev/in-use"
"""Key of the taint of a device that a container has through a device plugin; the value is the resource."""
_NOT_IN_VALUE: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_VALUE_MAX: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """What runs for a driver.

    Args:
        publishes: Whether slices are published; else those of before are withdrawn.
        serves_claims: Whether the kubelet's calls for claims are answered.
        serves_containers: Whether device plugins are served, or what containers have is followed.
    """

    publishes: bool
    serves_claims: bool
    serves_containers: bool


def plan_sides(fronts: FrontEnds, claims: Iterable[PreparedClaim], grants: Iterable[Grant]) -> Sides:
    """Return what has to run: what is switched on, and what is needed until the last holder has given back.

    Args:
        fronts: What is switched on.
        claims: Claims that are prepared already.
        grants: Grants that are known already.
    """
    return Sides(
        publishes=fronts.dra,
        serves_claims=fronts.dra or any(True for _ in claims),
        serves_containers=bool(fronts.device_plugin or (fronts.dra and fronts.foreign) or any(True for _ in grants)),
    )


def plan_use_taints(uses: Mapping[DeviceId, DeviceUse]) -> Taints:
    """Return the taints of devices that containers of device plugins have."""
    return {device: (_taint(use),) for device, use in sorted(uses.items())}


def find_new_foreign(
    before: Mapping[DeviceId, DeviceUse], after: Mapping[DeviceId, DeviceUse]
) -> tuple[DeviceUse, ...]:
    """Return the uses by foreign plugins that are new, one for each device that a container really has."""
    return tuple(
        use
        for device, use in sorted(after.items())
        if use.foreign and use.held == device and not (device in before and before[device].foreign)
    )


def plan_holders(
    claims: Iterable[PreparedClaim], uses: Mapping[DeviceId, DeviceUse]
) -> Mapping[DeviceId, tuple[DeviceHolder, ...]]:
    """Return who has each device, for people and for schedulers.

    Args:
        claims: Claims that are prepared; admin access holds nothing.
        uses: What containers of device plugins have.
    """
    found: dict[DeviceId, list[DeviceHolder]] = {}
    for entry in claims:
        key = entry.claim
        holder = DeviceHolder(kind="ResourceClaim", namespace=key.namespace, name=key.name, uid=key.uid)
        for device in entry.devices:
            if not device.admin_access:
                found.setdefault(device.id, []).append(holder)
    for device_id, use in uses.items():
        pod = use.pod
        named = DeviceHolder(
            kind="Pod",
            namespace=pod.namespace if pod is not None else "",
            name=pod.name if pod is not None else "unknown",
            resource=use.resource,
        )
        found.setdefault(device_id, []).append(named)
    return {device_id: tuple(sorted(set(holders))) for device_id, holders in found.items()}


async def withdraw_slices(client: KubeClient, driver: str, node: str) -> int:
    """Delete the slices of a driver on a node, which is offered by claims no longer; return how many there were.

    Raises:
        ApiError: They can't be deleted now.
    """
    selector = f"spec.nodeName={node},spec.driver={driver}"
    try:
        slices = (await client.list(RESOURCE_SLICE, field_selector=selector)).items
    except NotFoundError:  # The cluster has no DRA.
        return 0
    for item in slices:
        try:
            await client.delete(RESOURCE_SLICE, item["metadata"]["name"])
        except NotFoundError:
            continue
    return len(slices)


def _taint(use: DeviceUse) -> DeviceTaint:
    value = _NOT_IN_VALUE.sub("_", use.resource)[:_VALUE_MAX].strip("-_.")
    return DeviceTaint(key=IN_USE_KEY, value=value, effect="NoSchedule")

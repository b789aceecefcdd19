"""What a node's agent reports of devices for those who read no ResourceSlices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from claimsmith.model.device import Device
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.metadata import Metadata
from claimsmith.model.pool import CounterSet

__all__ = ["DeviceHolder", "DeviceReport", "HealthState", "HolderKind", "ReportedDevice", "ReportedPool"]

HealthState = Literal["Healthy", "Unhealthy", "Unknown"]
HolderKind = Literal["ResourceClaim", "Pod"]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DeviceHolder:
    """Who holds a device or a share of it.

    Args:
        kind: ResourceClaim, or Pod for a device plugin's.
        uid: uid of that object; empty when not known.
        container: Name of the container, for a Pod.
        resource: Extended resource by which the device was given out; empty for claims.
    """

    kind: HolderKind
    namespace: str
    name: str
    uid: str = ""
    container: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDevice:
    """One device with its health and its holders.

    Args:
        pool: Name of its pool.
        health: What the driver said last; None when it says nothing.
        holders: In order.
    """

    pool: str
    device: Device
    health: DeviceHealth | None = None
    holders: tuple[DeviceHolder, ...] = ()

    @property
    def state(self) -> HealthState:
        """How the device fares."""
        if self.health is None or self.health.healthy is None:
            return "Unknown"
        return "Healthy" if self.health.healthy else "Unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPool:
    """The counters that the partitions of a pool share."""

    pool: str
    counter_sets: tuple[CounterSet, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """The devices of one driver on one node.

    Args:
        pools: Pools that have counters.
    """

    metadata: Metadata
    node_name: str
    driver: str
    devices: tuple[ReportedDevice, ...] = ()
    pools: tuple[ReportedPool, ...] = ()

"""What a driver finds on its node: the one value that every front end (slices, device plugin, labels) is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.model.device import Device
from claimsmith.model.pool import CounterSet
from claimsmith.model.topology import NodeSelector

__all__ = ["DeviceHealth", "Inventory", "Pool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Devices that a driver offers as one pool.

    Args:
        name: Name of the pool; empty stands for the name of the node.
        devices: In order of preference: the allocator takes the first that fits.
        node_selector, all_nodes: Which nodes reach the devices; neither set: this node alone.
    """

    name: str = ""
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    node_selector: NodeSelector | None = None
    all_nodes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything that a driver offers on this node at one moment."""

    pools: tuple[Pool, ...] = ()

    @classmethod
    def of(cls, *devices: Device, counter_sets: tuple[CounterSet, ...] = ()) -> Inventory:
        """Return an inventory of one pool, named after the node."""
        return cls(pools=(Pool(devices=devices, counter_sets=counter_sets),))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """What a driver says of one device's health.

    Args:
        pool: Name of the pool; empty stands for the name of the node.
        healthy: None when not known.
        cause: Machine-readable word, e.g. `xid-79`; the health policy reads it.
        message: For people; at most 1,024 characters, longer ones are cut.
    """

    device: str
    healthy: bool | None
    pool: str = ""
    cause: str = ""
    message: str = ""
    details: Mapping[str, str] = field(default_factory=dict)

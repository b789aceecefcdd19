"""Slices and pools of devices. Source: ResourceSlice of resource.k8s.io/v1 (Kubernetes 1.37)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from claimsmith.model.device import Device, DeviceTaint
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import PoolId
from claimsmith.model.quantity import Quantity
from claimsmith.model.topology import NodeSelector

__all__ = ["CounterSet", "DeviceTaintRule", "ResourceSlice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSet:
    """Counters that the devices of a pool share."""

    name: str
    counters: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSlice:
    """A part of a pool: devices, or counter sets, and the nodes that can reach them.

    Args:
        generation: Generation of the pool; only slices of the highest one count.
        slice_count: How many slices of this generation make the pool complete; > 0.
    """

    metadata: Metadata
    driver: str
    pool: str
    generation: int
    slice_count: int
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()
    partition_type_attribute: str | None = None
    skip_node_operations: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the slice object; its byte order is the order of preference within the pool."""
        return self.metadata.name

    @property
    def pool_id(self) -> PoolId:
        """The pool that this slice is a part of."""
        return PoolId(self.driver, self.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTaintRule:
    """A taint that an administrator puts on devices.

    Args:
        selects: False when the rule has no device selector: it then matches nothing.
        driver, pool, device: ANDed; None stands for all.
        conditions: What was done about the rule, as in meta/v1.
    """

    metadata: Metadata
    taint: DeviceTaint
    selects: bool = False
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    conditions: tuple[Mapping[str, object], ...] = ()

"""Which pools a node can use. Source: rules 1 to 3 of GatherPools in k8s.io/dynamic-resource-allocation v0.37.2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from claimsmith.allocate.verify.case import VerifyCase
from claimsmith.allocate.verify.nodes import slice_reaches
from claimsmith.model.device import Device
from claimsmith.model.features import Features
from claimsmith.model.names import CounterId, PoolId
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.quantity import Quantity

__all__ = ["SeenPool", "find_pools", "list_known", "may_target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPool:
    """A pool as the node sees it.

    Args:
        devices: Devices of the slices that reach the node, with their slice.
        everywhere: Devices of the current generation on any node.
    """

    id: PoolId
    state: Literal["usable", "incomplete", "invalid"]
    devices: Mapping[str, tuple[ResourceSlice, Device]]
    everywhere: Mapping[str, Device]
    counters: Mapping[CounterId, Quantity]


def find_pools(case: VerifyCase) -> dict[PoolId, SeenPool]:
    """Return the pools that the node sees; outdated ones are left out."""
    known = list_known(case)
    grouped: dict[PoolId, list[ResourceSlice]] = defaultdict(list)
    for item in sorted(known, key=lambda item: not item.node_name):
        if may_target(item, case.features) and (
            slice_reaches(item, case.node) or (case.gathers_like_stable and item.shared_counters)
        ):
            grouped[item.pool_id].append(item)
    partitions = case.features.partitionable_devices
    pools = (
        _see_pool(id, near, [s for s in known if s.pool_id == id], partitions=partitions)
        for id, near in grouped.items()
    )
    return {pool.id: pool for pool in pools if pool is not None}


def list_known(case: VerifyCase) -> list[ResourceSlice]:
    """Return the slices that count at all, in list order."""
    return [item for item in case.slices if _is_known(item, case.features)]


def may_target(slice: ResourceSlice, features: Features) -> bool:
    """Tell whether the slice can be one of a node's; one that can't still counts for the pool's completeness."""
    return features.partitionable_devices or not (slice.per_device_node_selection or slice.shared_counters)


def _is_known(slice: ResourceSlice, features: Features) -> bool:
    """Tell whether the slice counts at all."""
    grouped = any(use.compatibility_groups for device in slice.devices for use in device.consumes_counters)
    return features.compatibility_groups or not grouped


def _see_pool(
    id: PoolId, near: list[ResourceSlice], known: list[ResourceSlice], *, partitions: bool
) -> SeenPool | None:
    generation = max(item.generation for item in near)
    near = [item for item in near if item.generation == generation]
    current = [item for item in known if item.generation == generation]
    expected = near[0].slice_count
    looked_at = near
    if len(near) != expected:
        if any(item.generation > generation for item in known):
            return None
        if len(current) != expected:
            return SeenPool(id=id, state="incomplete", devices={}, everywhere={}, counters={})
        looked_at = current
    counters: dict[CounterId, Quantity] = {}
    for shared in (shared for item in looked_at for shared in item.shared_counters):
        counters.update({CounterId(shared.name, name): value for name, value in shared.counters.items()})
    valid = not partitions or _has_sound_counters(looked_at, counters)
    devices: dict[str, tuple[ResourceSlice, Device]] = {}
    for home, device in ((item, device) for item in near for device in item.devices):
        valid = valid and device.name not in devices
        devices[device.name] = (home, device)
    return SeenPool(
        id=id,
        state="usable" if valid else "invalid",
        devices=devices if valid else {},
        everywhere={device.name: device for item in current for device in item.devices},
        counters=counters,
    )


def _has_sound_counters(current: list[ResourceSlice], counters: Mapping[CounterId, Quantity]) -> bool:
    """Tell whether each counter set is declared once, and whatever devices consume is declared."""
    sets = [shared.name for item in current for shared in item.shared_counters]
    uses = [use for item in current for device in item.devices for use in device.consumes_counters]
    if len(set(sets)) != len(sets):
        return False
    if not {use.counter_set for use in uses} <= set(sets):
        return False
    return all((use.counter_set, name) in counters for use in uses for name in use.counters)

"""Counters that the devices of a pool share: what is left, and who took the rest.

Source: checkAvailableCounters and compatibility_groups.go in structured/internal/experimental,
k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord, sum_consumption
from claimsmith.allocate.prepared.usage import DeviceUse
from claimsmith.model.device import Device
from claimsmith.model.names import CounterId, DeviceId

__all__ = ["Groups", "PoolCounters", "VanishedDevice", "count_pool", "join_groups"]

Groups = frozenset[str] | None
"""Compatibility groups that all devices on a counter set have in common; None: its devices have no groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VanishedDevice:
    """A device in use that its pool no longer publishes.

    Args:
        known: What it takes from counters is known from another slice.
    """

    id: DeviceId
    use: DeviceUse
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCounters:
    """The counters of a pool before this attempt takes anything.

    Args:
        declared, left: Amounts by counter in nano units; `left` may be negative.
        groups: Compatibility groups in common, by counter set; sets without devices in use are absent.
        exceeded: A counter is overdrawn, which blocks every device that takes any counter.
        vanished: Devices in use that are no longer published, which still count.
    """

    declared: Mapping[CounterId, int]
    left: Mapping[CounterId, int]
    groups: Mapping[str, Groups] = field(default_factory=dict)
    exceeded: bool = False
    vanished: tuple[VanishedDevice, ...] = ()


def count_pool(
    view: PoolView,
    *,
    used: Container[str],
    missing: Iterable[tuple[DeviceId, DeviceUse]],
    find_old: Callable[[DeviceId], DeviceRecord | None],
) -> PoolCounters:
    """Return what is left of a pool's counters.

    Args:
        used: Names of the pool's devices in use.
        missing: Devices in use that the view doesn't publish, which still count; upstream forgets them.
        find_old: Finds such a device in slices of another generation; None when nobody knows what it takes.
    """
    declared = {
        CounterId(counter_set.name, name): amount.nanos
        for counter_set in view.counter_sets.values()
        for name, amount in counter_set.counters.items()
    }
    left, groups = dict(declared), dict[str, Groups]()
    for record in chain(view.slices, view.other_slices):
        for device in record.slice.devices:
            if device.name in used:
                _charge(device, left, groups)
    vanished = tuple(_charge_vanished(device, use, left, find_old) for device, use in missing) if declared else ()
    return PoolCounters(
        declared=declared,
        left=left,
        groups=groups,
        exceeded=any(amount < 0 for amount in left.values()),
        vanished=vanished,
    )


def join_groups(current: Groups, groups: Groups) -> Groups:
    """Return the groups in common after one more device, whether or not it is compatible."""
    return current if current is None or groups is None else current & groups


def _charge(device: Device, left: dict[CounterId, int], groups: dict[str, Groups]) -> None:
    for counter, nanos in sum_consumption(device):
        if counter in left:
            left[counter] -= nanos
    for consumption in device.consumes_counters:
        own: Groups = frozenset(consumption.compatibility_groups) or None
        name = consumption.counter_set
        groups[name] = join_groups(groups[name], own) if name in groups else own


def _charge_vanished(
    device: DeviceId, use: DeviceUse, left: dict[CounterId, int], find_old: Callable[[DeviceId], DeviceRecord | None]
) -> VanishedDevice:
    """Count a device that is no longer published; when nobody knows what it takes, nothing is left of the pool."""
    record = find_old(device)
    if record is None:
        for counter in left:
            left[counter] = min(left[counter], 0)
        return VanishedDevice(id=device, use=use, known=False)
    for counter, nanos in record.consumption:
        if counter in left:
            left[counter] -= nanos
    return VanishedDevice(id=device, use=use, known=True)

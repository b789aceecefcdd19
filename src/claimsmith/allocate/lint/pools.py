"""What is wrong with pools: missing slices, names that are there twice, counters that are not there or too small."""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from claimsmith.allocate.lint.values import Fault
from claimsmith.allocate.prepared.capacity import plan_capacity
from claimsmith.allocate.prepared.pools import PoolParts, PoolView, build_pool, is_ignored
from claimsmith.allocate.prepared.records import SliceRecord, sum_consumption
from claimsmith.model.device import Device
from claimsmith.model.features import Features
from claimsmith.model.names import PoolId
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.quantity import Quantity

__all__ = ["SliceFault", "find_pool_faults"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFault:
    """A fault with the name of the slice that has it."""

    slice: str
    fault: Fault


def find_pool_faults(slices: Iterable[ResourceSlice], *, asked: Collection[str] | None = None) -> Iterator[SliceFault]:
    """Yield what keeps nodes from the devices of pools, told of slices of their newest generation.

    A pool is looked at as a node sees it that all of its slices are for.

    Args:
        slices: All slices of the cluster.
        asked: Names of those that a fault is told of where it concerns several; None: no preference.
    """
    pools: dict[PoolId, list[ResourceSlice]] = defaultdict(list)
    for item in slices:
        pools[item.pool_id].append(item)
    features = Features()
    for pool, members in pools.items():
        newest = max(item.generation for item in members)
        counted = [item for item in members if item.generation == newest and not _is_ignored(item, features)]
        if counted:
            # Devices name counters, so these come first; what is asked for comes last, so that the blame falls on it.
            ordered = sorted(counted, key=lambda item: (not item.shared_counters, asked is None or item.name in asked))
            yield from _Pool(id=pool, slices=tuple(ordered), asked=asked, features=features).find_faults()


def _is_ignored(item: ResourceSlice, features: Features) -> bool:
    return is_ignored(SliceRecord(item, position=0), features)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """The slices of one generation of a pool.

    Args:
        slices: Those with counters first.
        asked: As in `find_pool_faults`.
    """

    id: PoolId
    slices: tuple[ResourceSlice, ...]
    asked: Collection[str] | None
    features: Features

    def find_faults(self) -> Iterator[SliceFault]:
        """Yield what is wrong with the pool, then with its devices."""
        yield from self._find_missing()
        whole = self._build(self.slices)
        if whole.invalid:
            yield self._blame(whole.invalid)
        for item in self.slices:
            for place, device in enumerate(item.devices):
                for fault in _find_device_faults(device, whole, path=f"spec.devices[{place}]"):
                    yield SliceFault(slice=item.name, fault=fault)

    def _find_missing(self) -> Iterator[SliceFault]:
        last = self.slices[-1]
        found, expected = len(self.slices), last.slice_count
        if found == expected:
            return
        hint = "add the missing ones" if found < expected else "correct the count"
        there = f"{found} of {expected} slices of generation {last.generation} are there"
        fault = Fault(
            rule="pool-incomplete",
            severity="error",
            path="spec.pool.resourceSliceCount",
            text=f"pool {self.id} gives no device: {there}; {hint}",
            corrected=str(found) if found > expected else "",
        )
        yield self._tell(last, fault)

    def _blame(self, invalid: str) -> SliceFault:
        """Return the fault of a pool that gives no device, told of the first slice and device that make it so."""
        right = bisect.bisect(range(1, len(self.slices)), False, key=lambda count: self._is_wrong(self.slices[:count]))
        before, last = self.slices[:right], self.slices[right]
        fewer = (replace(last, devices=last.devices[:count]) for count in range(len(last.devices)))
        place = sum(1 for _ in itertools.takewhile(lambda item: not self._is_wrong((*before, item)), fewer)) - 1
        path = f"spec.devices[{place}]" if place >= 0 else "spec.sharedCounters"
        text = f"pool {self.id} gives no device to nodes that see this: {invalid}"
        return self._tell(last, Fault(rule="pool-invalid", severity="error", path=path, text=text))

    def _is_wrong(self, slices: Sequence[ResourceSlice]) -> bool:
        return bool(self._build(slices).invalid)

    def _build(self, slices: Sequence[ResourceSlice]) -> PoolView:
        """Return the pool that slices make, as if they were all of it."""
        records = tuple(SliceRecord(replace(item, slice_count=len(slices)), position=0) for item in slices)
        return build_pool(PoolParts(id=self.id, targeting=records, found=len(records)), self.features)

    def _tell(self, item: ResourceSlice, fault: Fault) -> SliceFault:
        """Return a fault of a slice, told of another one of the pool if only that is asked for."""
        if self.asked is None or item.name in self.asked:
            return SliceFault(slice=item.name, fault=fault)
        other = next((known.name for known in self.slices if known.name in self.asked), item.name)
        return SliceFault(slice=other, fault=replace(fault, path="spec", corrected=""))


def _find_device_faults(device: Device, pool: PoolView, *, path: str) -> Iterator[Fault]:
    """Yield why no request ever gets a device."""
    for (name, counter), nanos in sum_consumption(device):
        declared = pool.counter_sets[name].counters.get(counter) if name in pool.counter_sets else None
        if declared is not None and nanos > declared.nanos:
            needed = Quantity(nanos=nanos, format=declared.format)
            text = f"needs {needed} of counter {counter}, counter set {name} has {declared}: no request gets the device"
            yield Fault(rule="counter-amount", severity="error", path=f"{path}.consumesCounters", text=text)
    if plan_capacity(device, None, fractional=False).kind != "fatal":
        return
    for name, capacity in device.capacity.items():
        plan = plan_capacity(replace(device, capacity={name: capacity}), None, fractional=False)
        if plan.kind == "fatal":
            text = f"{plan.text}: no request gets the device"
            yield Fault(rule="device-capacity", severity="error", path=f"{path}.capacity[{name}].value", text=text)

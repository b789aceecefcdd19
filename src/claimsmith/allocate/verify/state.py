"""What is in use while an allocation is replayed."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from claimsmith.allocate.verify.amounts import exact
from claimsmith.allocate.verify.case import VerifyCase
from claimsmith.allocate.verify.pools import SeenPool
from claimsmith.model.deviations import Deviation
from claimsmith.model.device import Device
from claimsmith.model.names import CounterId, DeviceId, PoolId
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.quantity import Quantity

__all__ = ["ReplayState"]


class ReplayState:
    """Devices, shares, capacities and counters in use: at first those of the allocated claims.

    Source: check list 9, 11, 12 and 13; AllocatedState in structured/, v0.37.2.
    """

    def __init__(self, case: VerifyCase, pools: dict[PoolId, SeenPool]) -> None:
        self.taken: set[DeviceId] = set(case.taken)
        self.shared: set[DeviceId] = set(case.shared)
        self.share_ids: set[str] = set()
        self.used_now: set[DeviceId] = set()
        self.capacity: dict[tuple[DeviceId, str], Fraction] = defaultdict(Fraction)
        for device, taken in case.shared.items():
            for name, nanos in taken.items():
                self.capacity[device, name] += Fraction(nanos, 10**9)
        self._read(case)
        self.counters: dict[tuple[PoolId, CounterId], Fraction] = {}
        self.groups: dict[tuple[PoolId, str], list[frozenset[str]]] = defaultdict(list)
        for pool in pools.values():
            self._count(case, pool)
        self._clashing = {place for place, groups in self.groups.items() if _clash(groups)}

    def _read(self, case: VerifyCase) -> None:
        results = (r for c in case.allocated if c.allocation is not None for r in c.allocation.results)
        for result in results:
            if result.admin_access:
                continue
            if not (case.features.consumable_capacity and result.share_id is not None):
                self.taken.add(result.device_id)
                continue
            self.shared.add(result.device_id)
            self.share_ids.add(result.share_id)
            for name, amount in (result.consumed_capacity or {}).items():
                self.capacity[result.device_id, name] += exact(amount)

    def _count(self, case: VerifyCase, pool: SeenPool) -> None:
        for counter, value in pool.counters.items():
            self.counters[pool.id, counter] = exact(value)
        for name, device in pool.everywhere.items():
            if DeviceId(*pool.id, name) in self.taken | self.shared:
                self.charge(pool.id, device)
        if Deviation.VANISHED_DEVICE in case.deviations:
            for id in self.taken | self.shared:
                if id.pool_id == pool.id and id.device not in pool.everywhere:
                    self._count_vanished(case, id)

    def _count_vanished(self, case: VerifyCase, id: DeviceId) -> None:
        """Book a device in use that its pool no longer publishes; when nobody knows what it takes, it takes all."""
        homes = [s for s in (*case.slices, *case.history) if s.pool_id == id.pool_id and id.device in _names(s)]
        if not homes:
            for key in [key for key in self.counters if key[0] == id.pool_id]:
                self.counters[key] = min(self.counters[key], Fraction(0))
            return
        newest = max(homes, key=lambda home: home.generation)
        device = next(device for device in newest.devices if device.name == id.device)
        for counter, amount in _consumption(device):
            if (id.pool_id, counter) in self.counters:
                self.counters[id.pool_id, counter] -= exact(amount)

    def charge(self, pool: PoolId, device: Device) -> None:
        """Book what the device takes from the counters of its pool, and its compatibility groups."""
        for use in device.consumes_counters:
            self.groups[pool, use.counter_set].append(frozenset(use.compatibility_groups))
        for counter, amount in _consumption(device):
            self.counters[pool, counter] = self.counters.get((pool, counter), Fraction(0)) - exact(amount)

    def find_overdrawn(self, pool: PoolId) -> CounterId | None:
        """Return a counter of the pool of which more is used than there is."""
        overdrawn = (counter for (owner, counter), left in self.counters.items() if owner == pool and left < 0)
        return next(overdrawn, None)

    def find_clash(self, pool: PoolId, device: Device) -> str | None:
        """Return a counter set whose devices have no compatibility group in common, and had one before."""
        for use in device.consumes_counters:
            place = pool, use.counter_set
            if place not in self._clashing and _clash(self.groups[place]):
                return use.counter_set
        return None


def _names(slice: ResourceSlice) -> set[str]:
    return {device.name for device in slice.devices}


def _consumption(device: Device) -> list[tuple[CounterId, Quantity]]:
    return [
        (CounterId(use.counter_set, name), amount)
        for use in device.consumes_counters
        for name, amount in use.counters.items()
    ]


def _clash(groups: list[frozenset[str]]) -> bool:
    """Tell whether devices with these groups must not be used together."""
    with_groups = [group for group in groups if group]
    return bool(with_groups) and (len(with_groups) < len(groups) or not frozenset.intersection(*with_groups))

"""Which devices of a driver share hardware: partitions of one card take from the same counters. Pure.

A device is in the way of another one if it is the same, or if the counters of their pool don't suffice for both, or
if their compatibility groups exclude each other.

Source: counters and compatibility groups as in structured/internal/experimental of
k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.names import DeviceId

__all__ = ["CounterKey", "Hardware", "HardwareUse", "Obstacle"]


class CounterKey(NamedTuple):
    """One counter of one counter set of a pool."""

    pool: str
    counter_set: str
    counter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareUse:
    """What a device takes while it is in use.

    Args:
        nanos: Amounts by counter in nano units.
        groups: Compatibility groups by pool and counter set, for each set of which it takes something; often empty.
    """

    nanos: Mapping[CounterKey, int] = field(default_factory=dict)
    groups: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A device that is wanted, and one in use that is in its way: the same one, or one of the same hardware."""

    wanted: DeviceId
    held: DeviceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The counters of a driver's pools, and what its devices take of them.

    Args:
        declared: Amounts by counter in nano units.
        uses: By device; devices that take nothing are there too.
    """

    declared: Mapping[CounterKey, int] = field(default_factory=dict)
    uses: Mapping[DeviceId, HardwareUse] = field(default_factory=dict)

    @classmethod
    def of(cls, driver: str, inventory: Inventory, *, node: str) -> Hardware:
        """Return the hardware that an inventory describes.

        Args:
            driver: Name of the driver.
            node: Name of the node, which is the name of a pool that has none.
        """
        declared: dict[CounterKey, int] = {}
        uses: dict[DeviceId, HardwareUse] = {}
        for pool in inventory.pools:
            name = pool.name or node
            declared.update(_declared(pool, name))
            uses.update((DeviceId(driver, name, device), use) for device, use in _uses(pool, name))
        return cls(declared=declared, uses=uses)

    def and_before(self, earlier: Hardware) -> Hardware:
        """Return this hardware together with devices that are not there any more but may still be in use."""
        return Hardware(declared={**earlier.declared, **self.declared}, uses={**earlier.uses, **self.uses})

    def find_obstacle(self, wanted: Iterable[DeviceId], held: Iterable[DeviceId]) -> Obstacle | None:
        """Return what is in the way of devices that are wanted together; None when nothing is.

        Of a device of which nothing is known, everything of its pool counts as taken.

        Args:
            wanted: Devices that shall be in use together; whether they fit each other is not asked.
            held: Devices that are in use.
        """
        held, wanted = tuple(dict.fromkeys(held)), tuple(dict.fromkeys(wanted))
        for device in wanted:
            if device in held:
                return Obstacle(wanted=device, held=device)
        for device in wanted:
            others = [other for other in held if other.pool_id == device.pool_id and self._may_share(device, other)]
            group = [other for other in wanted if other.pool_id == device.pool_id and other in self.uses]
            unknown = [other for other in others if not {device, other} <= self.uses.keys()]
            found = next(iter(unknown), None) or self._find_exclusive(device, others) or self._find_short(group, others)
            if found is not None:
                return Obstacle(wanted=device, held=found)
        return None

    def find_blocked(self, held: Iterable[DeviceId]) -> Mapping[DeviceId, DeviceId]:
        """Return each known device that one in use is in the way of, with that one; a device in use is in its own."""
        if not (held := tuple(held)):
            return {}  # As on most nodes at most times; asked after every claim.
        found = ((device, self.find_obstacle([device], held)) for device in dict.fromkeys((*held, *self.uses)))
        return {device: obstacle.held for device, obstacle in found if obstacle is not None}

    def _may_share(self, one: DeviceId, other: DeviceId) -> bool:
        """Tell whether two devices of a pool may have hardware in common, as far as anything is known of them."""
        counted = [self.uses[device].groups.keys() for device in (one, other) if device in self.uses]
        if len(counted) == 2:
            return not counted[0].isdisjoint(counted[1])
        return all(counted) and any(key.pool == one.pool for key in self.declared)

    def _find_exclusive(self, wanted: DeviceId, held: Iterable[DeviceId]) -> DeviceId | None:
        """Return a device in use whose compatibility groups exclude those of a device that is wanted."""
        common = dict(self.uses[wanted].groups) if wanted in self.uses else {}
        for device in held:
            for key, groups in self.uses[device].groups.items():
                if key not in common:
                    continue
                if bool(groups) != bool(common[key]) or (groups and groups.isdisjoint(common[key])):
                    return device
                common[key] = common[key] & groups
        return None

    def _find_short(self, wanted: Iterable[DeviceId], held: Iterable[DeviceId]) -> DeviceId | None:
        """Return the device in use that has most of a counter of which not enough is left."""
        needs: Counter[CounterKey] = Counter()
        for device in wanted:
            needs.update(self.uses[device].nanos)
        for key, nanos in needs.items():
            taken = {device: self.uses[device].nanos.get(key, 0) for device in held}
            most = max(taken, key=lambda device: taken[device], default=None)
            if most is None or not taken[most] or not nanos:
                continue
            if sum(taken.values()) + nanos > self.declared.get(key, 0):
                return most
        return None


def _declared(pool: Pool, name: str) -> Iterator[tuple[CounterKey, int]]:
    for counter_set in pool.counter_sets:
        for counter, amount in counter_set.counters.items():
            yield CounterKey(name, counter_set.name, counter), amount.nanos


def _uses(pool: Pool, name: str) -> Iterator[tuple[str, HardwareUse]]:
    for device in pool.devices:
        nanos = {
            CounterKey(name, item.counter_set, counter): amount.nanos
            for item in device.consumes_counters
            for counter, amount in item.counters.items()
        }
        groups = {(name, item.counter_set): frozenset(item.compatibility_groups) for item in device.consumes_counters}
        yield device.name, HardwareUse(nanos=nanos, groups=groups)

"""What is in use: devices held by allocated claims, shares of devices, and their consumed capacity.

Source: AllocatedState in k8s.io/dynamic-resource-allocation v0.37.2 structured/schedulerapi; the claim tracker of
kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId

__all__ = ["FREE", "AllocatedState", "DeviceUse", "PoolKey", "UsageLedger"]

PoolKey = tuple[str, str]
"""Driver and name of a pool; equal to the `PoolId` of the same parts."""
_Entry = tuple[Hashable, ResourceClaim, DeviceResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """How one device is used by allocated claims.

    Args:
        dedicated: Somebody holds the whole device.
        shares: Number of shares that claims hold.
        consumed: Sum of the shares' consumed capacity by capacity name, in nano units.
        tracked: At least one share recorded its consumed capacity.
        holders: Claims that hold the device or a share of it.
    """

    dedicated: bool = False
    shares: int = 0
    consumed: Mapping[str, int] = field(default_factory=dict)
    tracked: bool = False
    holders: tuple[ClaimRef, ...] = ()

    def join(self, other: DeviceUse) -> DeviceUse:
        """Return both uses as one."""
        consumed = dict(self.consumed)
        for name, nanos in other.consumed.items():
            consumed[name] = consumed.get(name, 0) + nanos
        return DeviceUse(
            dedicated=self.dedicated or other.dedicated,
            shares=self.shares + other.shares,
            consumed=consumed,
            tracked=self.tracked or other.tracked,
            holders=self.holders + tuple(ref for ref in other.holders if ref not in self.holders),
        )


FREE: Final = DeviceUse()
"""The use of a device that nobody holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedState:
    """Every device in use, published or not. Results with admin access don't count."""

    uses: Mapping[DeviceId, DeviceUse] = field(default_factory=dict)

    @classmethod
    def from_claims(cls, claims: Iterable[ResourceClaim], *, consumable_capacity: bool = True) -> AllocatedState:
        """Return what the allocations of the claims hold.

        Args:
            consumable_capacity: The gate ConsumableCapacity; when it is off, a share counts as the whole device.
        """
        ledger = UsageLedger(consumable_capacity=consumable_capacity)
        for position, claim in enumerate(claims):
            ledger.add(position, claim)
        return cls(uses=ledger.uses)

    @classmethod
    def from_devices(cls, devices: Iterable[DeviceId]) -> AllocatedState:
        """Return the state in which exactly these devices are held as a whole."""
        return cls(uses={device: DeviceUse(dedicated=True) for device in devices})


class UsageLedger:
    """Uses of devices that follow the claims as they come and go.

    What the claims hold is only noted; it is summed up for the pools that somebody asks about.
    """

    __slots__ = ("_changed", "_consumable_capacity", "_entries", "_preset", "_summed")

    def __init__(self, *, consumable_capacity: bool = True) -> None:
        self._consumable_capacity = consumable_capacity
        self._preset: dict[DeviceId, DeviceUse] = {}
        self._entries: dict[PoolKey, dict[str, list[_Entry]]] = {}
        self._summed: dict[PoolKey, Mapping[str, DeviceUse]] = {}
        self._changed: set[PoolKey] = set()

    @property
    def uses(self) -> Mapping[DeviceId, DeviceUse]:
        """Every device in use, of all pools; computed for the question."""
        return {DeviceId(*pool, name): use for pool in self._entries for name, use in self.find_pool_uses(pool).items()}

    def preset(self, state: AllocatedState) -> None:
        """Add uses that belong to no known claim."""
        for device, use in state.uses.items():
            self._preset[device] = use
            self._entries.setdefault((device.driver, device.pool), {}).setdefault(device.device, [])
            self._changed.add((device.driver, device.pool))

    def add(self, key: Hashable, claim: ResourceClaim) -> None:
        """Count what the claim holds, under a key of its own."""
        pools, changed = self._entries, self._changed
        for result in claim.allocation.results if claim.allocation is not None else ():
            if result.admin_access:
                continue
            pool = (result.driver, result.pool)
            changed.add(pool)
            devices = pools.get(pool)
            if devices is None:
                devices = pools[pool] = {}
            entries = devices.get(result.device)
            if entries is None:
                devices[result.device] = [(key, claim, result)]
            else:
                entries.append((key, claim, result))

    def remove(self, key: Hashable, claim: ResourceClaim) -> None:
        """Forget what was added for the claim under the key."""
        for result in claim.allocation.results if claim.allocation is not None else ():
            pool = (result.driver, result.pool)
            devices = self._entries.get(pool, {})
            entries = devices.get(result.device)
            if result.admin_access or entries is None:
                continue
            self._changed.add(pool)
            entries[:] = [entry for entry in entries if entry[0] != key]
            if not entries and DeviceId(*pool, result.device) not in self._preset:
                del devices[result.device]
                if not devices:
                    del self._entries[pool]

    def pop_changed(self) -> set[PoolKey]:
        """Return the pools whose uses have changed since the last call."""
        changed, self._changed = self._changed, set()
        for pool in changed:
            self._summed.pop(pool, None)
        return changed

    def find_whole(self, pool: PoolKey) -> Container[str] | None:
        """Return the names of a pool's devices in use, if each is held as a whole; None when there are shares."""
        devices = self._entries.get(pool)
        if devices is None:
            return ()
        if self._preset:
            return None
        if self._consumable_capacity:
            for entries in devices.values():
                for _, _, result in entries:
                    if result.share_id is not None:
                        return None
        return devices

    def find_pool_uses(self, pool: PoolKey) -> Mapping[str, DeviceUse]:
        """Return how each device of a pool that is in use is used, by name."""
        if pool not in self._entries:
            return {}
        if pool in self._changed:
            return self._sum_pool(pool)
        found = self._summed.get(pool)
        if found is None:
            found = self._summed[pool] = self._sum_pool(pool)
        return found

    def find_use(self, device: DeviceId) -> DeviceUse:
        """Return how a device is used, published or not."""
        pool = (device.driver, device.pool)
        return self.find_pool_uses(pool).get(device.device, FREE) if pool in self._entries else FREE

    def find_entries(self, device: DeviceId) -> tuple[DeviceUse, ...]:
        """Return what each claim holds of a device, in the order in which they were added."""
        found: dict[Hashable, DeviceUse] = {}
        if device in self._preset:
            found["preset", device] = self._preset[device]
        for key, claim, result in self._entries.get((device.driver, device.pool), {}).get(device.device, ()):
            use = _find_use(claim, result, self._consumable_capacity)
            found[key] = found[key].join(use) if key in found else use
        return tuple(found.values())

    def _sum_pool(self, pool: PoolKey) -> dict[str, DeviceUse]:
        return {
            name: self._sum(self._preset.get(DeviceId(*pool, name)), entries)
            for name, entries in self._entries[pool].items()
        }

    def _sum(self, total: DeviceUse | None, entries: list[_Entry]) -> DeviceUse:
        for _, claim, result in entries:
            use = _find_use(claim, result, self._consumable_capacity)
            total = use if total is None else total.join(use)
        return total or FREE


def _find_use(claim: ResourceClaim, result: DeviceResult, consumable_capacity: bool) -> DeviceUse:
    """What one result of a claim's allocation stands for."""
    holders = (claim.ref,)
    if not (consumable_capacity and result.share_id is not None):
        return DeviceUse(dedicated=True, holders=holders)
    consumed = {name: amount.nanos for name, amount in (result.consumed_capacity or {}).items()}
    return DeviceUse(shares=1, consumed=consumed, tracked=result.consumed_capacity is not None, holders=holders)

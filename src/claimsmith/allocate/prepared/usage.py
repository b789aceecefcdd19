"""What is in use: devices held by allocated claims, shares of devices, and their consumed capacity.

Source: AllocatedState in k8s.io/dynamic-resource-allocation v0.37.2 structured/schedulerapi; the claim tracker of
kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId

__all__ = ["FREE", "AllocatedState", "DeviceUse", "PoolKey", "UsageLedger"]

PoolKey = tuple[str, str]
"""Driver and name of a pool; equal to the `PoolId` of the same parts."""


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


class UsageLedger:
    """Uses of devices that follow the claims as they come and go.

    Who holds a device is only noted; what that comes to is summed up for the pools that somebody asks about.

    Args:
        consumable_capacity: The gate ConsumableCapacity; when it is off, a share counts as the whole device.
    """

    __slots__ = ("_changed", "_consumable_capacity", "_holders", "_preset", "_shared", "_summed")

    def __init__(self, *, consumable_capacity: bool = True) -> None:
        self._consumable_capacity = consumable_capacity
        self._preset: dict[DeviceId, DeviceUse] = {}
        self._holders: dict[PoolKey, dict[str, ResourceClaim | list[ResourceClaim]]] = {}
        self._shared: dict[PoolKey, set[str]] = {}
        """Devices of which shares are held."""
        self._summed: dict[PoolKey, Mapping[str, DeviceUse]] = {}
        self._changed: set[PoolKey] = set()

    @property
    def uses(self) -> Mapping[DeviceId, DeviceUse]:
        """Every device in use, of all pools; computed for the question."""
        return {DeviceId(*pool, name): use for pool in self._holders for name, use in self.find_pool_uses(pool).items()}

    def preset(self, state: AllocatedState) -> None:
        """Add uses that belong to no known claim."""
        for device, use in state.uses.items():
            self._preset[device] = use
            self._holders.setdefault((device.driver, device.pool), {}).setdefault(device.device, [])
            self._changed.add((device.driver, device.pool))

    def add(self, claim: ResourceClaim) -> None:
        """Count what a claim holds; one that is added twice holds it twice."""
        pools, changed, seen = self._holders, self._changed, set[tuple[str, str, str]]()
        results = claim.allocation.results if claim.allocation is not None else ()
        for result in results:
            if result.admin_access:
                continue
            pool, name = (result.driver, result.pool), result.device
            if result.share_id is not None and self._consumable_capacity:
                self._shared.setdefault(pool, set()).add(name)
            if len(results) > 1:
                if (*pool, name) in seen:
                    continue
                seen.add((*pool, name))
            changed.add(pool)
            devices = pools.get(pool)
            if devices is None:
                pools[pool] = {name: claim}
                continue
            known = devices.get(name)
            if known is None:
                devices[name] = claim
            elif isinstance(known, list):
                known.append(claim)
            else:
                devices[name] = [known, claim]

    def remove(self, claim: ResourceClaim) -> None:
        """Forget what the claim holds, which has been added as the same object or an equal one."""
        results = claim.allocation.results if claim.allocation is not None else ()
        held = dict.fromkeys((item.driver, item.pool, item.device) for item in results if not item.admin_access)
        for driver, pool_name, name in held:
            pool = (driver, pool_name)
            devices = self._holders.get(pool, {})
            known = devices.get(name)
            if known is None:
                continue
            self._changed.add(pool)
            left = list(known) if isinstance(known, list) else [known]
            place = next((place for place, holder in enumerate(left) if holder is claim), None)
            place = (
                next((place for place, holder in enumerate(left) if holder == claim), place) if place is None else place
            )
            if place is not None:
                del left[place]
            if name in self._shared.get(pool, ()) and not any(_holds_share(holder, pool, name) for holder in left):
                self._drop_shared(pool, name)
            if left or DeviceId(*pool, name) in self._preset:
                devices[name] = left[0] if len(left) == 1 else left
                continue
            del devices[name]
            if not devices:
                del self._holders[pool]

    def _drop_shared(self, pool: PoolKey, name: str) -> None:
        """Forget that shares of a device are held."""
        self._shared[pool].remove(name)
        if not self._shared[pool]:
            del self._shared[pool]

    def pop_changed(self) -> set[PoolKey]:
        """Return the pools whose uses have changed since the last call."""
        changed, self._changed = self._changed, set()
        for pool in changed:
            self._summed.pop(pool, None)
        return changed

    def is_free(self, pool: PoolKey) -> bool:
        """Tell whether no device of a pool is in use."""
        return pool not in self._holders

    def find_whole(self, pool: PoolKey) -> Container[str] | None:
        """Return the names of a pool's devices in use, if each is held as a whole; None when there are shares."""
        devices = self._holders.get(pool)
        if devices is None:
            return ()
        return None if pool in self._shared or self._preset else devices

    def find_pool_uses(self, pool: PoolKey) -> Mapping[str, DeviceUse]:
        """Return how each device of a pool that is in use is used, by name."""
        if pool not in self._holders:
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
        return self.find_pool_uses(pool).get(device.device, FREE) if pool in self._holders else FREE

    def find_entries(self, device: DeviceId) -> tuple[DeviceUse, ...]:
        """Return what each claim holds of a device, in the order in which they were added."""
        preset = (self._preset[device],) if device in self._preset else ()
        holders = self._holders.get((device.driver, device.pool), {}).get(device.device, [])
        claims = holders if isinstance(holders, list) else [holders]
        return (*preset, *(self._find_use(claim, device) for claim in claims))

    def _sum_pool(self, pool: PoolKey) -> dict[str, DeviceUse]:
        return {name: self._sum(DeviceId(*pool, name)) for name in self._holders[pool]}

    def _sum(self, device: DeviceId) -> DeviceUse:
        first, *others = self.find_entries(device)
        for use in others:
            first = first.join(use)
        return first

    def _find_use(self, claim: ResourceClaim, device: DeviceId) -> DeviceUse:
        """What the claim's results on one device stand for."""
        total: DeviceUse | None = None
        for result in claim.allocation.results if claim.allocation is not None else ():
            if result.device == device.device and not result.admin_access and result.device_id == device:
                use = self._read_result(claim, result)
                total = use if total is None else total.join(use)
        return total or FREE

    def _read_result(self, claim: ResourceClaim, result: DeviceResult) -> DeviceUse:
        holders = (claim.ref,)
        if not (self._consumable_capacity and result.share_id is not None):
            return DeviceUse(dedicated=True, holders=holders)
        consumed = {name: amount.nanos for name, amount in (result.consumed_capacity or {}).items()}
        return DeviceUse(shares=1, consumed=consumed, tracked=result.consumed_capacity is not None, holders=holders)


def _holds_share(claim: ResourceClaim, pool: PoolKey, name: str) -> bool:
    """Whether a claim holds a share of a device."""
    results = claim.allocation.results if claim.allocation is not None else ()
    return any(
        result.share_id is not None
        and not result.admin_access
        and (result.driver, result.pool, result.device) == (*pool, name)
        for result in results
    )

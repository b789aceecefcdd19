"""What is in use: devices held by allocated claims, shares of devices, and their consumed capacity.

Source: AllocatedState in k8s.io/dynamic-resource-allocation v0.37.2 structured/schedulerapi; the claim tracker of
kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId

__all__ = ["FREE", "AllocatedState", "DeviceUse", "UsageLedger"]


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
    """Uses of devices that follow the claims as they come and go."""

    __slots__ = ("_consumable_capacity", "_entries", "uses")

    def __init__(self, *, consumable_capacity: bool = True) -> None:
        self._consumable_capacity = consumable_capacity
        self._entries: dict[DeviceId, dict[Hashable, DeviceUse]] = {}
        self.uses: dict[DeviceId, DeviceUse] = {}

    def preset(self, state: AllocatedState) -> None:
        """Add uses that belong to no known claim."""
        for device, use in state.uses.items():
            self._entries.setdefault(device, {})[("preset", device)] = use
            self._sum(device)

    def add(self, key: Hashable, claim: ResourceClaim) -> tuple[DeviceId, ...]:
        """Count what the claim holds, under a key of its own; return the devices that are touched."""
        touched = []
        for device, use in _iterate_uses(claim, self._consumable_capacity):
            entries = self._entries.setdefault(device, {})
            entries[key] = entries[key].join(use) if key in entries else use
            touched.append(device)
        for device in touched:
            self._sum(device)
        return tuple(touched)

    def remove(self, key: Hashable, claim: ResourceClaim) -> tuple[DeviceId, ...]:
        """Forget what was added for the claim under the key; return the devices that are touched."""
        touched = tuple(device for device, _ in _iterate_uses(claim, self._consumable_capacity))
        for device in touched:
            self._entries.get(device, {}).pop(key, None)
            self._sum(device)
        return touched

    def find_entries(self, device: DeviceId) -> tuple[DeviceUse, ...]:
        """Return what each claim holds of a device, in the order in which they were added."""
        return tuple(self._entries.get(device, {}).values())

    def _sum(self, device: DeviceId) -> None:
        entries = self._entries.get(device)
        if not entries:
            self._entries.pop(device, None)
            self.uses.pop(device, None)
            return
        total, *others = entries.values()
        for use in others:
            total = total.join(use)
        self.uses[device] = total


def _iterate_uses(claim: ResourceClaim, consumable_capacity: bool) -> Iterator[tuple[DeviceId, DeviceUse]]:
    """The uses that one claim's allocation stands for, one per result without admin access."""
    allocation = claim.allocation or AllocationResult()
    holders = (claim.ref,)
    for result in allocation.results:
        if result.admin_access:
            continue
        if not (consumable_capacity and result.share_id is not None):
            yield result.device_id, DeviceUse(dedicated=True, holders=holders)
            continue
        consumed = {name: amount.nanos for name, amount in (result.consumed_capacity or {}).items()}
        tracked = result.consumed_capacity is not None
        yield result.device_id, DeviceUse(shares=1, consumed=consumed, tracked=tracked, holders=holders)

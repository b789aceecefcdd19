"""Devices and slices prepared once and used for every node and pod, as long as their slice object lives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from claimsmith.allocate.node_selector import find_selector_error
from claimsmith.allocate.usage import FREE, DeviceUse
from claimsmith.cel import CelDevice
from claimsmith.errors import InputError
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.names import CounterId, DeviceId
from claimsmith.model.pool import ResourceSlice

if TYPE_CHECKING:
    from claimsmith.allocate.capacity import CapacityPlan

__all__ = ["DeviceRecord", "SliceRecord"]


class DeviceRecord:
    """One device of one slice, with what has been found out about it. Compared by identity.

    Attributes:
        use: How claims use the device now; the owner of the record keeps it up to date.
        consumption: What the device takes from counters, in nano units.
        answers: What selector expressions say, by their text.
        derived: What derived attributes come to, by their text.
        plans: What requests of capacity come to, by `CapacityPlan` key.
        cel: The device in the form that selectors read; None until the first selector asks.
    """

    __slots__ = ("answers", "cel", "consumption", "derived", "device", "id", "plans", "slice", "use")

    def __init__(self, slice: ResourceSlice, device: Device) -> None:
        self.id = DeviceId(slice.driver, slice.pool, device.name)
        self.device = device
        self.slice = slice
        self.use: DeviceUse = FREE
        self.consumption = _sum_consumption(device)
        self.answers: dict[str, bool | InputError] = {}
        self.derived: dict[str, DeviceAttribute | InputError] = {}
        self.plans: dict[object, CapacityPlan] = {}
        self.cel: CelDevice | None = None

    def __repr__(self) -> str:
        return f"DeviceRecord({self.id})"

    def find_attribute(self, name: str) -> DeviceAttribute | None:
        """Return an attribute by fully qualified name; a driver's own may be published without its domain.

        Source: lookupStaticAttribute in structured/internal/experimental, v0.37.2.
        """
        found = self.device.attributes.get(name)
        if found is not None:
            return found
        domain, slash, identifier = name.partition("/")
        return self.device.attributes.get(identifier) if slash and domain == self.id.driver else None


class SliceRecord:
    """One slice with its prepared devices. Compared by identity.

    Attributes:
        position: Place in the list of all slices.
        uses_groups: A device names compatibility groups.
        has_binding: A device has binding conditions, which puts its pool last.
        selector_error: What is wrong with the node selector; None when nothing is.
    """

    __slots__ = ("devices", "has_binding", "position", "selector_error", "slice", "uses_groups")

    def __init__(self, slice: ResourceSlice, *, position: int) -> None:
        self.slice = slice
        self.position = position
        self.devices = tuple(DeviceRecord(slice, device) for device in slice.devices)
        self.has_binding = any(device.binding_conditions for device in slice.devices)
        self.uses_groups = any(
            consumption.compatibility_groups for device in slice.devices for consumption in device.consumes_counters
        )
        self.selector_error = find_selector_error(slice.node_selector) if slice.node_selector else None

    def __repr__(self) -> str:
        return f"SliceRecord({self.slice.name})"


def _sum_consumption(device: Device) -> tuple[tuple[CounterId, int], ...]:
    """What a device takes from each counter; several entries for one counter are summed."""
    if not device.consumes_counters:
        return ()
    total: dict[CounterId, int] = {}
    for consumption in device.consumes_counters:
        for counter, amount in consumption.counters.items():
            key = CounterId(consumption.counter_set, counter)
            total[key] = total.get(key, 0) + amount.nanos
    return tuple(total.items())

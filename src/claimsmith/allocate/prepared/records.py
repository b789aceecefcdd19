"""Devices and slices prepared once and used for every node and pod, as long as their slice object lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from claimsmith.allocate.prepared.node_selector import find_selector_error
from claimsmith.allocate.prepared.usage import FREE, DeviceUse, PoolKey
from claimsmith.cel import CelDevice
from claimsmith.errors import InputError
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.names import CounterId, DeviceId
from claimsmith.model.pool import ResourceSlice

if TYPE_CHECKING:
    from claimsmith.allocate.prepared.capacity import CapacityPlan

__all__ = ["DeviceRecord", "SliceRecord", "find_attribute", "sum_consumption"]


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

    def __init__(self, slice: ResourceSlice, device: Device, use: DeviceUse = FREE) -> None:
        self.id = DeviceId(slice.driver, slice.pool, device.name)
        self.device = device
        self.slice = slice
        self.use: DeviceUse = use
        self.consumption = sum_consumption(device)
        self.answers: dict[str, bool | InputError] = {}
        self.derived: dict[str, DeviceAttribute | InputError] = {}
        self.plans: dict[object, CapacityPlan] = {}
        self.cel: CelDevice | None = None

    def __repr__(self) -> str:
        return f"DeviceRecord({self.id})"

    def forget(self) -> None:
        """Drop all that was found out for requests."""
        self.answers.clear()
        self.derived.clear()
        self.plans.clear()

    def find_attribute(self, name: str) -> DeviceAttribute | None:
        """Return an attribute by fully qualified name; a driver's own may be published without its domain."""
        return find_attribute(self.device, self.id.driver, name)


def find_attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Return an attribute by fully qualified name; a driver's own may be published without its domain.

    Source: lookupStaticAttribute in structured/internal/experimental, v0.37.2.
    """
    found = device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, identifier = name.partition("/")
    return device.attributes.get(identifier) if slash and domain == driver else None


class SliceRecord:
    """One slice with its prepared devices, which are made when they are asked for. Compared by identity.

    Args:
        find_uses: How the devices of a pool are used now, by name of the device.

    Attributes:
        position: Place in the list of all slices.
        form: What `claimsmith.allocate.prepared.forms` has found out about the devices; None before.
        uses_groups: A device names compatibility groups.
        has_binding: A device has binding conditions, which puts its pool last.
        is_plain: The slice tells its node or nodes, is all of its pool if there is no other one, and has no counters.
        is_special: A device is more than attributes and capacity.
        view: For the owner of the record: the pool, if this slice is all of it.
        selector_error: What is wrong with the node selector; None when nothing is.
    """

    __slots__ = (
        "_devices",
        "_find_uses",
        "form",
        "has_binding",
        "is_plain",
        "is_special",
        "pool",
        "position",
        "selector_error",
        "slice",
        "uses_groups",
        "view",
    )

    def __init__(
        self,
        slice: ResourceSlice,
        *,
        position: int,
        find_uses: Callable[[PoolKey], Mapping[str, DeviceUse]] = lambda _: {},
    ) -> None:
        self.slice = slice
        self.position = position
        self.form: object = None
        self.pool: PoolKey = (slice.driver, slice.pool)
        self.view: object = None
        self.has_binding = self.is_special = self.uses_groups = False
        for device in slice.devices:
            if (
                device.taints
                or device.consumes_counters
                or device.binding_conditions
                or device.allow_multiple_allocations
            ):
                self._note_special(device)
        self.selector_error = find_selector_error(slice.node_selector) if slice.node_selector else None
        self.is_plain = bool(
            (slice.node_name or (slice.node_selector and not slice.all_nodes and not self.selector_error))
            and slice.slice_count == 1
            and not (slice.shared_counters or slice.per_device_node_selection)
            and not (self.is_special and any(device.consumes_counters for device in slice.devices))
        )
        self._find_uses = find_uses
        self._devices: tuple[DeviceRecord, ...] | None = None

    def _note_special(self, device: Device) -> None:
        self.is_special = True
        if device.binding_conditions:
            self.has_binding = True
        if any(consumption.compatibility_groups for consumption in device.consumes_counters):
            self.uses_groups = True

    def __repr__(self) -> str:
        return f"SliceRecord({self.slice.name})"

    @property
    def devices(self) -> tuple[DeviceRecord, ...]:
        """The devices in the order of the slice."""
        if self._devices is None:
            uses = self._find_uses(self.pool)
            self._devices = tuple(
                DeviceRecord(self.slice, device, uses.get(device.name, FREE)) for device in self.slice.devices
            )
        return self._devices

    @property
    def made(self) -> tuple[DeviceRecord, ...]:
        """The devices, if somebody has asked for them; none otherwise."""
        return self._devices or ()

    def find_device(self, name: str) -> DeviceRecord | None:
        """Return the first device of a name."""
        place = next((place for place, device in enumerate(self.slice.devices) if device.name == name), None)
        return None if place is None else self.devices[place]


def sum_consumption(device: Device) -> tuple[tuple[CounterId, int], ...]:
    """Return what a device takes from each counter, in nano units; several entries for one counter are summed."""
    if not device.consumes_counters:
        return ()
    total: dict[CounterId, int] = {}
    for consumption in device.consumes_counters:
        for counter, amount in consumption.counters.items():
            key = CounterId(consumption.counter_set, counter)
            total[key] = total.get(key, 0) + amount.nanos
    return tuple(total.items())

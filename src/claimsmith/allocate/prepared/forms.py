"""Forms of slices: all of their devices that decides, attributes left aside, as one object for equal ones.

Thousands of nodes publish the same few forms. What stands in many devices as one object, as decoding gives it, is
recognised by its identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from claimsmith.allocate.prepared.records import SliceRecord
from claimsmith.errors import SemverFormatError
from claimsmith.model.device import Capacity, CapacityRequestPolicy, Device, DeviceAttribute
from claimsmith.model.quantity import Quantity
from claimsmith.model.semver import parse_semver

__all__ = ["ODD", "SliceForm", "SliceForms"]

ODD: Final = -1
"""Base of a device that has to be looked at in full, since one of its attributes is no proper value."""
KNOWN_CAPACITIES_MAX: Final = 65_536
KNOWN_SHARED_MAX: Final = 4_096
"""Forms that are recognised by the identity of what the devices have; beyond that they are looked at anew."""
KNOWN_FORMS_MAX: Final = 65_536
"""Forms, and bases, that are kept; beyond that equal slices may get forms that differ, which only costs time."""
_CHECKED: Final = frozenset({"version", "versions", "unknown"})
_Key = tuple[object, ...]


@dataclass(slots=True, eq=False)
class SliceForm:
    """What slices have in common whose devices are equal, but for attributes. Compared by identity.

    Args:
        names: The devices' names, in order.
        bases: Numbers for what the devices are: equal ones have equal numbers; ODD: to be looked at in full.
    """

    driver: str
    names: tuple[str, ...]
    bases: tuple[int, ...]


class SliceForms:
    """The forms that were met."""

    __slots__ = ("_bases", "_capacities", "_forms", "_numbers", "_plain", "_versions")

    def __init__(self) -> None:
        self._numbers = count()
        self._bases: dict[object, int] = {}
        self._capacities: dict[_Key, tuple[int, tuple[Capacity, ...]]] = {}
        self._versions: set[object] = set()
        self._forms: dict[_Key, SliceForm] = {}
        self._plain: dict[_Key, tuple[SliceForm, Sequence[Mapping[str, Capacity]]]] = {}

    def find(self, record: SliceRecord) -> SliceForm:
        """Return the form of a slice."""
        form = record.form
        if not isinstance(form, SliceForm):
            if max(len(self._forms), len(self._bases), len(self._versions)) > KNOWN_FORMS_MAX:
                self._forget()
            form = record.form = self._find(record)
        return form

    def _forget(self) -> None:
        for known in (self._bases, self._capacities, self._versions, self._forms, self._plain):
            known.clear()

    def _find(self, record: SliceRecord) -> SliceForm:
        slice, devices = record.slice, record.slice.devices
        versions = {a.value for device in devices for a in device.attributes.values() if a.kind in _CHECKED}
        are_proper = self._versions.issuperset(versions)
        names = tuple([device.name for device in devices])
        skips = bool(slice.skip_node_operations)
        if are_proper and not skips and not record.is_special:
            return self._find_plain(slice.driver, names, [device.capacity for device in devices])
        bases = tuple(
            [
                self._find_base(device, skips) if are_proper or self._check_versions(device) else ODD
                for device in devices
            ]
        )
        return self._intern(slice.driver, names, bases)

    def _find_plain(
        self, driver: str, names: tuple[str, ...], capacities: Sequence[Mapping[str, Capacity]]
    ) -> SliceForm:
        """The form of devices that are only attributes and capacity; the same capacities are looked at once."""
        key = (driver, names, tuple(map(id, capacities)))
        known = self._plain.get(key)
        if known is not None:
            return known[0]
        if len(self._plain) >= KNOWN_SHARED_MAX:
            self._plain.clear()
        form = self._intern(driver, names, tuple(map(self._find_capacity, capacities)))
        self._plain[key] = (form, capacities)
        return form

    def _intern(self, driver: str, names: tuple[str, ...], bases: tuple[int, ...]) -> SliceForm:
        key = (driver, names, bases)
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = SliceForm(driver, names, bases)
        return form

    def _find_base(self, device: Device, skips: bool) -> int:
        return self._number((self._find_capacity(device.capacity), skips, *_describe_rest(device)))

    def _find_capacity(self, capacity: Mapping[str, Capacity]) -> int:
        key = (*capacity, *map(id, capacity.values()))
        known = self._capacities.get(key)
        return self._add_capacity(key, capacity) if known is None else known[0]

    def _add_capacity(self, key: _Key, capacity: Mapping[str, Capacity]) -> int:
        """Remember the number of a capacity by the identity of its parts, which are kept alive for that."""
        if len(self._capacities) >= KNOWN_CAPACITIES_MAX:
            self._capacities.clear()
        described = tuple((name, *_describe_capacity(entry)) for name, entry in capacity.items())
        number = self._number((self._number(described), False, *_PLAIN))
        self._capacities[key] = (number, tuple(capacity.values()))
        return number

    def _check_versions(self, device: Device) -> bool:
        """Whether all attributes are values that expressions can hold; versions that are right are remembered."""
        for attribute in device.attributes.values():
            if attribute.kind in _CHECKED:
                if not _is_proper(attribute):
                    return False
                self._versions.add(attribute.value)
        return True

    def _number(self, key: object) -> int:
        found = self._bases.get(key)
        if found is None:
            found = self._bases[key] = next(self._numbers)
        return found


_PLAIN: Final = (False, False, (), ())
"""What `_describe_rest` says of a device that is only attributes and capacity."""


def _describe_rest(device: Device) -> _Key:
    """All of a device that decides, but for attributes and capacity."""
    return (
        device.allow_multiple_allocations,
        bool(device.binding_conditions),
        tuple((taint.key, taint.value, taint.effect) for taint in device.taints),
        tuple(
            (
                consumption.counter_set,
                tuple((name, amount.nanos) for name, amount in consumption.counters.items()),
                consumption.compatibility_groups,
            )
            for consumption in device.consumes_counters
        ),
    )


def _describe_capacity(capacity: Capacity) -> _Key:
    return (*_describe_quantity(capacity.value), _describe_policy(capacity.policy))


def _describe_policy(policy: CapacityRequestPolicy | None) -> _Key | None:
    if policy is None:
        return None
    allowed = policy.valid_range
    numbers = (
        policy.default,
        *policy.valid_values,
        *(() if allowed is None else (allowed.minimum, allowed.maximum, allowed.step)),
    )
    return (allowed is None, *(None if number is None else _describe_quantity(number) for number in numbers))


def _describe_quantity(amount: Quantity) -> _Key:
    """All of an amount that expressions can tell; equal amounts may be written and stored in different ways."""
    return (amount.nanos, amount.format, amount.text, amount.exponent, amount.is_wide)


def _is_proper(attribute: DeviceAttribute) -> bool:
    """Whether expressions can hold the value of a version, or of a list of versions."""
    values = attribute.value if attribute.kind == "versions" else (attribute.value,)
    if attribute.kind == "unknown" or not isinstance(values, tuple):
        return False
    try:
        return all(isinstance(value, str) and parse_semver(value) is not None for value in values)
    except SemverFormatError:
        return False

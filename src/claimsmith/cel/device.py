"""A device in the form in which expressions read it, made once per device.

Source: DeviceMatches in cel/compile.go, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from claimsmith.cel.environment import DEFAULT, CelEnvironment
from claimsmith.cel.values import DomainMap, Value
from claimsmith.errors import CelDeviceError, SemverFormatError
from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.quantity import Quantity
from claimsmith.model.semver import parse_semver

_EMPTY: Final[dict[str, Value]] = {}


@dataclass(frozen=True, slots=True)
class CelDevice:
    """What the variable `device` holds for one device; read it, don't change it.

    Args:
        driver: Name of the driver of the device's slice.
        allow_multiple_allocations: False when the device doesn't say.
        attributes: Values by domain and id; a version is a Semver, a list is a list.
        capacity: Quantities by domain and id.
    """

    driver: str
    allow_multiple_allocations: bool
    attributes: dict[str, dict[str, Value]]
    capacity: dict[str, dict[str, Quantity]]

    def as_value(self) -> dict[str, Value]:
        """Return the value of the variable `device`, in which a domain that is not there reads as empty."""
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": DomainMap(self.attributes),
            "capacity": DomainMap(self.capacity),
        }


def prepare_device(driver: str, device: Device, *, environment: CelEnvironment = DEFAULT) -> CelDevice:
    """Return a device as expressions read it. Names without a domain belong to the driver's domain.

    Args:
        driver: Name of the driver of the device's slice.
        environment: For the same argument as compile_expression; the values don't depend on it.

    Raises:
        CelDeviceError: An attribute is no value that expressions can hold, which fails every expression upstream.
    """
    del environment
    attributes: dict[str, dict[str, Value]] = {}
    for name, attribute in device.attributes.items():
        domain, key = _split(name, driver)
        attributes.setdefault(domain, {})[key] = _attribute_value(device.name, name, attribute)
    capacity: dict[str, dict[str, Quantity]] = {}
    for name, entry in device.capacity.items():
        domain, key = _split(name, driver)
        capacity.setdefault(domain, {})[key] = entry.value
    return CelDevice(driver, device.allow_multiple_allocations, attributes, capacity)


def _split(name: str, driver: str) -> tuple[str, str]:
    """Return domain and id of a qualified name."""
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _attribute_value(device: str, name: str, attribute: DeviceAttribute) -> Value:
    """Return the value of an attribute. Source: getAttributeValue in compile.go."""
    value = attribute.value
    if attribute.kind in ("int", "bool", "string"):
        return value
    if attribute.kind in ("ints", "bools", "strings") and isinstance(value, tuple):
        return list(value)
    try:
        if attribute.kind == "version" and isinstance(value, str):
            return parse_semver(value)
        if attribute.kind == "versions" and isinstance(value, tuple):
            return [parse_semver(str(item)) for item in value]
    except SemverFormatError as error:
        raise CelDeviceError(device, name, reason=str(error)) from error
    raise CelDeviceError(device, name, reason="it has no value that this version knows")

"""Makes what a driver reports fit the API: one odd attribute must not hide a device, let alone its node.

Nothing is guessed about meaning: a text is cut, a key or a version is written in the allowed form, and what can't be
written at all is left out. Everything that was changed is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from claimsmith.model.device import Device, DeviceAttribute
from claimsmith.model.inventory import Inventory
from claimsmith.model.semver import find_semver
from claimsmith.validate.names import check_driver_name

__all__ = ["find_device_names", "fit_device", "fit_device_name"]

TEXT_BYTES_MAX: Final = 64
"""Longest text or version. Source: DeviceAttributeMaxValueLength of resource.k8s.io/v1."""
ENTRIES_MAX: Final = 32
"""Most attributes and capacities of a device. Source: ResourceSliceMaxAttributesAndCapacitiesPerDevice."""
VALUES_MAX: Final = 48
"""Most values of all attributes together, those of lists counted one by one. Source: as above."""
IDENTIFIER_MAX: Final = 32
"""Longest identifier. Source: DeviceMaxIDLength."""
_LABEL_MAX: Final = 63
_COMMON_DOMAIN: Final = "resource.kubernetes.io/"

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]")
_FOREIGN_IN_LABEL: Final = re.compile(r"[^a-z0-9-]+")


def fit_device_name(name: str) -> str:
    """Return a device's name as a DNS label, such as `gpu-2` for `GPU_2`; as it is when no part of it can be one."""
    label = _FOREIGN_IN_LABEL.sub("-", name.lower()).strip("-")[:_LABEL_MAX].strip("-")
    return label or name


def find_device_names(inventory: Inventory) -> Mapping[str, str]:
    """Return the driver's own name of each device that must be published under another one, by the published name.

    A name that another device has already, or that another becomes first, is not given again.
    """
    own = [device.name for pool in inventory.pools for device in pool.devices]
    taken = {name for name in own if fit_device_name(name) == name}
    found: dict[str, str] = {}
    for name in own:
        label = fit_device_name(name)
        if label not in taken:
            taken.add(label)
            found[label] = name
    return found


def fit_device(driver: str, device: Device) -> tuple[Device, tuple[str, ...]]:
    """Return a device with attributes that the API takes, and a sentence for each that was changed or left out.

    Args:
        driver: Name of the driver, the domain of attributes without one.
        device: The device as its driver reports it, attributes in order of importance.
    """
    fitted: dict[str, DeviceAttribute] = {}
    changes: list[str] = []
    for name, attribute in device.attributes.items():
        key = _fit_key(driver, name, device.attributes)
        value = _fit_value(attribute)
        if key is None:
            changes.append(f"attribute {name} left out: {name.partition('/')[2]!r} says the same")
        elif not key:
            changes.append(f"attribute {name!r} left out: found no usable name, allowed a C identifier")
        elif value is None:
            changes.append(f"attribute {name} left out: found {_shown(attribute)}, allowed a {_wanted(attribute)}")
        elif key in fitted:
            changes.append(f"attribute {name} left out: {key} is there already")
        else:
            fitted[key] = value
            changes.extend(_tell(name, key, attribute, value))
    kept = _keep_most_important(fitted, ENTRIES_MAX - len(device.capacity))
    changes += [
        f"attribute {name} left out: found more than {ENTRIES_MAX} attributes and amounts, allowed {ENTRIES_MAX}"
        for name in fitted
        if name not in kept
    ]
    return (replace(device, attributes=kept), tuple(changes)) if changes else (device, ())


def _fit_key(driver: str, name: str, attributes: Mapping[str, DeviceAttribute]) -> str | None:
    """Return a name in the allowed form, empty when there is none; None for one that says what another does."""
    domain, slash, identifier = name.rpartition("/")
    if slash and domain == driver and identifier in attributes:
        return None
    if slash and any(True for _ in check_driver_name(domain, "")):
        return ""
    plain = _FOREIGN.sub("_", identifier)
    if not plain.strip("_"):
        return ""
    plain = f"_{plain}" if plain[0].isdigit() else plain
    return f"{domain}{slash}{plain[:IDENTIFIER_MAX]}"


def _fit_value(attribute: DeviceAttribute) -> DeviceAttribute | None:
    """Return a value that the API takes; None when there is none."""
    kind, value = attribute.kind, attribute.value
    if kind == "unknown" or value is None or value == ():
        return None
    if kind == "string" and isinstance(value, str):
        return DeviceAttribute(kind, _cut(value))
    if kind == "version" and isinstance(value, str):
        version = _fit_version(value)
        return None if version is None else DeviceAttribute(kind, version)
    if kind == "strings" and isinstance(value, tuple):
        return DeviceAttribute(kind, tuple(_cut(str(item)) for item in value))
    if kind == "versions" and isinstance(value, tuple):
        versions = tuple(_iterate_versions(value))
        return DeviceAttribute(kind, versions) if versions else None
    return attribute


def _cut(text: str) -> str:
    """Return at most TEXT_BYTES_MAX bytes of a text, whole characters only."""
    return text.encode("utf-8", "replace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore")


def _iterate_versions(values: tuple[object, ...]) -> Iterator[str]:
    for item in values:
        version = _fit_version(str(item))
        if version is not None:
            yield version


def _fit_version(text: str) -> str | None:
    """Return a version in the form of semver 2.0: with three numbers, without leading zeros."""
    if find_semver(text) is not None:
        fitted = text
    else:
        found = find_semver(text.strip(), normalize=True)
        fitted = "" if found is None else str(found)
    return fitted if 0 < len(fitted.encode()) <= TEXT_BYTES_MAX else None


def _keep_most_important(attributes: Mapping[str, DeviceAttribute], room: int) -> dict[str, DeviceAttribute]:
    """Return as many attributes as a device may have: those that drivers share first, then in the driver's order."""
    ordered = sorted(attributes, key=lambda name: not name.startswith(_COMMON_DOMAIN))
    kept: set[str] = set()
    values = 0
    for name in ordered:
        value = attributes[name].value
        count = len(value) if isinstance(value, tuple) else 1
        if len(kept) < room and values + count <= VALUES_MAX:
            kept.add(name)
            values += count
    return {name: value for name, value in attributes.items() if name in kept}


def _tell(name: str, key: str, before: DeviceAttribute, after: DeviceAttribute) -> Iterator[str]:
    if key != name:
        yield f"attribute {name} published as {key}: allowed is a C identifier of at most {IDENTIFIER_MAX} bytes"
    if after != before and before.kind in ("version", "versions"):
        yield f"attribute {key}: version {_shown(before)} published as {_shown(after)}"
    elif after != before:
        yield f"attribute {key}: cut to {TEXT_BYTES_MAX} bytes"


def _shown(attribute: DeviceAttribute) -> str:
    return "no value that is known" if attribute.value in (None, ()) else f"{attribute.value!r:.80}"


def _wanted(attribute: DeviceAttribute) -> str:
    return "version of semver 2.0" if attribute.kind in ("version", "versions") else "value"

"""What becomes of devices that a driver reports with attributes that the API server would refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast, get_args

from claimsmith.daemons.agent import DriverState
from claimsmith.errors import FieldError
from claimsmith.model.device import AttributeKind, Device, DeviceAttribute
from claimsmith.model.pool import ResourceSlice
from tests.cases.casefile import check_fields


def parse_discovered(item: Mapping[str, Any]) -> Device:
    """Return a device just as a driver reports it: nothing is checked or corrected."""
    check_fields(item, "name", "attributes", "generate-attributes")
    attributes = {name: _attribute(value) for name, value in (item.get("attributes") or {}).items()}
    generated = item.get("generate-attributes")
    if generated:
        check_fields(generated, "count", "name-format", "int")
        value = _attribute({"int": generated["int"]})
        attributes |= {generated["name-format"] % index: value for index in range(generated["count"])}
    return Device(name=item["name"], attributes=attributes)


def _attribute(value: Mapping[str, Any]) -> DeviceAttribute:
    ((kind, content),) = value.items()
    if kind not in get_args(AttributeKind):
        raise FieldError("attributes", kind, allowed=", ".join(get_args(AttributeKind)), hint="correct the case")
    return DeviceAttribute(kind=cast(AttributeKind, kind), value=content)


def judge_discovered(expected: Mapping[str, Any], slices: Iterable[ResourceSlice], state: DriverState) -> Iterator[str]:
    """Yield what differs; that the slices are there says that the API server took them.

    Whatever a device lacks of what its driver reported must be told by the agent.
    """
    stored = tuple(slices)
    devices = {device.name: device for item in stored for device in item.devices}
    rest = dict(expected)
    if (count := rest.pop("slices")) != len(stored):
        yield f"{len(stored)} slices, right is {count}"
    if (names := rest.pop("devices")) != list(devices):
        yield f"devices {list(devices)}, right is {names}; {'; '.join(state.errors)}"
    if rest.pop("accepted-by-apiserver") is not bool(stored):
        yield "the API server has no slice"
    for name, wanted in rest.items():
        check_fields(wanted, *_RULES)
        if name not in devices:
            yield f"{name} is not published"
            continue
        if not any(f"/{name}: " in text for text in state.adjusted):
            yield f"{name}: nothing is told of its changes"
        for rule, right in wanted.items():
            yield from (f"{name}: {text}" for text in _RULES[rule](devices[name], right))


def _check_bytes(device: Device, limit: int) -> Iterator[str]:
    for name, text in _texts(device):
        if len(text.encode()) > limit:
            yield f"{name} has {len(text.encode())} bytes, allowed {limit}"


def _check_utf8(device: Device, wanted: bool) -> Iterator[str]:
    if wanted is not True:
        raise FieldError("valid-utf8", wanted, allowed="true", hint="teach the judge this value")
    for name, text in _texts(device):
        if "\ufffd" in text or text.encode("utf-8", "replace").decode() != text:
            yield f"{name} is cut within a character: {text!r}"


def _texts(device: Device) -> Iterator[tuple[str, str]]:
    for name, attribute in device.attributes.items():
        if isinstance(attribute.value, str):
            yield name, attribute.value


def _check_has(device: Device, wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, value in wanted.items():
        found = device.attributes.get(name)
        if found != _attribute(value):
            yield f"{name} is {found}, right is {value}"


def _check_has_not(device: Device, names: list[str]) -> Iterator[str]:
    for name in names:
        if name in device.attributes:
            yield f"{name} is published as {device.attributes[name]}"


def _check_count(device: Device, limit: int) -> Iterator[str]:
    found = len(device.attributes) + len(device.capacity)
    if not 0 < found <= limit:
        yield f"{found} attributes and capacities, allowed 1 to {limit}"


_RULES: Final[Mapping[str, Callable[[Device, Any], Iterator[str]]]] = {
    "attributes-bytes-at-most": _check_bytes,
    "valid-utf8": _check_utf8,
    "has": _check_has,
    "has-not": _check_has_not,
    "attributes-and-capacities-at-most": _check_count,
}

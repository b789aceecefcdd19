"""A claim's parameters for one driver, decoded strictly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from claimsmith.errors import FieldError
from claimsmith.model.prepared import DeviceConfiguration, RequestedDevice
from claimsmith.sdk.strict import field_names, parse_strictly

__all__ = ["decode_opaque"]

T = TypeVar("T")
_ENVELOPE = ("apiVersion", "kind")


def decode_opaque(device: RequestedDevice, into: type[T]) -> T:
    """Return the parameters of a device as a msgspec Struct or a dataclass.

    Later configurations win over earlier ones field by field, so a claim's over its class's; objects within objects
    are merged likewise, lists are replaced. `apiVersion` and `kind` may stand in the parameters and are left out
    unless the type has them.

    Args:
        device: The device that is to be prepared.
        into: The type; fields that no configuration gives have its defaults.

    Raises:
        FieldError: A parameter is unknown, missing, or holds what its type does not allow.
    """
    merged: Mapping[str, object] = {}
    for config, path in _with_paths(device.configs):
        if not isinstance(config.parameters, Mapping):
            hint = "write an object"
            raise FieldError(path, config.parameters, allowed="an object", hint=hint)
        known = field_names(into)
        given = {name: value for name, value in config.parameters.items() if name not in _ENVELOPE or name in known}
        merged = _merge(merged, given)
        parse_strictly(merged, into, path=path)
    return parse_strictly(merged, into, path="opaque.parameters")


def _with_paths(configs: Iterable[DeviceConfiguration]) -> Iterable[tuple[DeviceConfiguration, str]]:
    """Name the configurations as an author knows them: the n-th of the class or of the claim."""
    counts = {"FromClass": 0, "FromClaim": 0}
    for config in configs:
        index = counts.get(config.source, 0)
        counts[config.source] = index + 1
        owner = "class" if config.source == "FromClass" else "claim"
        yield config, f"{owner} config[{index}].opaque.parameters"


def _merge(base: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    result = dict(base)
    for name, value in over.items():
        before = result.get(name)
        result[name] = _merge(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return result

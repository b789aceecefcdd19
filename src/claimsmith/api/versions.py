"""resource.k8s.io between its versions, as decoded JSON: from an older version to the one that is kept, and back.

v1beta2 and v1alpha3 have the fields of v1. v1beta1 is older in two places: what a request asks for stands in the
request itself instead of in `exactly`, and what a device has stands in `basic` instead of in the device itself.
Arguments are never changed; what need not change is shared with them.

Source: pkg/apis/resource/v1beta1/conversion.go in k8s.io/kubernetes v1.37.2, through the internal version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from claimsmith.api.kinds import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE, Kind

__all__ = ["convert_from_hub", "convert_to_hub"]

JsonObject: TypeAlias = Mapping[str, Any]
_Change: TypeAlias = Callable[[JsonObject], JsonObject]

_FLAT_VERSION: Final = "v1beta1"
_WANTED: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
"""Fields of `exactly`, which v1beta1 has in the request itself."""
_PLAIN: Final = frozenset({"deviceClassName", "allocationMode", "count"})
"""Those of them for which the zero value and absence are one."""


def convert_to_hub(obj: JsonObject, kind: Kind) -> dict[str, Any]:
    """Return an object in the version in which it is kept.

    Args:
        obj: The object, whose form has been checked (see `api.schema.check_object`).
        kind: Its kind in the version that it has.
    """
    return _convert(obj, kind.hub, kind, _NEST)


def convert_from_hub(obj: JsonObject, kind: Kind) -> dict[str, Any]:
    """Return a kept object in a version that a client asks for.

    Args:
        obj: The object in the version in which it is kept.
        kind: Its kind in the wanted version.
    """
    return _convert(obj, kind, kind, _FLATTEN)


def _convert(obj: JsonObject, to: Kind, older: Kind, changes: Mapping[Kind, _Change]) -> dict[str, Any]:
    """Return an object under another version, with its spec changed where the older version has another form."""
    result = {**obj, "apiVersion": to.api_version, "kind": to.kind}
    change = changes.get(older.hub) if older.version == _FLAT_VERSION else None
    if change is not None and obj.get("spec"):
        result["spec"] = change(obj["spec"])
    return result


def _nest_claim(spec: JsonObject) -> JsonObject:
    return _change_requests(spec, _nest_request)


def _flatten_claim(spec: JsonObject) -> JsonObject:
    return _change_requests(spec, _flatten_request)


def _change_requests(spec: JsonObject, change: _Change) -> JsonObject:
    devices = spec.get("devices")
    if not devices or not devices.get("requests"):
        return spec
    return {**spec, "devices": {**devices, "requests": [change(request) for request in devices["requests"]]}}


def _nest_request(request: JsonObject) -> JsonObject:
    """Source: Convert_v1beta1_DeviceRequest_To_resource_DeviceRequest."""
    wanted = {name: request[name] for name in _WANTED if _is_set(name, request.get(name))}
    rest = {name: request[name] for name in ("name", "firstAvailable") if name in request}
    return {**rest, "exactly": wanted} if wanted else rest


def _is_set(name: str, value: object) -> bool:
    return bool(value) if name in _PLAIN else value is not None


def _flatten_request(request: JsonObject) -> JsonObject:
    """Source: Convert_resource_DeviceRequest_To_v1beta1_DeviceRequest."""
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, **(request.get("exactly") or {})}


def _nest_template(spec: JsonObject) -> JsonObject:
    return {**spec, "spec": _nest_claim(spec["spec"])} if spec.get("spec") else spec


def _flatten_template(spec: JsonObject) -> JsonObject:
    return {**spec, "spec": _flatten_claim(spec["spec"])} if spec.get("spec") else spec


def _unpack_slice(spec: JsonObject) -> JsonObject:
    """Source: Convert_v1beta1_ResourceSliceSpec_To_resource_ResourceSliceSpec."""
    found = {name: value for name, value in spec.items() if value or name not in ("nodeName", "allNodes")}
    if found.get("devices"):
        found["devices"] = [_unpack_device(device) for device in found["devices"]]
    return found


def _unpack_device(device: JsonObject) -> JsonObject:
    """Source: Convert_v1beta1_Device_To_resource_Device."""
    name = {"name": device["name"]} if "name" in device else {}
    return {**name, **(device.get("basic") or {})}


def _pack_slice(spec: JsonObject) -> JsonObject:
    if not spec.get("devices"):
        return spec
    return {**spec, "devices": [_pack_device(device) for device in spec["devices"]]}


def _pack_device(device: JsonObject) -> JsonObject:
    """Source: Convert_resource_Device_To_v1beta1_Device."""
    name = {"name": device["name"]} if "name" in device else {}
    return {**name, "basic": {field: value for field, value in device.items() if field != "name"}}


_NEST: Final[Mapping[Kind, _Change]] = MappingProxyType(
    {RESOURCE_CLAIM: _nest_claim, RESOURCE_CLAIM_TEMPLATE: _nest_template, RESOURCE_SLICE: _unpack_slice}
)
_FLATTEN: Final[Mapping[Kind, _Change]] = MappingProxyType(
    {RESOURCE_CLAIM: _flatten_claim, RESOURCE_CLAIM_TEMPLATE: _flatten_template, RESOURCE_SLICE: _pack_slice}
)

"""resource.k8s.io between JSON and the model, whatever the served version.

`parse_*` reads the version that the object names in `apiVersion` (v1 when it names none) out of `VERSIONS`;
`encode_*` gives v1, whole objects also in older versions. Only v1 is built from and into values of the model: an
object of another version passes through `api.versions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from claimsmith.api import resource_v1_claims as v1_claims
from claimsmith.api import resource_v1_slices as v1_slices
from claimsmith.api.decode import Source, convert, find_type_meta, to_json_value
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    SERVED_KINDS,
    Kind,
)
from claimsmith.api.versions import convert_from_hub, convert_to_hub
from claimsmith.api.wire import resource_claim
from claimsmith.api.wire.base import Wire
from claimsmith.errors import FieldError
from claimsmith.model.claim import (
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from claimsmith.model.device import Device
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice

__all__ = [
    "API_VERSION",
    "VERSIONS",
    "encode_allocation_result",
    "encode_device",
    "encode_device_class",
    "encode_device_taint_rule",
    "encode_resource_claim",
    "encode_resource_claim_spec",
    "encode_resource_claim_status",
    "encode_resource_claim_template",
    "encode_resource_slice",
    "parse_allocation_result",
    "parse_device_class",
    "parse_device_taint_rule",
    "parse_resource_claim",
    "parse_resource_claim_spec",
    "parse_resource_claim_template",
    "parse_resource_slice",
    "parse_resource_slice_list",
]

API_VERSION: Final = v1_slices.API_VERSION
"""The version that is written, and meant when an object names none."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """How one kind of one version is read."""

    kind: Kind
    build_hub: Callable[[Any], Any]

    def build(self, wire: Wire) -> Any:
        """Return the value of the model, by way of the version that is kept."""
        hub = self.kind.hub
        if hub is self.kind:
            return self.build_hub(wire)
        return self.build_hub(msgspec.convert(convert_to_hub(to_json_value(wire), self.kind), hub.wire_type))


_BUILDERS: Final[Mapping[Kind, Callable[[Any], Any]]] = MappingProxyType(
    {
        RESOURCE_SLICE: v1_slices.build_slice,
        RESOURCE_CLAIM: v1_claims.build_claim,
        RESOURCE_CLAIM_TEMPLATE: v1_claims.build_template,
        DEVICE_CLASS: v1_claims.build_class,
        DEVICE_TAINT_RULE: v1_slices.build_taint_rule,
    }
)


def _gather_versions() -> Mapping[str, Mapping[str, _Reader]]:
    versions: dict[str, dict[str, _Reader]] = {}
    for kind in SERVED_KINDS:
        if kind.hub in _BUILDERS:
            versions.setdefault(kind.api_version, {})[kind.kind] = _Reader(kind, _BUILDERS[kind.hub])
    return MappingProxyType(versions)


VERSIONS: Final[Mapping[str, Mapping[str, _Reader]]] = _gather_versions()
"""apiVersion → kind → how it is read."""


def _get_reader(api_version: str, kind: str, source: str = "") -> _Reader:
    """Return how a kind of a version is read.

    Raises:
        FieldError: The kind is not there in that version.
    """
    reader = VERSIONS.get(api_version, {}).get(kind)
    if reader is None:
        known = ", ".join(version for version in VERSIONS if kind in VERSIONS[version])
        hint = f"write the object as {API_VERSION}"
        raise FieldError("apiVersion", api_version, allowed=known, hint=hint, source=source)
    return reader


def _parse(obj: Source, kind: str, source: str) -> Any:
    """Read an object of any version."""
    api_version = find_type_meta(obj).api_version or API_VERSION
    reader = _get_reader(api_version, kind, source)
    return convert(obj, reader.kind.wire_type, reader.build, source=source, api_version=api_version)


def _encode(wire: Wire, api_version: str) -> dict[str, Any]:
    """Return an object of the version that is kept as JSON of any version."""
    value = to_json_value(wire)
    return (
        value if api_version == API_VERSION else convert_from_hub(value, _get_reader(api_version, value["kind"]).kind)
    )


def parse_resource_slice(obj: Source, *, source: str = "") -> ResourceSlice:
    """Return the slice that an object describes.

    Args:
        obj: Decoded JSON, JSON text, or the wire type.
        source: Where the object stands, for messages.

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    result: ResourceSlice = _parse(obj, "ResourceSlice", source)
    return result


def parse_resource_slice_list(obj: Source, *, source: str = "") -> tuple[ResourceSlice, ...]:
    """Return the slices of a ResourceSliceList (see `parse_resource_slice`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    api_version = find_type_meta(obj).api_version or API_VERSION
    reader = _get_reader(api_version, "ResourceSlice", source)

    def build(wire: Any) -> tuple[ResourceSlice, ...]:
        return tuple([reader.build(item) for item in wire.items])

    return convert(obj, reader.kind.wire_list_type, build, source=source, api_version=api_version)


def parse_resource_claim(obj: Source, *, source: str = "") -> ResourceClaim:
    """Return the claim that an object describes (see `parse_resource_slice`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    result: ResourceClaim = _parse(obj, "ResourceClaim", source)
    return result


def parse_resource_claim_template(obj: Source, *, source: str = "") -> ResourceClaimTemplate:
    """Return the claim template that an object describes (see `parse_resource_slice`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    result: ResourceClaimTemplate = _parse(obj, "ResourceClaimTemplate", source)
    return result


def parse_device_class(obj: Source, *, source: str = "") -> DeviceClass:
    """Return the device class that an object describes (see `parse_resource_slice`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    result: DeviceClass = _parse(obj, "DeviceClass", source)
    return result


def parse_device_taint_rule(obj: Source, *, source: str = "") -> DeviceTaintRule:
    """Return the taint rule that an object describes (see `parse_resource_slice`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    result: DeviceTaintRule = _parse(obj, "DeviceTaintRule", source)
    return result


def parse_resource_claim_spec(obj: Source, *, source: str = "") -> ResourceClaimSpec:
    """Return what the `spec` of a v1 claim asks for.

    Raises:
        FieldError: A field holds what is not allowed.
        ManifestError: The text is no JSON.
    """
    return convert(obj, resource_claim.ResourceClaimSpec, v1_claims.build_claim_spec, source=source)


def parse_allocation_result(obj: Source, *, source: str = "") -> AllocationResult:
    """Return the allocation that a v1 AllocationResult describes.

    Raises:
        FieldError: A field holds what is not allowed.
        ManifestError: The text is no JSON.
    """
    return convert(obj, resource_claim.AllocationResult, v1_claims.build_allocation, source=source)


def encode_resource_slice(value: ResourceSlice, *, api_version: str = API_VERSION) -> dict[str, Any]:
    """Return a slice as JSON.

    Args:
        value: The slice.
        api_version: The version to write.

    Raises:
        FieldError: The kind is not there in that version.
    """
    return _encode(v1_slices.encode_slice(value), api_version)


def encode_device(value: Device) -> dict[str, Any]:
    """Return a device as it stands in `spec.devices` of a v1 slice."""
    return to_json_value(v1_slices.encode_device(value))


def encode_resource_claim(value: ResourceClaim, *, api_version: str = API_VERSION) -> dict[str, Any]:
    """Return a claim as JSON (see `encode_resource_slice`)."""
    return _encode(v1_claims.encode_claim(value), api_version)


def encode_resource_claim_spec(value: ResourceClaimSpec) -> dict[str, Any]:
    """Return what a claim asks for as v1 JSON."""
    return to_json_value(v1_claims.encode_claim_spec(value))


def encode_resource_claim_status(value: ResourceClaim) -> dict[str, Any]:
    """Return the status of a claim as v1 JSON; absent parts are left out."""
    return to_json_value(v1_claims.encode_claim_status(value))


def encode_resource_claim_template(value: ResourceClaimTemplate, *, api_version: str = API_VERSION) -> dict[str, Any]:
    """Return a claim template as JSON (see `encode_resource_slice`)."""
    return _encode(v1_claims.encode_template(value), api_version)


def encode_device_class(value: DeviceClass, *, api_version: str = API_VERSION) -> dict[str, Any]:
    """Return a device class as JSON (see `encode_resource_slice`)."""
    return _encode(v1_claims.encode_class(value), api_version)


def encode_device_taint_rule(value: DeviceTaintRule, *, api_version: str = API_VERSION) -> dict[str, Any]:
    """Return a taint rule as JSON (see `encode_resource_slice`)."""
    return _encode(v1_slices.encode_taint_rule(value), api_version)


def encode_allocation_result(value: AllocationResult) -> dict[str, Any]:
    """Return an allocation as v1 JSON, as `status.allocation` of a claim holds it."""
    return to_json_value(v1_claims.encode_allocation(value))

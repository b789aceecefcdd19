"""claimsmith.dev/v1alpha1 DeviceReport on the wire and in the model, and its CustomResourceDefinition."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, cast

from claimsmith.api.decode import Source, convert, to_json_value
from claimsmith.api.kinds import DEVICE_REPORT
from claimsmith.api.metadata import encode_metadata, parse_metadata
from claimsmith.api.resource_v1_slices import build_counter_set, build_device, encode_counter_set, encode_device
from claimsmith.api.shapes import Form, Shape, WireField, get_shape
from claimsmith.api.wire import device_report as wire
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.report import DeviceHolder, DeviceReport, HolderKind, ReportedDevice, ReportedPool

__all__ = ["build_device_report_crd", "encode_device_report", "parse_device_report"]

_HEALTHY: Final = {"Healthy": True, "Unhealthy": False}
_MODEL_KEYS: Final = ("model", "productName")
"""Attributes that name the model of a device, in order."""
_MODELS_MAX: Final = 200
_CLOSED: Final = {
    (wire.ReportedHealth, "state"): ["Healthy", "Unhealthy", "Unknown"],
    (wire.DeviceHolder, "kind"): ["ResourceClaim", "Pod"],
}
"""Fields that hold one of few words."""
_COLUMNS: Final = (
    ("Node", "string", ".spec.nodeName"),
    ("Driver", "string", ".spec.driver"),
    ("Models", "string", ".status.models"),
    ("Devices", "integer", ".status.total"),
    ("Free", "integer", ".status.free"),
    ("Unhealthy", "integer", ".status.unhealthy"),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def parse_device_report(obj: Source, *, source: str = "") -> DeviceReport:
    """Return a report of the model.

    Raises:
        FieldError: A field holds what is not allowed.
    """
    return convert(obj, wire.DeviceReport, _build, source=source, api_version=DEVICE_REPORT.api_version)


def encode_device_report(value: DeviceReport) -> dict[str, Any]:
    """Return a report as JSON, with the sums that people read."""
    return to_json_value(
        wire.DeviceReport(
            api_version=DEVICE_REPORT.api_version,
            kind=DEVICE_REPORT.kind,
            metadata=encode_metadata(value.metadata),
            spec=wire.DeviceReportSpec(driver=value.driver, node_name=value.node_name),
            status=_encode_status(value),
        )
    )


def build_device_report_crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition of DeviceReport, for `kubectl apply`.

    Its schema is made from the wire types, so that it allows just what is written.
    """
    kind = DEVICE_REPORT
    schema = _schema(get_shape(kind.wire_type))
    for name in ("apiVersion", "kind"):
        schema["properties"][name] = {"type": "string"}
    schema["properties"]["metadata"] = {"type": "object"}
    immutable = {"rule": "self == oldSelf", "message": "a report belongs to one driver on one node"}
    schema["properties"]["spec"]["x-kubernetes-validations"] = [immutable]
    names = {"kind": kind.kind, "listKind": kind.list_kind, "plural": kind.plural, "singular": kind.singular}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": name, "type": form, "jsonPath": path} for name, form, path in _COLUMNS],
        "selectableFields": [{"jsonPath": ".spec.driver"}, {"jsonPath": ".spec.nodeName"}],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Cluster",
            "names": {**names, "shortNames": list(kind.short_names)},
            "versions": [version],
        },
    }


def _build(source: wire.DeviceReport) -> DeviceReport:
    status = source.status or wire.DeviceReportStatus()
    return DeviceReport(
        metadata=parse_metadata(source.metadata),
        node_name=source.spec.node_name,
        driver=source.spec.driver,
        devices=tuple(_build_reported(item) for item in status.devices or ()),
        pools=tuple(
            ReportedPool(pool=item.pool, counter_sets=tuple(map(build_counter_set, item.counter_sets)))
            for item in status.counters or ()
        ),
    )


def _build_reported(source: wire.ReportedDevice) -> ReportedDevice:
    health, name = source.health, source.device.name
    said = DeviceHealth(
        device=name,
        pool=source.pool,
        healthy=_HEALTHY.get(health.state),
        cause=health.cause or "",
        message=health.message or "",
    )
    return ReportedDevice(
        pool=source.pool,
        device=build_device(source.device),
        health=said,
        holders=tuple(_build_holder(item) for item in source.holders or ()),
    )


def _build_holder(source: wire.DeviceHolder) -> DeviceHolder:
    return DeviceHolder(
        kind=cast(HolderKind, source.kind),
        namespace=source.namespace or "",
        name=source.name,
        uid=source.uid or "",
        container=source.container or "",
        resource=source.resource or "",
    )


def _encode_status(value: DeviceReport) -> wire.DeviceReportStatus:
    models = Counter(_find_model(item) for item in value.devices)
    text = ", ".join(f"{count} {model}" for model, count in sorted(models.items()) if model)
    return wire.DeviceReportStatus(
        counters=[
            wire.ReportedCounters(pool=item.pool, counter_sets=list(map(encode_counter_set, item.counter_sets)))
            for item in value.pools
        ]
        or None,
        devices=[_encode_reported(item) for item in value.devices],
        free=sum(1 for item in value.devices if not item.holders and item.state != "Unhealthy"),
        models=text if len(text) <= _MODELS_MAX else f"{text[: _MODELS_MAX - 1]}…",
        total=len(value.devices),
        unhealthy=sum(1 for item in value.devices if item.state == "Unhealthy"),
    )


def _find_model(item: ReportedDevice) -> str:
    """Return the model of a device; empty when it names none."""
    for name, attribute in item.device.attributes.items():
        if name.rpartition("/")[2] in _MODEL_KEYS and attribute.kind == "string":
            return str(attribute.value)
    return ""


def _encode_reported(value: ReportedDevice) -> wire.ReportedDevice:
    health = value.health
    return wire.ReportedDevice(
        pool=value.pool,
        device=encode_device(value.device),
        health=wire.ReportedHealth(
            state=value.state,
            cause=(health.cause if health is not None else "") or None,
            message=(health.message if health is not None else "") or None,
        ),
        holders=[_encode_holder(item) for item in value.holders] or None,
    )


def _encode_holder(value: DeviceHolder) -> wire.DeviceHolder:
    return wire.DeviceHolder(
        kind=value.kind,
        namespace=value.namespace or None,
        name=value.name,
        uid=value.uid or None,
        container=value.container or None,
        resource=value.resource or None,
    )


def _schema(shape: Shape) -> dict[str, Any]:
    """Return the structural schema of a shape, everything written out."""
    if shape.form is Form.STRUCT:
        fields = shape.fields
        required = sorted(field.name for field in fields.values() if field.required)
        about = ((shape.wire_type.__doc__ if shape.wire_type is not None else None) or "").strip().split("\n")[0]
        schema: dict[str, Any] = {"type": "object", "description": about}
        # What is inside metadata is the API server's own business.
        schema["properties"] = {
            name: {"type": "object"} if name == "metadata" else _property(field) for name, field in fields.items()
        }
        for (wire_type, name), words in _CLOSED.items():
            if wire_type is shape.wire_type:
                schema["properties"][name]["enum"] = words
        return {**schema, **({"required": required} if required else {})}
    if shape.form is Form.LIST and shape.items is not None:
        return {"type": "array", "items": _schema(shape.items)}
    if shape.form is Form.MAP and shape.items is not None:
        return {"type": "object", "additionalProperties": _schema(shape.items)}
    if shape.form is Form.INTEGER:
        return {"type": "integer", "format": f"int{shape.bits}"}
    if shape.form is Form.QUANTITY:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if shape.form is Form.TIME:
        return {"type": "string", "format": "date-time"}
    return {"type": "boolean" if shape.form is Form.BOOLEAN else "string"}


def _property(field: WireField) -> dict[str, Any]:
    schema = _schema(field.shape)
    if field.list_type:
        schema["x-kubernetes-list-type"] = field.list_type
    return schema

"""The tables that `kubectl get` prints, with upstream's columns.

Source: k8s.io/kubernetes v1.37.2 pkg/printers/internalversion/printers.go.

Deviates: table-descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from claimsmith.embedded.api.ages import age_of
from claimsmith.embedded.api.table_pods import POD_COLUMNS, pod_row
from claimsmith.embedded.store_records import JsonObject

__all__ = ["columns_of", "row_of"]

Column = tuple[str, int]
"""Title and priority: 0 is always shown, 1 with `-o wide`."""

_TYPES: Final = {"value": "integer", "devices": "integer", "free": "integer", "unhealthy": "integer"} | {
    "global-default": "boolean"
}
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"
_ROLE: Final = "node-role.kubernetes.io/"


def columns_of(plural: str) -> list[dict[str, Any]]:
    """Return the column definitions of a kind.

    Args:
        plural: Name of the kind in paths.
    """
    columns = _COLUMNS.get(plural, _NAME_AGE)
    return [_definition(title, priority) for title, priority in columns]


def row_of(plural: str, value: JsonObject, *, now: float) -> JsonObject:
    """Return the row of an object, without the object itself.

    Args:
        plural: Name of the kind in paths.
        value: The object.
        now: Seconds since 1970.
    """
    cells = _CELLS.get(plural)
    if cells is None:
        return {"cells": [_name(value), _age(value, now)]}
    made = cells(value, now)
    return made if isinstance(made, dict) else {"cells": made}


def _definition(title: str, priority: int) -> dict[str, Any]:
    name = title.lower()
    kind = _TYPES.get(name, "string")
    form = "name" if name == "name" else ""
    return {"name": title, "type": kind, "format": form, "description": title, "priority": priority}


def _node_cells(value: JsonObject, now: float) -> list[Any]:
    status = value.get("status") or {}
    info, addresses = status.get("nodeInfo") or {}, status.get("addresses") or ()
    ready = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    states = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if (value.get("spec") or {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or _UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    found = [_name(value), ",".join(states), _roles(value), _age(value, now), info.get("kubeletVersion") or ""]
    found += [_address(addresses, "InternalIP"), _address(addresses, "ExternalIP")]
    return [*found, info.get("osImage") or _UNKNOWN, kernel, info.get("containerRuntimeVersion") or _UNKNOWN]


def _roles(value: JsonObject) -> str:
    labels: dict[str, str] = value["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} - {""}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or _NONE


def _address(addresses: Any, kind: str) -> str:
    return next((found["address"] for found in addresses if found.get("type") == kind), _NONE)


def _event_cells(value: JsonObject, now: float) -> list[Any]:
    involved, series = value.get("involvedObject") or {}, value.get("series")
    first = age_of(value.get("firstTimestamp") or value.get("eventTime"), now)
    last = age_of(value["lastTimestamp"], now) if value.get("lastTimestamp") else first
    count = value.get("count") or 1
    if series:
        last, count = age_of(series.get("lastObservedTime"), now), series.get("count") or 0
    kind = str(involved.get("kind") or "").lower()
    target = f"{kind}/{involved['name']}" if involved.get("name") else kind
    shown = [last, value.get("type") or "", value.get("reason") or "", target, involved.get("fieldPath") or ""]
    shown += [_event_source(value), (value.get("message") or "").strip(), first, count]
    return [*shown, _name(value)]


def _event_source(value: JsonObject) -> str:
    source = value.get("source") or {}
    component = source.get("component") or value.get("reportingComponent") or ""
    instance = source.get("host") or value.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _claim_cells(value: JsonObject, now: float) -> list[Any]:
    status = value.get("status") or {}
    deleted = bool(value["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if not status.get("allocation"):
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return [_name(value), ",".join(states), _age(value, now)]


def _slice_cells(value: JsonObject, now: float) -> list[Any]:
    spec = value.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name") or ""
    return [_name(value), spec.get("nodeName") or "", spec.get("driver") or "", pool, _age(value, now)]


def _taint_rule_cells(value: JsonObject, now: float) -> list[Any]:
    taint = (value.get("spec") or {}).get("taint") or {}
    added = age_of(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    shown = [taint.get("key") or "", taint.get("value") or "", taint.get("effect") or "", added]
    return [_name(value), *shown, _age(value, now)]


def _report_cells(value: JsonObject, now: float) -> list[Any]:
    spec, status = value.get("spec") or {}, value.get("status") or {}
    shown = [spec.get("nodeName") or "", spec.get("driver") or "", status.get("models") or ""]
    shown += [status.get("total"), status.get("free"), status.get("unhealthy")]
    return [_name(value), *shown, _age(value, now)]


def _group_cells(value: JsonObject, now: float) -> list[Any]:
    spec, conditions = value.get("spec") or {}, (value.get("status") or {}).get("conditions") or ()
    by_type = {condition.get("type"): condition for condition in conditions}
    state = "Pending"
    if "PodGroupInitiallyScheduled" in by_type:
        placed = by_type["PodGroupInitiallyScheduled"].get("status") == "True"
        state = "Scheduled" if placed else "Unschedulable"
    if "DisruptionTarget" in by_type:
        state = by_type["DisruptionTarget"].get("reason") or ""
    policy = "Basic" if (spec.get("schedulingPolicy") or {}).get("gang") is None else "Gang"
    workload = _NONE if spec.get("workloadRef") is None else spec["workloadRef"].get("workloadName") or ""
    return [_name(value), policy, workload, state, _age(value, now)]


def _namespace_cells(value: JsonObject, now: float) -> list[Any]:
    return [_name(value), (value.get("status") or {}).get("phase") or "", _age(value, now)]


def _lease_cells(value: JsonObject, now: float) -> list[Any]:
    return [_name(value), (value.get("spec") or {}).get("holderIdentity") or "", _age(value, now)]


def _priority_class_cells(value: JsonObject, now: float) -> list[Any]:
    shown = [_name(value), value.get("value") or 0, bool(value.get("globalDefault")), _age(value, now)]
    return [*shown, value.get("preemptionPolicy") or ""]


def _name(value: JsonObject) -> str:
    name: str = value["metadata"]["name"]
    return name


def _age(value: JsonObject, now: float) -> str:
    return age_of(value["metadata"].get("creationTimestamp"), now)


def _always(*titles: str) -> tuple[Column, ...]:
    return tuple((title, 0) for title in titles)


def _wide(*titles: str) -> tuple[Column, ...]:
    return tuple((title, 1) for title in titles)


_NAME_AGE: Final = _always("Name", "Age")
_COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = MappingProxyType(
    {
        "pods": POD_COLUMNS,
        "nodes": (
            *_always("Name", "Status", "Roles", "Age", "Version"),
            *_wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        "events": (
            *_always("Last Seen", "Type", "Reason", "Object"),
            *_wide("Subobject", "Source"),
            *_always("Message"),
            *_wide("First Seen", "Count", "Name"),
        ),
        "resourceclaims": _always("Name", "State", "Age"),
        "resourceslices": _always("Name", "Node", "Driver", "Pool", "Age"),
        "devicetaintrules": _always("Name", "Key", "Value", "Effect", "TimeAdded", "Age"),
        "devicereports": _always("Name", "Node", "Driver", "Models", "Devices", "Free", "Unhealthy", "Age"),
        "podgroups": _always("Name", "Policy", "Workload", "Status", "Age"),
        "namespaces": _always("Name", "Status", "Age"),
        "leases": _always("Name", "Holder", "Age"),
        "priorityclasses": _always("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"),
    }
)
_CELLS: Final[Mapping[str, Callable[[JsonObject, float], list[Any] | JsonObject]]] = MappingProxyType(
    {
        "pods": pod_row,
        "nodes": _node_cells,
        "events": _event_cells,
        "resourceclaims": _claim_cells,
        "resourceslices": _slice_cells,
        "devicetaintrules": _taint_rule_cells,
        "devicereports": _report_cells,
        "podgroups": _group_cells,
        "namespaces": _namespace_cells,
        "leases": _lease_cells,
        "priorityclasses": _priority_class_cells,
    }
)

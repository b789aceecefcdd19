"""Sentences about devices that can't be had together: constraints, compatibility groups."""

from __future__ import annotations

from collections import defaultdict

from claimsmith.allocate.explain.devices import format_names
from claimsmith.allocate.explain.finding import NodeFinding
from claimsmith.allocate.explain.obstacles import Obstacles, find_places
from claimsmith.allocate.explain.relaxations import Relaxation
from claimsmith.allocate.prepared.constraints import AttributeValue, read_value
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.errors import InputError
from claimsmith.model.claim import DeviceConstraint
from claimsmith.model.names import DeviceId

__all__ = ["Sentence", "word_constraint", "word_group"]

Sentence = tuple[str, tuple[DeviceId, ...], dict[str, str]]
"""A sentence, the devices that it is about, and its parts for machines."""


def word_constraint(finding: NodeFinding, obstacles: Obstacles, relaxation: Relaxation) -> Sentence:
    """Say how many devices agree, or differ, in the attribute, and which have none."""
    constraint = relaxation.subject
    if not isinstance(constraint, DeviceConstraint) or relaxation.place is None:
        raise TypeError(f"relaxation {relaxation.id}: found no constraint")
    claim, name = relaxation.place[0], relaxation.name
    if not name:
        text = f"constraint {relaxation.position} has neither matchAttribute nor distinctAttribute"
        return text, (), {"rule": text}
    places = {
        place: (request, spec)
        for place, (request, spec) in find_places(finding).items()
        if place[0] == claim and _binds(constraint, request.name, spec.name)
    }
    values: dict[tuple[str, object], dict[DeviceId, None]] = defaultdict(dict)
    lacking: dict[DeviceId, None] = {}
    for place, (_, spec) in places.items():
        derived = {item.name: item.expression for item in spec.derived_attributes}.get(name, "")
        for record in obstacles.find_usable(place):
            value = _read(finding, record, name, derived)
            if value is None:
                lacking[record.id] = None
            for element in value.values if value is not None else ():
                values[value.kind if value else "", element][record.id] = None
    data = {"attribute": name, "devices": str(len({d for found in values.values() for d in found}))}
    missing = f"; {format_names(lacking)} without it" if lacking else ""
    if constraint.match_attribute is not None:
        best = max(values.values(), key=len, default={})
        text = f"the devices must have one {name}: {_format_best(best)}{missing}"
        data["rule"] = f"the devices must have one {name}: no more than {len(best)} have the same"
        return text, tuple(best) or tuple(lacking), data
    known = {device for found in values.values() for device in found}
    seen = {record.id: None for record in obstacles.devices if record.id in known}
    number = "1 value" if len(values) == 1 else f"{len(values)} values"
    text = f"the devices must differ in {name}: {number} among {format_names(seen) or 'them'}{missing}"
    data["rule"] = f"the devices must differ in {name}: {number}"
    return text, tuple(seen) or tuple(lacking), data


def _format_best(best: dict[DeviceId, None]) -> str:
    if not best:
        return "none has any"
    if len(best) == 1:
        return "no two have the same"
    return f"no more than {len(best)} have the same, {format_names(best)}"


def _binds(constraint: DeviceConstraint, request: str, alternative: str) -> bool:
    names = {request, f"{request}/{alternative}"}
    return not constraint.requests or bool(names.intersection(constraint.requests))


def _read(finding: NodeFinding, record: DeviceRecord, name: str, derived: str) -> AttributeValue | None:
    case = finding.case
    found = case.cluster.selectors.derive(derived, record) if derived else record.find_attribute(name)
    if isinstance(found, InputError):
        return None
    return read_value(found, lists=case.features.list_type_attributes)


def word_group(finding: NodeFinding, obstacles: Obstacles, relaxation: Relaxation) -> Sentence:
    """Say which compatibility groups the devices on a counter set have."""
    del finding
    by_groups: dict[str, list[DeviceId]] = defaultdict(list)
    for record in obstacles.devices:
        for item in record.device.consumes_counters:
            if (record.id.pool_id, item.counter_set) == relaxation.subject:
                by_groups[", ".join(item.compatibility_groups) or "no groups"].append(record.id)
    parts = "; ".join(f"{format_names(devices)} ({groups})" for groups, devices in by_groups.items())
    text = f"devices on counter set {relaxation.name} must be compatible: {parts}"
    devices = tuple(device for found in by_groups.values() for device in found)
    return (
        text,
        devices,
        {"set": relaxation.name, "rule": f"devices on counter set {relaxation.name} must be compatible"},
    )

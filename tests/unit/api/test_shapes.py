from __future__ import annotations

import pytest

from claimsmith.api.kinds import KINDS, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from claimsmith.api.shapes import Form, WireField, find_field, get_fields, get_shape
from claimsmith.api.wire.base import Wire


def field(kind: Kind, path: str) -> WireField:
    found = find_field(kind.wire_type, path)
    assert found is not None, path
    return found


def test_irregular_json_names_are_kept() -> None:
    assert field(POD, "status.podIPs").attribute == "pod_ips"
    assert field(POD, "spec.hostIPC").attribute == "host_ipc"
    assert field(RESOURCE_CLAIM, "status.devices.shareID").attribute == "share_id"
    assert field(RESOURCE_SLICE, "spec.devices.attributes.int").attribute == "int_"


def test_merge_rules_of_lists_are_kept() -> None:
    ports = field(POD, "spec.containers.ports")

    assert (ports.list_type, ports.list_map_keys) == ("map", ("containerPort", "protocol"))
    assert (ports.patch_strategy, ports.patch_merge_key) == ("merge", "containerPort")


def test_retained_keys_defaults_and_atomic_maps_are_kept() -> None:
    assert field(POD, "spec.volumes").patch_strategy == "merge,retainKeys"
    assert field(POD, "spec.containers.ports.protocol").default == "TCP"
    assert field(POD, "spec.nodeSelector").map_type == "atomic"
    assert field(RESOURCE_SLICE, "spec.nodeSelector").map_type == "atomic"


def test_formats_and_required_fields_are_kept() -> None:
    assert field(POD, "spec.priority").shape.bits == 32
    assert field(POD, "metadata.creationTimestamp").shape.form is Form.TIME
    assert field(RESOURCE_SLICE, "spec.devices.capacity.value").shape.form is Form.QUANTITY
    assert field(RESOURCE_SLICE, "spec.driver").required
    assert not field(RESOURCE_SLICE, "spec.nodeName").required


def test_a_path_that_does_not_exist_has_no_field() -> None:
    assert find_field(POD.wire_type, "spec.nothing.at.all") is None
    assert find_field(POD.wire_type, "spec.nodeName.deeper") is None


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_type_of_a_kind_can_be_read(kind: Kind) -> None:
    seen: set[type[Wire]] = set()
    stack = [kind.wire_type]
    while stack:
        wire_type = stack.pop()
        seen.add(wire_type)
        for entry in get_fields(wire_type).values():
            shape = entry.shape
            while shape.items is not None:
                shape = shape.items
            if shape.wire_type is not None and shape.wire_type not in seen:
                stack.append(shape.wire_type)

    assert all(get_shape(wire_type).form is Form.STRUCT for wire_type in seen)

"""Objects of older versions are held to the rules of v1."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import Kind, find_kind
from claimsmith.validate import validate_create, validate_status_update, validate_update


def kind_of(version: str, name: str) -> Kind:
    found = find_kind(f"resource.k8s.io/{version}", name)
    assert found is not None
    return found


def claim(**request: Any) -> dict[str, Any]:
    requests = [{"name": "r", "deviceClassName": "gpu", **request}]
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": requests}}}


def test_a_flat_claim_is_allowed_and_what_is_wrong_is_named_by_the_path_of_v1() -> None:
    kind = kind_of("v1beta1", "ResourceClaim")

    assert validate_create(kind, claim()) == ()
    assert [issue.path for issue in validate_create(kind, claim(count=-1))] == [
        "spec.devices.requests[0].exactly.count"
    ]


def test_a_basic_device_is_held_to_the_limits_of_devices() -> None:
    attributes = {f"a{i}": {"int": i} for i in range(33)}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    device = {"name": "d", "basic": {"attributes": attributes}}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool, "devices": [device]}
    found = validate_create(kind_of("v1beta1", "ResourceSlice"), {"metadata": {"name": "s"}, "spec": spec})

    assert [issue.path for issue in found] == ["spec.devices[0]"]


def test_changes_of_older_objects_are_checked_too() -> None:
    kind = kind_of("v1beta1", "ResourceClaim")
    status = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}

    assert validate_update(kind, claim(), claim(count=1)) == ()
    assert [issue.path for issue in validate_update(kind, claim(), claim(count=2))] == ["spec"]
    assert [issue.path for issue in validate_status_update(kind, claim(), {**claim(), "status": status})] == [
        "status.reservedFor"
    ]


def test_an_older_taint_rule_is_checked() -> None:
    rule = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "Never"}}}

    assert [issue.path for issue in validate_create(kind_of("v1alpha3", "DeviceTaintRule"), rule)] == [
        "spec.taint.effect"
    ]

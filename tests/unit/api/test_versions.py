from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import OLDER_KINDS, RESOURCE_CLAIM, Kind, find_kind
from claimsmith.api.manifests import parse_manifests
from claimsmith.api.objects import check_form, convert_manifest, parse_objects
from claimsmith.api.resource import (
    encode_resource_claim,
    encode_resource_slice,
    parse_device_taint_rule,
    parse_resource_claim,
    parse_resource_claim_template,
    parse_resource_slice,
    parse_resource_slice_list,
)
from claimsmith.api.versions import convert_from_hub, convert_to_hub
from claimsmith.errors import FieldError
from claimsmith.model.claim import ResourceClaim

V1BETA1 = "resource.k8s.io/v1beta1"
FLAT_REQUEST: dict[str, Any] = {
    "name": "gpu",
    "deviceClassName": "gpu.example.com",
    "selectors": [{"cel": {"expression": "true"}}],
    "allocationMode": "ExactCount",
    "count": 2,
    "adminAccess": True,
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "capacity": {"requests": {"memory": "10Gi"}},
}
NESTED_REQUEST = {"name": "gpu", "exactly": {key: value for key, value in FLAT_REQUEST.items() if key != "name"}}
ATTRIBUTES = {"model": {"string": "A100"}}


def kind_of(version: str, name: str) -> Kind:
    found = find_kind(f"resource.k8s.io/{version}", name)
    assert found is not None
    return found


def claim(version: str, *requests: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": list(requests)}},
    }


def slice_of(version: str, *devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": "d", "pool": pool, "devices": list(devices), **spec},
    }


def test_a_flat_request_is_nested_and_a_nested_one_flattened() -> None:
    kind = kind_of("v1beta1", "ResourceClaim")

    assert convert_to_hub(claim("v1beta1", FLAT_REQUEST), kind) == claim("v1", NESTED_REQUEST)
    assert convert_from_hub(claim("v1", NESTED_REQUEST), kind) == claim("v1beta1", FLAT_REQUEST)


def test_a_list_of_alternatives_stays_as_it_is() -> None:
    request = {"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "gpu.example.com"}]}
    kind = kind_of("v1beta1", "ResourceClaim")

    assert convert_to_hub(claim("v1beta1", request), kind) == claim("v1", request)
    assert convert_from_hub(claim("v1", request), kind) == claim("v1beta1", request)


@pytest.mark.parametrize(
    ("request_", "nested"),
    [
        ({"name": "r"}, {"name": "r"}),
        ({"name": "r", "deviceClassName": "", "allocationMode": "", "count": 0}, {"name": "r"}),
        ({"name": "r", "count": 1}, {"name": "r", "exactly": {"count": 1}}),
        ({"name": "r", "selectors": []}, {"name": "r", "exactly": {"selectors": []}}),
        ({"name": "r", "adminAccess": False}, {"name": "r", "exactly": {"adminAccess": False}}),
        ({"name": "r", "capacity": {}}, {"name": "r", "exactly": {"capacity": {}}}),
        (
            {"name": "r", "count": 1, "firstAvailable": [{"name": "a"}]},
            {"name": "r", "firstAvailable": [{"name": "a"}], "exactly": {"count": 1}},
        ),
        ({"name": "r", "exactly": {"deviceClassName": "smuggled"}}, {"name": "r"}),
    ],
)
def test_a_flat_request_becomes_exactly_when_one_of_its_fields_is_set(request_: Any, nested: Any) -> None:
    assert convert_to_hub(claim("v1beta1", request_), kind_of("v1beta1", "ResourceClaim")) == claim("v1", nested)


def test_a_template_is_converted_like_the_claims_that_are_made_from_it() -> None:
    flat = {**claim("v1beta1", FLAT_REQUEST), "kind": "ResourceClaimTemplate"}
    flat["spec"] = {"metadata": {"labels": {"a": "b"}}, "spec": flat["spec"]}
    template = parse_resource_claim_template(flat)

    assert template.labels == {"a": "b"}
    assert template.spec == parse_resource_claim(claim("v1", NESTED_REQUEST)).spec


def test_a_basic_device_is_unpacked_and_packed() -> None:
    kind = kind_of("v1beta1", "ResourceSlice")
    old = slice_of("v1beta1", {"name": "gpu-0", "basic": {"attributes": ATTRIBUTES}}, nodeName="n")
    new = slice_of("v1", {"name": "gpu-0", "attributes": ATTRIBUTES}, nodeName="n")

    assert convert_to_hub(old, kind) == new
    assert convert_from_hub(new, kind) == old


def test_a_device_with_nothing_is_packed_as_an_empty_basic_device() -> None:
    kind = kind_of("v1beta1", "ResourceSlice")

    assert convert_from_hub(slice_of("v1", {"name": "x"}), kind)["spec"]["devices"] == [{"name": "x", "basic": {}}]
    assert convert_to_hub(slice_of("v1beta1", {"name": "x"}), kind)["spec"]["devices"] == [{"name": "x"}]


def test_fields_of_a_newer_device_are_not_smuggled_into_it() -> None:
    old = slice_of("v1beta1", {"name": "x", "attributes": ATTRIBUTES, "basic": {}})

    assert convert_to_hub(old, kind_of("v1beta1", "ResourceSlice"))["spec"]["devices"] == [{"name": "x"}]


def test_an_empty_node_name_and_false_mean_absent_in_the_older_slice() -> None:
    old = slice_of("v1beta1", nodeName="", allNodes=False, perDeviceNodeSelection=True)

    assert convert_to_hub(old, kind_of("v1beta1", "ResourceSlice")) == slice_of("v1", perDeviceNodeSelection=True)


@pytest.mark.parametrize("kind", OLDER_KINDS, ids=str)
def test_a_conversion_leaves_its_argument_alone_and_names_the_version(kind: Kind) -> None:
    obj: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}}
    hub = convert_to_hub(obj, kind)

    assert obj["apiVersion"] == kind.api_version
    assert hub["apiVersion"] == kind.hub.api_version
    assert convert_from_hub(hub, kind) == obj


def test_a_claim_is_read_in_every_version_and_written_in_every_version() -> None:
    value = parse_resource_claim(claim("v1", NESTED_REQUEST))

    assert parse_resource_claim(claim("v1beta2", NESTED_REQUEST)) == value
    assert parse_resource_claim(claim("v1beta1", FLAT_REQUEST)) == value
    assert encode_resource_claim(value, api_version=V1BETA1) == claim("v1beta1", FLAT_REQUEST)


def test_an_older_slice_alone_and_in_a_list_is_read_as_the_same_slice() -> None:
    old = slice_of("v1beta1", {"name": "gpu-0", "basic": {"attributes": ATTRIBUTES}}, nodeName="n")
    value = parse_resource_slice(slice_of("v1", {"name": "gpu-0", "attributes": ATTRIBUTES}, nodeName="n"))

    assert parse_resource_slice(old) == value
    assert parse_resource_slice_list({"apiVersion": V1BETA1, "kind": "ResourceSliceList", "items": [old]}) == (value,)
    assert encode_resource_slice(value, api_version=V1BETA1) == old


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha3"])
def test_older_taint_rules_are_read_as_the_same_rule(version: str) -> None:
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    rule = {"kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}

    assert parse_device_taint_rule({"apiVersion": f"resource.k8s.io/{version}", **rule}) == parse_device_taint_rule(
        rule
    )


def test_a_taint_rule_is_not_written_in_a_version_that_has_none() -> None:
    with pytest.raises(FieldError, match=r"found 'resource\.k8s\.io/v1beta1', allowed resource\.k8s\.io/v1, "):
        parse_device_taint_rule({"apiVersion": V1BETA1, "kind": "DeviceTaintRule"})


def test_a_wrong_type_in_an_older_object_is_named_by_its_own_path() -> None:
    obj = slice_of("v1beta1", {"name": "x", "basic": {"capacity": {"m": {"value": "80 GiB"}}}})

    with pytest.raises(FieldError, match=r"spec\.devices\[0\]\.basic\.capacity\.m\.value: found '80 GiB'"):
        parse_resource_slice(obj)


MANIFEST = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - name: gpu
      deviceClasName: gpu.example.com
      count: 1
"""


def test_an_unknown_field_of_an_older_object_is_a_warning_with_the_nearest_name_of_that_version() -> None:
    (manifest,) = parse_manifests(MANIFEST, source="f.yaml")
    found = check_form(manifest)

    assert found.wrong == ()
    assert [str(issue) for issue in found.unknown] == [
        "f.yaml, document 1, line 8: spec.devices.requests[0].deviceClasName: found 'deviceClasName', allowed "
        "adminAccess, allocationMode, capacity, count, derivedAttributes, deviceClassName, firstAvailable, name, "
        "selectors, tolerations; write deviceClassName"
    ]


def test_an_unknown_field_counts_for_nothing_unless_the_reading_is_strict() -> None:
    manifests = parse_manifests(MANIFEST, source="f.yaml")
    (value,) = parse_objects(manifests, strict=False)

    assert isinstance(value, ResourceClaim)
    assert value.spec.requests[0].alternatives[0].device_class == ""
    with pytest.raises(FieldError, match="write deviceClassName"):
        parse_objects(manifests)


def test_a_manifest_is_converted_once_and_keeps_its_place() -> None:
    (manifest,) = parse_manifests(MANIFEST.replace("Clas", "Class"), source="f.yaml")
    converted = convert_manifest(manifest)

    assert converted.object["apiVersion"] == RESOURCE_CLAIM.api_version
    assert converted.locate("spec.devices.requests[0].exactly.count") == "f.yaml, document 1, line 7"
    assert convert_manifest(converted) is converted

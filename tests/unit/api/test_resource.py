from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from claimsmith.api.resource import (
    encode_allocation_result,
    encode_device_class,
    encode_device_taint_rule,
    encode_resource_claim,
    encode_resource_claim_status,
    encode_resource_claim_template,
    encode_resource_slice,
    parse_allocation_result,
    parse_device_class,
    parse_device_taint_rule,
    parse_resource_claim,
    parse_resource_claim_spec,
    parse_resource_claim_template,
    parse_resource_slice,
    parse_resource_slice_list,
)
from claimsmith.api.wire.resource_slice import ResourceSlice as WireSlice
from claimsmith.errors import FieldError, ManifestError
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.quantity import parse_quantity

API = "resource.k8s.io/v1"


def slice_json() -> dict[str, Any]:
    """A slice that uses every field of the model; texts are in canonical form."""
    selector = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}],
            }
        ]
    }
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    device = {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "A100"},
            "slots": {"int": 0},
            "ecc": {"bool": False},
            "driver.example/version": {"version": "1.2.3"},
            "peers": {"ints": [1, 2]},
            "names": {"strings": ["a"]},
            "flags": {"bools": [True]},
            "versions": {"versions": ["1.0.0"]},
        },
        "capacity": {
            "memory": {"value": "80Gi", "requestPolicy": policy},
            "lanes": {"value": "16", "requestPolicy": {"default": "4", "validValues": ["4", "8"]}},
            "plain": {"value": "1500m"},
        },
        "consumesCounters": [
            {"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}, "compatibilityGroups": ["mig"]}
        ],
        "nodeName": "node-a",
        "nodeSelector": selector,
        "allNodes": True,
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2024-05-01T00:00:00Z"}],
        "bindsToNode": True,
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "allowMultipleAllocations": True,
        "nodeAllocatableResources": {
            "memory": {
                "mapping": {"capacityKey": "memory", "capacityMultiplier": "1", "deviceMultiplier": "2"},
                "overhead": {"perPod": "64Mi", "perContainer": "16Mi"},
            }
        },
    }
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {
            "name": "s",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "generateName": "s-",
            "creationTimestamp": "2024-05-01T00:00:00Z",
            "deletionTimestamp": "2024-05-02T00:00:00Z",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "finalizers": ["example.com/f"],
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": "node-a",
                    "uid": "n",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "driver": "gpu.example.test",
            "pool": {"name": "node-a", "generation": 0, "resourceSliceCount": 2},
            "nodeName": "node-a",
            "nodeSelector": selector,
            "allNodes": True,
            "perDeviceNodeSelection": True,
            "devices": [device],
            "sharedCounters": [{"name": "card", "counters": {"memory": {"value": "80Gi"}}}],
            "partitionTypeAttribute": "example.com/type",
            "skipNodeOperations": ["*"],
        },
    }


def claim_json() -> dict[str, Any]:
    """A claim that uses every field of the model; texts are in canonical form and defaults are set."""
    toleration = {
        "key": "k",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 0,
    }
    wanted = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "true"}}, {}],
        "allocationMode": "ExactCount",
        "count": 2,
        "tolerations": [toleration, {"key": "x", "operator": "Equal", "value": "y"}],
        "capacity": {"requests": {"memory": "10Gi"}},
        "derivedAttributes": [{"name": "example.com/d", "expression": "1"}],
    }
    opaque = {"driver": "gpu.example.test", "parameters": {"any": [None, {"x": 1}]}}
    result = {
        "request": "many/small",
        "driver": "gpu.example.test",
        "pool": "node-a",
        "device": "gpu-0",
        "adminAccess": False,
        "tolerations": [toleration],
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "shareID": "11111111-0000-4000-8000-000000000001",
        "consumedCapacity": {"memory": "10Gi"},
        "skipNodeOperations": ["*"],
    }
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "one", "exactly": {**wanted, "adminAccess": True}},
                    {
                        "name": "many",
                        "firstAvailable": [
                            {**wanted, "name": "small"},
                            {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
                        ],
                    },
                ],
                "constraints": [
                    {"requests": ["one"], "matchAttribute": "example.com/m"},
                    {"distinctAttribute": "example.com/d"},
                ],
                "config": [{"requests": ["one"], "opaque": opaque}],
            }
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [result],
                    "config": [{"source": "FromClaim", "requests": ["one"], "opaque": opaque}],
                },
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
                    ]
                },
                "allocationTimestamp": "2024-05-01T00:00:00Z",
            },
            "reservedFor": [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "p", "uid": "u"}],
            "devices": [
                {
                    "driver": "gpu.example.test",
                    "pool": "node-a",
                    "device": "gpu-0",
                    "shareID": "11111111-0000-4000-8000-000000000001",
                    "conditions": [
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "Up",
                            "message": "",
                            "lastTransitionTime": "2024-05-01T00:00:00Z",
                        }
                    ],
                    "data": {"k": "v"},
                    "networkData": {"interfaceName": "net1", "ips": ["10.0.0.1/24"], "hardwareAddress": "aa"},
                }
            ],
        },
    }


def test_a_slice_with_every_field_comes_back_as_it_was() -> None:
    assert encode_resource_slice(parse_resource_slice(slice_json())) == slice_json()


def test_a_claim_with_every_field_comes_back_as_it_was() -> None:
    assert encode_resource_claim(parse_resource_claim(claim_json())) == claim_json()


def test_a_status_alone_is_the_status_of_the_claim() -> None:
    assert encode_resource_claim_status(parse_resource_claim(claim_json())) == claim_json()["status"]


def test_an_allocation_alone_comes_back_as_it_was() -> None:
    allocation = claim_json()["status"]["allocation"]

    assert encode_allocation_result(parse_allocation_result(allocation)) == allocation


def test_a_claim_without_a_status_gets_none() -> None:
    obj = {**claim_json()}
    del obj["status"]

    assert encode_resource_claim(parse_resource_claim(obj)) == obj


def test_a_template_comes_back_as_it_was() -> None:
    obj = {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": claim_json()["spec"]},
    }

    assert encode_resource_claim_template(parse_resource_claim_template(obj)) == obj


def test_a_class_comes_back_as_it_was() -> None:
    obj = {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": "true"}}],
            "config": [{"opaque": {"driver": "d", "parameters": {}}}],
            "extendedResourceName": "example.com/gpu",
        },
    }

    assert encode_device_class(parse_device_class(obj)) == obj


@pytest.mark.parametrize("selector", [{}, {"driver": "d", "pool": "p", "device": "x"}, None])
def test_a_taint_rule_comes_back_as_it_was(selector: object) -> None:
    spec = {"taint": {"key": "k", "effect": "NoExecute"}}
    if selector is not None:
        spec["deviceSelector"] = selector  # type: ignore[assignment]
    obj = {"apiVersion": API, "kind": "DeviceTaintRule", "metadata": {"name": "r"}, "spec": spec}

    assert encode_device_taint_rule(parse_device_taint_rule(obj)) == obj
    assert parse_device_taint_rule(obj).selects is (selector is not None)


def test_defaults_of_the_api_are_put_in() -> None:
    spec = parse_resource_claim_spec(
        {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "k"}]}}]}}
    )
    (wanted,) = spec.requests[0].alternatives

    assert (wanted.allocation_mode, wanted.count, wanted.admin_access, wanted.capacity) == ("ExactCount", 1, None, None)
    assert wanted.tolerations[0].operator == "Equal"


def test_empty_capacity_requests_differ_from_absent_ones() -> None:
    spec = parse_resource_claim_spec(
        {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "capacity": {}}}]}}
    )

    assert spec.requests[0].alternatives[0].capacity == {}


def test_an_attribute_of_no_known_kind_is_unknown() -> None:
    obj = slice_json()
    obj["spec"]["devices"][0]["attributes"] = {"future": {}}

    assert parse_resource_slice(obj).devices[0].attributes["future"] == DeviceAttribute("unknown", None)


def test_text_decoded_json_and_wire_type_give_the_same_value() -> None:
    text = json.dumps(slice_json())
    wire = msgspec.json.decode(text, type=WireSlice)
    values = {id(source): parse_resource_slice(source) for source in (text, text.encode(), slice_json(), wire)}

    assert all(value == parse_resource_slice(slice_json()) for value in values.values())


def test_a_list_of_slices_is_read_at_once() -> None:
    obj = {"apiVersion": API, "kind": "ResourceSliceList", "metadata": {}, "items": [slice_json()]}

    assert parse_resource_slice_list(json.dumps(obj)) == (parse_resource_slice(slice_json()),)


def test_nulls_and_unknown_fields_are_left_out() -> None:
    obj = slice_json()
    obj["metadata"]["creationTimestamp"] = None
    obj["spec"]["pool"]["generation"] = None
    obj["spec"]["devices"][0]["taints"] = None
    obj["spec"]["future"] = {"x": 1}
    value = parse_resource_slice(obj)

    assert (value.metadata.creation_timestamp, value.generation, value.devices[0].taints) == (None, 0, ())


def test_bare_numbers_are_quantities() -> None:
    obj = slice_json()
    obj["spec"]["devices"][0]["capacity"] = {"lanes": {"value": 16}, "share": {"value": 1.5}}
    capacity = parse_resource_slice(obj).devices[0].capacity

    assert (capacity["lanes"].value, capacity["share"].value) == (parse_quantity("16"), parse_quantity("1.5"))


def test_equal_plain_capacities_are_one_object_for_all_devices() -> None:
    obj = slice_json()
    plain = {"memory": {"value": "80Gi"}, "cores": {"value": "108"}}
    obj["spec"]["devices"] = [{"name": f"gpu-{number}", "capacity": dict(plain)} for number in range(2)]
    one, two = parse_resource_slice(obj).devices

    assert one.capacity is two.capacity


def test_a_wrong_type_is_named_by_field_and_source() -> None:
    obj = slice_json()
    obj["spec"]["devices"][0]["attributes"]["model"] = {"string": 12}

    with pytest.raises(FieldError) as caught:
        parse_resource_slice(obj, source="gpu.yaml")

    assert str(caught.value) == (
        "gpu.yaml: spec.devices[0].attributes.model.string: found 12, allowed a string; put the value in quotes"
    )


def test_a_broken_quantity_is_named_by_field() -> None:
    obj = slice_json()
    obj["spec"]["devices"][0]["capacity"]["plain"] = {"value": "80 GiB"}

    with pytest.raises(FieldError, match=r"spec\.devices\[0\]\.capacity\.plain\.value: found '80 GiB'"):
        parse_resource_slice(obj)


@pytest.mark.parametrize("text", ['{"spec": ', "[1]", "", "\x80"])
def test_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises((ManifestError, FieldError)):
        parse_resource_claim(text, source="body")


def test_another_version_is_refused_with_those_that_are_read() -> None:
    with pytest.raises(
        FieldError,
        match=r"apiVersion: found 'resource\.k8s\.io/v1alpha2', allowed resource\.k8s\.io/v1, "
        r"resource\.k8s\.io/v1beta2, resource\.k8s\.io/v1beta1; write the object as resource\.k8s\.io/v1",
    ):
        parse_resource_claim({"apiVersion": "resource.k8s.io/v1alpha2", "kind": "ResourceClaim"})


def test_another_kind_is_refused() -> None:
    with pytest.raises(FieldError, match="kind: found 'ResourceClaim', allowed ResourceSlice"):
        parse_resource_slice(claim_json())


def test_ten_thousand_levels_of_parameters_are_refused() -> None:
    text = '{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":' + '{"a":' * 10_000 + "1"
    text += "}" * 10_000 + "}}]}}}"

    with pytest.raises(ManifestError, match="levels of nesting"):
        parse_resource_claim(text, source="body")

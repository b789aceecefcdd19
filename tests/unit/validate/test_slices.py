from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import RESOURCE_SLICE
from claimsmith.validate import validate_create, validate_update
from tests.unit.validate.objects import Json, created, device_slice, edited, short

TAINT = {"key": "k", "effect": "NoSchedule"}
ONE_TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
MISSING = object()


def slice_with(**spec: Any) -> Json:
    """A slice with some fields of the spec changed or taken away."""
    obj = device_slice()
    for name, value in spec.items():
        if value is MISSING:
            del obj["spec"][name]
        else:
            obj["spec"][name] = value
    return obj


def names(count: int) -> list[Json]:
    return [{"name": f"gpu-{i}"} for i in range(count)]


def test_a_plain_slice_is_allowed() -> None:
    assert created(RESOURCE_SLICE, device_slice()) == []


@pytest.mark.parametrize(
    ("spec", "issue"),
    [
        ({"driver": ""}, ("Required", "spec.driver")),
        ({"driver": "a" * 64}, ("TooLong", "spec.driver")),
        ({"driver": "not_dns"}, ("Invalid", "spec.driver")),
        ({"pool": {"name": "", "resourceSliceCount": 1}}, ("Required", "spec.pool.name")),
        ({"pool": {"name": "a//b", "resourceSliceCount": 1}}, ("Invalid", "spec.pool.name")),
        ({"pool": {"name": "p", "resourceSliceCount": 0}}, ("Invalid", "spec.pool.resourceSliceCount")),
        ({"pool": {"name": "p", "resourceSliceCount": 1, "generation": -1}}, ("Invalid", "spec.pool.generation")),
        ({"nodeName": MISSING}, ("Required", "spec")),
        ({"allNodes": True}, ("Invalid", "spec")),
        ({"allNodes": False}, ("Invalid", "spec.allNodes")),
        ({"nodeName": MISSING, "nodeSelector": {"nodeSelectorTerms": ONE_TERM["nodeSelectorTerms"] * 2}},
         ("Invalid", "spec.nodeSelector.nodeSelectorTerms")),
        ({"sharedCounters": [{"name": "c", "counters": {"m": {"value": "1"}}}]}, ("Invalid", "spec")),
        ({"devices": names(129)}, ("TooMany", "spec.devices")),
        ({"devices": [*names(64), {"name": "x", "taints": [TAINT]}]}, ("TooMany", "spec.devices")),
        ({"devices": names(1) * 2}, ("Duplicate", "spec.devices[1]")),
        ({"skipNodeOperations": ["NodePrepareResources"]}, ("Invalid", "spec.skipNodeOperations")),
        ({"partitionTypeAttribute": "example.com/t"}, ("Invalid", "spec.partitionTypeAttribute")),
    ],
)  # fmt: skip
def test_a_rule_of_the_slice_is_kept(spec: dict[str, Any], issue: tuple[str, str]) -> None:
    assert created(RESOURCE_SLICE, slice_with(**spec)) == [issue]


@pytest.mark.parametrize(
    "spec",
    [
        {"devices": names(128)},
        {"devices": [*names(63), {"name": "x", "taints": [TAINT]}]},
        {"nodeName": MISSING, "nodeSelector": ONE_TERM},
        {"nodeName": MISSING, "allNodes": True},
        {"driver": "GPU.Example.Test"},
        {"pool": {"name": "rack/node-a", "resourceSliceCount": 1}},
        {"skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"]},
        {"devices": MISSING, "sharedCounters": [{"name": "c", "counters": {"m": {"value": "1"}}}]},
    ],
)
def test_what_just_fits_is_allowed(spec: dict[str, Any]) -> None:
    assert created(RESOURCE_SLICE, slice_with(**spec)) == []


@pytest.mark.parametrize(
    ("device", "issue"),
    [
        ({"name": "GPU"}, ("Invalid", "name")),
        ({"attributes": {f"a{i}": {"int": 1} for i in range(33)}}, ("Invalid", "")),
        ({"attributes": {"a": {"ints": list(range(49))}}}, ("Invalid", "")),
        ({"attributes": {"not-c": {"int": 1}}}, ("Invalid", "attributes")),
        ({"attributes": {"x" * 33: {"int": 1}}}, ("TooLong", "attributes")),
        ({"attributes": {"/a": {"int": 1}}}, ("Invalid", "attributes")),
        ({"attributes": {"a": {}}}, ("Invalid", "attributes[a]")),
        ({"attributes": {"a": {"int": 1, "bool": True}}}, ("Invalid", "attributes[a]")),
        ({"attributes": {"a": {"string": "x" * 65}}}, ("TooLong", "attributes[a].string")),
        ({"attributes": {"a": {"version": "1.2"}}}, ("Invalid", "attributes[a].version")),
        ({"taints": [TAINT] * 17}, ("TooMany", "taints")),
        ({"taints": [{"key": "k", "effect": "Never"}]}, ("NotSupported", "taints[0].effect")),
        ({"taints": [{"key": "k", "effect": ""}]}, ("Required", "taints[0].effect")),
        ({"taints": [{"key": "", "effect": "None"}]}, ("Invalid", "taints[0].key")),
        ({"bindingConditions": ["a"]}, ("Invalid", "bindingFailureConditions")),
        ({"bindingFailureConditions": ["a"]}, ("Invalid", "bindingConditions")),
        ({"bindingConditions": ["a"], "bindingFailureConditions": ["a"]}, ("Invalid", "bindingFailureConditions[0]")),
        ({"nodeName": "node-a"}, ("Invalid", "")),
        ({"capacity": {"m": {"value": "1", "requestPolicy": {}}}}, ("Forbidden", "capacity[m].requestPolicy")),
        ({"nodeAllocatableResources": {"cpu": {}}}, ("Required", "nodeAllocatableResources[cpu]")),
        (
            {"nodeAllocatableResources": {"example.com/x": {"overhead": {"perPod": "1"}}}},
            ("Invalid", "nodeAllocatableResources[example.com/x]"),
        ),
        (
            {"nodeAllocatableResources": {"cpu": {"mapping": {"capacityKey": "m", "capacityMultiplier": "1"}}}},
            ("NotFound", "nodeAllocatableResources[cpu].mapping.capacityKey"),
        ),
        (
            {"nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "0"}}}},
            ("Invalid", "nodeAllocatableResources[cpu].mapping.deviceMultiplier"),
        ),
    ],
)
def test_a_rule_of_a_device_is_kept(device: dict[str, Any], issue: tuple[str, str]) -> None:
    kind, path = issue
    full = f"spec.devices[0].{path}".rstrip(".")
    found = created(RESOURCE_SLICE, device_slice({"name": "gpu-0", **device}))

    assert (kind, full) in found
    assert {where for _, where in found} == {full}


@pytest.mark.parametrize(
    ("policy", "issue"),
    [
        ({"validValues": ["1Gi"]}, ("Required", ".default")),
        ({"validRange": {"min": "1Gi"}}, ("Required", ".default")),
        ({"default": "1Gi", "validValues": ["2Gi"]}, ("Invalid", ".validValues")),
        ({"default": "1Gi", "validValues": ["1Gi", "9Gi"]}, ("Invalid", ".validValues[1]")),
        ({"default": "2Gi", "validValues": ["4Gi", "2Gi"]}, ("Invalid", ".validValues[1]")),
        ({"default": "1Gi", "validValues": ["1Gi", "1024Mi"]}, ("Duplicate", ".validValues[1]")),
        ({"default": "1Gi", "validRange": {}}, ("Required", ".validRange.min")),
        ({"default": "1Gi", "validValues": ["1Gi"], "validRange": {"min": "1Gi"}}, ("Forbidden", "")),
        ({"default": "1Gi", "validRange": {"min": "2Gi"}}, ("Invalid", ".validRange.default")),
        ({"default": "3Gi", "validRange": {"min": "1Gi", "max": "2Gi"}}, ("Invalid", ".validRange.default")),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "max": "9Gi"}}, ("Invalid", ".validRange.max")),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "0"}}, ("Invalid", ".validRange.step")),
        ({"default": "1Gi", "validRange": {"min": "1Gi", "step": "8Gi"}}, ("Invalid", ".validRange.step")),
        ({"default": "2Gi", "validRange": {"min": "1Gi", "step": "3Gi"}}, ("Invalid", ".validRange.step")),
    ],
)
def test_a_rule_of_a_request_policy_is_kept(policy: Json, issue: tuple[str, str]) -> None:
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}
    kind, path = issue

    assert created(RESOURCE_SLICE, device_slice(device)) == [
        (kind, f"spec.devices[0].capacity[memory].requestPolicy{path}")
    ]


def test_more_than_ten_valid_values_are_not_looked_into() -> None:
    policy = {"default": "1", "validValues": [str(i) for i in range(1, 12)]}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}
    path = "spec.devices[0].capacity[memory].requestPolicy.validValues"

    assert created(RESOURCE_SLICE, device_slice(device)) == [("TooMany", path), ("Invalid", path)]


def test_an_amount_for_the_node_comes_from_a_capacity_or_is_fixed() -> None:
    both = {"capacityKey": "memory", "capacityMultiplier": "1", "deviceMultiplier": "1"}
    device = {
        "name": "gpu-0",
        "capacity": {"memory": {"value": "1Gi"}},
        "nodeAllocatableResources": {"memory": {"mapping": both}, "cpu": {"mapping": {}}},
    }
    path = "spec.devices[0].nodeAllocatableResources[%s].mapping"
    slice_ = device_slice(device)

    assert created(RESOURCE_SLICE, slice_) == [("Invalid", path % "memory"), ("Invalid", path % "cpu")]
    assert validate_update(RESOURCE_SLICE, slice_, slice_) == ()


def test_an_empty_list_is_no_value_of_an_attribute() -> None:
    device = {"name": "gpu-0", "attributes": {"a": {"strings": []}}}
    path = "spec.devices[0].attributes[a]"

    assert created(RESOURCE_SLICE, device_slice(device)) == [("Invalid", f"{path}.strings"), ("Invalid", path)]


def test_a_request_policy_that_fits_is_allowed() -> None:
    policy = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    device = {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": capacity}

    assert created(RESOURCE_SLICE, device_slice(device)) == []


@pytest.mark.parametrize(
    ("consumption", "issue"),
    [
        ([{"counterSet": "", "counters": {"m": {"value": "1"}}}], ("Required", "[0].counterSet")),
        ([{"counterSet": "c", "counters": {}}], ("Required", "[0].counters")),
        ([{"counterSet": "c", "counters": {"M": {"value": "1"}}}], ("Invalid", "[0].counters")),
        ([{"counterSet": "c", "counters": {f"m{i}": {"value": "1"} for i in range(33)}}], ("TooMany", "[0].counters")),
        ([{"counterSet": "c", "counters": {"m": {"value": "1"}}}] * 2, ("Duplicate", "[1]")),
        ([{"counterSet": f"c{i}", "counters": {"m": {"value": "1"}}} for i in range(3)], ("TooMany", "")),
        (
            [{"counterSet": "c", "counters": {"m": {"value": "1"}}, "compatibilityGroups": ["a", "b", "c"]}],
            ("TooMany", "[0].compatibilityGroups"),
        ),
    ],
)
def test_a_rule_of_consumed_counters_is_kept(consumption: list[Json], issue: tuple[str, str]) -> None:
    kind, path = issue

    assert created(RESOURCE_SLICE, device_slice({"name": "gpu-0", "consumesCounters": consumption})) == [
        (kind, f"spec.devices[0].consumesCounters{path}")
    ]


@pytest.mark.parametrize(
    ("sets", "issue"),
    [
        ([{"name": "c", "counters": {}}], ("Required", "[0].counters")),
        ([{"name": "", "counters": {"m": {"value": "1"}}}], ("Required", "[0].name")),
        ([{"name": "c", "counters": {"m": {"value": "1"}}}] * 2, ("Duplicate", "[1]")),
        ([{"name": f"c{i}", "counters": {"m": {"value": "1"}}} for i in range(9)], ("TooMany", "")),
    ],
)
def test_a_rule_of_shared_counters_is_kept(sets: list[Json], issue: tuple[str, str]) -> None:
    kind, path = issue

    assert created(RESOURCE_SLICE, slice_with(devices=MISSING, sharedCounters=sets)) == [
        (kind, f"spec.sharedCounters{path}")
    ]


@pytest.mark.parametrize(
    ("device", "issues"),
    [
        ({}, [("Required", "spec.devices[0]")]),
        ({"nodeName": "a", "allNodes": True}, [("Invalid", "spec.devices[0]")]),
        ({"nodeName": ""}, [("Invalid", "spec.devices[0].nodeName"), ("Required", "spec.devices[0]")]),
        ({"allNodes": True}, []),
        ({"nodeSelector": ONE_TERM}, []),
    ],
)
def test_each_device_names_its_nodes_when_the_slice_leaves_it_to_them(device: Json, issues: list[Any]) -> None:
    spec = slice_with(nodeName=MISSING, perDeviceNodeSelection=True, devices=[{"name": "gpu-0", **device}])

    assert created(RESOURCE_SLICE, spec) == issues


def test_devices_with_counters_must_have_the_attribute_that_names_their_type() -> None:
    counters = [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]
    devices: list[Json] = [
        {"name": "bare", "consumesCounters": counters, "attributes": {"profile": {"string": "1g"}}},
        {"name": "none", "consumesCounters": counters},
        {"name": "typed", "consumesCounters": counters, "attributes": {"profile": {"int": 1}}},
        {"name": "free"},
    ]
    path = "spec.devices[%d].attributes[gpu.example.test/profile]"

    assert created(RESOURCE_SLICE, device_slice(*devices, partitionTypeAttribute="gpu.example.test/profile")) == [
        ("Required", path % 1),
        ("Invalid", path % 2),
    ]


@pytest.mark.parametrize("path", ["driver", "pool.name", "nodeName"])
def test_driver_pool_and_node_of_a_slice_stay(path: str) -> None:
    def edit(obj: Json) -> None:
        *parents, last = path.split(".")
        target = obj["spec"]
        for name in parents:
            target = target[name]
        target[last] = "other"

    old = device_slice()

    assert short(validate_update(RESOURCE_SLICE, old, edited(old, edit))) == [("Invalid", f"spec.{path}")]


def test_taints_and_capacity_that_stay_are_not_checked_again() -> None:
    odd = {"name": "gpu-0", "taints": [{"key": "k", "effect": "Later"}]}
    old = device_slice(odd)
    new = device_slice({**odd, "attributes": {"a": {"int": 1}}})

    assert validate_update(RESOURCE_SLICE, old, new) == ()


def test_messages_are_those_of_the_api_server() -> None:
    obj = device_slice(*names(129))
    obj["spec"]["devices"][0]["name"] = "a.b"
    (many,) = validate_create(RESOURCE_SLICE, obj)
    (dots,) = validate_create(RESOURCE_SLICE, device_slice({"name": "a.b"}))

    assert many.cause == ("FieldValueTooMany", "Too many: 129: must have at most 128 items", "spec.devices")
    assert dots.cause == ("FieldValueInvalid", 'Invalid value: "a.b": must not contain dots', "spec.devices[0].name")

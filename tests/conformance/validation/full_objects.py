"""A slice and a claim that use every field that a rule reads, all of them allowed."""

from __future__ import annotations

from typing import Any


def full_slice() -> dict[str, Any]:
    """Return a slice with per-device node selection, policies, counters, taints and binding conditions."""
    requirement = {"key": "zone", "operator": "In", "values": ["a"]}
    selector = {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [requirement],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}],
            }
        ]
    }
    ranged = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
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
            "example.com/type": {"string": "1g"},
        },
        "capacity": {
            "memory": {"value": "80Gi", "requestPolicy": ranged},
            "lanes": {"value": "16", "requestPolicy": {"default": "4", "validValues": ["4", "8"]}},
            "plain": {"value": "1500m"},
        },
        "consumesCounters": [
            {"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}, "compatibilityGroups": ["mig"]}
        ],
        "nodeSelector": selector,
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2024-05-01T00:00:00Z"}],
        "bindsToNode": True,
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "allowMultipleAllocations": True,
        "nodeAllocatableResources": {
            "memory": {
                "mapping": {"capacityKey": "memory", "capacityMultiplier": "1"},
                "overhead": {"perPod": "64Mi", "perContainer": "16Mi"},
            },
            "cpu": {"mapping": {"deviceMultiplier": "2"}},
        },
    }
    return {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.test",
            "pool": {"name": "node-a", "generation": 0, "resourceSliceCount": 2},
            "perDeviceNodeSelection": True,
            "devices": [device],
            "partitionTypeAttribute": "example.com/type",
            "skipNodeOperations": ["*"],
        },
    }


def full_claim() -> dict[str, Any]:
    """Return a claim with alternatives, constraints, configuration, an allocation and device status."""
    toleration = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    wanted = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "true"}}],
        "allocationMode": "ExactCount",
        "count": 2,
        "tolerations": [toleration, {"key": "x", "operator": "Equal", "value": "y"}],
        "capacity": {"requests": {"memory": "10Gi"}},
        "derivedAttributes": [{"name": "example.com/d", "expression": "1"}],
    }
    opaque = {"driver": "gpu.example.test", "parameters": {"any": [1, {"x": 1}]}}
    device = {"driver": "gpu.example.test", "pool": "node-a", "device": "gpu-0"}
    share = {**device, "shareID": "11111111-0000-4000-8000-000000000001"}
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": "2024-05-01T00:00:00Z",
    }
    result = {
        **share,
        "request": "many/small",
        "adminAccess": False,
        "tolerations": [toleration],
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "consumedCapacity": {"memory": "10Gi"},
        "skipNodeOperations": ["*"],
    }
    network = {"interfaceName": "net1", "ips": ["10.0.0.1/24"], "hardwareAddress": "aa"}
    place = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
    alternatives = [
        {**wanted, "name": "small"},
        {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
    ]
    return {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {
            "devices": {
                "requests": [
                    {"name": "one", "exactly": {**wanted, "adminAccess": True}},
                    {"name": "many", "firstAvailable": alternatives},
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
                "nodeSelector": {"nodeSelectorTerms": [place]},
                "allocationTimestamp": "2024-05-01T00:00:00Z",
            },
            "reservedFor": [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "p", "uid": "u"}],
            "devices": [{**share, "conditions": [condition], "data": {"k": "v"}, "networkData": network}],
        },
    }

"""A taint rule, a pool request, a pod group and a workload that use every field that a rule reads, all allowed."""

from __future__ import annotations

from typing import Any

CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "AllGood",
    "message": "m",
    "lastTransitionTime": "2024-05-01T00:00:00Z",
}


def full_rule() -> dict[str, Any]:
    """Return a taint rule with every part of a selector, and a status."""
    return {
        "metadata": {"name": "r"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.test", "pool": "node-a", "device": "gpu-0"},
            "taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2024-05-01T00:00:00Z"},
        },
        "status": {"conditions": [CONDITION]},
    }


def full_pool_request() -> dict[str, Any]:
    """Return a question about pools with its answer."""
    pool = {
        "driver": "gpu.example.test",
        "poolName": "node-a",
        "generation": 3,
        "resourceSliceCount": 1,
        "totalDevices": 8,
        "allocatedDevices": 2,
        "availableDevices": 5,
        "unavailableDevices": 1,
        "nodeName": "node-a",
        "validationError": "e",
        "partitionSummary": [{"attribute": "example.com/type", "type": "1g", "total": 7, "allocatable": 3}],
        "shareableSummary": {
            "fullyAvailableDevices": 1,
            "partiallyAvailableDevices": 1,
            "capacity": [{"name": "memory", "total": "80Gi", "consumed": "10Gi", "available": "70Gi"}],
        },
    }
    return {
        "metadata": {"name": "q"},
        "spec": {
            "driver": "gpu.example.test",
            "poolName": "node-a",
            "limit": 100,
            "defaultPartitionTypeAttribute": "example.com/type",
        },
        "status": {"poolCount": 1, "pools": [pool], "conditions": [CONDITION]},
    }


def _members() -> dict[str, Any]:
    """Return the fields that groups and templates of groups share."""
    return {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
        "resourceClaims": [
            {"name": "shared", "resourceClaimName": "big"},
            {"name": "own", "resourceClaimTemplateName": "template"},
        ],
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
        "priority": 1000,
        "preemptionPolicy": "Never",
    }


def full_group() -> dict[str, Any]:
    """Return a pod group with every field."""
    return {
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {
            **_members(),
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "parentCompositePodGroupName": "parent",
        },
        "status": {
            "conditions": [CONDITION],
            "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "g-own"}],
        },
    }


def full_workload() -> dict[str, Any]:
    """Return a workload of plain groups."""
    templates = [{"name": name, **_members()} for name in ("driver", "workers")]
    return {
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
            "podGroupTemplates": templates,
        },
    }


def full_composite() -> dict[str, Any]:
    """Return a workload of groups of groups."""
    shared = {"disruptionMode": {"all": {}}, "priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}
    policy = {
        "schedulingPolicy": {"gang": {"minGroupCount": 1}},
        "schedulingConstraints": {"topology": [{"key": "example.com/zone"}]},
    }
    inner = {"name": "inner", **policy, **shared, "podGroupTemplates": [{"name": "leaf", **_members()}]}
    outer = {
        "name": "outer",
        **policy,
        **shared,
        "podGroupTemplates": [{"name": "side", **_members()}],
        "compositePodGroupTemplates": [inner],
    }
    return {
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
            "compositePodGroupTemplates": [outer],
        },
    }

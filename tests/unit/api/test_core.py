from __future__ import annotations

from typing import Any

from claimsmith.api.core import (
    encode_binding,
    encode_event,
    encode_namespace,
    encode_node,
    encode_pod,
    parse_binding,
    parse_event,
    parse_namespace,
    parse_node,
    parse_pod,
)
from claimsmith.model.names import PodRef
from claimsmith.model.quantity import parse_quantity
from claimsmith.model.record import PodBinding


def pod_json() -> dict[str, Any]:
    """A pod that uses every field of the model, with defaults set."""
    resources = {
        "requests": {"cpu": "500m"},
        "limits": {"example.com/gpu": "1"},
        "claims": [{"name": "gpu", "request": "r"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "busybox",
                    "resources": {**resources, "requests": {"cpu": "500m", "example.com/gpu": "1"}},
                    "env": [{"name": "A", "value": "b"}],
                }
            ],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}],
            "resourceClaims": [
                {"name": "gpu", "resourceClaimName": "x"},
                {"name": "nic", "resourceClaimTemplateName": "y"},
            ],
            "nodeName": "node-a",
            "schedulerName": "claimsmith",
            "schedulingGates": [{"name": "claimsmith.dev/allocate"}],
            "nodeSelector": {"zone": "a"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
                    }
                }
            },
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
            "priority": 7,
            "overhead": {"memory": "1Mi"},
            "restartPolicy": "Never",
            "schedulingGroup": {"podGroupName": "g"},
        },
        "status": {
            "phase": "Running",
            "resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "p-nic-1"}, {"name": "none"}],
            "extendedResourceClaimStatus": {
                "resourceClaimName": "p-ext",
                "requestMappings": [
                    {
                        "containerName": "c",
                        "resourceName": "example.com/gpu",
                        "requestName": "container-0-request-0",
                    }
                ],
            },
        },
    }


def test_a_pod_with_every_field_comes_back_as_it_was() -> None:
    assert encode_pod(parse_pod(pod_json())) == pod_json()


def test_a_bare_pod_gets_the_defaults_of_the_api() -> None:
    pod = parse_pod({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})

    assert (pod.scheduler_name, pod.restart_policy, pod.phase) == ("default-scheduler", "Always", "Pending")


def test_requests_default_to_limits() -> None:
    resources = {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 1}}
    pod = parse_pod({"spec": {"containers": [{"name": "c", "resources": resources}]}})

    assert pod.containers[0].requests == {"cpu": parse_quantity("1"), "memory": parse_quantity("1Gi")}


def test_environment_from_elsewhere_is_no_value() -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B"}]
    pod = parse_pod({"spec": {"containers": [{"name": "c", "env": env}]}})

    assert pod.containers[0].env == {"B": ""}


def test_a_node_with_every_field_comes_back_as_it_was() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-a", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "unschedulable": True},
        "status": {
            "capacity": {"cpu": "8"},
            "allocatable": {"cpu": "7"},
            "declaredFeatures": ["A", "B"],
            "conditions": [{"type": "Ready", "status": "False"}],
        },
    }

    assert encode_node(parse_node(obj)) == obj


def test_a_node_without_conditions_counts_as_ready_and_allocatable_is_its_capacity() -> None:
    node = parse_node({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "8"}}})

    assert node.ready
    assert node.allocatable == {"cpu": parse_quantity("8")}


def test_a_node_of_unknown_readiness_is_not_ready() -> None:
    assert not parse_node({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}).ready


def test_a_namespace_comes_back_as_it_was() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team", "labels": {"resource.kubernetes.io/admin-access": "true"}},
        "status": {"phase": "Active"},
    }

    assert encode_namespace(parse_namespace(obj)) == obj


def test_an_event_comes_back_as_it_was() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "p.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default", "uid": "u"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no device",
        "source": {"component": "claimsmith"},
        "reportingComponent": "claimsmith",
        "count": 3,
        "firstTimestamp": "2024-05-01T00:00:00Z",
        "lastTimestamp": "2024-05-01T00:01:00Z",
    }

    assert encode_event(parse_event(obj)) == obj


def test_an_event_of_the_newer_form_has_its_time_and_reporter() -> None:
    event = parse_event({"eventTime": "2024-05-01T00:00:00.000000Z", "reportingComponent": "kubelet"})

    assert (event.component, event.count, event.last_timestamp) == ("kubelet", 1, "2024-05-01T00:00:00.000000Z")


def test_a_binding_comes_back_as_it_was() -> None:
    binding = PodBinding(pod=PodRef("default", "p"), node_name="node-a", pod_uid="u")

    assert parse_binding(encode_binding(binding)) == binding


def test_a_pod_keeps_its_own_amounts_and_what_devices_take_of_its_node() -> None:
    amount = {"name": "cpu", "quantity": "2"}
    overhead = {"name": "memory", "perContainer": "1Mi", "perPod": "1Gi"}
    entry = {"resourceClaimName": "c", "containers": ["main"], "mapping": [amount], "overhead": [overhead]}
    spec = {
        "containers": [{"name": "main"}],
        "resources": {"limits": {"memory": "2Gi"}, "requests": {"cpu": "3"}},
    }
    status = {"nodeAllocatableResourceClaimStatuses": [entry]}
    stored = encode_pod(parse_pod({"metadata": {"name": "p"}, "spec": spec, "status": status}))

    assert stored["spec"]["resources"] == spec["resources"]
    assert stored["status"]["nodeAllocatableResourceClaimStatuses"] == [entry]

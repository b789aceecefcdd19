"""Snapshots as files: nothing is lost that decisions read, nothing is kept that strangers must not see."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from claimsmith.api.manifests import parse_manifests
from claimsmith.api.objects import parse_objects
from claimsmith.api.snapshotfile import (
    SNAPSHOT_VERSION,
    encode_snapshot,
    is_snapshot_text,
    parse_snapshot_objects,
    reduce_snapshot,
)
from claimsmith.cluster.build import build_snapshot
from claimsmith.errors import FieldError, InputError
from claimsmith.model.names import PodRef
from claimsmith.model.snapshot import ClusterSnapshot

SECRET = "hunter2-swordfish"
EVERYTHING = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: team, labels: {{resource.kubernetes.io/admin-access: "true"}}, annotations: {{a: {SECRET}}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: high}}
value: 1000
description: {SECRET}
---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: gpus, namespace: team, annotations: {{a: {SECRET}}}}}
spec: {{hard: {{gpu.deviceclass.resource.k8s.io/devices: "2"}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web, namespace: team, annotations: {{a: {SECRET}}}}}
spec: {{minAvailable: 1, selector: {{matchLabels: {{app: web}}}}}}
status: {{disruptionsAllowed: 1, conditions: [{{type: X, status: "True", reason: R, message: {SECRET},
  lastTransitionTime: "2024-05-01T00:00:00Z"}}]}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu, annotations: {{kubectl.kubernetes.io/last-applied-configuration: {SECRET}}}}}
spec:
  selectors: [{{cel: {{expression: 'device.driver == "gpu.example.com"'}}}}]
  config: [{{opaque: {{driver: gpu.example.com, parameters: {{token: {SECRET}}}}}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {{name: hot, annotations: {{a: {SECRET}}}}}
spec: {{deviceSelector: {{driver: gpu.example.com}}, taint: {{key: hot, effect: NoSchedule}}}}
status: {{conditions: [{{type: X, status: "True", reason: R, message: {SECRET},
  lastTransitionTime: "2024-05-01T00:00:00Z"}}]}}
---
apiVersion: v1
kind: Node
metadata: {{name: alpha, labels: {{zone: z1}}, annotations: {{a: {SECRET}}}}}
spec: {{taints: [{{key: gpu, effect: NoSchedule}}]}}
status: {{capacity: {{cpu: "8"}}, allocatable: {{cpu: "7500m"}}, declaredFeatures: [F]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: alpha-gpus, annotations: {{a: {SECRET}}}}}
spec:
  driver: gpu.example.com
  nodeName: alpha
  pool: {{name: alpha, generation: 1, resourceSliceCount: 1}}
  devices: [{{name: one, attributes: {{model: {{string: T4}}}}, capacity: {{memory: {{value: 16Gi}}}}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: any, namespace: team, annotations: {{a: {SECRET}}}}}
spec:
  metadata: {{labels: {{l: x}}, annotations: {{a: {SECRET}}}}}
  spec:
    devices:
      requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]
      config: [{{opaque: {{driver: gpu.example.com, parameters: {{token: {SECRET}}}}}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: taken
  namespace: team
  uid: c1
  annotations: {{resource.kubernetes.io/pod-claim-name: gpu, a: {SECRET}}}
spec:
  devices:
    requests: [{{name: gpu, exactly: {{deviceClassName: gpu}}}}]
    config: [{{opaque: {{driver: gpu.example.com, parameters: {{token: {SECRET}}}}}}}]
status:
  allocation:
    devices:
      results: [{{request: gpu, driver: gpu.example.com, pool: alpha, device: one}}]
      config: [{{source: FromClaim, opaque: {{driver: gpu.example.com, parameters: {{token: {SECRET}}}}}}}]
  reservedFor: [{{resource: pods, name: runs, uid: p1}}]
  devices:
  - driver: gpu.example.com
    pool: alpha
    device: one
    data: {{token: {SECRET}}}
    networkData: {{interfaceName: {SECRET}}}
    conditions: [{{type: Ready, status: "True", reason: R, message: {SECRET},
      lastTransitionTime: "2024-05-01T00:00:00Z"}}]
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {{name: gang, namespace: team, annotations: {{a: {SECRET}}}}}
spec: {{schedulingPolicy: {{gang: {{minCount: 2}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: runs, namespace: team, uid: p1, labels: {{app: web}}, annotations: {{a: {SECRET}}}}}
spec:
  nodeName: alpha
  priority: 7
  preemptionPolicy: Never
  tolerations: [{{key: gpu, operator: Exists}}]
  schedulingGroup: {{podGroupName: gang}}
  imagePullSecrets: [{{name: {SECRET}}}]
  initContainers: [{{name: init, image: 'example/init:{SECRET}', env: [{{name: A, value: {SECRET}}}]}}]
  containers:
  - name: main
    image: 'example/web:{SECRET}'
    command: [{SECRET}]
    args: [{SECRET}]
    env: [{{name: TOKEN, value: {SECRET}}}]
    envFrom: [{{secretRef: {{name: {SECRET}}}}}]
    resources: {{requests: {{cpu: "2"}}, claims: [{{name: gpu}}]}}
  volumes: [{{name: v, secret: {{secretName: {SECRET}}}}}]
  resourceClaims: [{{name: gpu, resourceClaimName: taken}}]
status: {{phase: Running, message: {SECRET}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: ended, namespace: team, uid: p2}}
spec: {{containers: [{{name: main, image: x}}]}}
status: {{phase: Succeeded}}
"""


def full() -> ClusterSnapshot:
    objects = parse_objects(parse_manifests(EVERYTHING, source="x"), strict=False)
    return build_snapshot(objects, resource_version="77")


def read(text: str) -> ClusterSnapshot:
    found = parse_snapshot_objects(text, source="file")
    return build_snapshot(found.objects, resource_version=found.resource_version)


def test_no_secret_gets_into_a_snapshot() -> None:
    text = json.dumps(encode_snapshot(full()))

    assert EVERYTHING.count(SECRET) > 25
    assert SECRET not in text


def test_nothing_but_names_labels_and_placement_is_left_of_a_pod() -> None:
    (pod,) = [item for item in encode_snapshot(full())["items"] if item["kind"] == "Pod"]

    assert pod["spec"] == {
        "nodeName": "alpha",
        "priority": 7,
        "preemptionPolicy": "Never",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "schedulingGroup": {"podGroupName": "gang"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "taken"}],
        "initContainers": [{"name": "init", "image": "left-out"}],
        "containers": [
            {
                "name": "main",
                "image": "left-out",
                "resources": {"requests": {"cpu": "2"}, "claims": [{"name": "gpu"}]},
            }
        ],
    }


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_a_snapshot_comes_back_as_it_was(write: Any) -> None:
    reduced = reduce_snapshot(full())

    assert read(write(encode_snapshot(reduced))) == reduced


def test_reducing_again_changes_nothing() -> None:
    reduced = reduce_snapshot(full())

    assert reduce_snapshot(reduced) == reduced


def test_what_decisions_read_stays() -> None:
    before, after = full(), reduce_snapshot(full())

    assert (after.nodes["alpha"].allocatable, after.slices[0].devices) == (
        before.nodes["alpha"].allocatable,
        before.slices[0].devices,
    )
    assert [claim.allocation is not None for claim in after.claims.values()] == [True]
    assert {claim.metadata.annotations["resource.kubernetes.io/pod-claim-name"] for claim in after.claims.values()} == {
        "gpu"
    }
    assert after.pods[PodRef("team", "runs")].containers[0].requests == (
        before.pods[PodRef("team", "runs")].containers[0].requests
    )


def test_pods_that_have_ended_go_unless_a_claim_is_reserved_for_them() -> None:
    snapshot = full()
    ended = PodRef("team", "ended")
    text = EVERYTHING.replace("uid: p1}]", "uid: p2}]")
    reserving = build_snapshot(parse_objects(parse_manifests(text, source="x"), strict=False))

    assert ended not in reduce_snapshot(snapshot).pods
    assert ended in reduce_snapshot(reserving).pods


def test_a_snapshot_is_also_a_text_of_manifests() -> None:
    marker, *objects = parse_manifests(json.dumps(encode_snapshot(full())), source="x")

    assert marker.object["kind"] == "ClusterSnapshot"
    assert build_snapshot(parse_objects(objects), resource_version="77") == reduce_snapshot(full())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "found 'v1 Pod' as the first object"),
        ('{"apiVersion": "v1", "kind": "List", "items": []}', "found 'nothing' as the first object"),
        ("", "found 'nothing' as the first object"),
        ("apiVersion: claimsmith.dev/v9\nkind: ClusterSnapshot\n", "found a snapshot of version 'claimsmith.dev/v9'"),
        ("apiVersion: [1]\nkind: ClusterSnapshot\n", "as the first object"),
    ],
)
def test_what_is_no_snapshot_is_refused(text: str, told: str) -> None:
    with pytest.raises(InputError, match=r"^file: .*; ") as caught:
        parse_snapshot_objects(text, source="file")

    assert told in str(caught.value)


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_a_broken_object_in_a_snapshot_is_named(write: Any) -> None:
    value = encode_snapshot(full())
    node = next(item for item in value["items"] if item["kind"] == "Node")
    node["status"]["allocatable"]["cpu"] = "much"

    with pytest.raises(FieldError, match=r"status\.allocatable\.cpu|status\.allocatable: .*much"):
        parse_snapshot_objects(write(value), source="file")


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_kinds_of_a_later_version_are_passed_over(write: Any) -> None:
    value = encode_snapshot(full())
    value["items"].append({"apiVersion": "claimsmith.dev/v1", "kind": "Later", "metadata": {"name": "x"}})

    assert read(write(value)) == reduce_snapshot(full())


def test_a_snapshot_is_told_by_its_beginning() -> None:
    assert is_snapshot_text(json.dumps(encode_snapshot(full())))
    assert is_snapshot_text(yaml.safe_dump(encode_snapshot(full()), sort_keys=False))
    assert not is_snapshot_text(f"apiVersion: {SNAPSHOT_VERSION}\nkind: SimulatedDevices\n")

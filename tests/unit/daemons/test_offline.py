"""Decisions on manifests alone: what a running cluster would know of the devices and claims counts here too."""

from __future__ import annotations

from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.offline import OfflineCluster

CLASS = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: gpu}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec:
  containers: [{name: main, image: job, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
"""
TEMPLATE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""


def cards(text: str) -> str:
    """Return settings of simulated cards on one node."""
    return f"""\
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {{name: cards}}
spec: {{nodes: [node-a], driver: gpu.example.com, gpus: [{text}]}}
"""


def open_cluster(*texts: str) -> OfflineCluster:
    return OfflineCluster(parse_manifests("---\n".join(texts), source="f.yaml"))


def test_a_card_that_has_failed_is_not_given_away() -> None:
    failed = cards("{model: T4, fault: xid-79}, {model: L4}")
    (decision,) = open_cluster(failed, CLASS, TEMPLATE, POD).decide()

    assert [result.device for _, found in decision.allocations for result in found.results] == ["gpu-1"]


def test_a_card_that_has_failed_shows_its_taint() -> None:
    (item,) = open_cluster(cards("{model: T4, fault: xid-79}")).snapshot.slices

    assert [str(taint.value) for device in item.devices for taint in device.taints] == ["xid-79"]


def test_a_fault_of_the_script_has_not_happened_yet() -> None:
    text = cards("{model: T4}").replace("]}\n", "], script: [{afterSeconds: 1, fail: gpu-0, cause: xid-79}]}\n")
    (decision,) = open_cluster(text, CLASS, TEMPLATE, POD).decide()

    assert decision.outcome == "allocated"


def test_a_template_that_is_missing_is_named() -> None:
    (decision,) = open_cluster(cards("{model: T4}"), CLASS, POD).decide()

    assert decision.outcome == "pending"
    assert decision.message == "claim 'gpu' of the pod: claim template default/one does not exist; create it"

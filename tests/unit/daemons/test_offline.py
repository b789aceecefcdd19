"""Decisions on manifests alone."""

from __future__ import annotations

import pytest

from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.offline import OfflineCluster
from claimsmith.daemons.offline_decision import OfflineDecision
from claimsmith.errors import InputError
from claimsmith.model.names import PodRef

CARDS = """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec:
  nodes: [alpha]
  driver: gpu.example.com
  gpus: [{model: T4, name: one}, {model: L4, name: two}]
"""
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: any}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""
ALLOCATED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: taken, namespace: team, uid: c1}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: alpha, device: one}]}
  reservedFor: [{resource: pods, name: runs, uid: p1}]
"""
RUNNING = """
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: team, uid: p1}
spec:
  nodeName: alpha
  containers: [{name: main, image: 'x:1', resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: taken}]
status: {phase: Running}
"""


def claim(name: str, *, model: str = "") -> str:
    selector = f""", selectors: [{{cel: {{expression: 'device.attributes["gpu.example.com"].model == "{model}"'}}}}]"""
    return f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu{selector if model else ""}}}}}]}}}}
"""


def pod(name: str, *, source: str = "resourceClaimTemplateName: any", more: str = "") -> str:
    return f"""
apiVersion: v1
kind: Pod
metadata: {{{name if ":" in name else f"name: {name}"}}}
spec:
  containers: [{{name: main, image: 'x:1', resources: {{claims: [{{name: gpu}}]}}}}]
  resourceClaims: [{{name: gpu, {source}}}]
  {more}
"""


def cluster(*texts: str, node: str = "") -> OfflineCluster:
    return OfflineCluster(parse_manifests("\n---\n".join(texts), source="files"), node=node)


def decide(*texts: str, target: str = "") -> list[OfflineDecision]:
    return list(cluster(CARDS, CLASS, TEMPLATE, *texts).decide(target))


def devices(decision: OfflineDecision) -> list[str]:
    return [result.device for _, allocation in decision.allocations for result in allocation.results]


def test_each_decision_counts_for_the_next() -> None:
    found = decide(pod("a"), pod("b"), pod("c"))

    assert [(d.target, d.outcome, devices(d)) for d in found] == [
        ("pod/default/a", "allocated", ["one"]),
        ("pod/default/b", "allocated", ["two"]),
        ("pod/default/c", "pending", []),
    ]


def test_one_that_gets_nothing_is_told_by_whom_devices_are_used() -> None:
    last = decide(pod("a"), pod("b"), pod("c"))[-1]

    assert last.message.startswith("0/1 nodes can serve the claims; ")
    assert "one in use by default/a-gpu-0" in last.message
    assert {str(device) for reason in last.reasons for device in reason.devices} >= {"gpu.example.com/alpha/one"}


def test_a_higher_priority_comes_first() -> None:
    found = decide(pod("low"), pod("high", more="priority: 5"))

    assert [decision.target for decision in found] == ["pod/default/high", "pod/default/low"]


def test_claims_that_no_pod_uses_come_last() -> None:
    found = decide(claim("lone", model="T4"), pod("a"))

    assert [(d.target, devices(d)) for d in found] == [("pod/default/a", ["one"]), ("claim/default/lone", [])]


def test_what_runs_already_keeps_its_devices() -> None:
    (found,) = decide(ALLOCATED, RUNNING, pod("a"))

    assert (found.target, devices(found)) == ("pod/default/a", ["two"])


@pytest.mark.parametrize("target", ["pod/b", "pod/default/b"])
def test_a_target_is_decided_in_its_place_in_the_queue(target: str) -> None:
    (found,) = decide(pod("a"), pod("b"), pod("c"), target=target)

    assert (found.target, devices(found)) == ("pod/default/b", ["two"])


def test_a_target_that_runs_already_is_told_as_it_is() -> None:
    (running,) = decide(ALLOCATED, RUNNING, target="pod/team/runs")
    (taken,) = decide(ALLOCATED, RUNNING, target="claim/team/taken")

    assert (running.outcome, running.node, devices(running)) == ("allocated", "alpha", ["one"])
    assert (taken.outcome, devices(taken)) == ("allocated", ["one"])


def test_a_claim_of_pods_can_be_the_target() -> None:
    shared = [claim("shared"), pod("a", source="resourceClaimName: shared")]
    (fits,) = decide(*shared, target="claim/shared")
    (not_,) = decide(claim("shared", model="H100"), pod("a", source="resourceClaimName: shared"), target="claim/shared")

    assert (fits.outcome, devices(fits)) == ("allocated", ["one"])
    assert (not_.outcome, not_.target) == ("pending", "claim/default/shared")


def test_pods_that_share_a_claim_have_it_both() -> None:
    both = [pod(name, source="resourceClaimName: shared") for name in "ab"]

    assert [devices(decision) for decision in decide(claim("shared"), *both)] == [["one"], ["one"]]


def test_an_unknown_target_is_refused_with_those_that_wait() -> None:
    with pytest.raises(InputError) as caught:
        decide(pod("a"), claim("lone"), target="pod/b")

    assert str(caught.value) == (
        "target 'pod/b': found no such pod or claim, allowed pod/default/a, claim/default/lone; correct it"
    )


def test_pods_whose_names_a_server_would_make_up_are_told_apart() -> None:
    found = decide(pod("generateName: job-"), pod("generateName: job-"))

    assert len({decision.target for decision in found}) == 2
    assert [devices(decision) for decision in found] == [["one"], ["two"]]


def test_one_node_alone_can_be_looked_at() -> None:
    many = CARDS.replace("[alpha]", "[alpha, beta]")
    (found,) = cluster(many, CLASS, TEMPLATE, pod("a"), node="beta").decide()

    assert found.node == "beta"


def test_a_node_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="node 'beta': not in the manifests, allowed alpha; name one of them"):
        cluster(CARDS, node="beta")


def test_settings_for_every_node_make_one() -> None:
    (found,) = cluster(CARDS.replace("nodes: [alpha]", "nodes: ['*']"), CLASS, TEMPLATE, pod("a")).decide()

    assert found.node == "node-1"


def test_kinds_without_use_are_named() -> None:
    found = cluster("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}")

    assert found.left_out[0].endswith("left out v1 ConfigMap; claimsmith has no use for this kind")


STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  template:
    spec:
      containers: [{name: main, image: 'x:1', resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: any}]
"""


def test_a_workload_stands_for_its_pods() -> None:
    found = decide(STATEFUL)

    assert [(d.target, d.outcome, devices(d)) for d in found] == [
        ("pod/default/web-0", "allocated", ["one"]),
        ("pod/default/web-1", "allocated", ["two"]),
        ("pod/default/web-2", "pending", []),
    ]


def test_a_pod_of_a_workload_that_is_there_already_is_not_made_again() -> None:
    there = cluster(CARDS, CLASS, TEMPLATE, pod("web-1", more="priority: 5"))
    base = there.snapshot
    found = OfflineCluster(parse_manifests(STATEFUL, source="files"), base=base)

    assert found.snapshot.pods[PodRef("default", "web-1")] == base.pods[PodRef("default", "web-1")]


SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: cards}
spec:
  driver: gpu.example.com
  nodeName: ghost
  pool: {name: ghost, generation: 1, resourceSliceCount: 1}
  devices: [{name: one}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: ghoul}
status: {allocatable: {cpu: "8", pods: "10"}}
"""


def test_a_slice_of_a_node_that_is_not_given_places_no_pod_and_is_told() -> None:
    found = cluster(SLICE, NODE, CLASS, TEMPLATE, pod("a"))

    assert [decision.outcome for decision in found.decide()] == ["pending"]
    assert found.left_out == (
        "ResourceSlice cards: there is no Node 'ghost', known are ghoul; no pod gets to the devices; "
        "did you mean ghoul?",
    )


def test_slices_name_the_nodes_where_none_is_given() -> None:
    found = cluster(SLICE, CLASS, TEMPLATE, pod("a"))

    assert [decision.node for decision in found.decide()] == ["ghost"]
    assert found.left_out == ()

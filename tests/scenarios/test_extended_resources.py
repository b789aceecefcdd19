"""Extended resources that devices of a class serve: several containers, mixed nodes, leftovers of earlier attempts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from claimsmith.api.core_pods import parse_pod
from claimsmith.api.kinds import NODE, POD, RESOURCE_CLAIM
from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.clusterplan import plan_cluster
from claimsmith.daemons.playground import Playground
from claimsmith.model.claim import ResourceClaim
from tests.scenarios.scheduling import Bench, bench, claim_spec

CLUSTER = """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: all}
spec: {nodes: [node-a], driver: gpu.example.test, gpus: [{model: L4, count: 2}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpus}
spec: {extendedResourceName: vendor.example/gpu, selectors: [{cel: {expression: device.driver == 'gpu.example.test'}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  containers:
  - {name: one, image: 'example.test/image:1', resources: {limits: {vendor.example/gpu: 1}}}
  - {name: two, image: 'example.test/image:1', resources: {limits: {vendor.example/gpu: 1}}}
  - {name: none, image: 'example.test/image:1'}
"""
GPU, NIC = "vendor.example/gpu", "vendor.example/nic"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
Mapping = tuple[str, str, str]


def container(name: str, **amounts: int) -> dict[str, Any]:
    names = {"gpu": GPU, "nic": NIC}
    limits = {names.get(key, IMPLICIT + key): str(amount) for key, amount in amounts.items()}
    return {"name": name, "image": "example.test/image:1", "resources": {"limits": limits, "requests": limits}}


def requests(claim: ResourceClaim) -> dict[str, tuple[str, int]]:
    found = [(item.name, item.exactly) for item in claim.spec.requests]
    return {name: (exactly.device_class, exactly.count) for name, exactly in found if exactly is not None}


def mappings(cluster: Bench, pod: str) -> list[Mapping]:
    found = cluster.pods.find("default", pod)
    return [(item.container, item.resource, item.request) for item in found.extended_mappings] if found else []


async def test_containers_and_resources_get_requests_and_init_containers_share_them() -> None:
    async with bench() as cluster:
        await cluster.add_class("gpus", extendedResourceName=GPU)
        await cluster.add_class("nics", extendedResourceName=NIC)
        await cluster.add_node("node-a", *(f"d{number}" for number in range(5)))
        init = [container("setup", gpu=3)]
        await cluster.add_pod(
            "p", initContainers=init, containers=[container("a", gpu=1, nic=1), container("b", gpu=1)]
        )
        await cluster.until(lambda: bool(mappings(cluster, "p")))
        (claim,) = cluster.claims
        await cluster.until(lambda: len(cluster.devices(claim.ref.name)) == 4)

    assert requests(claim) == {
        "container-0-request-0": ("gpus", 1),
        "container-1-request-0": ("gpus", 1),
        "container-1-request-1": ("nics", 1),
        "container-2-request-0": ("gpus", 1),
    }
    assert mappings(cluster, "p") == [
        ("a", GPU, "container-1-request-0"),
        ("b", GPU, "container-2-request-0"),
        ("setup", GPU, "container-1-request-0"),
        ("setup", GPU, "container-2-request-0"),
        ("setup", GPU, "container-0-request-0"),
        ("a", NIC, "container-1-request-1"),
    ]


async def test_every_class_offers_a_resource_of_its_own_name() -> None:
    async with bench() as cluster:
        await cluster.add_class("gpus")
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", containers=[container("main", gpus=1)])
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert mappings(cluster, "p") == [("main", IMPLICIT + "gpus", "container-0-request-0")]


async def test_each_node_serves_a_resource_in_its_own_way() -> None:
    async with bench() as cluster:
        await cluster.add_class("gpus", extendedResourceName=GPU)
        await cluster.add_node("with-devices", "gpu-0")
        await cluster.add_node("with-plugin", **{GPU: "1"})
        for name in ("a", "b"):
            await cluster.add_pod(name, containers=[container("main", gpu=1)])
        await cluster.until(lambda: all(cluster.node_of(name) for name in ("a", "b")))

    nodes = {cluster.node_of(name): bool(mappings(cluster, name)) for name in ("a", "b")}
    assert nodes == {"with-devices": True, "with-plugin": False}


async def test_a_pod_may_have_claims_and_extended_resources() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_class("gpus", extendedResourceName=GPU)
        await cluster.add_node("node-a", "gpu-0", "gpu-1")
        await cluster.add_claim("mine")
        await cluster.add_pod("p", "mine", resources={"limits": {GPU: "1"}})
        await cluster.until(lambda: bool(cluster.node_of("p")))
        taken = sorted(device for claim in cluster.claims for device in cluster.devices(claim.ref.name))

    assert taken == ["gpu.example.test/node-a/gpu-0", "gpu.example.test/node-a/gpu-1"]


async def leave_claim(cluster: Bench, pod: str, **exactly: Any) -> str:
    """Leave a special claim behind, as a scheduler does that died between two writes."""
    found = await cluster.client.get(POD, pod, namespace="default")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": found["metadata"]["uid"], "controller": True}
    metadata = {
        "name": "left",
        "namespace": "default",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner],
    }
    await cluster.client.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": claim_spec(**exactly)})
    return "left"


async def start_late(cluster: Bench, *, count: int = 1) -> None:
    """Let a pod wait at a gate, leave a claim for a request named otherwise, and open the gate."""
    gate: dict[str, Any] = {"schedulingGates": [{"name": "example.test/wait"}]}
    await cluster.add_pod("p", containers=[container("main", gpu=count)], **gate)
    await leave_claim(cluster, "p", deviceClassName="gpus")
    await cluster.until(lambda: cluster.claim("left") is not None)
    await cluster.client.patch(POD, "p", {"spec": {"schedulingGates": []}}, namespace="default")


async def test_a_claim_left_by_an_earlier_attempt_that_fits_nowhere_is_made_anew() -> None:
    async with bench() as cluster:
        await cluster.add_class("gpus", extendedResourceName=GPU)
        await cluster.add_node("node-a", "gpu-0")
        await start_late(cluster)
        await cluster.until(lambda: bool(cluster.node_of("p")))
        (claim,) = cluster.claims

    assert claim.ref.name.startswith("p-extended-resources-")


async def test_a_claim_left_by_an_earlier_attempt_goes_before_a_plugin_serves_the_pod() -> None:
    async with bench() as cluster:
        await cluster.add_class("gpus", extendedResourceName=GPU)
        await cluster.add_node("node-a", **{GPU: "1"})
        await start_late(cluster)
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert (list(cluster.claims), mappings(cluster, "p")) == ([], [])


async def test_the_special_claim_goes_when_the_pod_ends() -> None:
    async with bench() as cluster:
        await cluster.add_class("gpus", extendedResourceName=GPU)
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", containers=[container("main", gpu=1)])
        await cluster.until(lambda: bool(cluster.node_of("p")))
        await cluster.end_pod("p")
        await cluster.until(lambda: not list(cluster.claims))
        await cluster.add_pod("q", containers=[container("main", gpu=1)])
        await cluster.until(lambda: bool(cluster.node_of("q")))

    assert cluster.pods.find("default", "p") is not None


async def test_a_plugin_that_comes_later_serves_the_pods_that_wait() -> None:
    async with bench() as cluster:
        await cluster.add_node("node-a")
        await cluster.add_pod("p", containers=[container("main", gpu=1)])
        await cluster.until(lambda: bool(cluster.messages()))
        amounts = {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "1"}}
        await cluster.client.patch(NODE, "node-a", {"status": amounts}, subresource="status")

        await cluster.until(lambda: cluster.node_of("p") == "node-a")


async def test_each_container_gets_the_devices_of_its_own_requests_and_no_others() -> None:
    async with Playground(plan_cluster(parse_manifests(CLUSTER, source="test"))) as cluster:
        uid = await running(cluster, "p")
        lines = {name: cluster.logs.find_lines(uid, name) or () for name in ("one", "two", "none")}
    seen = {name: devices(item.text for item in found) for name, found in lines.items()}

    assert (seen["none"], sorted((seen["one"], seen["two"]))) == ([], [["gpu-0"], ["gpu-1"]])


def devices(lines: Iterable[str]) -> list[str]:
    """Return the devices that a container sees, as it has written them."""
    return [line.split()[1].rpartition("/")[2] for line in lines if line.startswith("device ")]


async def running(cluster: Playground, name: str) -> str:
    """Return the uid of a pod once it runs."""
    version = (await cluster.client.list(POD)).resource_version
    pods = [parse_pod(item) for item in (await cluster.client.list(POD)).items]
    if any(pod.metadata.name == name and pod.phase == "Running" for pod in pods):
        return next(pod.uid for pod in pods if pod.metadata.name == name)
    async for event in cluster.client.watch(POD, resource_version=version):
        pod = parse_pod(event.object) if event.type in ("ADDED", "MODIFIED") else None
        if pod is not None and pod.metadata.name == name and pod.phase == "Running":
            return pod.uid
    raise AssertionError("the watch ended")

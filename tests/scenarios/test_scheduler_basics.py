"""Pods, claims and devices: what is placed where, and what is said when nothing fits."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import NODE, POD, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from claimsmith.daemons.scheduler import SchedulerOptions
from tests.scenarios.scheduling import bench, meta, node_slice


def gpu(name: str, memory: str) -> dict[str, Any]:
    return {"name": name, "capacity": {"memory": {"value": memory}}}


async def test_a_pod_gets_a_device_from_a_template_and_a_node() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_template()
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: cluster.node_of("p") == "node-a")
        (claim,) = cluster.claims

    assert claim.metadata.name.startswith("p-t-")
    assert claim.metadata.annotations == {"resource.kubernetes.io/pod-claim-name": "t"}
    assert cluster.devices(claim.metadata.name) == ["gpu.example.test/node-a/gpu-0"]
    assert cluster.users(claim.metadata.name) == ["p"]
    assert claim.allocation is not None
    assert claim.allocation.allocation_timestamp


async def test_a_selector_chooses_the_larger_gpu_and_the_next_pod_is_told_why_it_waits() -> None:
    selector = [{"cel": {"expression": "device.capacity['gpu.example.test'].memory.compareTo(quantity('10Gi')) > 0"}}]
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_template(selectors=selector)
        await cluster.add_node("node-a", gpu("small", "8Gi"), gpu("large", "12Gi"))
        await cluster.add_pod("first", template="gpu")
        await cluster.until(lambda: bool(cluster.node_of("first")))
        await cluster.add_pod("second", template="gpu")
        await cluster.until(lambda: bool(cluster.messages()))
        told = await cluster.condition(POD, "second", "PodScheduled", "False")
        await cluster.end_pod("first")
        await cluster.until(lambda: cluster.node_of("second") == "node-a")

    assert (told["status"], told["reason"]) == ("False", "Unschedulable")
    assert told["message"] == cluster.messages()[0]
    assert "large" in told["message"]
    assert "in use" in told["message"]


async def test_a_pod_without_claims_needs_only_room() -> None:
    async with bench() as cluster:
        await cluster.add_node("node-a", cpu="1")
        await cluster.add_pod("large", resources={"requests": {"cpu": "2"}})
        await cluster.add_pod("small", resources={"requests": {"cpu": "1"}})
        await cluster.until(lambda: bool(cluster.node_of("small")) and bool(cluster.messages()))
        await cluster.add_node("node-b", cpu="4")
        await cluster.until(lambda: cluster.node_of("large") == "node-b")

    assert cluster.messages() == ["0/1 nodes can take the pod; 1 node: node has too little cpu left"]


async def test_a_gated_pod_waits_until_its_gate_is_lifted() -> None:
    async with bench() as cluster:
        await cluster.add_node("node-a")
        await cluster.add_pod("gated", schedulingGates=[{"name": "example.test/wait"}])
        await cluster.add_pod("free")
        await cluster.until(lambda: bool(cluster.node_of("free")))
        before = cluster.node_of("gated")
        await cluster.client.patch(POD, "gated", {"spec": {"schedulingGates": None}}, namespace="default")
        await cluster.until(lambda: bool(cluster.node_of("gated")))

    assert before == ""


async def test_pods_of_other_schedulers_are_left_alone() -> None:
    async with bench(options=SchedulerOptions(names=frozenset({"claimsmith", "default-scheduler"}))) as cluster:
        await cluster.add_node("node-a")
        await cluster.add_pod("other", schedulerName="somebody-else")
        await cluster.add_pod("plain", schedulerName="default-scheduler")
        await cluster.add_pod("named")
        await cluster.until(lambda: bool(cluster.node_of("plain")) and bool(cluster.node_of("named")))

    assert cluster.node_of("other") == ""


async def test_the_first_alternative_decides_on_the_node() -> None:
    class_name = "gpu"
    choices = [
        {"name": "big", "deviceClassName": class_name, "selectors": [_memory("80Gi")]},
        {"name": "two", "deviceClassName": class_name, "count": 2, "selectors": [_memory("40Gi")]},
    ]
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": choices}]}}
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATE, {"metadata": meta("either"), "spec": {"spec": spec}})
        await cluster.add_node("node-a", gpu("a0", "40Gi"), gpu("a1", "40Gi"))
        await cluster.add_node("node-b", gpu("b0", "80Gi"))
        await cluster.add_pod("first", template="either")
        await cluster.until(lambda: bool(cluster.node_of("first")))
        await cluster.add_pod("second", template="either")
        await cluster.until(lambda: bool(cluster.node_of("second")))

    assert (cluster.node_of("first"), cluster.node_of("second")) == ("node-b", "node-a")


def _memory(amount: str) -> dict[str, Any]:
    expression = f"device.capacity['gpu.example.test'].memory.compareTo(quantity('{amount}')) >= 0"
    return {"cel": {"expression": expression}}


async def test_a_pod_that_names_a_claim_that_does_not_exist_is_told_and_runs_when_it_comes() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", "mine")
        await cluster.until(lambda: bool(cluster.messages()))
        await cluster.add_claim("mine")
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert cluster.messages() == ["claim default/mine does not exist; create it"]
    assert cluster.users("mine") == ["p"]


async def test_a_template_that_comes_late_is_used() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: bool(cluster.messages("FailedResourceClaimCreation")))
        await cluster.add_template()
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert cluster.messages("FailedResourceClaimCreation") == [
        "claim 't' of the pod: claim template default/gpu does not exist; create it"
    ]


async def test_a_missing_class_is_named_and_helps_when_it_comes() -> None:
    async with bench() as cluster:
        await cluster.add_template()
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: bool(cluster.messages()))
        await cluster.add_class()
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert "gpu" in cluster.messages()[0]


async def test_a_new_slice_helps_a_waiting_pod() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_template()
        await cluster.add_node("node-a")
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: bool(cluster.messages()))
        await cluster.client.create(RESOURCE_SLICE, node_slice("node-a", ["gpu-0"]))
        await cluster.until(lambda: bool(cluster.messages("Scheduled")))

    assert cluster.messages("Scheduled") == ["Successfully assigned default/p to node-a"]


async def test_a_plain_extended_resource_is_served_by_a_class_that_offers_it() -> None:
    limits = {"limits": {"vendor.example/gpu": "1"}}
    async with bench() as cluster:
        await cluster.add_class("gpus", extendedResourceName="vendor.example/gpu")
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", resources=limits)
        await cluster.until(lambda: bool(cluster.node_of("p")))
        found = await cluster.client.get(POD, "p", namespace="default")
        (claim,) = cluster.claims

    status = found["status"]["extendedResourceClaimStatus"]
    assert claim.metadata.name.startswith("p-extended-resources-")
    assert claim.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert status == {
        "resourceClaimName": claim.metadata.name,
        "requestMappings": [
            {"containerName": "main", "resourceName": "vendor.example/gpu", "requestName": "container-0-request-0"}
        ],
    }
    assert cluster.users(claim.metadata.name) == ["p"]


async def test_a_node_with_a_device_plugin_serves_an_extended_resource_without_claim() -> None:
    async with bench() as cluster:
        await cluster.add_class("gpus", extendedResourceName="vendor.example/gpu")
        await cluster.add_node("node-a", **{"vendor.example/gpu": "1"})
        await cluster.add_pod("p", resources={"limits": {"vendor.example/gpu": "1"}})
        await cluster.until(lambda: bool(cluster.node_of("p")))
        await cluster.add_pod("q", resources={"limits": {"vendor.example/gpu": "1"}})
        await cluster.until(lambda: bool(cluster.messages()))

    assert len(cluster.claims) == 0
    assert "too little vendor.example/gpu left" in cluster.messages()[0]


async def test_an_extended_resource_that_nobody_offers_waits_for_a_class() -> None:
    async with bench() as cluster:
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_pod("p", resources={"limits": {"vendor.example/gpu": "1"}})
        await cluster.until(lambda: bool(cluster.messages()))
        await cluster.add_class("gpus", extendedResourceName="vendor.example/gpu")
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert "neither the node nor a device class offers vendor.example/gpu" in cluster.messages()[0]


async def test_a_cordoned_node_gets_no_pod_until_it_is_open_again() -> None:
    async with bench() as cluster:
        await cluster.add_node("node-a")
        await cluster.client.patch(NODE, "node-a", {"spec": {"unschedulable": True}})
        await cluster.add_pod("p")
        await cluster.until(lambda: bool(cluster.messages()))
        await cluster.client.patch(NODE, "node-a", {"spec": {"unschedulable": None}})
        await cluster.until(lambda: cluster.node_of("p") == "node-a")

    assert cluster.messages() == ["0/1 nodes can take the pod; 1 node: node is unschedulable"]


async def test_one_odd_device_does_not_keep_a_pod_off_the_others() -> None:
    selector = [{"cel": {"expression": "device.attributes['gpu.example.test'].model == 'x'"}}]
    model = {"attributes": {"model": {"string": "x"}}}
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_template(selectors=selector)
        await cluster.add_node("node-a", "without-model")
        await cluster.add_node("node-b", {"name": "with-model", **model})
        await cluster.add_pod("p", template="gpu")
        await cluster.until(lambda: cluster.node_of("p") == "node-b")

    assert cluster.messages() == []


async def test_pods_that_share_a_claim_follow_it_to_its_node() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_node("node-b", "gpu-0")
        await cluster.add_claim("shared")
        for name in ("p0", "p1", "p2"):
            await cluster.add_pod(name, "shared")
        await cluster.until(lambda: all(cluster.node_of(name) for name in ("p0", "p1", "p2")))
        nodes = {cluster.node_of(name) for name in ("p0", "p1", "p2")}

    assert len(nodes) == 1
    assert sorted(cluster.users("shared")) == ["p0", "p1", "p2"]


async def test_a_pod_of_a_shared_and_a_private_claim_gets_only_the_private_one_allocated() -> None:
    async with bench() as cluster:
        await cluster.add_class()
        await cluster.add_class("fabric", driver="fabric.example.test")
        await cluster.client.create(RESOURCE_SLICE, _fabric_slice())
        await cluster.add_node("node-a", "gpu-0")
        await cluster.add_node("node-b", "gpu-0")
        await cluster.add_claim("job-channel", deviceClassName="fabric")
        await cluster.add_claim("gpu-0")
        await cluster.add_claim("gpu-1")
        await cluster.add_pod("worker-0", "job-channel", "gpu-0")
        await cluster.until(lambda: bool(cluster.node_of("worker-0")))
        before = cluster.claim("job-channel")
        await cluster.add_pod("worker-1", "job-channel", "gpu-1")
        await cluster.until(lambda: bool(cluster.node_of("worker-1")))
        after = cluster.claim("job-channel")

    assert before is not None
    assert after is not None
    assert after.allocation == before.allocation
    assert cluster.users("job-channel") == ["worker-0", "worker-1"]
    assert cluster.users("gpu-1") == ["worker-1"]
    assert {cluster.node_of("worker-0"), cluster.node_of("worker-1")} == {"node-a", "node-b"}


def _fabric_slice() -> dict[str, Any]:
    spec = node_slice("fabric", ["channel-0"])["spec"]
    del spec["nodeName"]
    return {"metadata": {"name": "fabric"}, "spec": {**spec, "driver": "fabric.example.test", "allNodes": True}}

"""Devices that take of a node's cpu and memory: counted, checked, recorded in the pod's status, and given back."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import POD
from claimsmith.daemons.scheduler import SchedulerOptions
from claimsmith.model.workload import NodeAllocatableClaim
from claimsmith.testing.builders import quantities
from tests.scenarios.scheduling import Bench, bench

OPTIONS = SchedulerOptions(node_allocatable=True)
CPU: dict[str, Any] = {"resources": {"requests": {"cpu": "1"}}}


def taking(name: str, **resources: Any) -> dict[str, Any]:
    return {"name": name, "nodeAllocatableResources": resources}


def mapped(cpu: str) -> dict[str, Any]:
    return {"mapping": {"deviceMultiplier": cpu}}


async def start(cluster: Bench, *devices: dict[str, Any]) -> None:
    await cluster.add_class()
    await cluster.add_node("node-a", *devices)


def taken(cluster: Bench, pod: str) -> tuple[NodeAllocatableClaim, ...]:
    found = cluster.pods.find("default", pod)
    return found.node_allocatable if found else ()


async def test_what_devices_take_is_recorded_before_the_pod_is_bound() -> None:
    async with bench(options=OPTIONS) as cluster:
        await start(cluster, taking("gpu-0", cpu=mapped("4")))
        await cluster.add_claim("c")
        await cluster.add_pod("p", "c", **CPU)
        await cluster.until(lambda: bool(cluster.node_of("p")))

    expected = NodeAllocatableClaim(claim="c", containers=("main",), mapping=quantities({"cpu": 4}))
    assert taken(cluster, "p") == (expected,)


async def test_a_pod_waits_until_the_node_has_room_for_its_devices_too() -> None:
    async with bench(options=OPTIONS) as cluster:
        await start(cluster, taking("gpu-0", cpu=mapped("4")), taking("gpu-1", cpu=mapped("4")))
        for name in ("a", "b"):
            await cluster.add_claim(name)
            await cluster.add_pod(name, name, **CPU)
        await cluster.until(lambda: bool(cluster.messages()) and any(cluster.node_of(name) for name in ("a", "b")))
        (first,) = [name for name in ("a", "b") if cluster.node_of(name)]
        await cluster.end_pod(first)
        await cluster.until(lambda: all(cluster.node_of(name) for name in ("a", "b")))

    text = "node has too little cpu left for the pod with its devices: 5 wanted, of which 4 by devices, 3 left of 8"
    assert text in cluster.messages()[0]


async def test_a_claim_that_stands_for_resources_is_not_shared() -> None:
    async with bench(options=OPTIONS) as cluster:
        await start(cluster, taking("gpu-0", cpu=mapped("1")))
        await cluster.add_claim("c")
        await cluster.add_pod("a", "c")
        await cluster.until(lambda: bool(cluster.node_of("a")))
        await cluster.add_pod("b", "c")
        await cluster.until(lambda: bool(cluster.messages()))
        users = cluster.users("c")
        await cluster.end_pod("a")
        await cluster.until(lambda: bool(cluster.node_of("b")))

    assert users == ["a"]
    assert cluster.messages() == ["claim default/c stands for resources of a node, so that pods can't share it"]


async def test_a_claim_that_only_costs_something_besides_is_shared() -> None:
    async with bench(options=OPTIONS) as cluster:
        await start(cluster, taking("gpu-0", cpu={"overhead": {"perPod": "1"}}))
        await cluster.add_claim("c")
        for name in ("a", "b"):
            await cluster.add_pod(name, "c")
        await cluster.until(lambda: all(cluster.node_of(name) for name in ("a", "b")))

        assert [entry.claim for name in ("a", "b") for entry in taken(cluster, name)] == ["c", "c"]


async def test_a_stock_scheduler_counts_nothing_of_it() -> None:
    async with bench() as cluster:
        await start(cluster, taking("gpu-0", cpu=mapped("100")))
        await cluster.add_claim("c")
        await cluster.add_pod("p", "c", **CPU)
        await cluster.until(lambda: bool(cluster.node_of("p")))

    assert taken(cluster, "p") == ()


async def test_a_special_claim_takes_of_the_node_under_its_real_name() -> None:
    async with bench(options=OPTIONS) as cluster:
        await cluster.add_class("gpus", extendedResourceName="vendor.example/gpu")
        await cluster.add_node("node-a", taking("gpu-0", memory=mapped("1Gi")))
        await cluster.add_pod("p", resources={"limits": {"vendor.example/gpu": "1"}})
        await cluster.until(lambda: bool(cluster.node_of("p")))
        stored = await cluster.client.get(POD, "p", namespace="default")
        (claim,) = cluster.claims

    assert stored["status"]["nodeAllocatableResourceClaimStatuses"] == [
        {
            "resourceClaimName": claim.ref.name,
            "containers": ["main"],
            "mapping": [{"name": "memory", "quantity": "1Gi"}],
        }
    ]

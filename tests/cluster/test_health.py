"""What becomes of pods when devices of a real node fail, and when they work again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    EVENT,
    NODE,
    POD,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from claimsmith.kube.client import KubeClient, KubeObject
from tests.cluster.cluster import RealCluster
from tests.cluster.configured import configured
from tests.cluster.manifests import SLEEP, device_class, exactly, pod, template
from tests.cluster.recipe import NODE as NODE_NAME
from tests.cluster.seen import LOOK, device_nodes
from tests.cluster.watching import is_ready, is_unschedulable, wait_for, wait_for_object, wait_gone, wait_scheduler

DRIVER = "sim.claimsmith.dev"
RESOURCE = "nvidia.com/gpu"
ONE = {RESOURCE: "1"}
OFFERED = f"    devicePlugin: {{resources: [{{resource: {RESOURCE}}}]}}\n"
WELL = "gpus: [{model: A100-40}]"
FAILED = "gpus: [{model: A100-40, fault: xid-79}]"
BOTH_WELL = "gpus: [{model: A100-40}, {model: A100-40}]"
ONE_FAILED = "gpus: [{model: A100-40, fault: xid-79}, {model: A100-40}]"
HEALTH = """\
    health:
      holdSeconds: 0.2
      taints: {place}
      rules:
      - causes: [xid-79]
        effect: {effect}
"""


def policy(effect: str, place: str = "slices") -> str:
    return HEALTH.format(effect=effect, place=place)


async def create_template(client: KubeClient) -> None:
    await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
    await client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))


async def start_pod(client: KubeClient, name: str) -> None:
    await client.create(POD, pod(name, claims={"gpu": "gpu"}))


def health_of(obj: KubeObject) -> list[tuple[str, str]]:
    """Return health and message of each device in the status of a pod."""
    statuses = obj["status"].get("containerStatuses") or ()
    return [
        (item["health"], item.get("message", ""))
        for status in statuses
        for resource in status.get("allocatedResourcesStatus") or ()
        for item in resource.get("resources") or ()
    ]


def shows(health: str, message: str = "") -> Callable[[KubeObject], bool]:
    return lambda obj: any(found == health and message in text for found, text in health_of(obj))


def taints_of(items: Any) -> list[tuple[str, str]]:
    devices = [device for item in items for device in item["spec"].get("devices") or ()]
    return [(taint["value"], taint["effect"]) for device in devices for taint in device.get("taints") or ()]


async def test_a_pod_waits_for_a_failed_device_until_it_works_again(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with configured(real_cluster, client, FAILED, policy("NoSchedule")) as agent:
        await create_template(client)
        await wait_for(client, RESOURCE_SLICE, lambda items: taints_of(items) == [("xid-79", "NoSchedule")])
        await wait_scheduler(client)
        await start_pod(client, "user")
        await wait_for_object(client, POD, "user", is_unschedulable)
        agent.become(WELL)

        await wait_for_object(client, POD, "user", is_ready)


async def test_a_pod_that_runs_is_told_of_its_failed_device_and_stays(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with configured(real_cluster, client, WELL, policy("NoSchedule")) as agent:
        await create_template(client)
        await start_pod(client, "user")
        await wait_for_object(client, POD, "user", shows("Healthy"))
        agent.become(FAILED)
        await wait_for_object(client, POD, "user", shows("Unhealthy", "xid-79"))
        agent.become(WELL)
        found = await wait_for_object(client, POD, "user", shows("Healthy"))

        assert is_ready(found)


@pytest.mark.parametrize("place", ["slices", "rules"])
async def test_a_pod_is_evicted_from_a_device_that_fails_for_good(
    real_cluster: RealCluster, client: KubeClient, place: str
) -> None:
    async with configured(real_cluster, client, WELL, policy("NoExecute", place)) as agent:
        await create_template(client)
        await start_pod(client, "user")
        await wait_for_object(client, POD, "user", is_ready)
        agent.become(FAILED)
        await wait_gone(client, POD, "user", namespace="default")
        rules = (await client.list(DEVICE_TAINT_RULE)).items
        agent.become(WELL)
        await start_pod(client, "next")
        await wait_for_object(client, POD, "next", is_ready)

        assert len(rules) == (1 if place == "rules" else 0)
        assert (await client.list(DEVICE_TAINT_RULE)).items == []


async def test_an_event_about_the_node_tells_of_the_failure(real_cluster: RealCluster, client: KubeClient) -> None:
    def is_told(items: Any) -> bool:
        return any(item["reason"] == "DeviceUnhealthy" and "xid-79" in item["message"] for item in items)

    async with configured(real_cluster, client, FAILED, policy("NoSchedule")):
        selector = "involvedObject.kind=Node,involvedObject.name=node-a"

        await wait_for(client, EVENT, is_told, field_selector=selector)


async def test_one_failed_card_leaves_the_other_to_pods(real_cluster: RealCluster, client: KubeClient) -> None:
    async with configured(real_cluster, client, ONE_FAILED, policy("NoExecute")):
        await create_template(client)
        await wait_for(client, RESOURCE_SLICE, lambda items: taints_of(items) == [("xid-79", "NoExecute")])
        await wait_scheduler(client)
        await start_pod(client, "user")

        await wait_for_object(client, POD, "user", is_ready)


def offers(capacity: str, allocatable: str) -> Callable[[KubeObject], bool]:
    """Return a test of a node: it tells these amounts of the resource."""

    def holds(obj: KubeObject) -> bool:
        status = obj["status"]
        return (status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)) == (capacity, allocatable)

    return holds


async def test_a_card_that_fails_is_for_no_limit_until_it_works_again(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with configured(real_cluster, client, BOTH_WELL, OFFERED + policy("NoSchedule")) as agent:
        await wait_for_object(client, NODE, NODE_NAME, offers("2", "2"))
        await wait_scheduler(client)
        await client.create(POD, pod("first", f"{LOOK}; {SLEEP}", limits=ONE))
        first = await wait_for_object(client, POD, "first", shows("Healthy"))
        assert device_nodes(await real_cluster.wait_printed(first, "done")) == ["gpu-0"]
        agent.become(ONE_FAILED)
        await wait_for_object(client, NODE, NODE_NAME, offers("2", "1"))
        told = await wait_for_object(client, POD, "first", shows("Unhealthy"))
        await client.delete(POD, "first", namespace="default")
        await wait_gone(client, POD, "first", namespace="default")
        await client.create(POD, pod("second", f"{LOOK}; {SLEEP}", limits=ONE))
        second = await wait_for_object(client, POD, "second", is_ready)
        await client.create(POD, pod("third", f"{LOOK}; {SLEEP}", limits=ONE))
        await wait_for_object(client, POD, "third", is_unschedulable)
        agent.become(BOTH_WELL)
        third = await wait_for_object(client, POD, "third", shows("Healthy"))

        assert is_ready(told)
        assert device_nodes(await real_cluster.wait_printed(second, "done")) == ["gpu-1"]
        assert device_nodes(await real_cluster.wait_printed(third, "done")) == ["gpu-0"]
        await wait_for_object(client, NODE, NODE_NAME, offers("2", "2"))

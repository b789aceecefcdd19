"""Devices that are made ready after their allocation: the pod is bound when their driver says so, and not before."""

from __future__ import annotations

from typing import Any

from claimsmith.api.kinds import RESOURCE_CLAIM
from claimsmith.daemons.scheduler import SchedulerOptions
from claimsmith.model.features import Features
from tests.scenarios.scheduling import DRIVER, Bench, api_server, bench

PENDING = "BindingConditionsPending"
FABRIC: dict[str, Any] = {
    "name": "gpu-0",
    "bindingConditions": ["example.test/attached"],
    "bindingFailureConditions": ["example.test/broken"],
}


async def start(cluster: Bench) -> None:
    await cluster.add_class()
    await cluster.add_node("node-a", FABRIC)
    await cluster.add_claim("c")
    await cluster.add_pod("p", "c")


async def report(cluster: Bench, condition: str) -> None:
    """Report a condition of the claim's device, as its driver would."""
    told = {
        "type": f"example.test/{condition}",
        "status": "True",
        "reason": "Told",
        "message": "by the fabric",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    device = {"driver": DRIVER, "pool": "node-a", "device": "gpu-0", "conditions": [told]}
    patch = {"status": {"devices": [device]}}
    await cluster.client.patch(RESOURCE_CLAIM, "c", patch, namespace="default", subresource="status")


async def test_a_pod_is_bound_as_soon_as_its_device_is_ready() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.until(lambda: bool(cluster.messages(PENDING)))
        before = cluster.node_of("p"), cluster.users("c")
        await report(cluster, "attached")
        await cluster.until(lambda: cluster.node_of("p") == "node-a")

    assert before == ("", ["p"])
    assert cluster.messages(PENDING) == [
        "waiting for binding conditions: nothing is reported of device gpu.example.test/node-a/gpu-0"
    ]


async def test_a_device_that_fails_is_given_back_and_the_pod_tried_again() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.until(lambda: bool(cluster.messages(PENDING)))
        await report(cluster, "broken")
        await cluster.until(lambda: not cluster.devices("c"))
        await cluster.until(lambda: bool(cluster.devices("c")))
        await report(cluster, "attached")

        await cluster.until(lambda: cluster.node_of("p") == "node-a")


async def test_a_device_that_takes_too_long_is_given_back() -> None:
    async with bench(options=SchedulerOptions(binding_timeout_s=1.0)) as cluster:
        await start(cluster)
        await cluster.until(lambda: bool(cluster.messages(PENDING)))

        await cluster.until(lambda: not cluster.devices("c"))


async def test_pods_that_wait_do_not_hold_up_others() -> None:
    async with bench(options=SchedulerOptions(writes_max=1)) as cluster:
        await start(cluster)
        await cluster.until(lambda: bool(cluster.messages(PENDING)))
        await cluster.add_pod("q")
        await cluster.until(lambda: bool(cluster.node_of("q")))

    assert cluster.node_of("p") == ""


async def test_a_pod_that_goes_while_it_waits_gives_its_devices_back() -> None:
    async with bench() as cluster:
        await start(cluster)
        await cluster.until(lambda: bool(cluster.messages(PENDING)))
        await cluster.delete_pod("p")

        await cluster.until(lambda: not cluster.devices("c") and not cluster.users("c"))


async def test_a_scheduler_that_starts_again_goes_on_waiting() -> None:
    async with api_server() as url:
        async with bench(url=url) as first:
            await start(first)
            await first.until(lambda: bool(first.messages(PENDING)))
        async with bench(url=url) as second:
            await report(second, "attached")
            await second.until(lambda: second.node_of("p") == "node-a")

    assert second.users("c") == ["p"]


async def test_a_claim_that_failed_before_the_scheduler_started_gets_other_devices() -> None:
    async with api_server() as url:
        async with bench(url=url) as first:
            await start(first)
            await first.until(lambda: bool(first.messages(PENDING)))
        async with bench(url=url) as second:
            await report(second, "broken")
            await second.until(lambda: not second.devices("c"))
            await second.until(lambda: bool(second.devices("c")))
            await report(second, "attached")

            await second.until(lambda: second.node_of("p") == "node-a")


async def test_without_the_gate_such_devices_are_not_used() -> None:
    options = SchedulerOptions(features=Features(device_binding_and_status=False))
    async with bench(options=options) as cluster:
        await start(cluster)
        await cluster.until(lambda: bool(cluster.messages()))

    assert cluster.devices("c") == []

"""What becomes of pods when their devices are tainted NoExecute, by the driver or by an administrator."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from claimsmith.api.kinds import DEVICE_TAINT_RULE, POD, RESOURCE_SLICE
from claimsmith.api.resource import parse_device_taint_rule
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.model.pool import DeviceTaintRule
from tests.scenarios.scheduling import Bench, api_server, bench

KEEPS = {"finalizers": ["example.test/keep"]}


def ago(**since: float) -> str:
    return (datetime.now(UTC) - timedelta(**since)).strftime("%Y-%m-%dT%H:%M:%SZ")


def taint(effect: str = "NoExecute", **since: float) -> dict[str, Any]:
    return {"key": "example.test/broken", "effect": effect, "timeAdded": ago(**since)}


def tolerate(seconds: int) -> dict[str, Any]:
    return {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


async def start(cluster: Bench, **pods: list[dict[str, Any]]) -> None:
    """One node with two devices, and for each pod, named with its tolerations, a claim of its own."""
    await cluster.add_class()
    await cluster.add_node("node-a", "gpu-0", "gpu-1")
    for name, tolerations in pods.items():
        await cluster.add_claim(name, tolerations=tolerations)
        await cluster.add_pod(name, name)
        await cluster.until(lambda name=name: bool(cluster.node_of(name)))  # type: ignore[misc]


async def publish(cluster: Bench, **device: Any) -> None:
    await cluster.client.patch(
        RESOURCE_SLICE, "node-a-gpus", {"spec": {"devices": [{"name": "gpu-0", **device}, {"name": "gpu-1"}]}}
    )


async def add_rule(cluster: Bench, taint: dict[str, Any], **selector: str) -> None:
    cluster.informers.of(DEVICE_TAINT_RULE, parse_device_taint_rule).subscribe(cluster.hear)
    spec = {"deviceSelector": selector, "taint": taint}
    await cluster.client.create(DEVICE_TAINT_RULE, {"metadata": {"name": "rule"}, "spec": spec})


async def test_a_pod_whose_device_is_tainted_goes_and_the_others_stay() -> None:
    async with bench() as cluster:
        await start(cluster, a=[], b=[])
        await publish(cluster, taints=[taint()])
        await cluster.until(lambda: cluster.pods.find("default", "a") is None and not cluster.devices("a"))

    assert cluster.node_of("b") == "node-a"


async def test_a_pod_is_marked_before_it_is_deleted() -> None:
    async with bench() as cluster:
        await start(cluster, a=[])
        await cluster.client.patch(POD, "a", {"metadata": KEEPS}, namespace="default")
        await publish(cluster, taints=[taint()])
        await cluster.until(lambda: is_ending(cluster, "a"))
        stored = await cluster.client.get(POD, "a", namespace="default")
        await cluster.client.patch(POD, "a", {"metadata": {"finalizers": None}}, namespace="default")

    assert reasons(stored) == ["DeletionByDeviceTaintManager"]


def is_ending(cluster: Bench, pod: str) -> bool:
    found = cluster.pods.find("default", pod)
    return found is not None and found.metadata.deletion_timestamp is not None


def reasons(pod: KubeObject) -> list[str]:
    return [item["reason"] for item in pod["status"]["conditions"] if item["type"] == "DisruptionTarget"]


async def test_a_toleration_counts_from_the_time_of_the_taint() -> None:
    async with bench() as cluster:
        await start(cluster, a=[tolerate(60)], b=[tolerate(7200)])
        await add_rule(cluster, taint(hours=1))
        await cluster.until(lambda: cluster.pods.find("default", "a") is None)

    assert cluster.node_of("b") == "node-a"


async def test_a_pod_whose_time_is_not_over_goes_when_it_is() -> None:
    async with bench() as cluster:
        await start(cluster, a=[tolerate(2)])
        await add_rule(cluster, taint())
        await cluster.until(lambda: cluster.pods.find("default", "a") is None)


async def test_the_time_of_day_is_that_of_the_controller() -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    async with bench(now=lambda: tomorrow) as cluster:
        await start(cluster, a=[tolerate(3600)], b=[tolerate(7 * 86_400)])
        await add_rule(cluster, taint())
        await cluster.until(lambda: cluster.pods.find("default", "a") is None)

    assert cluster.node_of("b") == "node-a"


async def test_a_taint_that_is_taken_back_in_time_evicts_nobody() -> None:
    async with bench() as cluster:
        await start(cluster, a=[tolerate(7200)])
        await add_rule(cluster, taint())
        await cluster.until(lambda: bool(rules(cluster)) and bool(rules(cluster)[0].conditions))
        await cluster.client.delete(DEVICE_TAINT_RULE, "rule")
        await cluster.until(lambda: "Cancelling deletion" in cluster.messages("DeviceTaintManagerEviction"))

    assert cluster.node_of("a") == "node-a"


def rules(cluster: Bench) -> list[DeviceTaintRule]:
    return list(cluster.informers.of(DEVICE_TAINT_RULE, parse_device_taint_rule))


def told(cluster: Bench) -> tuple[object, object]:
    conditions = [item for rule in rules(cluster) for item in rule.conditions]
    return (conditions[0]["reason"], conditions[0]["message"]) if conditions else ("", "")


async def test_a_rule_tells_how_many_pods_it_evicted() -> None:
    async with bench() as cluster:
        await start(cluster, a=[], b=[])
        await add_rule(cluster, taint(), driver="gpu.example.test")

        await cluster.until(lambda: told(cluster) == ("Completed", "2 pods evicted since starting the controller."))


async def test_a_rule_without_effect_tells_what_it_would_do() -> None:
    async with bench() as cluster:
        await start(cluster, a=[])
        await add_rule(cluster, taint("None"), pool="node-a")
        await cluster.until(lambda: told(cluster)[0] == "NoEffect")
        expected = "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace "

        assert str(told(cluster)[1]).startswith(expected)
        assert cluster.node_of("a") == "node-a"


async def test_a_taint_set_while_no_controller_ran_is_heeded_afterwards() -> None:
    async with api_server() as url:
        async with bench(url=url) as first:
            await start(first, a=[])
        client = KubeClient.for_url(url)
        devices = [{"name": "gpu-0", "taints": [taint()]}]
        await client.patch(RESOURCE_SLICE, "node-a-gpus", {"spec": {"devices": devices}})
        await client.close()
        async with bench(url=url) as second:
            await second.until(lambda: second.pods.find("default", "a") is None)

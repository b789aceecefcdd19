"""Nodes of an embedded cluster: devices of plugins that the scheduler counts, taints, cordons, deleted nodes."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from claimsmith.api.kinds import EVENT, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE, Kind
from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.clusterplan import plan_cluster
from claimsmith.daemons.playground import Playground, PlaygroundOptions
from claimsmith.kube.client import KubeClient, KubeObject
from tests.scenarios.one_card import ONE_CARD
from tests.scenarios.small_plugin import RESOURCE, SmallPlugin

CLUSTER = (
    """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec: {nodes: [alpha, beta], driver: gpu.example.com, gpus: [{model: T4, count: 2}]}
"""
    + ONE_CARD
)


COUNTED = """
---
apiVersion: claimsmith.dev/v1alpha1
kind: AgentConfiguration
spec:
  drivers:
  - {plugin: simulated, devicePlugin: {resources: [{resource: vendor.example/gpu}]}}
"""


@contextlib.asynccontextmanager
async def cluster(more: str = "") -> AsyncIterator[tuple[Playground, Path]]:
    """Run two nodes; give the cluster and its folder, in which node alpha is `0`."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        options = PlaygroundOptions(folder=Path(folder), quarantine_s=0.0)
        plan = plan_cluster(parse_manifests(CLUSTER + more, source="files"))
        async with Playground(plan, options) as playground:
            yield playground, Path(folder)


async def become(client: KubeClient, kind: Kind, name: str, holds: Callable[[KubeObject | None], bool]) -> KubeObject:
    """Wait until an object is as told; None stands for one that is gone."""
    async with asyncio.timeout(60):
        while True:
            listed = await client.list(kind)
            found = next((item for item in listed.items if item["metadata"]["name"] == name), None)
            if holds(found):
                return found or {}
            # Each state as it comes: a list could miss one that does not last.
            async for event in client.watch(kind, resource_version=listed.resource_version):
                if event.type != "BOOKMARK" and event.object["metadata"]["name"] == name:
                    found = None if event.type == "DELETED" else event.object
                    if holds(found):
                        return found or {}


async def create_pod(client: KubeClient, name: str, **spec: Any) -> None:
    container = {"name": "main", "image": "i", "resources": spec.pop("resources", {})}
    await client.create(
        POD, {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container], **spec}}
    )


def in_phase(phase: str) -> Callable[[KubeObject | None], bool]:
    return lambda pod: pod is not None and (pod.get("status") or {}).get("phase") == phase


def gone(found: KubeObject | None) -> bool:
    return found is None


def waits(pod: KubeObject | None) -> bool:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or []
    return any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions)


async def run_pod(client: KubeClient, name: str, **spec: Any) -> KubeObject:
    await create_pod(client, name, **spec)
    return await become(client, POD, name, in_phase("Running"))


async def test_pods_that_count_devices_run_where_a_plugin_has_some_left() -> None:
    limits = {"resources": {"limits": {RESOURCE: "1"}}}
    async with cluster() as (playground, folder), SmallPlugin(folder / "0" / "d", {"g0": "Healthy"}) as plugin:
        client = playground.client
        await plugin.register()
        first = await run_pod(client, "a", **limits)
        await create_pod(client, "b", **limits)
        waiting = await become(client, POD, "b", waits)
        await client.delete(POD, "a", namespace="default")
        second = await become(client, POD, "b", in_phase("Running"))

        assert (first["spec"]["nodeName"], second["spec"]["nodeName"]) == ("alpha", "alpha")
        assert f"node has too little {RESOURCE} left" in str(waiting["status"]["conditions"])
        assert plugin.asked("allocate") == [["g0"], ["g0"]]


async def test_simulated_devices_can_be_counted_and_claimed_and_each_has_one_user() -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    async with cluster(COUNTED) as (playground, _):
        client, here = playground.client, {"nodeSelector": {"kubernetes.io/hostname": "alpha"}}
        counted = await run_pod(client, "counted", **here, resources={"limits": {RESOURCE: "1"}})
        slices = (await client.list(RESOURCE_SLICE, field_selector="spec.nodeName=alpha")).items
        await become(client, RESOURCE_SLICE, slices[0]["metadata"]["name"], lambda found: "in-use" in str(found))
        claimed = await run_pod(client, "claimed", **here, **claims, resources={"claims": [{"name": "gpu"}]})
        cards = [
            {line for line in lines_of(playground, pod) if line.startswith("env CLAIMSMITH_VISIBLE_DEVICES=GPU-")}
            for pod in (counted, claimed)
        ]

    assert len(cards[0]) == len(cards[1]) == 1
    assert not cards[0] & cards[1]


def lines_of(playground: Playground, pod: KubeObject) -> list[str]:
    return [line.text for line in playground.logs.find_lines(pod["metadata"]["uid"], "main") or ()]


async def test_pods_that_do_not_tolerate_a_nodes_taint_leave_it_and_give_their_devices_back() -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    tolerant = {"tolerations": [{"key": "broken", "operator": "Exists"}]}
    async with cluster() as (playground, _):
        client, here = playground.client, {"nodeSelector": {"kubernetes.io/hostname": "alpha"}}
        pod = await run_pod(client, "goes", **claims, **here, resources={"claims": [{"name": "gpu"}]})
        await run_pod(client, "stays", **here, **tolerant)
        await client.patch(NODE, "alpha", {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
        await become(client, POD, "goes", gone)
        await become(client, RESOURCE_CLAIM, pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"], gone)
        stayed = await client.get(POD, "stays", namespace="default")

    assert stayed["status"]["phase"] == "Running"


async def test_a_pod_that_tolerates_a_taint_for_a_second_leaves_after_it() -> None:
    short = [{"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]
    async with cluster() as (playground, _):
        client = playground.client
        await run_pod(client, "p", nodeSelector={"kubernetes.io/hostname": "alpha"}, tolerations=short)
        await client.patch(NODE, "alpha", {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
        marked = await become(client, POD, "p", lambda pod: pod is None or "DisruptionTarget" in str(pod["status"]))
        await become(client, POD, "p", gone)

    assert "Taint manager: deleting due to NoExecute taint" in str(marked.get("status"))


async def test_a_taint_that_goes_in_time_takes_the_eviction_back() -> None:
    long = [{"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}]
    async with cluster() as (playground, _):
        client = playground.client
        await run_pod(client, "p", nodeSelector={"kubernetes.io/hostname": "alpha"}, tolerations=long)
        await run_pod(client, "other", nodeSelector={"kubernetes.io/hostname": "alpha"})
        await client.patch(NODE, "alpha", {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
        await become(client, POD, "other", gone)
        await client.patch(NODE, "alpha", {"spec": {"taints": None}})
        text = "Cancelling deletion of Pod default/p"
        async with asyncio.timeout(60):
            while text not in (events := await find_messages(client, "TaintManagerEviction")):
                await client.get(NODE, "alpha")

    assert sorted(events) == [text, "Marking for deletion Pod default/other"]


async def find_messages(client: KubeClient, reason: str) -> list[str]:
    return [event["message"] for event in (await client.list(EVENT)).items if event["reason"] == reason]


async def test_a_cordoned_node_is_tainted_and_takes_no_pod_until_it_is_freed() -> None:
    key = "node.kubernetes.io/unschedulable"
    async with cluster() as (playground, _):
        client, here = playground.client, {"nodeSelector": {"kubernetes.io/hostname": "alpha"}}
        await client.patch(NODE, "alpha", {"spec": {"unschedulable": True}})
        await become(client, NODE, "alpha", lambda node: key in str(node))
        await create_pod(client, "p", **here)
        await become(client, POD, "p", waits)
        await client.patch(NODE, "alpha", {"spec": {"unschedulable": None}})
        await become(client, POD, "p", in_phase("Running"))
        node = await become(client, NODE, "alpha", lambda node: key not in str(node))

    assert not node["spec"].get("taints")


async def test_a_node_that_is_deleted_takes_its_pods_claims_and_slices_with_it() -> None:
    claims = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    async with cluster() as (playground, _):
        client, here = playground.client, {"nodeSelector": {"kubernetes.io/hostname": "alpha"}}
        pod = await run_pod(client, "p", **claims, **here, resources={"claims": [{"name": "gpu"}]})
        slices = (await client.list(RESOURCE_SLICE, field_selector="spec.nodeName=alpha")).items
        await client.delete(NODE, "alpha")
        for item in slices:
            await become(client, RESOURCE_SLICE, item["metadata"]["name"], gone)
        await become(client, POD, "p", gone)
        await become(client, RESOURCE_CLAIM, pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"], gone)
        slices = (await client.list(RESOURCE_SLICE)).items
        nodes = (await client.list(NODE)).items

    assert [item["spec"]["nodeName"] for item in slices] == ["beta"]
    assert [item["metadata"]["name"] for item in nodes] == ["beta"]

"""Labels and extended resources of a real Node, beside its kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from claimsmith.api.kinds import NODE, POD
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.publish.labels_write import apply_labels
from claimsmith.publish.nodestatus import CapacityChange, apply_capacity, configured_amounts
from claimsmith.publish.nodestatus_keeper import CapacityKeeper
from tests.cluster.cluster import RealCluster
from tests.cluster.configured import configured
from tests.cluster.manifests import pod
from tests.cluster.recipe import NODE as NODE_NAME
from tests.cluster.watching import WAIT_S, wait_for_object, wait_gone, wait_phase

RESOURCE = "claimsmith.example/card"
MIXED = "gpus: [{model: A100-40, count: 2}, {model: L4}]"
LABELS = "    labels: true\n"
PREFIX = "claimsmith.dev/"


def has_labels(**wanted: str | None) -> Callable[[KubeObject], bool]:
    """Return a test of a Node: it has these labels of ours; None: it has not. `__` in a name stands for a dot."""
    keys = {f"{PREFIX}{name.replace('__', '.').replace('_', '-')}": value for name, value in wanted.items()}
    return lambda node: all(node["metadata"]["labels"].get(key) == value for key, value in keys.items())


def has_amount(amount: str | None) -> Callable[[KubeObject], bool]:
    """Return a test of a Node: so many of the resource are there, and may be given away."""
    parts = ("capacity", "allocatable")
    return lambda node: [node["status"][part].get(RESOURCE) for part in parts] == [amount, amount]


@contextlib.asynccontextmanager
async def amount_taken_away(client: KubeClient) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await apply_capacity(client, NODE_NAME, CapacityChange(gone=frozenset({RESOURCE})))


@contextlib.asynccontextmanager
async def labels_removed(client: KubeClient) -> AsyncIterator[None]:
    """Take our labels away at the end: what an agent has published stays when it ends."""
    try:
        yield
    finally:
        await apply_labels(client, NODE_NAME, {})


async def wait_node(client: KubeClient, holds: Callable[[KubeObject], bool]) -> KubeObject:
    return await wait_for_object(client, NODE, NODE_NAME, holds)


async def test_labels_tell_of_each_model_and_go_with_its_cards(real_cluster: RealCluster, client: KubeClient) -> None:
    async with labels_removed(client), configured(real_cluster, client, MIXED, LABELS) as agent:
        await wait_node(client, has_labels(gpu__count="3", gpu__models="2", gpu__L4__count="1", gpu__model=None))
        agent.become("gpus: [{model: A100-40, count: 2}]")
        node = await wait_node(client, has_labels(gpu__count="2", gpu__L4__count=None, gpu__model="A100-40"))

        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == NODE_NAME


async def test_labels_of_the_kubelet_and_of_people_stay(real_cluster: RealCluster, client: KubeClient) -> None:
    key = f"{PREFIX}gpu.count"
    real_cluster.kubectl("label", "node", NODE_NAME, f"{key}=99")
    try:
        async with labels_removed(client), configured(real_cluster, client, MIXED, LABELS):
            node = await wait_node(client, has_labels(gpu__models="2"))

            assert node["metadata"]["labels"][key] == "99"
    finally:
        real_cluster.kubectl("label", "node", NODE_NAME, f"{key}-")


async def run_until_admitted(client: KubeClient, wanted: KubeObject) -> str:
    """Run a pod, again if the kubelet refused it since it has not heard yet what its Node has; return how it ended."""
    name = wanted["metadata"]["name"]
    async with asyncio.timeout(WAIT_S):
        while True:
            await client.create(POD, wanted)
            ended = (await wait_phase(client, name, "Succeeded", "Failed"))["status"]
            if not str(ended.get("reason")).startswith("OutOf"):
                return str(ended["phase"])
            await client.delete(POD, name, namespace="default", grace_period_s=0)
            await wait_gone(client, POD, name, namespace="default")


async def test_a_pod_gets_what_a_node_was_given_by_hand(real_cluster: RealCluster, client: KubeClient) -> None:
    async with amount_taken_away(client):
        await apply_capacity(client, NODE_NAME, CapacityChange(amounts={RESOURCE: 1}))

        assert await run_until_admitted(client, pod("user", "echo here", limits={RESOURCE: "1"})) == "Succeeded"


async def test_amounts_outlast_status_updates_of_a_running_kubelet(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    def pressure(node: KubeObject) -> str:
        (found,) = [item for item in node["status"]["conditions"] if item["type"] == "MemoryPressure"]
        return str(found["status"])

    async with amount_taken_away(client):
        await apply_capacity(client, NODE_NAME, CapacityChange(amounts={RESOURCE: 2}))
        wrong = {"status": {"conditions": [{"type": "MemoryPressure", "status": "True"}]}}
        await client.patch(NODE, NODE_NAME, wrong, patch_type="strategic", subresource="status")
        # The kubelet corrects it by writing its status.
        node = await wait_node(client, lambda node: pressure(node) == "False")

        assert has_amount("2")(node)


async def test_amounts_outlast_a_restart_of_the_kubelet(real_cluster: RealCluster, client: KubeClient) -> None:
    async with amount_taken_away(client):
        await apply_capacity(client, NODE_NAME, CapacityChange(amounts={RESOURCE: 2}))
        await real_cluster.restart_kubelet()
        assert await run_until_admitted(client, pod("user", "echo here", limits={RESOURCE: "2"})) == "Succeeded"

        assert has_amount("2")(await client.get(NODE, NODE_NAME))


async def test_configured_amounts_come_back_on_a_node_that_registers_anew(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with amount_taken_away(client):
        keeper = CapacityKeeper(client, NODE_NAME, change=configured_amounts({RESOURCE: 2}))
        task = asyncio.create_task(keeper.run())
        try:
            before = await wait_node(client, has_amount("2"))
            async with real_cluster.stopped("kubelet"):
                await client.delete(NODE, NODE_NAME)
            after = await wait_node(client, has_amount("2"))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await apply_capacity(client, NODE_NAME, configured_amounts({}))

        assert after["metadata"]["uid"] != before["metadata"]["uid"]

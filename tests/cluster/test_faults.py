"""What goes wrong around an agent on a real node, and that nobody notices it for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from claimsmith.kube.client import KubeClient, ObjectList
from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as deviceplugin
from claimsmith.kubelet import dra_health_v1_pb2 as dra_health
from claimsmith.kubelet.services import LIST_AND_WATCH, WATCH_V1, Method
from tests.cluster.agents import replace_text, serving
from tests.cluster.cluster import RealCluster
from tests.cluster.configured import configured
from tests.cluster.manifests import SLEEP, device_class, exactly, pod, template
from tests.cluster.seen import LOOK, assert_sees
from tests.cluster.views import find_double, look
from tests.cluster.watching import is_ready, wait_for, wait_for_object

DRIVER = "sim.claimsmith.dev"
RESOURCE = "nvidia.com/gpu"
OFFERED = f"    devicePlugin: {{resources: [{{resource: {RESOURCE}}}]}}\n"
CARDS = "gpus: [{model: A100-40, count: 4}]"
BACK_S = 5.0
"""How long no slice may be there: two seconds, which `make bench-node` demands, and what a busy machine takes."""
SOON_S = 20.0
"""Within which the kubelet has registered a plugin anew whose sockets somebody deleted."""
TOLD_S = 10.0
"""Within which a failed device is told to the kubelet: the settings are read again within a second or two."""
AWAY_S = 30.0
NOTICED_S = 60.0
"""Within which the agent has noticed that the API server is back after that time."""


async def create_template(client: KubeClient) -> None:
    """Create a class of all devices of the driver, and the template `gpu` of claims for one."""
    await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
    await client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))


async def run_pod(client: KubeClient, name: str, first: str = "true") -> dict[str, Any]:
    """Create a pod with a claim from the template, which does something first; return it when it is ready."""
    await client.create(POD, pod(name, f"{first}; {SLEEP}", claims={"gpu": "gpu"}))
    return await wait_for_object(client, POD, name, is_ready)


async def devices_of(client: KubeClient, pod_name: str) -> list[str]:
    """Return the devices of the claim that was made for a pod."""
    claims = (await client.list(RESOURCE_CLAIM)).items
    (claim,) = [claim for claim in claims if claim["metadata"]["ownerReferences"][0]["name"] == pod_name]
    return [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]


class Gaps:
    """Measures how long the API server shows no slice at all, from a list on."""

    def __init__(self, client: KubeClient, listed: ObjectList) -> None:
        self.longest_s = 0.0
        self._client, self._version = client, listed.resource_version
        self._there = {item["metadata"]["uid"] for item in listed.items}

    async def run(self, holds: Callable[[set[str]], bool]) -> None:
        """Return once something holds of the uids of slices."""
        gone_s = 0.0
        async for event in self._client.watch(RESOURCE_SLICE, resource_version=self._version):
            if event.type == "BOOKMARK":
                continue
            now_s, uid = asyncio.get_running_loop().time(), event.object["metadata"]["uid"]
            if event.type == "DELETED":
                self._there.discard(uid)
                gone_s = gone_s if self._there else now_s
            elif uid not in self._there:
                self.longest_s = max(self.longest_s, 0.0 if self._there else now_s - gone_s)
                self._there.add(uid)
            if holds(self._there):
                return


async def test_slices_are_back_soon_after_a_restart_of_the_kubelet(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with serving(real_cluster, client, CARDS) as agent:
        listed = await client.list(RESOURCE_SLICE)
        before = {item["metadata"]["uid"] for item in listed.items}
        gaps = Gaps(client, listed)
        watch = asyncio.create_task(gaps.run(lambda uids: len(uids) == len(before) and not uids & before))
        await real_cluster.restart_kubelet()
        await watch
        await agent.wait_logged("The kubelet has registered the plugin", count=2)

        assert 0.0 < gaps.longest_s <= BACK_S


async def test_slices_that_somebody_deletes_are_back_soon(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, CARDS):
        listed = await client.list(RESOURCE_SLICE)
        before = {item["metadata"]["uid"] for item in listed.items}
        gaps = Gaps(client, listed)
        watch = asyncio.create_task(gaps.run(lambda uids: len(uids) == len(before) and not uids & before))
        await asyncio.to_thread(real_cluster.kubectl, "delete", "resourceslices", "--all", "--wait=false")
        async with asyncio.timeout(NOTICED_S):
            await watch

        assert 0.0 < gaps.longest_s <= BACK_S


async def test_sockets_that_somebody_deletes_are_back_soon(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, CARDS) as agent:
        await create_template(client)
        folders = (real_cluster.paths.folder_of(DRIVER), real_cluster.paths.plugins_registry)
        sockets = [path for folder in folders for path in folder.iterdir() if path.is_socket()]
        assert len(sockets) == 2
        for path in sockets:
            path.unlink()
        await agent.wait_logged("The kubelet has registered the plugin", count=2, timeout_s=SOON_S)
        await run_pod(client, "late")

        assert all(path.is_socket() for path in sockets)


async def test_a_pod_goes_on_over_a_restart_of_the_kubelet(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, CARDS) as agent:
        await create_template(client)
        before = await run_pod(client, "early")
        await real_cluster.restart_kubelet()
        await agent.wait_logged("The kubelet has registered the plugin", count=2)
        await run_pod(client, "late")
        after = await client.get(POD, "early", namespace="default")

        assert container_ids(after) == container_ids(before)
        assert len(real_cluster.list_cdi_files()) == 2


async def test_a_pod_goes_on_over_a_restart_of_containerd(real_cluster: RealCluster, client: KubeClient) -> None:
    async with serving(real_cluster, client, CARDS):
        await create_template(client)
        before = await run_pod(client, "early")
        await real_cluster.restart_containerd()
        late = await run_pod(client, "late", LOOK)
        after = await client.get(POD, "early", namespace="default")
        views = await look(real_cluster, client, driver=DRIVER, resource=RESOURCE)

        assert container_ids(after) == container_ids(before)
        assert_sees(await real_cluster.wait_printed(late, "done"), await devices_of(client, "late"))
        assert len(views.kubelet) == len(views.claims) == len(views.ledger) == 2
        assert find_double(views) == []


async def test_an_absent_api_server_is_waited_for(real_cluster: RealCluster, client: KubeClient) -> None:
    async with configured(real_cluster, client, five_cards(), OFFERED) as agent:
        await create_template(client)
        before = await run_pod(client, "early")
        held = await devices_of(client, "early")
        async with real_cluster.stopped("apiserver"):
            ends_s = asyncio.get_running_loop().time() + AWAY_S
            agent.become(five_cards("gpu-3"))
            await wait_told(real_cluster, held, "gpu-3")
            await agent.process.kill()
            await agent.process.start()
            await agent.process.wait_registered(DRIVER)
            await wait_told(real_cluster, held, "gpu-3")
            agent.become(five_cards("gpu-3", "gpu-4"))
            await wait_told(real_cluster, held, "gpu-3", "gpu-4")
            await asyncio.sleep(ends_s - asyncio.get_running_loop().time())
        await wait_for(client, RESOURCE_SLICE, has_tainted(5, "gpu-3", "gpu-4"), timeout_s=NOTICED_S)
        for daemon in ("controller-manager", "scheduler", "kubelet"):
            await real_cluster.restart(daemon)
        await run_pod(client, "late")
        after = await client.get(POD, "early", namespace="default")

        assert container_ids(after) == container_ids(before)


def five_cards(*failed: str) -> str:
    """Return five cards of which some have failed."""
    faults = dict.fromkeys(failed, ", fault: xid-79")
    cards = [f"{{model: A100-40{faults.get(f'gpu-{number}', '')}}}" for number in range(5)]
    return f"gpus: [{', '.join(cards)}]"


def has_tainted(count: int, *names: str) -> Callable[[Sequence[dict[str, Any]]], bool]:
    """Return a test of slices: they have so many devices, of which just these have taints."""

    def holds(items: Sequence[dict[str, Any]]) -> bool:
        found = tainted(items)
        return len(found) == count and {name for name, is_tainted in found.items() if is_tainted} == set(names)

    return holds


async def wait_told(cluster: RealCluster, held: Sequence[str], *failed: str) -> None:
    """Return once the agent tells by both protocols that just these cards have failed.

    Args:
        held: Cards that claims have, which the device plugin calls unhealthy too.
    """
    (devices,) = [path for path in cluster.paths.device_plugins.glob("*.sock") if path.name != "kubelet.sock"]
    service = cluster.paths.folder_of(DRIVER) / "dra.sock"
    async with asyncio.timeout(TOLD_S):
        async for listed in answers(devices, LIST_AND_WATCH, deviceplugin.Empty()):
            if {item.ID for item in listed.devices if item.health != "Healthy"} == {*failed, *held}:
                break
        async for told in answers(service, WATCH_V1, dra_health.NodeWatchResourcesRequest()):
            bad = {item.device.device_name for item in told.devices if item.health == dra_health.UNHEALTHY}
            if bad == set(failed):
                break


async def answers(socket: Path, method: Method[Any, Any], request: Any) -> AsyncIterator[Any]:
    """Yield what a socket tells in answer to one call."""
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        async for answer in call(request):
            yield answer


def container_ids(obj: dict[str, Any]) -> list[tuple[str, int]]:
    """Return which containers a pod has, and how often each was started again."""
    return [(status["containerID"], status["restartCount"]) for status in obj["status"]["containerStatuses"]]


async def test_a_device_that_vanishes_stays_with_its_pod_and_goes_with_it(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    cards = {name: f"{{model: A100-40, name: {name}}}" for name in ("left", "right")}
    both = f"gpus: [{', '.join(cards.values())}]"
    async with serving(real_cluster, client, both) as agent:
        await create_template(client)
        before = await run_pod(client, "user")
        (claimed,) = (await client.list(RESOURCE_CLAIM)).items
        held = claimed["status"]["allocation"]["devices"]["results"][0]["device"]
        (other,) = cards.keys() - {held}
        replace_text(agent.settings, f"gpus: [{cards[other]}]")
        await wait_for(client, RESOURCE_SLICE, lambda items: tainted(items) == {held: True, other: False})
        replace_text(agent.settings, both)
        await wait_for(client, RESOURCE_SLICE, lambda items: tainted(items) == {held: False, other: False})
        replace_text(agent.settings, f"gpus: [{cards[other]}]")
        await wait_for(client, RESOURCE_SLICE, lambda items: tainted(items) == {held: True, other: False})
        after = await client.get(POD, "user", namespace="default")
        assert container_ids(after) == container_ids(before)
        await client.delete(POD, "user", namespace="default")

        await wait_for(client, RESOURCE_SLICE, lambda items: tainted(items) == {other: False})
        assert real_cluster.list_cdi_files() == []


def tainted(items: Sequence[dict[str, Any]]) -> dict[str, bool]:
    """Return the published devices, and whether each has a taint."""
    devices = [device for item in items for device in item["spec"]["devices"]]
    return {device["name"]: bool(device.get("taints")) for device in devices}

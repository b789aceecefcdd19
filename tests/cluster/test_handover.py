"""Devices and drivers that change hands on a real node: to the next pod, to the next agent."""

from __future__ import annotations

import asyncio
from pathlib import Path

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import device_class, exactly, pod, template
from tests.cluster.watching import is_ready, wait_for_object, wait_gone

DRIVER = "sim.claimsmith.dev"
ONE_CARD = "gpus: [{model: A100-40, count: 1}]"
TWO_CARDS = "gpus: [{model: A100-40, count: 2}]"
SOON_S = 50.0
"""A failed answer would cost a pod 60 to 90 s."""
STUBBORN = "trap '' TERM; until [ -e /told/end ]; do sleep 0.1; done"
"""Goes on after it was told to end, until a file tells it once more."""


async def create_template(client: KubeClient) -> None:
    """Create a class of all devices of the driver, and the template `gpu` of claims for one."""
    await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
    await client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))


async def test_the_next_pod_of_a_device_waits_no_minute_for_a_pod_that_was_deleted_by_force(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path
) -> None:
    async with serving(real_cluster, client, ONE_CARD) as agent:
        await create_template(client)
        old = pod("old", STUBBORN, claims={"gpu": "gpu"}, terminationGracePeriodSeconds=60)
        old["spec"]["volumes"] = [{"name": "told", "hostPath": {"path": str(tmp_path), "type": "Directory"}}]
        old["spec"]["containers"][0]["volumeMounts"] = [{"name": "told", "mountPath": "/told"}]
        await client.create(POD, old)
        await wait_for_object(client, POD, "old", is_ready)
        await client.create(POD, pod("next", claims={"gpu": "gpu"}))
        await asyncio.to_thread(real_cluster.kubectl, "delete", "pod", "old", "--force", "--grace-period=0")
        waited = await agent.wait_logged("A call waits")
        (tmp_path / "end").touch()
        await wait_for_object(client, POD, "next", is_ready, timeout_s=SOON_S)

        assert "allowed one claim at a time" in waited["fields"]["reason"]
        assert len(real_cluster.list_cdi_files()) == 1


async def test_an_update_of_the_agent_goes_unnoticed(real_cluster: RealCluster, client: KubeClient) -> None:
    logged = real_cluster.daemons.log_size("kubelet")
    async with serving(real_cluster, client, TWO_CARDS, "--pod-uid", "11111111-old") as old:
        await create_template(client)
        await client.create(POD, pod("early", claims={"gpu": "gpu"}))
        await wait_for_object(client, POD, "early", is_ready)
        (before,) = (await client.list(RESOURCE_SLICE)).items
        async with serving(real_cluster, client, TWO_CARDS, "--pod-uid", "22222222-new") as new:
            await old.stop()
            await client.create(POD, pod("late", claims={"gpu": "gpu"}))
            await wait_for_object(client, POD, "late", is_ready)
            await client.delete(POD, "early", namespace="default")
            await wait_gone(client, POD, "early", namespace="default")
            (after,) = (await client.list(RESOURCE_SLICE)).items
            unprepared = await new.wait_logged("Claim unprepared")

        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert unprepared["fields"]["claim"].startswith("default/early-")
        assert "Error when handling create event" not in real_cluster.daemons.tail("kubelet", 100_000, since=logged)


async def test_what_a_killed_agent_left_does_not_stop_the_next_one(
    real_cluster: RealCluster, client: KubeClient
) -> None:
    async with serving(real_cluster, client, TWO_CARDS, "--pod-uid", "33333333-dead") as dead:
        await create_template(client)
        await dead.kill()
        async with serving(real_cluster, client, TWO_CARDS, "--pod-uid", "44444444-next"):
            await client.create(POD, pod("late", claims={"gpu": "gpu"}))
            await wait_for_object(client, POD, "late", is_ready, timeout_s=SOON_S)
            names = [path.name for path in real_cluster.paths.plugins_registry.iterdir()]

    assert [name for name in names if "33333333" in name] == []

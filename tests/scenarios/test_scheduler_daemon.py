"""The scheduler as a process of its own."""

from __future__ import annotations

import asyncio

from claimsmith.api.kinds import NODE, POD
from claimsmith.daemons.scheduler import SchedulerOptions, run_scheduler
from claimsmith.kube.client import KubeClient
from tests.scenarios.scheduling import api_server, pod_object


async def first_binding(client: KubeClient, version: str) -> str:
    async for event in client.watch(POD, resource_version=version):
        node = event.object.get("spec", {}).get("nodeName")
        if node:
            return str(node)
    raise AssertionError("the watch ended")


async def test_it_binds_pods_and_leaves_no_task_behind() -> None:
    async with api_server() as url:
        client = KubeClient.for_url(url)
        task = asyncio.create_task(run_scheduler(client, SchedulerOptions(placement="pack")))
        for name in ("node-a", "node-b"):
            await client.create(NODE, {"metadata": {"name": name}})
        version = (await client.list(POD)).resource_version
        await client.create(POD, pod_object("p", (), "", {}))
        node = await asyncio.wait_for(first_binding(client, version), 60)
        task.cancel()
        await asyncio.wait({task})
        names = {item.get_name() for item in asyncio.all_tasks()}
        left = [name for name in names if name.startswith(("schedule", "reflector", "informers"))]
        await client.close()

    assert (node, left, task.cancelled()) == ("node-a", [], True)

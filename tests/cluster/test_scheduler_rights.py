"""Our scheduler on a real API server with the rights that are printed for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.daemons.scheduler import Scheduler
from claimsmith.errors import ForbiddenError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.informers import Informers
from tests.cluster.agents import serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.rights import SPACE, granted
from tests.cluster.watching import is_ready, wait_for_object

ACCOUNT, DRIVER = "claimsmith-scheduler", "sim.claimsmith.dev"
CARDS = "gpus: [{model: A100-40, count: 2}]"


@pytest.fixture
def account(real_cluster: RealCluster) -> Iterator[Path]:
    """A kubeconfig of the scheduler's account, after an operator has applied what the command prints."""
    with granted(real_cluster, "controller", "--print-manifests", "scheduler"):
        yield real_cluster.service_account(ACCOUNT, namespace=SPACE)


async def test_the_scheduler_allocates_and_binds(
    real_cluster: RealCluster, client: KubeClient, account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = KubeClient.from_kubeconfig(account, field_manager="claimsmith-scheduler")
    informers = Informers(own)
    scheduler = Scheduler(own, informers)
    async with serving(real_cluster, client, CARDS):
        tasks = [asyncio.create_task(work) for work in (informers.run(), scheduler.run())]
        try:
            await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
            await client.create(RESOURCE_CLAIM, claim("gpu", exactly("gpu", "gpu")))
            await client.create(POD, pod("train", claims=["gpu"], schedulerName="claimsmith"))
            await wait_for_object(client, POD, "train", is_ready)
            allocated = await client.get(RESOURCE_CLAIM, "gpu", namespace="default")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await own.close()

    assert allocated["status"]["allocation"]["devices"]["results"][0]["driver"] == DRIVER
    assert "forbidden" not in caplog.text.lower()


async def test_the_scheduler_publishes_nothing(client: KubeClient, account: Path) -> None:
    del client  # cleans up
    own = KubeClient.from_kubeconfig(account)
    body = {"metadata": {"name": "x"}, "spec": {"driver": DRIVER, "nodeName": "node-a"}}
    try:
        with pytest.raises(ForbiddenError):
            await own.create(RESOURCE_SLICE, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **body})
    finally:
        await own.close()

"""An agent that is killed while the kubelet waits for its answer, on a real node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import AgentProcess, agent_command, serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.plugins import GATED, GATED_DRIVER, install_plugin
from tests.cluster.watching import is_ready, wait_for_object

READY_S = 10.0
"""Within which a pod is ready after the agent is back, if somebody touches the pod."""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return install_plugin(tmp_path, "gated", GATED)


@asynccontextmanager
async def killed_in_prepare(cluster: RealCluster, client: KubeClient, packages: Path) -> AsyncIterator[None]:
    """Have a pod wait for a claim whose preparation began in an agent that is no more."""
    command = agent_command(cluster, "--plugin", "gated")
    env = {"PYTHONPATH": str(packages), "CLAIMSMITH_TEST_BLOCKS": "1"}
    agent = AgentProcess(command, cluster.folder / "agent.log", env=env)
    await agent.start()
    try:
        await agent.wait_registered(GATED_DRIVER)
        await client.create(DEVICE_CLASS, device_class("gate", f'device.driver == "{GATED_DRIVER}"'))
        await client.create(RESOURCE_CLAIM, claim("one", exactly("gate", "gate")))
        await client.create(POD, pod("waiting", claims=["one"]))
        await agent.wait_logged("preparation begins")
    finally:
        await agent.kill()
    yield


async def test_a_touched_pod_is_ready_soon_after_a_kill_in_prepare(
    real_cluster: RealCluster, client: KubeClient, packages: Path
) -> None:
    env = {"PYTHONPATH": str(packages)}
    async with (
        killed_in_prepare(real_cluster, client, packages),
        serving(real_cluster, client, plugin="gated", drivers=[GATED_DRIVER], env=env) as agent,
    ):
        await client.patch(POD, "waiting", {"metadata": {"annotations": {"touched": "once"}}}, namespace="default")
        await wait_for_object(client, POD, "waiting", is_ready, timeout_s=READY_S)
        begun = [line for line in agent.lines if line["message"] == "preparation begins"]

        assert len(begun) == 1
        assert len(real_cluster.list_cdi_files()) == 1

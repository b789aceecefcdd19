"""`claimsmith controller` with the rights that it prints, while an agent is killed on a real node."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import WITH_THE_TESTS, AgentProcess, agent_command, serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.plugins import GATED, GATED_DRIVER, install_plugin
from tests.cluster.rights import SPACE, granted
from tests.cluster.watching import is_ready, wait_for_object

ACCOUNT = "claimsmith-controller"
READY_S = 50.0
"""Within which a pod is ready after the agent is back; a kubelet alone would take 60 to 90 s."""
CLAIMSMITH = (sys.executable, "-m", "claimsmith")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return install_plugin(tmp_path, "gated", GATED)


@pytest.fixture
def account(real_cluster: RealCluster) -> Iterator[Path]:
    """A kubeconfig of the controller's account, after an operator has applied what the command prints.

    Without the Deployment, which has no image here.
    """
    with granted(real_cluster, "controller", "--print-manifests"):
        yield real_cluster.service_account(ACCOUNT, namespace=SPACE)


@asynccontextmanager
async def controlling(cluster: RealCluster, account: Path) -> AsyncIterator[AgentProcess]:
    """Run a controller as its own account."""
    command = [*WITH_THE_TESTS, *CLAIMSMITH, "controller", "--kubeconfig", str(account), "--log-format", "json", "-v"]
    controller = AgentProcess(command, cluster.folder / "controller.log")
    await controller.start()
    try:
        yield controller
    finally:
        await controller.stop()


async def kill_in_prepare(cluster: RealCluster, client: KubeClient, packages: Path) -> None:
    """Have a pod wait for a claim whose preparation began in an agent that is no more."""
    env = {"PYTHONPATH": str(packages), "CLAIMSMITH_TEST_BLOCKS": "1"}
    agent = AgentProcess(agent_command(cluster, "--plugin", "gated"), cluster.folder / "agent.log", env=env)
    await agent.start()
    try:
        await agent.wait_registered(GATED_DRIVER)
        await client.create(DEVICE_CLASS, device_class("gate", f'device.driver == "{GATED_DRIVER}"'))
        await client.create(RESOURCE_CLAIM, claim("one", exactly("gate", "gate")))
        await client.create(POD, pod("waiting", claims=["one"]))
        await agent.wait_logged("preparation begins")
    finally:
        await agent.kill()


async def test_a_pod_is_ready_soon_after_a_kill_in_prepare(
    real_cluster: RealCluster, client: KubeClient, account: Path, packages: Path
) -> None:
    env = {"PYTHONPATH": str(packages)}
    async with controlling(real_cluster, account) as controller:
        await kill_in_prepare(real_cluster, client, packages)
        async with serving(real_cluster, client, plugin="gated", drivers=[GATED_DRIVER], env=env) as agent:
            await wait_for_object(client, POD, "waiting", is_ready, timeout_s=READY_S)
            begun = [line for line in agent.lines if line["message"] == "preparation begins"]

            assert len(begun) == 1
            assert len(real_cluster.list_cdi_files()) == 1
        assert not [line for line in controller.lines if line.get("level") in {"warning", "error"}]

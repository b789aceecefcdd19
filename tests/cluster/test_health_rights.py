"""Health with the rights that an operator gives an agent: rules for its own devices, and releases by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_TAINT_RULE, NODE, POD
from claimsmith.errors import InvalidObjectError
from claimsmith.kube.client import KubeClient
from claimsmith.publish.releases import ask_release, parse_device_id, read_releases
from tests.cluster.agents import AgentProcess, agent_command, replace_text, wait_published
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import pod
from tests.cluster.recipe import NODE as OWN
from tests.cluster.recipe import kubeconfig
from tests.cluster.rights import SPACE, granted
from tests.cluster.watching import wait_for, wait_for_object

DRIVER, ACCOUNT = "sim.claimsmith.dev", "claimsmith-agent"
CONFIG = """\
apiVersion: claimsmith.dev/v1alpha1
kind: AgentConfiguration
spec:
  drivers:
  - plugin: simulated
    settings: [devices.yaml]
    health: {taints: rules, rules: [{causes: ["*"], returns: false}]}
"""
FAILED = "gpus: [{model: A100-40, fault: xid-79}]"
WELL = "gpus: [{model: A100-40}]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The agent's configuration, and devices of which one has failed."""
    (tmp_path / "agent.yaml").write_text(CONFIG)
    (tmp_path / "devices.yaml").write_text(FAILED)
    return tmp_path


@pytest.fixture
def deployed(real_cluster: RealCluster, folder: Path) -> Iterator[RealCluster]:
    """A cluster to which an operator has applied what the command prints, but for the DaemonSet, which has no image."""
    with granted(real_cluster, "agent", "--config", str(folder / "agent.yaml"), "--print-manifests"):
        yield real_cluster


@pytest.fixture
async def token(deployed: RealCluster, client: KubeClient) -> Path:
    """A kubeconfig with the token of the agent's pod on its node."""
    body = pod("agent-0", nodeName=OWN, serviceAccountName=ACCOUNT)
    body["metadata"]["namespace"] = SPACE
    await client.create(POD, body)
    bound = ("--bound-object-kind", "Pod", "--bound-object-name", "agent-0")
    given = deployed.kubectl("-n", SPACE, "create", "token", ACCOUNT, "--duration", "1h", *bound)
    path = deployed.folder / "health-rights.conf"
    path.write_text(kubeconfig(deployed.layout.server, deployed.folder, token=given.strip()))
    return path


@contextlib.asynccontextmanager
async def running(cluster: RealCluster, client: KubeClient, folder: Path, token: Path) -> AsyncIterator[AgentProcess]:
    command = agent_command(cluster, "--config", str(folder / "agent.yaml"), kubeconfig=token)
    process = AgentProcess(command, cluster.folder / "agent.log")
    await process.start()
    try:
        await process.wait_registered(DRIVER)
        await wait_published(client, DRIVER)
        yield process
    finally:
        await process.stop()


async def test_an_agent_keeps_rules_and_obeys_releases(
    deployed: RealCluster, client: KubeClient, folder: Path, token: Path
) -> None:
    device = parse_device_id(f"{DRIVER}/{OWN}/gpu-0")
    async with running(deployed, client, folder, token) as agent:
        (rule,) = await wait_for(client, DEVICE_TAINT_RULE, lambda rules: len(rules) == 1)
        await asyncio.to_thread(replace_text, folder / "devices.yaml", WELL)
        while (await client.list(DEVICE_TAINT_RULE)).items:
            await ask_release(client, OWN, add=[device])
            await wait_for_object(client, NODE, OWN, lambda node: not read_releases(node))
        await agent.wait_logged("Device released by hand")

        assert rule["spec"]["deviceSelector"] == {"driver": DRIVER, "pool": OWN, "device": "gpu-0"}
        assert [owner["name"] for owner in rule["metadata"]["ownerReferences"]] == [OWN]


async def test_an_agent_writes_no_rule_for_devices_of_others(
    deployed: RealCluster, client: KubeClient, folder: Path, token: Path
) -> None:
    theirs: dict[str, Any] = {
        "metadata": {"name": "theirs"},
        "spec": {
            "deviceSelector": {"driver": "other.example.com", "pool": OWN, "device": "gpu-0"},
            "taint": {"key": "claimsmith.dev/unhealthy", "effect": "NoExecute"},
        },
    }
    async with running(deployed, client, folder, token):
        await wait_for(client, DEVICE_TAINT_RULE, lambda rules: len(rules) == 1)
        agent = KubeClient.from_kubeconfig(token)
        try:
            with pytest.raises(InvalidObjectError, match="taint rules for pools of its own drivers only"):
                await agent.create(DEVICE_TAINT_RULE, theirs)
        finally:
            await agent.close()

"""Health with the rights that an operator gives an agent: rules for its own devices, and releases by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_TAINT_RULE, NODE, POD
from claimsmith.kube.client import KubeClient
from claimsmith.publish.releases import ask_release, parse_device_id, read_releases
from tests.cluster.agents import AgentProcess, agent_command, replace_text, wait_published
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import pod
from tests.cluster.recipe import NODE as OWN
from tests.cluster.recipe import kubeconfig
from tests.cluster.rights import SPACE, granted, why_refused
from tests.cluster.watching import wait_for, wait_for_object

DRIVER, ACCOUNT, OTHER = "sim.claimsmith.dev", "claimsmith-agent", "node-b"
POOL = "lab"
"""Named in the settings, from which the policy knows it."""
CONFIG = """\
apiVersion: claimsmith.dev/v1alpha1
kind: AgentConfiguration
spec:
  drivers:
  - plugin: simulated
    settings: [devices.yaml]
    health: {taints: rules, rules: [{causes: ["*"], returns: false}]}
"""
FAILED = f"{{pool: {POOL}, nodes: [{OWN}], gpus: [{{model: A100-40, fault: xid-79}}]}}"
WELL = f"{{pool: {POOL}, nodes: [{OWN}], gpus: [{{model: A100-40}}]}}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent's configuration, and devices of which one has failed."""
    folder = tmp_path_factory.mktemp("agent")
    (folder / "agent.yaml").write_text(CONFIG)
    (folder / "devices.yaml").write_text(FAILED)
    return folder


@pytest.fixture(scope="module")
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
    device = parse_device_id(f"{DRIVER}/{POOL}/gpu-0")
    async with running(deployed, client, folder, token) as agent:
        (rule,) = await wait_for(client, DEVICE_TAINT_RULE, lambda rules: len(rules) == 1)
        await asyncio.to_thread(replace_text, folder / "devices.yaml", WELL)
        while (await client.list(DEVICE_TAINT_RULE)).items:
            await ask_release(client, OWN, add=[device])
            await wait_for_object(client, NODE, OWN, lambda node: not read_releases(node))
        await agent.wait_logged("Device released by hand")

        assert rule["spec"]["deviceSelector"] == {"driver": DRIVER, "pool": POOL, "device": "gpu-0"}
        assert [owner["name"] for owner in rule["metadata"]["ownerReferences"]] == [OWN]


def a_rule(
    *, pool: str = OWN, driver: str = DRIVER, node: str = OWN, name: str = f"claimsmith-health-{OWN}-{'0' * 20}"
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "claimsmith-health", "claimsmith.dev/node": node},
        },
        "spec": {
            "deviceSelector": {"driver": driver, "device": "gpu-0", **({"pool": pool} if pool else {})},
            "taint": {"key": "claimsmith.dev/unhealthy", "effect": "NoExecute"},
        },
    }


async def test_an_agent_writes_no_rule_but_its_own(deployed: RealCluster, client: KubeClient, token: Path) -> None:
    theirs = f"claimsmith-health-{OTHER}-{'0' * 20}"
    await client.create(DEVICE_TAINT_RULE, a_rule(pool=OTHER, node=OTHER, name=theirs))
    taken = f"claimsmith-health-{OTHER}-{'1' * 20}"
    agent = KubeClient.from_kubeconfig(token)
    change = {"spec": {"taint": {"effect": "NoSchedule"}}}
    try:
        said = {
            "own": await why_refused(agent.create(DEVICE_TAINT_RULE, a_rule())),
            "change": await why_refused(agent.patch(DEVICE_TAINT_RULE, a_rule()["metadata"]["name"], change)),
            "pool": await why_refused(agent.create(DEVICE_TAINT_RULE, a_rule(pool=OTHER))),
            "every pool": await why_refused(agent.create(DEVICE_TAINT_RULE, a_rule(pool=""))),
            "driver": await why_refused(agent.create(DEVICE_TAINT_RULE, a_rule(driver="other.example.com"))),
            "label": await why_refused(agent.create(DEVICE_TAINT_RULE, a_rule(node=OTHER))),
            "name": await why_refused(agent.create(DEVICE_TAINT_RULE, a_rule(name=taken))),
            "theirs": await why_refused(agent.patch(DEVICE_TAINT_RULE, theirs, change)),
            "deletion": await why_refused(agent.delete(DEVICE_TAINT_RULE, theirs)),
            "own deletion": await why_refused(agent.delete(DEVICE_TAINT_RULE, a_rule()["metadata"]["name"])),
        }
    finally:
        await agent.close()

    assert [name for name, why in said.items() if not why] == ["own", "change", "own deletion"]
    assert all(f"the agent of node {OWN} may write taint rules " in why for why in said.values() if why)

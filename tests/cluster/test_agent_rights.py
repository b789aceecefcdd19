"""What an agent's own ServiceAccount may do, judged by the real authorizer and admission: its own node only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_REPORT,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from claimsmith.api.reports import parse_device_report
from claimsmith.errors import ForbiddenError, InvalidObjectError
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import AgentProcess, agent_command, retrying, wait_published
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.recipe import NODE as OWN
from tests.cluster.recipe import kubeconfig
from tests.cluster.rights import SPACE, granted
from tests.cluster.watching import is_ready, wait_for_object, wait_gone

DRIVER, ACCOUNT = "sim.claimsmith.dev", "claimsmith-agent"
OTHER = "node-b"
CONFIG = """
apiVersion: claimsmith.dev/v1alpha1
kind: AgentConfiguration
spec:
  keepNodeCapacity: true
  drivers:
  - plugin: simulated
    labels: true
    extendedResources: [{resource: example.com/counted}]
    deviceReport: {intervalSeconds: 0.5}
---
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
spec: {gpus: [{model: A100-40, count: 2}]}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("agent") / "agent.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture
def deployed(real_cluster: RealCluster, config: Path) -> Iterator[RealCluster]:
    """A cluster to which an operator has applied what the command prints, but for the DaemonSet, which has no image."""
    with granted(real_cluster, "agent", "--config", str(config), "--print-manifests"):
        yield real_cluster


def write_kubeconfig(cluster: RealCluster, *bound: str) -> Path:
    """Return a kubeconfig with a new token of the agent's account, bound to an object or not."""
    words = ("-n", SPACE, "create", "token", ACCOUNT, "--duration", "1h", *bound)
    path = cluster.folder / f"agent-rights{len(bound)}.conf"
    path.write_text(kubeconfig(cluster.layout.server, cluster.folder, token=cluster.kubectl(*words).strip()))
    return path


@pytest.fixture
async def token(deployed: RealCluster, client: KubeClient) -> Path:
    """A kubeconfig with the token of the agent's pod on its node."""
    body = pod("agent-0", nodeName=OWN, serviceAccountName=ACCOUNT)
    body["metadata"]["namespace"] = SPACE
    await client.create(POD, body)
    return write_kubeconfig(deployed, "--bound-object-kind", "Pod", "--bound-object-name", "agent-0")


@pytest.fixture
async def agent(token: Path) -> AsyncIterator[KubeClient]:
    """A client with the agent's own rights."""
    client = KubeClient.from_kubeconfig(token)
    try:
        yield client
    finally:
        await client.close()


def a_slice(*, node: str = OWN, driver: str = DRIVER, **spec: Any) -> dict[str, Any]:
    where = {"nodeName": node} if node else {"allNodes": True}
    pool = {"name": node or "shared", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": "test-"},
        "spec": {"driver": driver, "pool": pool, "devices": [{"name": "gpu-0"}], **where, **spec},
    }


async def test_an_agent_writes_slices_of_its_own_node(agent: KubeClient) -> None:
    made = await agent.create(RESOURCE_SLICE, a_slice())
    made["spec"]["devices"].append({"name": "gpu-1"})
    changed = await agent.update(RESOURCE_SLICE, made)
    await agent.delete(RESOURCE_SLICE, made["metadata"]["name"])

    assert [device["name"] for device in changed["spec"]["devices"]] == ["gpu-0", "gpu-1"]


@pytest.mark.parametrize(
    "wrong", [{"node": OTHER}, {"node": ""}, {"driver": "other.example.com"}], ids=["node", "shared", "driver"]
)
async def test_an_agent_writes_no_other_slice(agent: KubeClient, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidObjectError, match="slices of its own drivers on its own node only"):
        await agent.create(RESOURCE_SLICE, a_slice(**wrong))


async def test_an_agent_deletes_no_slice_of_another_node(agent: KubeClient, client: KubeClient) -> None:
    theirs = await client.create(RESOURCE_SLICE, a_slice(node=OTHER))

    with pytest.raises(InvalidObjectError, match="own node only"):
        await agent.delete(RESOURCE_SLICE, theirs["metadata"]["name"])


async def test_a_token_without_a_pod_writes_nothing(deployed: RealCluster) -> None:
    loose = KubeClient.from_kubeconfig(write_kubeconfig(deployed))
    try:
        with pytest.raises(InvalidObjectError, match="this user has no node"):
            await loose.create(RESOURCE_SLICE, a_slice())
    finally:
        await loose.close()


async def test_an_agent_labels_its_own_node_alone(agent: KubeClient, deployed: RealCluster, client: KubeClient) -> None:
    deployed.add_node(OTHER)
    label = {"metadata": {"labels": {"claimsmith.dev/test": "1"}}}
    changed = await agent.patch(NODE, OWN, label)
    await client.patch(NODE, OWN, {"metadata": {"labels": {"claimsmith.dev/test": None}}})

    assert changed["metadata"]["labels"]["claimsmith.dev/test"] == "1"
    with pytest.raises(InvalidObjectError, match="own node only"):
        await agent.patch(NODE, OTHER, label)
    with pytest.raises(InvalidObjectError, match="own node only"):
        await agent.patch(NODE, OWN, {"spec": {"unschedulable": True}})


async def test_an_agent_reports_its_own_node_alone(agent: KubeClient) -> None:
    def report(node: str) -> dict[str, Any]:
        return {"metadata": {"name": f"{node}.{DRIVER}"}, "spec": {"nodeName": node, "driver": DRIVER}}

    own, theirs = ({"apiVersion": DEVICE_REPORT.api_version, "kind": "DeviceReport", **report(n)} for n in (OWN, OTHER))
    await agent.create(DEVICE_REPORT, own)

    with pytest.raises(InvalidObjectError, match="reports of its own drivers on its own node only"):
        await agent.create(DEVICE_REPORT, theirs)


async def allocated(client: KubeClient, name: str, *, node: str, driver: str) -> dict[str, Any]:
    """Return a claim that has one device."""
    made = await client.create(RESOURCE_CLAIM, claim(name, exactly("gpu", "gpu")))
    result = {"request": "gpu", "driver": driver, "pool": node, "device": "gpu-0"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    made["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
    }
    return await client.update_status(RESOURCE_CLAIM, made)


def told(claim: dict[str, Any]) -> dict[str, Any]:
    """Return what a driver says of the device of a claim, as a patch of the status."""
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    device = {name: result[name] for name in ("driver", "pool", "device")}
    return {"status": {"devices": [{**device, "data": {"seen": True}}]}}


async def test_an_agent_tells_of_devices_of_its_own_driver_in_claims_of_its_node(
    agent: KubeClient, client: KubeClient
) -> None:
    own = await allocated(client, "own", node=OWN, driver=DRIVER)
    changed = await agent.patch(RESOURCE_CLAIM, "own", told(own), namespace="default", subresource="status")

    assert changed["status"]["devices"][0]["data"] == {"seen": True}


@pytest.mark.parametrize(("node", "driver"), [(OTHER, DRIVER), (OWN, "other.example.com")], ids=["node", "driver"])
async def test_an_agent_tells_of_no_other_device(agent: KubeClient, client: KubeClient, node: str, driver: str) -> None:
    other = await allocated(client, "other", node=node, driver=driver)

    with pytest.raises((ForbiddenError, InvalidObjectError), match="resourceclaims/driver"):
        await agent.patch(RESOURCE_CLAIM, "other", told(other), namespace="default", subresource="status")


async def test_an_agent_allocates_nothing(agent: KubeClient, client: KubeClient) -> None:
    await allocated(client, "own", node=OWN, driver=DRIVER)
    patch = {"status": {"allocation": None}}

    with pytest.raises((ForbiddenError, InvalidObjectError), match="resourceclaims/binding"):
        await agent.patch(RESOURCE_CLAIM, "own", patch, namespace="default", subresource="status")


async def test_a_whole_agent_works_with_these_rights(
    token: Path, deployed: RealCluster, client: KubeClient, config: Path
) -> None:
    process = AgentProcess(
        agent_command(deployed, "--config", str(config), kubeconfig=token), deployed.folder / "agent.log"
    )
    await process.start()
    try:
        async with retrying(client):
            await process.wait_registered(DRIVER)
            await wait_published(client, DRIVER)
            await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
            await client.create(RESOURCE_CLAIM, claim("gpu", exactly("gpu", "gpu")))
            await client.create(POD, pod("train", claims=["gpu"]))
            await wait_for_object(client, POD, "train", is_ready)
            await wait_for_object(client, NODE, OWN, has_label_and_amount)
            held = await wait_for_object(client, DEVICE_REPORT, f"{OWN}.{DRIVER}", has_holder)
            await client.delete(POD, "train", namespace="default", grace_period_s=1)
            await wait_gone(client, POD, "train")
    finally:
        status = await process.stop()

    assert [item.holders[0].name for item in parse_device_report(held).devices if item.holders] == ["gpu"]
    assert status == 0
    assert [line for line in process.lines if "forbidden" in str(line).lower()] == []


def has_label_and_amount(node: dict[str, Any]) -> bool:
    """Tell whether a Node has what the agent counts on it."""
    labels, capacity = node["metadata"]["labels"], node["status"]["capacity"]
    counted = (labels.get("claimsmith.dev/gpu.A100-40.count"), capacity.get("example.com/counted"))
    return counted == ("2", "2")


def has_holder(report: dict[str, Any]) -> bool:
    return any(item.holders for item in parse_device_report(report).devices)

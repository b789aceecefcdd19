"""What an agent's own ServiceAccount may do, judged by the real authorizer and admission: its own node only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_REPORT,
    EVENT,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
)
from claimsmith.api.reports import parse_device_report
from claimsmith.errors import ForbiddenError, InvalidObjectError
from claimsmith.kube.client import KubeClient
from claimsmith.publish.labels_write import LABEL_MANAGER, apply_labels
from claimsmith.publish.nodestatus import CONFIGURED_ANNOTATION, WISHES_ANNOTATION
from claimsmith.publish.releases import RELEASE_ANNOTATION
from tests.cluster.agents import AgentProcess, agent_command, retrying, wait_published
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.recipe import NODE as OWN
from tests.cluster.recipe import kubeconfig
from tests.cluster.rights import SPACE, granted, list_rights, why_refused
from tests.cluster.watching import is_ready, wait_for_object, wait_gone

DRIVER, ACCOUNT = "sim.claimsmith.dev", "claimsmith-agent"
OTHER, LABEL = "node-b", "claimsmith.dev/gpu.count"
CONFIG = """
apiVersion: claimsmith.dev/v1alpha1
kind: AgentConfiguration
spec:
  keepNodeCapacity: true
  drivers:
  - plugin: simulated
    labels: true
    pools: [lab, "{node}.lab"]
    extendedResources: [{resource: example.com/counted}]
    deviceReport: {intervalSeconds: 0.5}
---
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
spec: {gpus: [{model: A100-40, count: 2}]}
---
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
spec: {nodes: [node-b], pool: theirs, gpus: [{model: T4}]}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("agent") / "agent.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture(scope="module")
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


def a_slice(*, node: str = OWN, driver: str = DRIVER, pool: str = "") -> dict[str, Any]:
    where = {"nodeName": node} if node else {"allNodes": True}
    named = {"name": pool or node or "shared", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"generateName": "test-"},
        "spec": {"driver": driver, "pool": named, "devices": [{"name": "gpu-0"}], **where},
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


async def test_an_agent_writes_slices_of_its_own_pools_alone(agent: KubeClient) -> None:
    pools = (f"{OWN}/cards", "lab", f"{OWN}.lab", OTHER, f"{OTHER}/cards", f"{OWN}-cards", f"{OTHER}.lab", "theirs")
    said = {pool: await why_refused(agent.create(RESOURCE_SLICE, a_slice(pool=pool))) for pool in pools}

    assert [pool for pool, why in said.items() if not why] == [f"{OWN}/cards", "lab", f"{OWN}.lab"]
    assert all("may write slices of its own pools only" in why for why in said.values() if why)


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


def noted(key: str, value: object) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}}


def labelled(key: str, value: object) -> dict[str, Any]:
    return {"metadata": {"labels": {key: value}}}


async def test_an_agent_writes_its_own_part_of_its_own_node(agent: KubeClient, deployed: RealCluster) -> None:
    deployed.add_node(OTHER)
    label, amount = labelled(LABEL, "1"), {"status": {"capacity": {"example.com/counted": "3"}}}
    note = noted(CONFIGURED_ANNOTATION, '{"example.com/counted":3}')
    gone = {"status": {"capacity": {"example.com/counted": None}}}
    own = [(label, ""), (note, ""), (noted(RELEASE_ANNOTATION, "x"), ""), (amount, "status"), (gone, "status")]
    own += [
        (noted(CONFIGURED_ANNOTATION, None), ""),
        (noted(RELEASE_ANNOTATION, None), ""),
        (labelled(LABEL, None), ""),
    ]
    said = [await why_refused(agent.patch(NODE, OWN, patch, subresource=part)) for patch, part in own]
    theirs = [await why_refused(agent.patch(NODE, OTHER, patch, subresource=part)) for patch, part in own[:4]]

    assert said == [""] * len(own)
    assert all("own node only" in why for why in theirs)


NOT_ITS = {
    "label": (labelled("claimsmith.dev/test", "1"), ""),
    "zone": (labelled("topology.kubernetes.io/zone", "b"), ""),
    "label gone": (labelled("kubernetes.io/hostname", None), ""),
    "label by the status": (labelled("kubernetes.io/hostname", "b"), "status"),
    "annotation": (noted("example.com/public-ip", "10.0.0.1"), ""),
    "amounts by hand": (noted(WISHES_ANNOTATION, '{"example.com/other":1}'), ""),
    "amounts of others": (noted(CONFIGURED_ANNOTATION, '{"example.com/other":1}'), ""),
    "taint": ({"spec": {"taints": [{"key": "example.com/a", "effect": "NoExecute"}]}}, ""),
    "finalizer": ({"metadata": {"finalizers": ["example.com/stay"]}}, ""),
    "owner": ({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}}, ""),
    "cpu": ({"status": {"capacity": {"cpu": "1000"}}}, "status"),
    "cpu gone": ({"status": {"allocatable": {"cpu": None}}}, "status"),
    "resource": ({"status": {"capacity": {"example.com/other": "1"}}}, "status"),
    "address": ({"status": {"addresses": [{"type": "InternalIP", "address": "10.9.9.9"}]}}, "status"),
    "condition": ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "status"),
}
"""Patches of a Node, and the subresource."""


async def test_an_agent_writes_nothing_else_of_its_own_node(agent: KubeClient) -> None:
    said = {
        name: await why_refused(agent.patch(NODE, OWN, patch, subresource=part, patch_type="strategic"))
        for name, (patch, part) in NOT_ITS.items()
    }

    assert [name for name, why in said.items() if f"the agent of node {OWN} may " not in why] == []


async def test_an_agent_takes_labels_of_an_earlier_prefix_away_and_no_others(
    agent: KubeClient, client: KubeClient
) -> None:
    body = {"metadata": {"name": OWN, "labels": {"old.example.com/gpu.count": "1"}}}
    await client.apply(NODE, body, field_manager=LABEL_MANAGER)
    took = {"metadata": {"name": OWN, "labels": {"kubernetes.io/hostname": OWN}}}
    why = await why_refused(agent.apply(NODE, took, field_manager=LABEL_MANAGER, force=True))
    await apply_labels(agent, OWN, {LABEL: "2"})
    found = (await client.get(NODE, OWN))["metadata"]["labels"]
    await apply_labels(client, OWN, {})

    assert "may own its own labels only" in why
    assert (found.get("old.example.com/gpu.count"), found[LABEL]) == (None, "2")


async def test_an_agent_reports_its_own_node_alone(agent: KubeClient, client: KubeClient) -> None:
    def report(node: str, *, name: str) -> dict[str, Any]:
        head = {"apiVersion": DEVICE_REPORT.api_version, "kind": "DeviceReport"}
        return {**head, "metadata": {"name": f"{name}.{DRIVER}"}, "spec": {"nodeName": node, "driver": DRIVER}}

    own = await agent.create(DEVICE_REPORT, report(OWN, name=OWN))
    await client.delete(DEVICE_REPORT, own["metadata"]["name"])

    for theirs in (report(OTHER, name=OTHER), report(OWN, name=OTHER)):
        with pytest.raises(InvalidObjectError, match="reports of its own drivers on its own node only"):
            await agent.create(DEVICE_REPORT, theirs)


async def test_an_agent_tells_events_of_its_own_node_alone(agent: KubeClient, client: KubeClient) -> None:
    def event(kind: str, about: str, source: str = ACCOUNT) -> dict[str, Any]:
        involved = {"kind": kind, "name": about, "uid": about, **({"namespace": "default"} if kind == "Pod" else {})}
        head = {"metadata": {"generateName": "test-", "namespace": "default"}, "involvedObject": involved}
        return {**head, "reason": "Test", "type": "Normal", "source": {"component": source}}

    own = (await agent.create(EVENT, event("Node", OWN)))["metadata"]["name"]
    theirs = (await client.create(EVENT, event("Node", OWN, "kubelet")))["metadata"]["name"]
    again = await why_refused(agent.patch(EVENT, own, {"count": 2}, namespace="default"))
    wrong = (event("Node", OTHER), event("Pod", "train"), event("Node", OWN, "kubelet"))
    said = [await why_refused(agent.create(EVENT, item)) for item in wrong]
    said.append(await why_refused(agent.patch(EVENT, theirs, {"count": 2}, namespace="default")))

    assert again == ""
    assert all("its own events about its own node only" in why for why in said)


def test_an_agent_may_do_no_more_than_it_needs(deployed: RealCluster, token: Path) -> None:
    assert list_rights(deployed, token) == {
        ("events", "[create patch]"),
        ("nodes", "[get list watch patch]"),
        ("nodes/status", "[patch]"),
        ("pods", "[get]"),
        ("resourceslices.resource.k8s.io", "[list watch create update delete]"),
        ("resourceclaims.resource.k8s.io", "[get list]"),
        ("resourceclaims.resource.k8s.io/status", "[patch]"),
        ("resourceclaims.resource.k8s.io/driver", "[associated-node:patch]"),
        ("devicereports.claimsmith.dev", "[create]"),
        ("devicereports.claimsmith.dev/status", "[patch]"),
    }


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

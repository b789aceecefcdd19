"""What claims may say beside their requests, on a real node: parameters for the driver, and administrators' access."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, EVENT, POD, RESOURCE_CLAIM
from claimsmith.kube.client import KubeClient, KubeObject
from tests.cluster.agents import serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import SLEEP, claim, device_class, exactly, pod
from tests.cluster.seen import LOOK, assert_sees
from tests.cluster.watching import is_ready, is_unschedulable, wait_for, wait_for_object, wait_gone

DRIVER = "sim.claimsmith.dev"
ONE_CARD = "gpus: [{model: A100-40}]"
CARDS = "gpus: [{model: A100-40, count: 4}]"
"""More than the pods need: the scheduler may still count those of the test before."""
ALL = f'device.driver == "{DRIVER}"'
ADMINS = "admins"


@pytest.fixture
async def admins(real_cluster: RealCluster) -> str:
    """A namespace whose claims may ask for administrators' access; it stays."""
    label = {"resource.kubernetes.io/admin-access": "true"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADMINS, "labels": label}}
    kubectl = real_cluster.kubectl
    await asyncio.to_thread(kubectl, "apply", "-f", "-", stdin=json.dumps(body))
    await asyncio.to_thread(kubectl, "-n", ADMINS, "wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    return ADMINS


async def start(client: KubeClient, name: str, *, namespace: str = "default", **request: bool) -> None:
    """Create a claim for a card, and a pod of the same name that uses it and shows what it sees."""
    for kind, body in (
        (RESOURCE_CLAIM, claim(name, exactly("gpu", "gpu", **request))),
        (POD, pod(name, f"{LOOK}; {SLEEP}", claims=[name])),
    ):
        body["metadata"]["namespace"] = namespace
        await client.create(kind, body)


async def delete(client: KubeClient, name: str, *, namespace: str = "default") -> None:
    await client.delete(POD, name, namespace=namespace)
    await wait_gone(client, POD, name, namespace=namespace)


def held(cluster: RealCluster) -> set[tuple[str, str]]:
    """Return namespace and name of the claims that are prepared: in the ledger, each with one CDI file."""
    content = json.loads((cluster.paths.folder_of(DRIVER) / "checkpoint.json").read_text())
    files = cluster.list_cdi_files()
    assert len(files) == len(content["claims"]), files
    assert all(any(entry["uid"] in path.name for path in files) for entry in content["claims"]), files
    return {(entry["namespace"], entry["name"]) for entry in content["claims"]}


async def test_an_administrator_sees_the_device_of_another_and_neither_lets_go_of_it_for_the_other(
    real_cluster: RealCluster, client: KubeClient, admins: str
) -> None:
    async with serving(real_cluster, client, ONE_CARD):
        await client.create(DEVICE_CLASS, device_class("gpu", ALL))
        await start(client, "same")
        own = await wait_for_object(client, POD, "same", is_ready, namespace="default")
        for name in ("same", "more"):
            await start(client, name, namespace=admins, adminAccess=True)
        watching = [await wait_for_object(client, POD, name, is_ready, namespace=admins) for name in ("same", "more")]
        for found in (own, *watching):
            assert_sees(await real_cluster.wait_printed(found, "done"), ["gpu-0"])
        seen = [held(real_cluster)]
        await delete(client, "more", namespace=admins)
        seen.append(held(real_cluster))
        await start(client, "next")
        await wait_for_object(client, POD, "next", is_unschedulable, namespace="default")
        await delete(client, "same")
        await wait_for_object(client, POD, "next", is_ready, namespace="default")
        seen.append(held(real_cluster))

    assert seen == [
        {("default", "same"), (admins, "same"), (admins, "more")},
        {("default", "same"), (admins, "same")},
        {("default", "next"), (admins, "same")},
    ]


def opaque(**parameters: Any) -> dict[str, Any]:
    """Return a configuration with parameters for the driver."""
    return {"opaque": {"driver": DRIVER, "parameters": parameters}}


async def test_variables_of_a_claim_win_over_those_of_its_class(real_cluster: RealCluster, client: KubeClient) -> None:
    of_class = opaque(env={"MODE": "class", "ONLY_CLASS": "class"})
    of_claim = opaque(env={"MODE": "claim", "ONLY_CLAIM": "claim"})
    async with serving(real_cluster, client, CARDS):
        await client.create(DEVICE_CLASS, device_class("gpu", ALL, config=[of_class]))
        await client.create(RESOURCE_CLAIM, claim("one", exactly("gpu", "gpu"), config=[of_claim]))
        await client.create(POD, pod("user", f"env | grep -E 'MODE|ONLY' | sort; echo done; {SLEEP}", claims=["one"]))
        log = await real_cluster.wait_printed(await wait_for_object(client, POD, "user", is_ready), "done")

    assert log.splitlines() == ["MODE=claim", "ONLY_CLAIM=claim", "ONLY_CLASS=class", "done"]


async def test_a_misspelt_field_is_named_in_the_event_of_the_pod(real_cluster: RealCluster, client: KubeClient) -> None:
    def are_told(events: Sequence[KubeObject]) -> bool:
        return len(warnings_of(events)) == 2

    misspelt = opaque(enw={"MODE": "fast"})
    async with serving(real_cluster, client, CARDS):
        await client.create(DEVICE_CLASS, device_class("gpu", ALL))
        await client.create(DEVICE_CLASS, device_class("wrong", ALL, config=[misspelt]))
        await client.create(RESOURCE_CLAIM, claim("by-claim", exactly("gpu", "gpu"), config=[misspelt]))
        await client.create(RESOURCE_CLAIM, claim("by-class", exactly("gpu", "wrong")))
        for name in ("by-claim", "by-class"):
            await client.create(POD, pod(name, claims=[name]))
        told = warnings_of(await wait_for(client, EVENT, are_told, namespace="default"))

    for owner, message in told.items():
        field = f"{owner.removeprefix('by-')} config[0].opaque.parameters.enw"
        assert f"{field}: found 'an unknown field', allowed env, prepareError; write env" in message


def warnings_of(events: Sequence[KubeObject]) -> dict[str, str]:
    """Return what the kubelet tells of the pods whose claims can't be prepared, by the names of the pods."""
    return {
        event["involvedObject"]["name"]: event["message"]
        for event in events
        if event["reason"] == "FailedPrepareDynamicResources" and "config[" in event["message"]
    }

"""`claimsmith scheduler` on a real API server with the rights that it prints."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.errors import ForbiddenError
from claimsmith.kube.client import KubeClient
from tests.cluster.agents import WITH_THE_TESTS, AgentProcess, serving
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod
from tests.cluster.rights import SPACE, granted, list_rights, why_refused
from tests.cluster.watching import is_ready, is_unschedulable, wait_for_object

ACCOUNT, DRIVER = "claimsmith-scheduler", "sim.claimsmith.dev"
OWNED = {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "gone"}]}}
"""Somebody who is not there, so that the claim would be deleted."""
CARDS = "gpus: [{model: A100-40, count: 2}]"


@pytest.fixture(scope="module")
def account(real_cluster: RealCluster) -> Iterator[Path]:
    """A kubeconfig of the scheduler's account, after an operator has applied what the command prints.

    Without the Deployment, which has no image here.
    """
    with granted(real_cluster, "scheduler", "--print-manifests"):
        yield real_cluster.service_account(ACCOUNT, namespace=SPACE)


@asynccontextmanager
async def scheduling(cluster: RealCluster, account: Path, name: str) -> AsyncIterator[AgentProcess]:
    """Run a scheduler as its own account."""
    command = [*WITH_THE_TESTS, sys.executable, "-m", "claimsmith", "scheduler", "--kubeconfig", str(account)]
    options = ["--listen", "0", "--log-format", "json", "-v"]
    scheduler = AgentProcess([*command, *options], cluster.folder / f"scheduler-{name}.log")
    await scheduler.start()
    try:
        yield scheduler
    finally:
        await scheduler.stop()


async def place(client: KubeClient, name: str) -> str:
    """Return the device that a pod with a claim gets, once it runs."""
    await client.create(RESOURCE_CLAIM, claim(name, exactly("gpu", "gpu")))
    await client.create(POD, pod(name, claims=[name], schedulerName="claimsmith"))
    await wait_for_object(client, POD, name, is_ready)
    allocated = await client.get(RESOURCE_CLAIM, name, namespace="default")
    (result,) = allocated["status"]["allocation"]["devices"]["results"]
    return f"{result['driver']}/{result['device']}"


async def test_a_second_scheduler_goes_on_where_the_first_one_ends(
    real_cluster: RealCluster, client: KubeClient, account: Path
) -> None:
    async with (
        serving(real_cluster, client, CARDS),
        scheduling(real_cluster, account, "first") as first,
    ):
        await first.wait_logged("Scheduler decides")
        async with scheduling(real_cluster, account, "second") as second:
            await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{DRIVER}"'))
            one = await place(client, "train")
            status = await first.stop()
            await second.wait_logged("Scheduler decides")
            two = await place(client, "infer")
        lines = [*first.lines, *second.lines]

    assert status == 0
    assert {one.partition("/")[0], two.partition("/")[0]} == {DRIVER}
    assert one != two
    assert not [line for line in lines if line.get("level") in {"warning", "error"}]


async def test_a_scheduler_serves_extended_resources_with_these_rights(
    real_cluster: RealCluster, client: KubeClient, account: Path
) -> None:
    counted = device_class("counted", f'device.driver == "{DRIVER}"', extendedResourceName="example.com/gpu")
    async with serving(real_cluster, client, CARDS), scheduling(real_cluster, account, "counting") as scheduler:
        await scheduler.wait_logged("Scheduler decides")
        await client.create(DEVICE_CLASS, counted)
        for name, amount in (("much", "3"), ("little", "1")):
            await client.create(POD, pod(name, limits={"example.com/gpu": amount}, schedulerName="claimsmith"))
        await wait_for_object(client, POD, "much", is_unschedulable)
        ready = await wait_for_object(client, POD, "little", is_ready)
        (made,) = (await client.list(RESOURCE_CLAIM)).items

    assert ready["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == made["metadata"]["name"]
    assert not [line for line in scheduler.lines if line.get("level") in {"warning", "error"}]


async def test_the_scheduler_may_do_no_more_than_it_needs(real_cluster: RealCluster, account: Path) -> None:
    assert list_rights(real_cluster, account) == {
        ("pods", "[get list watch]"),
        ("pods/binding", "[create]"),
        ("pods/status", "[patch]"),
        ("nodes", "[list watch]"),
        ("namespaces", "[list watch]"),
        ("events", "[create patch]"),
        ("resourceslices.resource.k8s.io", "[list watch]"),
        ("deviceclasses.resource.k8s.io", "[list watch]"),
        ("devicetaintrules.resource.k8s.io", "[list watch]"),
        ("resourceclaimtemplates.resource.k8s.io", "[list watch]"),
        ("resourceclaims.resource.k8s.io", "[get list watch create patch delete]"),
        ("resourceclaims.resource.k8s.io/status", "[patch]"),
        ("resourceclaims.resource.k8s.io/binding", "[patch]"),
        ("podgroups.scheduling.k8s.io", "[list watch]"),
        ("podgroups.scheduling.k8s.io/status", "[patch]"),
    }


async def test_the_scheduler_publishes_nothing(client: KubeClient, account: Path) -> None:
    del client  # cleans up
    own = KubeClient.from_kubeconfig(account)
    body = {"metadata": {"name": "x"}, "spec": {"driver": DRIVER, "nodeName": "node-a"}}
    try:
        with pytest.raises(ForbiddenError):
            await own.create(RESOURCE_SLICE, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **body})
    finally:
        await own.close()


async def test_a_scheduler_writes_of_pods_and_claims_only_what_one_finds_out(client: KubeClient, account: Path) -> None:
    for name, scheduler in (("own", "claimsmith"), ("theirs", "someone-else")):
        await client.create(POD, pod(name, schedulerName=scheduler))
    await client.create(RESOURCE_CLAIM, claim("users", exactly("gpu", "gpu")))
    own = KubeClient.from_kubeconfig(account)

    def patch_pod(name: str, body: dict[str, Any]) -> Awaitable[object]:
        return own.patch(POD, name, body, namespace="default", subresource="status")

    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting = {"status": {"conditions": [condition]}}
    try:
        said = {
            "waits": await why_refused(patch_pod("own", waiting)),
            "theirs": await why_refused(patch_pod("theirs", waiting)),
            "ready": await why_refused(patch_pod("own", {"status": {"conditions": [{**condition, "type": "Ready"}]}})),
            "address": await why_refused(patch_pod("own", {"status": {"podIP": "10.0.0.1"}})),
            "phase": await why_refused(patch_pod("own", {"status": {"phase": "Failed"}})),
            "label": await why_refused(patch_pod("own", {"metadata": {"labels": {"app": "other"}}})),
            "claim": await why_refused(own.create(RESOURCE_CLAIM, claim("made", exactly("gpu", "gpu")))),
            "deletion": await why_refused(own.delete(RESOURCE_CLAIM, "users", namespace="default")),
            "owner": await why_refused(own.patch(RESOURCE_CLAIM, "users", OWNED, namespace="default")),
        }
    finally:
        await own.close()

    assert [name for name, why in said.items() if not why] == ["waits"]
    assert all("the scheduler may " in why for why in said.values() if why)

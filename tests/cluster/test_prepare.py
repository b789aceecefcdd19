"""Preparing on a real node: what waits instead of failing, what drivers tell, what a returning agent puts right."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, EVENT, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from claimsmith.daemons.controller_returns import ReturnWatcher
from claimsmith.kube.client import KubeClient
from claimsmith.node.kubeletclaims import KUBELET_CLAIMS_FILE
from claimsmith.node.ledger import CHECKPOINT_FILE
from tests.cluster.agents import AgentProcess, agent_command, retrying, serving
from tests.cluster.cleaning import delete_pods
from tests.cluster.cluster import RealCluster
from tests.cluster.manifests import claim, device_class, exactly, pod, template
from tests.cluster.plugins import install_plugin
from tests.cluster.watching import is_ready, wait_for, wait_for_object, wait_gone

DRIVER: Final = "odd.example.com"
SIMULATED: Final = "sim.claimsmith.dev"
SOON_S: Final = 50.0
"""A failed answer would cost a pod 60 to 90 s."""
RETURNED_S: Final = 15.0
"""Within which a returning agent has released what ended without it."""
LOOK_S: Final = 0.1

ODD: Final = '''
"""Two devices.

CLAIMSMITH_TEST_FAILS: how often a preparation fails first. CLAIMSMITH_TEST_BLOCKS: it never ends.
CLAIMSMITH_TEST_ADDRESS: the file that has a device's address, once that is known.
"""

import json
import dataclasses
import os
import pathlib
import sys
import threading

from claimsmith.sdk import (
    ContainerEdits, Device, DeviceAttribute, DeviceCondition, DeviceMetadata, DeviceStatus, Driver, DriverError,
    Inventory, NetworkData, PreparedDevice, PreparedDevices,
)

address = pathlib.Path(os.environ.get("CLAIMSMITH_TEST_ADDRESS", "/none"))
claims = {}
failures = int(os.environ.get("CLAIMSMITH_TEST_FAILS", "0"))
READY = DeviceCondition(type="Ready", status="True", reason="Configured", message="link is up")
STATUS = DeviceStatus(
    conditions=(READY,), data={"slot": 3}, network=NetworkData(interface_name="net1", ips=("10.1.2.3/24",))
)


class TestDriver(Driver):
    name = "odd.example.com"

    def discover(self):
        return Inventory.of(Device(name="odd-0"), Device(name="odd-1"))

    def prepare(self, request):
        global failures
        print(json.dumps({"message": "preparation begins"}), file=sys.stderr, flush=True)
        if os.environ.get("CLAIMSMITH_TEST_BLOCKS") == "1":
            threading.Event().wait()
        if failures:
            failures -= 1
            raise DriverError("the card is being reset")
        claims[request.claim.uid] = request.claim
        status = STATUS
        if address.exists():
            network = dataclasses.replace(STATUS.network, ips=(address.read_text().strip(),))
            status = dataclasses.replace(STATUS, network=network)
        metadata = DeviceMetadata(attributes={"model": DeviceAttribute.of("X1")})
        edits = ContainerEdits(env={"ODD": "yes"})
        return PreparedDevices(devices=tuple(
            PreparedDevice(device=item, edits=edits, status=status, metadata=metadata) for item in request.devices
        ))

    def watch_prepared(self, changed, stop):
        before = address.exists()
        while not stop.wait(0.2):
            if address.exists() != before:
                before = address.exists()
                for claim in claims.values():
                    changed(claim)
'''


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return install_plugin(tmp_path, "odd", ODD)


async def create_class(client: KubeClient) -> None:
    await client.create(DEVICE_CLASS, device_class("odd", f'device.driver == "{DRIVER}"'))


async def create_pod(client: KubeClient, name: str, script: str = "sleep 1000000") -> None:
    """Create a claim for one device, and a pod of the same name that uses it."""
    await client.create(RESOURCE_CLAIM, claim(name, exactly("dev", "odd")))
    await client.create(POD, pod(name, script, claims=[name]))


async def test_a_driver_that_fails_for_a_while_costs_the_pod_no_minute(
    real_cluster: RealCluster, client: KubeClient, packages: Path
) -> None:
    env = {"PYTHONPATH": str(packages), "CLAIMSMITH_TEST_FAILS": "4"}
    async with serving(real_cluster, client, plugin="odd", drivers=[DRIVER], env=env) as agent:
        await create_class(client)
        await create_pod(client, "one")
        await wait_for_object(client, POD, "one", is_ready, timeout_s=SOON_S)

        await agent.wait_logged("Claim prepared")
        begun = [line for line in agent.lines if line["message"] == "preparation begins"]
        assert len(begun) == 5


async def test_a_pod_that_is_deleted_while_its_prepare_waits_goes_soon(
    real_cluster: RealCluster, client: KubeClient, packages: Path
) -> None:
    env = {"PYTHONPATH": str(packages), "CLAIMSMITH_TEST_FAILS": "1000"}
    async with serving(real_cluster, client, plugin="odd", drivers=[DRIVER], env=env) as agent:
        await create_class(client)
        await create_pod(client, "hopeless")
        await agent.wait_logged("A call waits")
        await client.delete(POD, "hopeless", namespace="default")
        await wait_gone(client, POD, "hopeless", namespace="default", timeout_s=SOON_S)
        await agent.wait_logged("Claim not prepared")
        unprepared = await agent.wait_logged("Claim unprepared")

    assert unprepared["fields"]["claim"] == "default/hopeless"
    assert real_cluster.list_cdi_files() == []


async def test_a_program_reads_of_its_device_and_users_of_the_claims_status(
    real_cluster: RealCluster, client: KubeClient, packages: Path
) -> None:
    async with serving(real_cluster, client, plugin="odd", drivers=[DRIVER], env={"PYTHONPATH": str(packages)}):
        await create_class(client)
        await client.create(RESOURCE_CLAIM_TEMPLATE, template("odd", exactly("dev", "odd")))
        folder = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/mine/dev"
        script = f"cat {folder}/{DRIVER}-metadata.json; echo; echo done; touch /tmp/read; sleep 1000000"
        reader = pod("reader", script, claims={"mine": "odd"})
        probe = {"exec": {"command": ["test", "-e", "/tmp/read"]}, "periodSeconds": 1}
        reader["spec"]["containers"][0]["readinessProbe"] = probe
        await client.create(POD, reader)
        log = await real_cluster.wait_printed(await wait_for_object(client, POD, "reader", is_ready), "\ndone")
        (made,) = (await client.list(RESOURCE_CLAIM)).items
        told = await wait_for_object(client, RESOURCE_CLAIM, made["metadata"]["name"], has_device_status)

    read: dict[str, Any] = json.JSONDecoder().raw_decode(log)[0]
    assert (read["apiVersion"], read["podClaimName"]) == ("metadata.resource.k8s.io/v1beta1", "mine")
    (device,) = read["requests"][0]["devices"]
    assert (device["attributes"], device["networkData"]["interfaceName"]) == ({"model": {"string": "X1"}}, "net1")
    (status,) = told["status"]["devices"]
    assert (status["conditions"][0]["status"], status["data"], status["networkData"]["ips"]) == (
        "True", {"slot": 3}, ["10.1.2.3/24"],
    )  # fmt: skip
    managers = {entry["manager"]: entry["operation"] for entry in told["metadata"]["managedFields"]}
    assert managers[DRIVER] == "Apply"


async def test_an_address_that_is_known_later_reaches_the_running_container_and_the_claim(
    real_cluster: RealCluster, client: KubeClient, packages: Path, tmp_path: Path
) -> None:
    address = tmp_path / "address"
    env = {"PYTHONPATH": str(packages), "CLAIMSMITH_TEST_ADDRESS": str(address)}
    async with serving(real_cluster, client, plugin="odd", drivers=[DRIVER], env=env):
        await create_class(client)
        file = f"/var/run/kubernetes.io/dra-device-attributes/resourceclaims/late/dev/{DRIVER}-metadata.json"
        await create_pod(client, "late", f"until grep 10.9.8.7 {file}; do sleep 0.2; done; cat {file}; sleep 1000000")
        before = await wait_for_object(client, POD, "late", is_ready)
        (tmp_path / "hidden").write_text("10.9.8.7/24")
        (tmp_path / "hidden").rename(address)
        log = await real_cluster.wait_printed(before, '"generation": 2')
        told = await wait_for_object(
            client, RESOURCE_CLAIM, "late", lambda obj: "10.9.8.7/24" in str(obj.get("status"))
        )
        after = await client.get(POD, "late", namespace="default")

    assert "10.9.8.7/24" in log
    assert told["status"]["devices"][0]["networkData"]["ips"] == ["10.9.8.7/24"]
    assert runs_of(after) == runs_of(before)


def runs_of(obj: dict[str, Any]) -> list[Any]:
    """Return which containers a pod has, and since when each runs."""
    return [(status["containerID"], status["state"]) for status in obj["status"]["containerStatuses"]]


def has_device_status(obj: dict[str, Any]) -> bool:
    return bool((obj.get("status") or {}).get("devices"))


@contextlib.asynccontextmanager
async def controlling(client: KubeClient) -> AsyncIterator[None]:
    """Do what the controller does when a driver returns; what it does after failed prepares is done anyway."""
    work = asyncio.create_task(ReturnWatcher(client).run())
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


@contextlib.asynccontextmanager
async def killed_in_prepare(cluster: RealCluster, client: KubeClient, packages: Path) -> AsyncIterator[None]:
    """Have a pod wait for a claim whose preparation began in an agent that is no more."""
    env = {"PYTHONPATH": str(packages), "CLAIMSMITH_TEST_BLOCKS": "1"}
    agent = AgentProcess(agent_command(cluster, "--plugin", "odd"), cluster.folder / "agent.log", env=env)
    await agent.start()
    try:
        async with retrying(client):
            await agent.wait_registered(DRIVER)
            await create_class(client)
            await create_pod(client, "waiting")
            await agent.wait_logged("preparation begins")
    finally:
        await agent.kill()
    yield


async def test_the_controller_lets_a_pod_start_soon_after_a_kill_in_prepare(
    real_cluster: RealCluster, client: KubeClient, packages: Path, record_property: Any
) -> None:
    async with controlling(client), killed_in_prepare(real_cluster, client, packages):
        begun_s = time.monotonic()
        env = {"PYTHONPATH": str(packages)}
        async with serving(real_cluster, client, plugin="odd", drivers=[DRIVER], env=env):
            await wait_for_object(client, POD, "waiting", is_ready, timeout_s=SOON_S)
            record_property("kill_to_ready_s", round(time.monotonic() - begun_s, 2))

            def is_told(events: Sequence[dict[str, Any]]) -> bool:
                return any("never answered: default/waiting" in event["message"] for event in events)

            await wait_for(client, EVENT, is_told, field_selector="reason=DriverReturned")


async def test_a_claim_that_the_kubelet_forgot_while_no_agent_ran_is_released(
    real_cluster: RealCluster, client: KubeClient, packages: Path
) -> None:
    command = agent_command(real_cluster, "--plugin", "odd")
    agent = AgentProcess(command, real_cluster.folder / "agent.log", env={"PYTHONPATH": str(packages)})
    async with running(agent, client):
        await create_class(client)
        await create_pod(client, "one")
        await wait_for_object(client, POD, "one", is_ready)
        await agent.kill()
        async with real_cluster.stopped("kubelet", kill=True):
            (real_cluster.paths.state / KUBELET_CLAIMS_FILE).unlink()
            await client.delete(POD, "one", namespace="default", grace_period_s=0)
            await client.delete(RESOURCE_CLAIM, "one", namespace="default")
        await agent.start()
        await agent.wait_registered(DRIVER)
        # The kubelet writes no books until it has a claim.
        await create_pod(client, "two")
        await wait_for_object(client, POD, "two", is_ready)
        leftover = await agent.wait_logged("A leftover is unprepared", timeout_s=SOON_S)

        assert (leftover["fields"]["claim"], leftover["fields"]["reason"]) == ("default/one", "it is deleted")
        assert claims_held(real_cluster) == ["two"]
        assert len(real_cluster.list_cdi_files()) == 1
        await delete_pods(client)
        assert (claims_held(real_cluster), real_cluster.list_cdi_files()) == ([], [])


@contextlib.asynccontextmanager
async def running(agent: AgentProcess, client: KubeClient, driver: str = DRIVER) -> AsyncIterator[None]:
    """Run an agent that a test kills and starts again; pods go before it ends."""
    await agent.start()
    try:
        async with retrying(client):
            await agent.wait_registered(driver)
            yield
            await delete_pods(client)
    finally:
        await agent.stop()


def claims_held(cluster: RealCluster, driver: str = DRIVER) -> list[str]:
    """Return the names of the claims that the agent's ledger has."""
    content = json.loads((cluster.paths.folder_of(driver) / CHECKPOINT_FILE).read_text())
    return [claim["name"] for claim in content["claims"]]


async def wait_released(cluster: RealCluster, driver: str) -> float:
    """Return when the agent's ledger has no claim any more, in monotonic seconds; or when far too long has passed."""
    for _ in range(int(SOON_S / LOOK_S)):
        if not claims_held(cluster, driver):
            break
        await asyncio.sleep(LOOK_S)
    return time.monotonic()


async def test_pods_that_were_deleted_while_no_agent_ran_are_released_soon_after_its_return(
    real_cluster: RealCluster, client: KubeClient, tmp_path: Path, record_property: Any
) -> None:
    settings = tmp_path / "devices.yaml"
    settings.write_text("gpus: [{model: A100-40, count: 4}]")
    command = agent_command(real_cluster, "--plugin", "simulated", "--settings", str(settings))
    agent = AgentProcess(command, real_cluster.folder / "agent.log")
    names = [f"pod-{number}" for number in range(4)]
    async with controlling(client), running(agent, client, SIMULATED):
        await client.create(DEVICE_CLASS, device_class("gpu", f'device.driver == "{SIMULATED}"'))
        await client.create(RESOURCE_CLAIM_TEMPLATE, template("gpu", exactly("gpu", "gpu")))
        for name in names:
            await client.create(POD, pod(name, claims={"gpu": "gpu"}))
        for name in names:
            await wait_for_object(client, POD, name, is_ready)
        await agent.kill()
        await asyncio.to_thread(real_cluster.kubectl, "delete", "pods", "--all", "--wait=false")
        await asyncio.sleep(5)
        assert len(claims_held(real_cluster, SIMULATED)) == len(names)
        begun_s = time.monotonic()
        await agent.start()
        released_s = await wait_released(real_cluster, SIMULATED) - begun_s
        record_property("start_to_released_s", round(released_s, 2))
        for name in names:
            await wait_gone(client, POD, name, namespace="default", timeout_s=SOON_S)

    assert released_s < RETURNED_S
    assert real_cluster.list_cdi_files() == []

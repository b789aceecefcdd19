"""What an agent tells the cluster in Events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from claimsmith.api.kinds import EVENT
from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kubelet import pluginregistration_v1_pb2 as registration
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import NOTIFY
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import PrepareRequest
from claimsmith.node.preparation import Preparation
from claimsmith.publish.publisher import SlicePublisher
from claimsmith.telemetry import Meter
from claimsmith.testing import builders as b
from tests.scenarios.embedded_node import task
from tests.scenarios.plugin_bench import call
from tests.scenarios.published_node import api_server
from tests.unit.node.recording_driver import RecordingDriver

OPTIONS = AgentOptions(boot_id="boot")


class PowerLossError(BaseException):
    """Ends a process in the middle of a call."""


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with api_server(b.NODE) as found:
        yield found


@pytest.fixture
def paths(tmp_path: Path) -> NodePaths:
    found = NodePaths.compact(tmp_path)
    found.make()
    return found


async def event(client: KubeClient, reason: str) -> KubeObject:
    """Wait for an event with a reason; return it."""
    async with asyncio.timeout(90):
        listed = await client.list(EVENT, field_selector=f"reason={reason}")
        if listed.items:
            return listed.items[0]
        async for change in client.watch(EVENT, resource_version=listed.resource_version, timeout_s=90):
            if change.object.get("reason") == reason:
                return change.object
    raise AssertionError(reason)


def begin(paths: NodePaths, request: PrepareRequest) -> None:
    """Begin to prepare a claim and stop in the middle, as a process does that is killed."""

    def fail(operation: str) -> None:
        raise PowerLossError

    driver = RecordingDriver()
    driver.fail = fail
    folder = paths.folder_of(driver.name)
    folder.mkdir(parents=True)
    preparation = Preparation(driver, folder=folder, cdi_folder=paths.cdi, boot_id="boot", meter=Meter())
    preparation.open()
    with pytest.raises(PowerLossError):
        preparation.prepare(request)


async def test_an_agent_that_returns_names_the_claims_that_were_never_answered(
    client: KubeClient, paths: NodePaths
) -> None:
    begin(paths, b.prepare_request("gpu-0", claim=b.claim_key("train")))
    driver = RecordingDriver()
    async with Agent([driver], node_name=b.NODE, client=client, paths=paths, options=OPTIONS):
        accepted = registration.RegistrationStatus(plugin_registered=True)
        await call(paths.plugins_registry / f"{driver.name}-reg.sock", NOTIFY, accepted)
        told = await event(client, "DriverReturned")

    assert told["involvedObject"]["name"] == b.NODE
    assert told["message"] == (f"Driver {driver.name} serves claims of this node again; never answered: default/train")


async def test_a_second_publisher_of_the_slices_is_told_on_the_node(client: KubeClient, paths: NodePaths) -> None:
    driver = RecordingDriver()
    rival = SlicePublisher(client.for_manager("rival"), driver=driver.name, node=b.NODE)
    rival.publish(Inventory.of(b.device("intruder")))
    async with Agent([driver], node_name=b.NODE, client=client, paths=paths, options=OPTIONS), task(rival.run()):
        told = await event(client, "SlicesContested")

    assert "let one publisher own the driver's slices" in told["message"]
    assert told["involvedObject"]["kind"] == "Node"

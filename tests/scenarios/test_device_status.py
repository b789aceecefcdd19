"""What a driver tells of devices reaches the claim's status and the containers, on an embedded cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import RESOURCE_CLAIM
from claimsmith.errors import ConflictError, NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.model.claim import AllocatedDeviceStatus
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.prepared import (
    ClaimKey,
    DeviceCondition,
    DeviceMetadata,
    DeviceStatus,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.node.claimstatus import ClaimStatus
from claimsmith.publish.claimstatus import apply_device_status
from tests.scenarios.embedded_node import EmbeddedNode, embedded_node
from tests.unit.node.recording_driver import RecordingDriver

DRIVER = RecordingDriver.name
READY = DeviceCondition(type="Ready", status="True", reason="Configured")


class TellingDriver(RecordingDriver):
    """Tells of each device that it is ready, and what it is."""

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        made = super().prepare(request)
        told = DeviceStatus(conditions=(READY,), data={"slot": 3})
        metadata = DeviceMetadata(attributes={"model": DeviceAttribute.of("A100")})
        return replace(made, devices=tuple(replace(item, status=told, metadata=metadata) for item in made.devices))


class Statuses:
    """Writes statuses as the agent does."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def write_devices(self, status: ClaimStatus) -> None:
        await apply_device_status(self.client, DRIVER, status.claim, status.devices)


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


async def devices_of(node: EmbeddedNode, name: str, count: int) -> list[dict[str, Any]]:
    """Wait until the status of a claim tells of so many devices; return them."""
    async with asyncio.timeout(60):
        while True:
            claim = await node.client.get(RESOURCE_CLAIM, name, namespace="default")
            devices: list[dict[str, Any]] = claim["status"].get("devices") or []
            if len(devices) == count:
                return devices
            await asyncio.sleep(0)


async def test_the_claims_status_tells_what_the_driver_says_until_it_is_unprepared(node: EmbeddedNode) -> None:
    async with node.running() as kubelet, node.serving(TellingDriver(), statuses=Statuses(node.client)):
        await node.run_pod("train", "gpu-0")
        (told,) = await devices_of(node, "train", 1)
        claim = await node.client.get(RESOURCE_CLAIM, "train", namespace="default")
        node.time.advance(10)
        await node.wait_until_free(kubelet)

        assert (told["device"], told["data"], told["conditions"][0]["status"]) == ("gpu-0", {"slot": 3}, "True")
        managers = [entry["manager"] for entry in claim["metadata"]["managedFields"]]
        assert DRIVER in managers
        assert await devices_of(node, "train", 0) == []


async def test_a_program_in_the_container_finds_what_the_driver_says_of_its_device(node: EmbeddedNode) -> None:
    async with node.running(), node.serving(TellingDriver()):
        pod, _ = await node.run_pod("train", "gpu-0")
        mounts = [line for line in node.output(pod) if "dra-device-attributes" in line]

    path = f"/var/run/kubernetes.io/dra-device-attributes/resourceclaims/train/r/{DRIVER}-metadata.json"
    (line,) = mounts
    assert path in line
    (host_path,) = (node.paths.folder_of(DRIVER) / "dra-device-metadata").rglob("metadata.json")
    assert str(host_path) in line
    assert first_document(host_path)["requests"][0]["devices"][0]["attributes"] == {"model": {"string": "A100"}}


def first_document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.JSONDecoder().raw_decode(path.read_text())[0]
    return document


async def test_a_status_is_not_written_into_a_later_claim_of_the_name(node: EmbeddedNode) -> None:
    await node.create_claim("train", "gpu-0", pods={"train": "pod-uid"})
    gone = ClaimKey(namespace="default", name="train", uid="the-uid-of-an-earlier-one")
    report = AllocatedDeviceStatus(driver=DRIVER, pool="node-a", device="gpu-0")

    with pytest.raises(ConflictError):
        await apply_device_status(node.client, DRIVER, gone, [report])
    assert await devices_of(node, "train", 0) == []


async def test_a_status_makes_no_claim(node: EmbeddedNode) -> None:
    gone = ClaimKey(namespace="default", name="gone", uid="some-uid")

    with pytest.raises((NotFoundError, ConflictError)):
        await apply_device_status(node.client, DRIVER, gone, [])

"""What an embedded kubelet tells of devices: to agents on its node, and in the status of pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.json_format import MessageToDict

from claimsmith.kubelet import podresources_v1_pb2 as messages
from claimsmith.kubelet.services import GET_ALLOCATABLE, GET_POD_RESOURCES, LIST_POD_RESOURCES
from claimsmith.model.inventory import DeviceHealth
from tests.scenarios.embedded_node import EmbeddedNode, embedded_node
from tests.scenarios.small_plugin import RESOURCE, SmallPlugin
from tests.unit.node.recording_driver import RecordingDriver

DRIVER = RecordingDriver.name
POOL = "node-a"
COUNTED = {
    "containers": [{"name": "main", "image": "i", "command": ["sleep", "60"], "resources": {"limits": {RESOURCE: "1"}}}]
}


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


async def ask(node: EmbeddedNode, method: Any, request: Any) -> dict[str, Any]:
    """Ask the kubelet's service; return its answer as JSON values."""
    socket: Path = node.paths.state / "pod-resources" / "kubelet.sock"
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        return MessageToDict(await call(request), preserving_proto_field_name=True)


async def listed(node: EmbeddedNode) -> list[dict[str, Any]]:
    answer = await ask(node, LIST_POD_RESOURCES, messages.ListPodResourcesRequest())
    found: list[dict[str, Any]] = answer.get("pod_resources", [])
    return found


async def test_a_pod_with_a_claim_is_told_with_driver_pool_device_and_cdi_id(node: EmbeddedNode) -> None:
    async with node.running(), node.serving(RecordingDriver()):
        _, uid = await node.run_pod("p", "gpu-0")
        state = node.kubelet.claims.states()[0]
        (pod,) = await listed(node)
        device = {
            "cdi_devices": [{"name": state.cdi_ids("")[0]}],
            "driver_name": DRIVER,
            "pool_name": state.devices[DRIVER][0].pool,
            "device_name": "gpu-0",
        }

        assert state.uid == uid
        assert pod["containers"] == [
            {
                "name": "main",
                "dynamic_resources": [{"claim_name": "p", "claim_namespace": "default", "claim_resources": [device]}],
            }
        ]


async def test_devices_of_plugins_are_told_with_their_numa_node(node: EmbeddedNode) -> None:
    async with node.running(), SmallPlugin(node.paths.device_plugins, {"g": "Healthy"}, numa={"g": 1}) as plugin:
        await plugin.register()
        while (shelf := node.kubelet.devices.stock.find(RESOURCE)) is None or not shelf.healthy:
            await listed(node)
        await node.create_pod("p", spec=COUNTED)
        await node.bind("p")
        await node.reaches("p", "Running")
        request = messages.GetPodResourcesRequest(pod_namespace="default", pod_name="p")
        answer = await ask(node, GET_POD_RESOURCES, request)
        device = {"resource_name": RESOURCE, "device_ids": ["g"], "topology": {"nodes": [{"ID": "1"}]}}

        assert answer["pod_resources"]["containers"] == [{"name": "main", "devices": [device]}]
        assert await ask(node, GET_ALLOCATABLE, messages.AllocatableResourcesRequest()) == {"devices": [device]}


async def test_a_pod_that_has_ended_is_told_no_more(node: EmbeddedNode) -> None:
    async with node.running(), node.serving(RecordingDriver()):
        await node.run_pod("p", "gpu-0")
        node.time.advance(2)
        await node.reaches("p", "Succeeded")

        assert await listed(node) == []


async def test_an_unknown_pod_is_an_error(node: EmbeddedNode) -> None:
    async with node.running():
        with pytest.raises(grpc.aio.AioRpcError, match="pod q in namespace default not found"):
            await ask(node, GET_POD_RESOURCES, messages.GetPodResourcesRequest(pod_namespace="default", pod_name="q"))


async def test_health_of_claimed_devices_is_in_the_status_and_follows_the_driver(node: EmbeddedNode) -> None:
    async with node.running(), node.plugin(RecordingDriver(), serves_health=True) as plugin:
        await node.kubelet.check_plugins()
        plugin.report_health(DeviceHealth(device="gpu-0", pool=POOL, healthy=True))
        await node.run_pod("p", "gpu-0")

        def told() -> Any:
            return node.pod("p")["status"]["containerStatuses"][0].get("allocatedResourcesStatus")

        await node.wait_for(lambda: told()[0]["resources"][0]["health"] == "Healthy")
        plugin.report_health(DeviceHealth(device="gpu-0", pool=POOL, healthy=False, message="too hot"))
        await node.wait_for(lambda: told()[0]["resources"][0]["health"] == "Unhealthy")
        name = node.kubelet.claims.states()[0].cdi_ids("")[0]

        assert told() == [
            {"name": "claim:p", "resources": [{"resourceID": name, "health": "Unhealthy", "message": "too hot"}]}
        ]


async def test_health_is_unknown_once_the_driver_is_gone(node: EmbeddedNode) -> None:
    async with node.running():
        async with node.plugin(RecordingDriver(), serves_health=True) as plugin:
            await node.kubelet.check_plugins()
            plugin.report_health(DeviceHealth(device="gpu-0", pool=POOL, healthy=True))
            await node.run_pod("p", "gpu-0")

            def health() -> Any:
                status = node.pod("p")["status"]["containerStatuses"][0]
                return status["allocatedResourcesStatus"][0]["resources"][0]["health"]

            await node.wait_for(lambda: health() == "Healthy")
        await node.kubelet.check_plugins()
        await node.wait_for(lambda: health() == "Unknown")

        assert node.pod("p")["status"]["phase"] == "Running"

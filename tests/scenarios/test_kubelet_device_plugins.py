"""Device plugins on an embedded node, over real sockets: from registration to what a container sees."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc.aio
import msgspec
import pytest

from claimsmith.api.kinds import NODE as NODES
from claimsmith.kube.client import KubeObject
from claimsmith.kubelet.services import DEVICE_PLUGIN_TYPE
from claimsmith.node.registration import Registration
from claimsmith.node.sockets import SocketServer
from tests.scenarios.embedded_node import NODE, EmbeddedNode, embedded_node, uid_of
from tests.scenarios.small_plugin import RESOURCE, SmallPlugin

HEALTHY = {"gpu-0": "Healthy", "gpu-1": "Healthy", "gpu-2": "Healthy"}


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


@contextlib.asynccontextmanager
async def serving(node: EmbeddedNode, **changes: Any) -> AsyncIterator[SmallPlugin]:
    """Run the node's kubelet and a plugin that is registered and listed."""
    async with node.running(), SmallPlugin(node.paths.device_plugins, HEALTHY, **changes) as plugin:
        await plugin.register()
        await amounts_become(node, "3", "3")
        yield plugin


async def node_becomes(node: EmbeddedNode, condition: Callable[[KubeObject], bool]) -> KubeObject:
    """Wait until the Node object is as told."""
    while True:
        version, found = "", (await node.client.get(NODES, NODE))
        if condition(found):
            return found
        async for event in node.client.watch(NODES, resource_version=found["metadata"]["resourceVersion"]):
            version = event.type
            break
        assert version


async def amounts_become(node: EmbeddedNode, capacity: str, allocatable: str) -> None:
    """Wait until the node's status tells amounts of the resource."""

    def holds(found: KubeObject) -> bool:
        status = found["status"]
        return (status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)) == (capacity, allocatable)

    await node_becomes(node, holds)


def wanting(*amounts: int, init: Mapping[str, tuple[int, bool]] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod spec whose containers want devices; init containers by name with amount and whether they stay."""

    def container(name: str, amount: int, **more: Any) -> dict[str, Any]:
        limits = {"limits": {RESOURCE: str(amount)}} if amount else {}
        return {"name": name, "image": "i", "command": ["sleep", "60"], "resources": limits, **more}

    starting = [
        container(name, amount, **({"restartPolicy": "Always"} if stays else {}))
        for name, (amount, stays) in (init or {}).items()
    ]
    running = [container("main" if index == 0 else f"c{index}", amount) for index, amount in enumerate(amounts)]
    return {"containers": running, **({"initContainers": starting} if starting else {}), **spec}


async def start(node: EmbeddedNode, name: str, spec: dict[str, Any], *, phase: str = "Running") -> KubeObject:
    """Create a pod, bind it to the node and wait for a phase."""
    await node.create_pod(name, spec=spec)
    await node.bind(name)
    return await node.reaches(name, phase)


async def test_the_node_tells_all_devices_and_the_healthy_ones(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        plugin.set_health(gpu_1="Unhealthy")

        await amounts_become(node, "3", "2")


async def test_a_container_gets_variables_mounts_and_device_files(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        pod = await start(node, "p", wanting(2))
        seen = node.output(pod)

        assert plugin.asked("allocate") == [["gpu-0", "gpu-1"]]
        assert "env GPUS=gpu-0,gpu-1" in seen
        assert "device /dev/gpu-1 from /dev/null rw" in seen
        assert "mount /opt/gpu from /usr/lib/gpu ro" in seen


async def test_a_container_keeps_its_own_value_of_a_variable(node: EmbeddedNode) -> None:
    async with serving(node):
        spec = wanting(1)
        spec["containers"][0]["env"] = [{"name": "GPUS", "value": "all"}]
        pod = await start(node, "p", spec)

        assert "env GPUS=all" in node.output(pod)


async def test_each_container_gets_devices_of_its_own(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        await start(node, "p", wanting(1, 2))

        assert plugin.asked("allocate") == [["gpu-0"], ["gpu-1", "gpu-2"]]


async def test_devices_of_init_containers_are_used_again_but_for_those_that_stay(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        await start(node, "p", wanting(2, init={"first": (1, False), "stays": (1, True)}))

        assert plugin.asked("allocate") == [["gpu-0"], ["gpu-0"], ["gpu-1", "gpu-2"]]


async def test_the_plugin_is_asked_which_devices_it_prefers(node: EmbeddedNode) -> None:
    async with serving(node, options={"get_preferred_allocation_available": True}) as plugin:
        plugin.prefers = ("gpu-2", "gpu-9")
        await start(node, "p", wanting(2))

        assert plugin.asked("prefer") == [(["gpu-0", "gpu-1", "gpu-2"], [], 2)]
        assert plugin.asked("allocate") == [["gpu-0", "gpu-2"]]


async def test_the_plugin_is_told_before_a_container_starts(node: EmbeddedNode) -> None:
    async with serving(node, options={"pre_start_required": True}) as plugin:
        await start(node, "p", wanting(1))

        assert plugin.calls == [("allocate", ["gpu-0"]), ("pre_start", ["gpu-0"])]


async def test_a_container_waits_while_its_plugin_does_not_let_it_start(node: EmbeddedNode) -> None:
    async with serving(node, options={"pre_start_required": True}) as plugin:
        plugin.refusals["pre_start"] = "no power"
        await node.create_pod("p", spec=wanting(1))
        await node.bind("p")
        message = await node.events.wait_for("Failed")
        await node.wait_for(lambda: "CreateContainerConfigError" in str(node.pod("p").get("status")))
        waiting = node.pod("p")["status"]["containerStatuses"][0]["state"]["waiting"]
        del plugin.refusals["pre_start"]
        await node.time.sleepers(2)
        node.time.advance(20)
        await node.reaches("p", "Running")

        text = "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = no power"
        assert message == f"Error: {text}"
        assert waiting == {"reason": "CreateContainerConfigError", "message": text}


async def test_a_pod_that_the_plugin_refuses_is_rejected_for_good(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        plugin.refusals["allocate"] = "no power"
        status = (await start(node, "p", wanting(1), phase="Failed"))["status"]
        text = "Allocate failed due to rpc error: code = Internal desc = no power, which is unexpected"

        assert (status["reason"], status["message"]) == ("UnexpectedAdmissionError", f"Pod was rejected: {text}")
        assert node.events.messages == [("UnexpectedAdmissionError", text)]


async def test_a_pod_that_wants_more_than_is_left_is_rejected(node: EmbeddedNode) -> None:
    async with serving(node):
        await start(node, "a", wanting(2))
        status = (await start(node, "b", wanting(2), phase="Failed"))["status"]

        assert status["message"] == (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
            f"{RESOURCE}. Requested: 2, Available: 1, which is unexpected"
        )


async def test_devices_of_a_pod_that_ended_are_given_out_again(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        await start(node, "a", wanting(3))
        node.time.advance(60)
        await node.reaches("a", "Succeeded")
        await start(node, "b", wanting(3))

        assert len(plugin.asked("allocate")) == 2


async def test_a_device_that_fails_is_told_in_the_status_of_its_pod(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        await start(node, "p", wanting(1))
        plugin.set_health(gpu_0="Unhealthy")

        def told() -> Any:
            return node.pod("p")["status"]["containerStatuses"][0]["allocatedResourcesStatus"]

        await node.wait_for(lambda: told()[0]["resources"][0]["health"] == "Unhealthy")
        assert told() == [{"name": RESOURCE, "resources": [{"resourceID": "gpu-0", "health": "Unhealthy"}]}]


async def test_what_a_plugin_served_counts_for_five_minutes_after_it_has_gone(node: EmbeddedNode) -> None:
    async with node.running():
        async with SmallPlugin(node.paths.device_plugins, HEALTHY) as plugin:
            await plugin.register()
            await amounts_become(node, "3", "3")
        await amounts_become(node, "3", "0")
        node.time.advance(301)
        await node.kubelet.check_plugins()

        await amounts_become(node, "0", "0")


async def test_a_new_kubelet_wipes_the_sockets_and_keeps_who_has_what(node: EmbeddedNode) -> None:
    async with serving(node) as first:
        await start(node, "a", wanting(1))
        socket = node.paths.device_plugins / first.endpoint
    kubelet = node.new_kubelet()
    async with node.running(kubelet):
        assert not socket.exists()
        async with SmallPlugin(node.paths.device_plugins, HEALTHY) as second:
            await second.register()
            await amounts_become(node, "3", "3")
            await start(node, "b", wanting(2))

            assert second.asked("allocate") == [["gpu-1", "gpu-2"]]
            assert node.pod("a")["status"]["phase"] == "Running"


async def test_the_checkpoint_is_that_of_a_real_kubelet(node: EmbeddedNode) -> None:
    async with serving(node, numa={"gpu-0": 1}):
        pod = await start(node, "p", wanting(2))
        content = (node.paths.device_plugins / "kubelet_internal_checkpoint").read_bytes()
        entry = msgspec.json.decode(content)["Data"]["PodDeviceEntries"][0]

        assert {name: entry[name] for name in ("PodUID", "ContainerName", "ResourceName", "DeviceIDs")} == {
            "PodUID": uid_of(pod),
            "ContainerName": "main",
            "ResourceName": RESOURCE,
            "DeviceIDs": {"1": ["gpu-0"], "-1": ["gpu-1"]},
        }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "v1alpha1"}, 'requested API version "v1alpha1" is not supported by kubelet'),
        ({"resource": "gpu"}, 'the ResourceName "gpu" is invalid'),
        ({"resource": "kubernetes.io/gpu"}, 'the ResourceName "kubernetes.io/gpu" is invalid'),
    ],
)
async def test_a_plugin_that_can_not_be_used_is_told_why(
    node: EmbeddedNode, changes: dict[str, str], words: str
) -> None:
    async with node.running(), SmallPlugin(node.paths.device_plugins, HEALTHY) as plugin:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await plugin.register(**changes)

    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert words in (caught.value.details() or "")


async def test_a_plugin_can_not_register_twice_at_once(node: EmbeddedNode) -> None:
    async with serving(node) as plugin:
        with pytest.raises(grpc.aio.AioRpcError, match="device plugin already connected"):
            await plugin.register()


@pytest.mark.parametrize(
    ("versions", "told"),
    [
        (["v1beta1"], (True, "")),
        (["v9"], (False, "manager version, v1beta1, is not among plugin supported versions [v9]")),
    ],
)
async def test_a_plugin_may_also_register_as_drivers_do(
    node: EmbeddedNode, versions: list[str], told: tuple[bool, str]
) -> None:
    async with node.running(), SmallPlugin(node.paths.device_plugins, HEALTHY) as plugin:
        endpoint = node.paths.device_plugins / plugin.endpoint
        registration = Registration(DEVICE_PLUGIN_TYPE, RESOURCE, endpoint=endpoint, services=versions)
        server = SocketServer(node.paths.plugins_registry / "gpu-reg.sock", registration.handlers())
        await server.start()
        await node.kubelet.check_plugins()
        if told[0]:
            await amounts_become(node, "3", "3")
        await server.stop()
        await node.kubelet.check_plugins()
        if told[0]:
            await amounts_become(node, "3", "0")

    assert (registration.registered, registration.error.removeprefix("RegisterPlugin error -- ")) == told

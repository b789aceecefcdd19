"""Plugins come, go and are replaced: the kubelet's watch over its folder, with the real plugin side."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from claimsmith.api.kinds import RESOURCE_SLICE
from claimsmith.embedded.kubelet.plugins import DraPlugins
from claimsmith.embedded.kubelet.watcher import PluginInfo, PluginWatcher
from claimsmith.errors import PluginRefusedError, PodStartError
from claimsmith.kubelet.pluginregistration_v1_pb2 import InfoRequest
from claimsmith.kubelet.pluginregistration_v1_pb2 import PluginInfo as Info
from claimsmith.kubelet.services import DRA_PLUGIN_TYPE, DRA_V1, DRA_V1BETA1, GET_INFO
from claimsmith.node.registration import Registration
from claimsmith.node.sockets import SocketServer, remove_dead_sockets, unary_handler
from tests.scenarios.embedded_node import NODE, EmbeddedNode, embedded_node
from tests.unit.node.recording_driver import RecordingDriver

DRIVER = RecordingDriver.name


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


def endpoint_of(node: EmbeddedNode) -> str:
    return node.kubelet.plugins.get_plugin(DRIVER).endpoint


def registrar(node: EmbeddedNode, name: str, registration: Registration) -> SocketServer:
    return SocketServer(node.paths.plugins_registry / f"{name}-reg.sock", registration.handlers())


async def test_a_plugin_is_told_that_it_is_registered(node: EmbeddedNode) -> None:
    async with node.running(), node.serving(RecordingDriver()) as plugin:
        assert await plugin.registration.wait(60)
        assert endpoint_of(node) == str(node.paths.folder_of(DRIVER) / "dra.sock")


async def test_a_plugin_whose_socket_vanishes_is_dropped(node: EmbeddedNode) -> None:
    async with node.running():
        async with node.serving(RecordingDriver()):
            pass
        await node.kubelet.check_plugins()

        with pytest.raises(PodStartError, match=f"DRA driver {DRIVER} is not registered"):
            endpoint_of(node)


async def test_sockets_that_somebody_removes_are_served_again(node: EmbeddedNode) -> None:
    service = node.paths.folder_of(DRIVER) / "dra.sock"
    async with node.running(), node.serving(RecordingDriver()) as plugin:
        service.unlink()
        (node.paths.plugins_registry / f"{DRIVER}-reg.sock").unlink()
        await node.kubelet.check_plugins()
        await plugin.restore_sockets()
        await node.kubelet.check_plugins()

        assert endpoint_of(node) == str(service)
        assert service.is_socket()
        assert remove_dead_sockets([service]) == ()


async def test_a_call_goes_on_while_its_socket_is_served_again(node: EmbeddedNode) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def answer(request: InfoRequest) -> Info:
        begun.set()
        await may_end.wait()
        return Info(name="slow")

    node.paths.make()
    server = SocketServer(node.paths.plugins_registry / "slow.sock", [unary_handler(GET_INFO, answer)])
    await server.start()
    try:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(server.path))
            await begun.wait()
            server.path.unlink()
            assert server.is_lost
            await server.serve_again()
            may_end.set()

        assert not server.is_lost
        assert first.result().name == (await ask(server.path)).name == "slow"
    finally:
        await server.stop()


async def ask(path: Path) -> Info:
    """Ask a registration socket who is there."""
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(
            GET_INFO.path,
            request_serializer=GET_INFO.request.SerializeToString,
            response_deserializer=GET_INFO.response.FromString,
        )
        answer: Info = await call(InfoRequest(), timeout=60)
        return answer


async def test_of_two_instances_the_one_that_came_last_is_used_until_it_goes(node: EmbeddedNode) -> None:
    folder = node.paths.folder_of(DRIVER)
    async with node.running(), node.serving(RecordingDriver()):
        async with node.plugin(RecordingDriver(), instance_uid="pod-2"):
            await node.kubelet.check_plugins()
            newest = endpoint_of(node)
        await node.kubelet.check_plugins()

        assert newest == str(folder / "dra-pod-2.sock")
        assert endpoint_of(node) == str(folder / "dra.sock")


async def test_a_driver_that_was_killed_and_started_again_is_registered_anew(node: EmbeddedNode) -> None:
    async with node.running(), node.serving(RecordingDriver()) as first:
        (node.paths.plugins_registry / f"{DRIVER}-reg.sock").unlink()
        (node.paths.folder_of(DRIVER) / "dra.sock").unlink()
        async with node.serving(RecordingDriver()) as second:
            assert await second.registration.wait(60)
            assert first.registration.registered


@pytest.mark.parametrize(
    ("type_", "services", "reason"),
    [
        ("CSIPlugin", [DRA_V1], "found type 'CSIPlugin', allowed DRAPlugin"),
        (DRA_PLUGIN_TYPE, ["v9.DRAPlugin"], "found services ['v9.DRAPlugin'], allowed one of"),
        (DRA_PLUGIN_TYPE, [], "found services"),
    ],
)
async def test_a_plugin_that_can_not_be_used_is_refused_and_told_why(
    node: EmbeddedNode, type_: str, services: list[str], reason: str
) -> None:
    node.paths.make()
    registration = Registration(type_, DRIVER, endpoint=node.paths.plugins / "x.sock", services=services)
    server = registrar(node, "odd", registration)
    watcher = PluginWatcher(node.paths.plugins_registry, {DRA_PLUGIN_TYPE: DraPlugins()})
    await server.start()
    await watcher.sync()
    await server.stop()

    assert not registration.registered
    assert reason in registration.error


async def test_the_first_service_in_the_plugins_list_that_is_known_is_used(node: EmbeddedNode) -> None:
    plugins = DraPlugins()
    services = ("v9.DRAPlugin", DRA_V1BETA1, DRA_V1)
    await plugins.register(PluginInfo(type=DRA_PLUGIN_TYPE, name=DRIVER, endpoint="/nowhere", services=services))

    assert plugins.get_plugin(DRIVER).service == DRA_V1BETA1
    await plugins.close()


async def test_an_endpoint_can_not_be_taken_by_another_instance() -> None:
    plugins = DraPlugins()
    info = PluginInfo(type=DRA_PLUGIN_TYPE, name=DRIVER, endpoint="/nowhere", services=(DRA_V1,))
    await plugins.register(info)

    with pytest.raises(PluginRefusedError, match="endpoint /nowhere already registered"):
        await plugins.register(info)
    await plugins.close()


async def test_files_and_hidden_sockets_in_the_folder_are_left_alone(node: EmbeddedNode) -> None:
    node.paths.make()
    (node.paths.plugins_registry / "note-reg.sock").write_text("no socket")
    registration = Registration(DRA_PLUGIN_TYPE, DRIVER, endpoint=node.paths.plugins / "x.sock", services=[DRA_V1])
    server = registrar(node, ".hidden", registration)
    plugins = DraPlugins()
    await server.start()
    await PluginWatcher(node.paths.plugins_registry, {DRA_PLUGIN_TYPE: plugins}).sync()
    await server.stop()

    assert plugins.drivers() == ()


async def test_slices_of_a_driver_that_is_gone_for_long_are_removed_once(node: EmbeddedNode) -> None:
    async with node.running():
        async with node.serving(RecordingDriver()):
            pass
        pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": NODE, "devices": []}
        await node.client.create(RESOURCE_SLICE, {"metadata": {"name": "slice"}, "spec": spec})
        await node.kubelet.check_plugins()
        node.time.advance(29)
        await node.kubelet.check_plugins()
        before = await node.count(RESOURCE_SLICE)
        node.time.advance(2)
        await node.kubelet.check_plugins()

        assert (before, await node.count(RESOURCE_SLICE)) == (1, 0)


async def test_slices_stay_while_the_driver_can_be_reached(node: EmbeddedNode) -> None:
    async with node.running(), node.serving(RecordingDriver()):
        pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "pool": pool, "nodeName": NODE, "devices": []}
        await node.client.create(RESOURCE_SLICE, {"metadata": {"name": "slice"}, "spec": spec})
        for _ in range(3):
            node.time.advance(31)
            await node.kubelet.check_plugins()

        assert await node.count(RESOURCE_SLICE) == 1

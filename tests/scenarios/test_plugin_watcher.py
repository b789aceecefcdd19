"""Plugins that answer late when they are asked who they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from claimsmith.embedded.kubelet.plugins import DraPlugins
from claimsmith.embedded.kubelet.watcher import PluginWatcher
from claimsmith.kubelet.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from claimsmith.kubelet.services import DRA_PLUGIN_TYPE, DRA_V1, GET_INFO, NOTIFY
from claimsmith.node.sockets import SocketServer, unary_handler
from tests.scenarios.embedded_node import EmbeddedNode, embedded_node
from tests.unit.node.recording_driver import RecordingDriver

SLOW = "slow.example.test"


class SlowPlugin:
    """A plugin that answers only when a test wants that."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def answer(self, request: InfoRequest) -> PluginInfo:
        self.calls += 1
        self.asked.set()
        await self.may_answer.wait()
        return PluginInfo(type=DRA_PLUGIN_TYPE, name=SLOW, endpoint="/slow.sock", supported_versions=[DRA_V1])

    async def note(self, status: RegistrationStatus) -> RegistrationStatusResponse:
        return RegistrationStatusResponse()


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        found.paths.make()
        yield found


@pytest.fixture
async def slow(node: EmbeddedNode) -> AsyncIterator[SlowPlugin]:
    plugin = SlowPlugin()
    handlers = (unary_handler(GET_INFO, plugin.answer), unary_handler(NOTIFY, plugin.note))
    server = SocketServer(node.paths.plugins_registry / "a-reg.sock", handlers)
    await server.start()
    yield plugin
    plugin.may_answer.set()
    await server.stop()


@pytest.fixture
async def plugins() -> AsyncIterator[DraPlugins]:
    found = DraPlugins()
    yield found
    await found.close()


@pytest.fixture
async def watcher(node: EmbeddedNode, plugins: DraPlugins) -> AsyncIterator[PluginWatcher]:
    found = PluginWatcher(node.paths.plugins_registry, {DRA_PLUGIN_TYPE: plugins})
    yield found
    await found.close()


async def test_a_plugin_that_never_answers_holds_up_no_other_and_is_asked_once(
    node: EmbeddedNode, slow: SlowPlugin, plugins: DraPlugins, watcher: PluginWatcher
) -> None:
    async with node.plugin(RecordingDriver()), asyncio.timeout(30):
        while RecordingDriver.name not in plugins.drivers() or not slow.asked.is_set():
            await watcher.sync(patience_s=0.01)
        await watcher.sync(patience_s=0.01)

    assert slow.calls == 1


async def test_a_kubelet_that_stops_waits_for_no_plugin(slow: SlowPlugin, watcher: PluginWatcher) -> None:
    async with asyncio.timeout(30):
        while not slow.asked.is_set():
            await watcher.sync(patience_s=0.01)
        await watcher.close()

    assert "register a-reg.sock" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_a_plugin_that_answers_late_is_told_from_one_that_failed(
    slow: SlowPlugin, plugins: DraPlugins, watcher: PluginWatcher
) -> None:
    async with asyncio.timeout(30):
        await watcher.sync(patience_s=0.01)
        slow.may_answer.set()
        await watcher.sync()

    assert (slow.calls, plugins.drivers()) == (1, (SLOW,))

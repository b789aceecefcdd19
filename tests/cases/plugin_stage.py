"""The stage of scripts about device plugins: the real agent in both modes, each process with an instance of its own.

A mode that is started while the other one runs takes its place, unless the script says that it comes in addition: a
node has one agent. Time does not pass: what waits for the clock in the agent looks again at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from claimsmith.api.kinds import NODE as NODES
from claimsmith.api.kinds import RESOURCE_SLICE
from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.daemons.agent_options import FrontEnds
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.kubelet.plugins import DraPlugins
from claimsmith.embedded.kubelet.watcher import PluginWatcher
from claimsmith.embedded.store import Store
from claimsmith.errors import ClaimsmithError, PodStartError
from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import DRA_PLUGIN_TYPE
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.testing import builders as b
from tests.cases.claim_store import ClaimStore
from tests.cases.flaky_transport import FlakyTransport
from tests.cases.kubelet_sockets import SOCKET, RegistrationSide
from tests.cases.paper_driver import PaperDriver
from tests.cases.scripts import Action, Check, Play, Step
from tests.scenarios.embedded_node import NODE

_MOMENTS: Final = 200


@dataclass(eq=False)
class Process:
    """An agent in a task of its own: its failure is seen, and stops nothing else."""

    agent: Agent
    mode: str
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] = field(init=False)

    async def start(self) -> str:
        """Start; return why it could not."""
        self.task = asyncio.create_task(self._run())
        ready = asyncio.create_task(self.ready.wait())
        await asyncio.wait({self.task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        return "" if self.ready.is_set() else str(self.task.exception())

    async def stop(self) -> None:
        """Stop it."""
        self.ending.set()
        with contextlib.suppress(ClaimsmithError):
            await self.task

    async def _run(self) -> None:
        async with self.agent:
            self.ready.set()
            await self.ending.wait()


class PluginStage:
    """One node. `given` is that of the script."""

    def __init__(self, root: Path, url: str, given: Mapping[str, Any]) -> None:
        self.paths = NodePaths.compact(root)
        self.paths.make()
        self.client = KubeClient.for_url(url)
        self.transport = FlakyTransport(url)
        self.agent_client = KubeClient(self.transport)
        self.driver = PaperDriver(given["driver"], [b.device(name) for name in given["devices"]])
        self.resource = given["resource"]
        self.kubelet = RegistrationSide(self.paths.device_plugins)
        self._connect()
        self.claims = ClaimStore(self.client, self.driver.name)
        self.processes: dict[str, Process] = {}
        self.error = self.start_error = ""
        self.marked = 0

    def _connect(self) -> None:
        self.dra = DraPlugins()
        self.watcher = PluginWatcher(self.paths.plugins_registry, {DRA_PLUGIN_TYPE: self.dra})

    async def connect(self) -> None:
        """Give up the connections to DRA drivers and make new ones, by the sockets that are there."""
        await self.dra.close()
        self._connect()
        await self.watcher.sync()

    async def breathe(self) -> None:
        await self.client.list(RESOURCE_SLICE)
        await self.watcher.sync()

    async def wait(self, seconds: float) -> None:
        for _ in range(_MOMENTS):
            await self.breathe()

    async def start(self, mode: str, *, instance: str = "") -> None:
        """Start an agent in a mode; one in the other mode ends."""
        for name, process in list(self.processes.items()):
            if process.mode != mode:
                await self.stop(name)
        rules = (ResourceRule(resource=self.resource),)
        plugin = DevicePluginOptions(rules=rules, poll_s=0.01, reconcile_s=0.05, retry_max_s=0.05)
        fronts = FrontEnds(dra=mode == "dra", device_plugin=plugin if mode == "device-plugin" else None)
        options = AgentOptions(boot_id="boot", instance_uid=instance, fronts={self.driver.name: fronts})
        agent = Agent([self.driver], node_name=NODE, client=self.agent_client, paths=self.paths, options=options)
        process = Process(agent, mode)
        self.start_error = await process.start()
        if not self.start_error:
            self.processes[instance] = process
            if mode == "dra":
                await agent.wait_published()
                await self.breathe()
        self.marked = self.slice_writes()

    async def stop(self, name: str, *, killed: bool = False) -> None:
        """Stop an agent; one that is killed leaves its sockets behind."""
        sockets = [path for path in self.paths.plugins.parent.rglob("*.sock") if path.is_socket()] if killed else []
        process = self.processes.pop(name)
        left = [(path, _set_aside(path)) for path in sockets if name in path.name]
        await process.stop()
        for path, aside in left:
            aside.rename(path)
        await self.breathe()

    def slice_writes(self) -> int:
        """Return how often slices were written."""
        return sum(count for path, count in self.transport.writes.items() if "resourceslices" in path)

    async def close(self) -> None:
        """End everything."""
        for name in list(self.processes):
            await self.stop(name)
        await self.kubelet.stop()
        await self.dra.close()
        await self.agent_client.close()
        await self.client.close()


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.left")
    os.link(path, aside)
    return aside


@contextlib.asynccontextmanager
async def _enter(given: Mapping[str, Any]) -> AsyncIterator[PluginStage]:
    """Start the API server; the kubelet has run before, and its sockets are there."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
            stage = PluginStage(Path(folder), server.url, given)
            try:
                await stage.client.create(NODES, {"metadata": {"name": NODE}})
                await stage.kubelet.start()
                yield stage
            finally:
                await stage.close()


# --- actions ----------------------------------------------------------------------------------------------------------


async def _stop_kubelet(stage: PluginStage, step: Step) -> None:
    """A kubelet that ends leaves its socket behind."""
    await stage.kubelet.stop()
    (stage.paths.device_plugins / SOCKET).touch()


async def _remove_file(stage: PluginStage, step: Step) -> None:
    folder, _, name = step["path"].partition("/")
    assert (folder, name) == ("device-plugins", SOCKET), "the stage knows the kubelet's socket alone"
    (stage.paths.device_plugins / SOCKET).unlink()


async def _start_driver(stage: PluginStage, step: Step) -> None:
    await stage.start(step["mode"], instance=step.get("instance", ""))


async def _kill_driver(stage: PluginStage, step: Step) -> None:
    await stage.stop(step["instance"], killed=True)


async def _start_kubelet(stage: PluginStage, step: Step) -> None:
    await stage.wait(float(str(step.get("socket-appears-after", "0s")).removesuffix("s")))
    await stage.kubelet.start()


async def _restart_kubelet(stage: PluginStage, step: Step) -> None:
    await stage.kubelet.stop()
    await stage.kubelet.start(wipe=True)


async def _replace_socket(stage: PluginStage, step: Step) -> None:
    await stage.kubelet.replace()


async def _refuse(stage: PluginStage, step: Step) -> None:
    stage.kubelet.refusals = step["times"]


async def _advance(stage: PluginStage, step: Step) -> None:
    """The connection is idle for so long that gRPC closes it; the next call makes a new one."""
    await stage.connect()


async def _prepare(stage: PluginStage, step: Step) -> None:
    stage.error = ""
    call = await stage.claims.store(step["claim"], node=NODE)
    try:
        await stage.dra.get_plugin(stage.driver.name).prepare([call])
    except PodStartError as error:
        stage.error = str(error)


async def _unprepare(stage: PluginStage, step: Step) -> None:
    stage.error = ""
    try:
        await stage.dra.get_plugin(stage.driver.name).unprepare([stage.claims.call(step["claim"])])
    except PodStartError as error:
        stage.error = str(error)


# --- states -----------------------------------------------------------------------------------------------------------


def _compare(found: object, wanted: object) -> str:
    return "" if found == wanted else f"{found}, right is {wanted}"


async def _running(stage: PluginStage, wanted: bool) -> str:
    running = bool(stage.processes) and not any(process.task.done() for process in stage.processes.values())
    return _compare(running, wanted)


async def _registrations(stage: PluginStage, wanted: int) -> str:
    return _compare(stage.kubelet.registrations, wanted)


async def _devices(stage: PluginStage, wanted: int) -> str:
    return _compare(sum(device.healthy for device in stage.kubelet.devices), wanted)


async def _worked(stage: PluginStage, wanted: bool) -> str:
    return _compare(not stage.error, wanted) and (stage.error or "no error")


async def _slice_writes(stage: PluginStage, wanted: int) -> str:
    return _compare(stage.slice_writes() - stage.marked, wanted)


_ACTIONS: Final = {
    "kubelet.stop": Action(act=_stop_kubelet),
    "kubelet.start": Action(act=_start_kubelet, fields=frozenset({"socket-appears-after"})),
    "kubelet.restart": Action(act=_restart_kubelet, fields=frozenset({"wipe-directory"})),
    "kubelet.replace-socket": Action(act=_replace_socket, fields=frozenset({"keep-name"})),
    "kubelet.refuse-registration": Action(act=_refuse, fields=frozenset({"times"})),
    "kubelet.prepare": Action(act=_prepare, fields=frozenset({"claim"})),
    "kubelet.unprepare": Action(act=_unprepare, fields=frozenset({"claim"})),
    "remove-file": Action(act=_remove_file, fields=frozenset({"path"})),
    "start-driver": Action(act=_start_driver, fields=frozenset({"mode", "instance"})),
    "kill-driver": Action(act=_kill_driver, fields=frozenset({"instance"})),
    "advance-clock": Action(act=_advance, fields=frozenset({"by"})),
}

_CHECKS: Final[Mapping[str, Check]] = {
    "driver-running": _running,
    "registrations": _registrations,
    "registrations-accepted": _registrations,
    "devices-reported": _devices,
    "prepare-ok": _worked,
    "unprepare-ok": _worked,
    "slice-writes": _slice_writes,
}

PLUGIN_PLAY: Final = Play(
    given=frozenset({"driver", "node", "devices", "resource"}),
    actions=_ACTIONS,
    checks=_CHECKS,
    enter=_enter,
    variants={},
)

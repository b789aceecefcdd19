"""The stage of scripts about one node: the real agent with a driver, an embedded kubelet and an embedded API server.

Time passes only for the kubelet, when a script says so; what waits for the clock in the agent is not needed by any
script. A driver that is killed leaves its sockets behind, as a process does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from claimsmith.api.kinds import NAMESPACE, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.kubelet.plugins import ClaimCall, PreparedDevice
from claimsmith.embedded.store import Store
from claimsmith.errors import ClaimsmithError, NotFoundError, PodStartError
from claimsmith.kube.client import KubeClient
from claimsmith.model.device import Device
from claimsmith.model.prepared import DeviceNode
from claimsmith.node.holding import HoldPolicy
from claimsmith.node.sweep import SweepPolicy
from claimsmith.testing import builders as b
from tests.cases.flaky_transport import FlakyTransport
from tests.cases.paper_driver import PaperDriver
from tests.scenarios.embedded_node import NODE, EmbeddedNode

GIVEN: Final = frozenset({"driver", "node", "devices", "shared-devices", "device-nodes", "prepared"})


@dataclass(frozen=True, kw_only=True)
class Call:
    """What came of one call of the kubelet.

    Args:
        error: The error; empty when it worked.
        devices: What a prepare call gave.
    """

    claim: str
    error: str = ""
    devices: tuple[PreparedDevice, ...] = ()

    @property
    def cdi_ids(self) -> tuple[str, ...]:
        return tuple(cdi_id for device in self.devices for cdi_id in device.cdi_ids)


@dataclass(eq=False)
class _RunningAgent:
    """An agent in a task of its own: its failure is seen, and stops nothing else."""

    agent: Agent
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] = field(init=False)

    async def run(self) -> None:
        async with self.agent:
            self.ready.set()
            await self.stop.wait()


class NodeStage:
    """One node. `given` is that of the script."""

    def __init__(self, node: EmbeddedNode, url: str, given: Mapping[str, Any]) -> None:
        self.node, self.url = node, url
        self.transport = FlakyTransport(url)
        self.agent_client = KubeClient(self.transport)
        devices = [_device(name) for name in given["devices"]]
        shared = [_device(name, shared=True) for name in given.get("shared-devices") or ()]
        nodes = {
            name: tuple(
                DeviceNode(path=item["path"], type="c", major=item["major"], minor=item["minor"]) for item in found
            )
            for name, found in (given.get("device-nodes") or {}).items()
        }
        self.driver = PaperDriver(given["driver"], [*devices, *shared], nodes)
        self.boot_id = "first-boot"
        self.failed_starts = 0
        self.calls: list[Call] = []
        self.first_ids: dict[str, tuple[str, ...]] = {}
        self.rounds: list[int] = []
        self.writes_at_events: list[int] = []
        self._running: _RunningAgent | None = None
        self._kubelet_task: asyncio.Task[None] | None = None
        self._uids: dict[str, str] = {}

    # --- the parts ----------------------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent | None:
        """The agent, while it runs."""
        running = self._running
        return running.agent if running is not None and not running.task.done() else None

    @property
    def state_folder(self) -> Path:
        """The driver's own folder."""
        return self.node.paths.folder_of(self.driver.name)

    async def start_driver(self) -> None:
        """Start the agent and let the kubelet find it."""
        agent = Agent(
            [self.driver],
            node_name=NODE,
            client=self.agent_client,
            paths=self.node.paths,
            options=AgentOptions(
                boot_id=self.boot_id, hold=HoldPolicy(hold_s=0), sweep=SweepPolicy(tick_s=0.2, confirm_s=0)
            ),
        )
        running = self._running = _RunningAgent(agent)
        running.task = asyncio.create_task(running.run())
        ready = asyncio.create_task(running.ready.wait())
        await asyncio.wait({running.task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not running.ready.is_set():
            ready.cancel()
            self.failed_starts += 1
            return
        await self.node.kubelet.check_plugins()

    async def stop_driver(self, *, killed: bool = False) -> None:
        """Stop the agent; one that is killed leaves its sockets behind."""
        running, self._running = self._running, None
        if running is None:
            return
        left = [_set_aside(path) for path in self._sockets()] if killed else []
        running.stop.set()
        with contextlib.suppress(ClaimsmithError):
            await running.task
        for aside, path in left:
            aside.rename(path)

    async def start_kubelet(self) -> None:
        """Start a kubelet, which wipes the node's slices."""
        kubelet = self.node.kubelet = self.node.new_kubelet()
        self._kubelet_task = asyncio.create_task(kubelet.run())
        async with asyncio.timeout(60):
            await kubelet.wait_ready()

    async def stop_kubelet(self) -> None:
        """Stop the kubelet."""
        if self._kubelet_task is not None:
            self._kubelet_task.cancel()
            await asyncio.gather(self._kubelet_task, return_exceptions=True)

    async def breathe(self) -> None:
        await self.node.client.list(RESOURCE_SLICE)

    async def wait(self, seconds: float) -> None:
        await self.node.kubelet.check_plugins()
        self.node.time.advance(seconds)
        await self.node.kubelet.check_plugins()

    def event(self) -> None:
        """Begin to count the agent's writes for a new event."""
        self.writes_at_events.append(self.transport.written)

    # --- claims -------------------------------------------------------------------------------------------------------

    def uid(self, alias: str) -> str:
        """Return the uid that a script's word stands for."""
        return self._uids.setdefault(alias, str(uuid.uuid5(uuid.NAMESPACE_OID, alias)))

    async def create_claim(self, claim: Mapping[str, Any]) -> None:
        """Store a claim that is allocated and reserved for a pod."""
        request: dict[str, Any] = {"deviceClassName": "gpu", "count": len(claim["devices"])}
        if claim.get("adminAccess"):
            request["adminAccess"] = True
        results = [_result(self.driver.name, name, claim, self.uid) for name in claim["devices"]]
        pod = {"resource": "pods", "name": claim.get("pod", "pod"), "uid": self.uid("pod")}
        metadata = {"name": claim["name"], "namespace": "default"}
        spec = {"devices": {"requests": [{"name": "r", "exactly": request}]}}
        made = await self.node.client.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": spec})
        status = {"allocation": {"devices": {"results": results}}, "reservedFor": [pod]}
        await self.node.client.patch(
            RESOURCE_CLAIM, claim["name"], {"status": status}, namespace="default", subresource="status"
        )
        self._uids[claim["uid"]] = made["metadata"]["uid"]

    async def delete_claim(self, name: str) -> None:
        """Delete a claim; one that is not there is fine."""
        with contextlib.suppress(NotFoundError):
            await self.node.client.delete(RESOURCE_CLAIM, name, namespace="default")

    async def prepare(self, claim: Mapping[str, Any]) -> Call:
        """Call the driver for a claim, which is stored first if the script has not named it before."""
        if claim["uid"] not in self._uids:
            await self.create_claim(claim)
        wanted = self._call(claim)
        try:
            devices = (await self._plugin().prepare([wanted]))[wanted.uid]
        except PodStartError as error:
            return Call(claim=claim["uid"], error=str(error))
        call = Call(claim=claim["uid"], devices=devices)
        self.first_ids.setdefault(claim["uid"], call.cdi_ids)
        return call

    async def unprepare(self, claim: Mapping[str, Any]) -> Call:
        """Call the driver to undo the preparation of a claim."""
        try:
            await self._plugin().unprepare([self._call(claim)])
        except PodStartError as error:
            return Call(claim=claim["uid"], error=str(error))
        return Call(claim=claim["uid"])

    def _call(self, claim: Mapping[str, Any]) -> ClaimCall:
        return ClaimCall(namespace="default", name=claim["name"], uid=self.uid(claim["uid"]))

    def _plugin(self) -> Any:
        return self.node.kubelet.plugins.get_plugin(self.driver.name)

    def _sockets(self) -> Iterable[Path]:
        root = self.node.paths.plugins.parent
        return [path for path in root.rglob("*.sock") if path.is_socket()]


def _device(name: str, *, shared: bool = False) -> Device:
    return b.device(name, allow_multiple_allocations=shared)


def _result(driver: str, device: str, claim: Mapping[str, Any], uid: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"request": "r", "driver": driver, "pool": NODE, "device": device}
    if claim.get("adminAccess"):
        result["adminAccess"] = True
    if claim.get("shareID"):
        result["shareID"] = uid(claim["shareID"])
    return result


def _set_aside(path: Path) -> tuple[Path, Path]:
    aside = path.with_name(f"{path.name}.left")
    os.link(path, aside)
    return aside, path


@contextlib.asynccontextmanager
async def node_stage(given: Mapping[str, Any]) -> AsyncIterator[NodeStage]:
    """Start the API server and the kubelet, and the driver too when claims are prepared from the start."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
            client = KubeClient.for_url(server.url)
            stage = NodeStage(EmbeddedNode(Path(folder), client), server.url, given)
            pods = asyncio.create_task(stage.node.pods.run())
            try:
                labels = {"resource.kubernetes.io/admin-access": "true"}
                await client.patch(NAMESPACE, "default", {"metadata": {"labels": labels}})
                await stage.start_kubelet()
                yield stage
            finally:
                await stage.stop_driver()
                await stage.stop_kubelet()
                pods.cancel()
                await asyncio.gather(pods, return_exceptions=True)
                await stage.agent_client.close()
                await client.close()

"""An embedded node on which one driver is served in both ways: for claims, and as extended resources."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from claimsmith.api.kinds import NODE as NODES
from claimsmith.api.kinds import POD
from claimsmith.kube.client import KubeObject
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import (
    ClaimKey,
    ContainerEdits,
    DeviceNode,
    Mount,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.node.deviceplugins import DevicePlugins, PluginHost
from claimsmith.node.entry import HeldDevice, PreparedClaim
from claimsmith.node.ledger import Ledger
from claimsmith.node.plugin import NodePlugin
from claimsmith.node.podresources import ForeignRule
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter
from claimsmith.testing import builders as b
from tests.scenarios.embedded_node import NODE, ApiClaims, EmbeddedNode
from tests.unit.node.recording_driver import RecordingDriver

RESOURCE = "example.test/gpu"
RULE = ResourceRule(resource=RESOURCE)


class GpuDriver(RecordingDriver):
    """Some devices; each brings a variable, a device node and a mount."""

    def __init__(self, *names: str, inventory: Inventory | None = None) -> None:
        super().__init__()
        self.inventory = inventory or Inventory.of(*(b.device(name) for name in names or ("gpu-0", "gpu-1")))

    def discover(self) -> Inventory:
        return self.inventory

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        self.calls.append(("prepare", request.claim.uid))
        self.fail("prepare")
        names = [device.id.device for device in request.devices]
        common = ContainerEdits(
            env={"GPUS": ",".join(names)},
            mounts=(Mount(host_path="/usr/lib", container_path="/opt/gpu"),),
        )
        devices = tuple(
            PreparedDevice(
                device=device,
                edits=ContainerEdits(device_nodes=(DeviceNode(path=f"/dev/{name}", host_path="/dev/null"),)),
            )
            for device, name in zip(request.devices, names, strict=True)
        )
        return PreparedDevices(devices=devices, common=common)


@dataclass
class Granting:
    """The device plugins of a driver in one process, with what they share with a DRA plugin."""

    driver: Driver
    paths: NodePaths
    options: DevicePluginOptions
    boot_id: str = "boot"
    foreign: ForeignRule | None = None
    instance_uid: str = ""
    freed: int = 0
    meter: Meter = field(default_factory=Meter)

    @contextlib.asynccontextmanager
    async def serving(self, **told: Any) -> AsyncIterator[DevicePlugins]:
        """Serve until the block ends, with the driver's devices; not registered yet."""
        folder = self.paths.folder_of(self.driver.name)
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(max_workers=1) as executor:
            self.ledger = Ledger(folder, CdiFiles(self.paths.cdi, self.driver.name).read_claims)
            self.ledger.open()
            host = PluginHost(
                driver=self.driver,
                node_name=NODE,
                paths=self.paths,
                boot_id=self.boot_id,
                ledger=self.ledger,
                executor=executor,
                meter=self.meter,
                instance_uid=self.instance_uid,
            )
            async with DevicePlugins(host, self.options, foreign=self.foreign, on_freed=self._note_freed) as plugins:
                plugins.update(self.driver.discover(), **told)
                yield plugins

    def _note_freed(self) -> None:
        self.freed += 1


def quick(rules: Sequence[ResourceRule] = (RULE,), **changes: Any) -> DevicePluginOptions:
    """Return options that look again at once."""
    return DevicePluginOptions(rules=tuple(rules), poll_s=0.01, reconcile_s=0.05, grace_s=0.2, **changes)


async def reaches(node: EmbeddedNode, condition: Callable[[], bool]) -> None:
    """Wait until something holds; looked at again after each answer of the API server."""
    async with asyncio.timeout(60):
        while not condition():
            await node.client.list(NODES)


async def registered(node: EmbeddedNode, plugins: DevicePlugins, resource: str = RESOURCE) -> None:
    """Wait until the kubelet has taken a resource and counts its devices."""

    def holds() -> bool:
        states = {state.resource: state for state in plugins.states()}
        shelf = node.kubelet.devices.stock.find(resource)
        return states[resource].registered and shelf is not None and len(shelf.healthy) == states[resource].usable

    await reaches(node, holds)


def wanting(*amounts: int, resource: str = RESOURCE, init: int = 0, seconds: int = 60) -> dict[str, Any]:
    """Return a pod spec whose containers want so many devices each, and an init container."""

    def container(name: str, amount: int, duration: int) -> dict[str, Any]:
        limits = {"limits": {resource: str(amount)}} if amount else {}
        return {"name": name, "image": "i", "command": ["sleep", str(duration)], "resources": limits}

    starting = {"initContainers": [container("init", init, 0)]} if init else {}
    return {"containers": [container(f"c{index}", amount, seconds) for index, amount in enumerate(amounts)], **starting}


async def start(node: EmbeddedNode, name: str, spec: dict[str, Any], *, phase: str = "Running") -> KubeObject:
    """Create a pod, bind it to the node and wait for a phase."""
    await node.create_pod(name, spec=spec)
    await node.bind(name)
    return await node.reaches(name, phase)


async def delete(node: EmbeddedNode, name: str) -> None:
    """Delete a pod and wait until it is gone."""
    await node.client.delete(POD, name, namespace="default")
    await node.goes(name)


@contextlib.asynccontextmanager
async def dra_plugin(node: EmbeddedNode, driver: Driver) -> AsyncIterator[NodePlugin]:
    """Serve a driver for claims, registered with the kubelet; what can't be prepared yet is held."""
    plugin = NodePlugin(driver, paths=node.paths, node_name=NODE, claims=ApiClaims(node.client), boot_id="boot")
    async with plugin:
        await node.kubelet.check_plugins()
        yield plugin


@contextlib.asynccontextmanager
async def serving_beside(
    node: EmbeddedNode, plugin: NodePlugin, driver: Driver, **changes: Any
) -> AsyncIterator[DevicePlugins]:
    """Serve a driver as extended resources too, in the process that serves it for claims."""
    host = PluginHost(
        driver=driver,
        node_name=NODE,
        paths=node.paths,
        boot_id="boot",
        ledger=plugin.ledger,
        executor=plugin.executor,
        meter=plugin.meter,
    )
    async with DevicePlugins(host, quick(**changes), on_freed=plugin.holding.wake) as plugins:
        plugins.update(driver.discover())
        yield plugins


def prepared(*devices: str, uid: str = "uid-c") -> PreparedClaim:
    """Return what a ledger keeps of a claim with some devices."""
    held = tuple(HeldDevice(id=b.device_id(name), request="r") for name in devices)
    return PreparedClaim(claim=ClaimKey(namespace="default", name="c", uid=uid), devices=held, boot_id="boot")

"""One embedded node: its Node object, its plugins and its pods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from claimsmith.api.kinds import NODE, RESOURCE_SLICE, Kind
from claimsmith.embedded.kubelet.addresses import PodAddresses
from claimsmith.embedded.kubelet.admission import PodAdmission
from claimsmith.embedded.kubelet.cdi_registry import CdiRegistry
from claimsmith.embedded.kubelet.claims import ClaimReader
from claimsmith.embedded.kubelet.clock import Clock
from claimsmith.embedded.kubelet.containers import ContainerRuntime
from claimsmith.embedded.kubelet.devices.allocator import DeviceObserver, PodDevices
from claimsmith.embedded.kubelet.devices.plugins import DevicePlugins
from claimsmith.embedded.kubelet.dra import PodClaims
from claimsmith.embedded.kubelet.dra_checkpoint import CHECKPOINT_FILE
from claimsmith.embedded.kubelet.health import DeviceKey, HealthBook
from claimsmith.embedded.kubelet.health_watch import HealthWatch
from claimsmith.embedded.kubelet.logs import ContainerLogs
from claimsmith.embedded.kubelet.nodestatus import NodeAmounts, plan_reset
from claimsmith.embedded.kubelet.plugins import DraPlugin, DraPlugins
from claimsmith.embedded.kubelet.podresources import SOCKET, PodResources
from claimsmith.embedded.kubelet.pods import PodClient, PodEvents, PodWorkers
from claimsmith.embedded.kubelet.resources import ContainerResources
from claimsmith.embedded.kubelet.sources import PodSource
from claimsmith.embedded.kubelet.status import format_time
from claimsmith.embedded.kubelet.views import PodView, view_pod
from claimsmith.embedded.kubelet.watcher import PluginHandler, PluginWatcher
from claimsmith.errors import AlreadyExistsError, ApiError, NotFoundError
from claimsmith.kube.client import ObjectList
from claimsmith.kubelet.paths import NodePaths, make_folder
from claimsmith.kubelet.services import DEVICE_PLUGIN_TYPE, DRA_PLUGIN_TYPE
from claimsmith.telemetry import get_logger, log_event

__all__ = ["ClusterServices", "EmbeddedKubelet", "KubeletClient", "NodeConfig"]

_log = get_logger("embedded.kubelet")
_VERSION: Final = "v1.37.2"
_PERIOD_S: Final = 0.5
_PATIENCE_S: Final = 5.0
"""How long a plugin that answers late may hold up all else that is looked at regularly."""
_LOST_S: Final = 30.0
"""How long a driver may be out of reach before its slices are removed. Source: kubelet v1.37.2 cm/dra."""


class KubeletClient(PodClient, Protocol):
    """What a kubelet needs of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> dict[str, Any]:
        """Return an object."""
        ...

    async def create(self, kind: Kind, obj: Mapping[str, Any], *, namespace: str = "") -> dict[str, Any]:
        """Create an object."""
        ...

    async def list(self, kind: Kind, *, field_selector: str = "") -> ObjectList:
        """Return all objects."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What a node is.

    Args:
        capacity: Amounts by resource, as the API writes them.
        pod_cidr: Range of the addresses of its pods.
        host_ip: Its own address.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "16", "memory": "64Gi", "pods": "110"})
    pod_cidr: str = "10.244.0.0/24"
    host_ip: str = "10.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterServices:
    """What all kubelets of a process share.

    Args:
        pods: Tells of pods.
        claims: Reads claims.
        events: Takes events about pods.
        logs: Takes the output of containers.
    """

    pods: PodSource
    claims: ClaimReader
    events: PodEvents
    logs: ContainerLogs
    clock: Clock = field(default_factory=Clock)


class EmbeddedKubelet:
    """The kubelet of one embedded node; `run` is its life.

    Args:
        config: What the node is.
        paths: Its folders; plugins must use the same.
        client: Access to the API server.
        services: What it shares with other kubelets.
    """

    def __init__(
        self, config: NodeConfig, *, paths: NodePaths, client: KubeletClient, services: ClusterServices
    ) -> None:
        self.config, self._paths, self._client, self._services = config, paths, client, services
        self._clock = services.clock
        self._book = HealthBook()
        self._health = HealthWatch(self._book, self._clock, self._tell_health)
        self.plugins = DraPlugins(self._meet_plugin, self._health.stop)
        """The DRA drivers that are registered."""
        self.claims = PodClaims(self.plugins, services.claims, paths.state / CHECKPOINT_FILE)
        """The claims that are prepared for pods."""
        self.devices = PodDevices(folder=paths.device_plugins, clock=self._clock)
        """The devices of device plugins, and who has them."""
        self._device_plugins = DevicePlugins(paths.device_plugins, self.devices)
        self._amounts = NodeAmounts(
            name=config.name, own=config.capacity, whole=self._status, client=client, devices=self.devices
        )
        handlers: dict[str, PluginHandler] = {DRA_PLUGIN_TYPE: self.plugins, DEVICE_PLUGIN_TYPE: self._device_plugins}
        self._watcher = PluginWatcher(paths.plugins_registry, handlers)
        self._group: asyncio.TaskGroup | None = None
        self._workers = self._make_workers()
        self.devices.observer = DeviceObserver(
            amounts_changed=self._amounts.request, health_changed=self._workers.refresh
        )
        self.devices.active = lambda: {pod.uid for pod in self._list_active()}
        self._resources = PodResources(
            devices=self.devices, claims=self.claims, active=self._workers.active, find=self._workers.find
        )
        self._lost_since_s: dict[str, float] = {}
        self._wiped = True
        self._is_new = True
        self._ready = asyncio.Event()

    def _make_workers(self) -> PodWorkers:
        services = self._services
        return PodWorkers(
            claims=self.claims,
            admission=PodAdmission(devices=self.devices, allocatable=self._amounts.offered, others=self._list_active),
            resources=ContainerResources(devices=self.devices, claims=self.claims, book=self._book, clock=self._clock),
            runtime=ContainerRuntime(registry=CdiRegistry(self._paths.cdi), logs=services.logs),
            client=self._client,
            events=services.events,
            clock=self._clock,
            addresses=PodAddresses(self.config.pod_cidr),
            host_ip=self.config.host_ip,
            spawn=self._spawn,
            survives=lambda: not self._is_new,
        )

    def _list_active(self) -> tuple[PodView, ...]:
        return self._workers.active()

    async def wait_ready(self) -> None:
        """Return once the node is in the API server and plugins can register."""
        await self._ready.wait()

    async def run(self) -> None:
        """Register the node and run its pods until cancelled; pods and their claims stay as they are.

        Raises:
            ApiError: The node can't be registered.
            ConfigError: A folder can't be made.
        """
        self._paths.make()
        make_folder((self._paths.state / SOCKET).parent)
        self._is_new = is_new = self.claims.load()
        self.devices.load()
        await self._register_node(is_new=is_new)
        self._wiped = await self._wipe_slices("")
        server = self._resources.server(self._paths.state)
        try:
            await self._device_plugins.start()
            await server.start()
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._services.pods.attach(self.config.name, self._take_pod)
                self._spawn(self._drop_leftovers(), "leftovers")
                self._spawn(self._amounts.run(), "amounts")
                self._ready.set()
                await self._watch_plugins()
        finally:
            self._group = None
            self._ready.clear()
            self._services.pods.detach(self.config.name)
            await self._watcher.close()
            await self.plugins.close()
            await self._device_plugins.close()
            await server.stop()

    async def check_plugins(self) -> None:
        """Look for plugins that came or went, and remove the slices of drivers that have been away for long."""
        await self._watcher.sync(patience_s=_PATIENCE_S)
        await self._wipe_lost_drivers()
        self._health.check()
        self._amounts.request_regular(self._clock.now_s())

    async def _watch_plugins(self) -> None:
        while True:
            await self.check_plugins()
            await self._clock.sleep(_PERIOD_S)

    async def _drop_leftovers(self) -> None:
        await self._services.pods.wait_synced()
        await self._workers.drop_leftovers()

    def _meet_plugin(self, plugin: DraPlugin) -> None:
        self._health.start(plugin)
        self._workers.wake()

    def _tell_health(self, driver: str, devices: frozenset[DeviceKey]) -> None:
        self._workers.refresh(self.claims.users(driver, devices))

    def _spawn(self, work: Awaitable[None], name: str) -> None:
        async def run() -> None:
            await work

        if self._group is not None:
            self._group.create_task(run(), name=f"{self.config.name}: {name}")

    def _take_pod(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        if new is not None:
            self._workers.update(view_pod(new))
        elif old is not None:
            self._workers.remove(str((old.get("metadata") or {}).get("uid") or ""))

    async def _register_node(self, *, is_new: bool) -> None:
        """Create the Node object, or bring an old one up to date; amounts that others have set stay.

        On a machine that is new, nothing is left of what an old Node says of extended resources.
        """
        name = self.config.name
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **self.config.labels,
        }
        node: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"podCIDR": self.config.pod_cidr, "podCIDRs": [self.config.pod_cidr]},
        }
        try:
            await self._client.create(NODE, node)
        except AlreadyExistsError:
            found = await self._client.patch(NODE, name, {"metadata": {"labels": labels}})
            if is_new and (reset := plan_reset(found.get("status") or {})):
                await self._client.patch(NODE, name, {"status": reset}, subresource="status")
        await self._client.patch(NODE, name, {"status": self._status()}, subresource="status")

    def _status(self) -> dict[str, Any]:
        now = format_time(self._clock.now_s())
        conditions = (
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
            ("Ready", "True", "KubeletReady"),
        )
        times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
        return {
            "capacity": dict(self.config.capacity),
            "allocatable": dict(self.config.capacity),
            "addresses": [
                {"type": "InternalIP", "address": self.config.host_ip},
                {"type": "Hostname", "address": self.config.name},
            ],
            "conditions": [
                {"type": type_, "status": status, "reason": reason, "message": "embedded node", **times}
                for type_, status, reason in conditions
            ],
            "nodeInfo": {
                "kubeletVersion": _VERSION,
                "containerRuntimeVersion": "claimsmith://embedded",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "osImage": "claimsmith embedded node",
                "kernelVersion": "embedded",
                "machineID": self.config.name,
                "systemUUID": self.config.name,
                "bootID": self.config.name,
                "kubeProxyVersion": "",
            },
        }

    async def _wipe_lost_drivers(self) -> None:
        """Remove the slices of drivers that have been out of reach for long; what fails is tried again."""
        now_s = self._clock.now_s()
        for driver in self.plugins.drivers():
            if self.plugins.is_usable(driver):
                self._lost_since_s.pop(driver, None)
            elif now_s - self._lost_since_s.setdefault(driver, now_s) > _LOST_S and await self._wipe_slices(driver):
                self._lost_since_s[driver] = float("inf")
        if not self._wiped and await self._wipe_slices(""):
            self._wiped = True

    async def _wipe_slices(self, driver: str) -> bool:
        """Remove the node's slices of a driver, of all drivers without one; tell whether that could be done."""
        selector = f"spec.nodeName={self.config.name}" + (f",spec.driver={driver}" if driver else "")
        try:
            found = await self._client.list(RESOURCE_SLICE, field_selector=selector)
            for item in found.items:
                await self._delete_slice(str(item["metadata"]["name"]))
        except ApiError as error:
            log_event(_log, logging.WARNING, "Slices not removed", node=self.config.name, reason=error)
            return False
        return True

    async def _delete_slice(self, name: str) -> None:
        try:
            await self._client.delete(RESOURCE_SLICE, name)
        except NotFoundError:
            return

"""A driver as a device plugin behind real unix sockets in a temporary folder, called as the kubelet calls it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from claimsmith.embedded.kubelet.cdi_registry import CdiRegistry, MergedEdits
from claimsmith.embedded.kubelet.devices.checkpoint import Snapshot, encode_checkpoint
from claimsmith.embedded.kubelet.devices.endpoint import DeviceEndpoint, ListedDevice
from claimsmith.embedded.kubelet.devices.plugins import DevicePlugins as KubeletPlugins
from claimsmith.embedded.kubelet.rpc import RpcServer, answer
from claimsmith.errors import PluginRefusedError
from claimsmith.kubelet import podresources_v1_pb2 as messages
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import LIST_POD_RESOURCES
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.deviceplugin_rules import DevicePluginOptions, ResourceRule
from claimsmith.node.deviceplugins import DevicePlugins, PluginHost
from claimsmith.node.ledger import Ledger
from claimsmith.node.podresources import device_checkpoint_path, pod_resources_socket
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import Meter
from claimsmith.testing.builders import NODE

__all__ = ["RESOURCE", "GrantBench"]

RESOURCE: Final = "bench.example.test/device"
"""The resource as which the devices are offered."""
_TIMEOUT_S: Final = 20.0


class GrantBench:
    """One node with one driver, whose devices are extended resources, and the kubelet's side of the sockets.

    Args:
        driver: The driver.
        node: Name of the node.
    """

    def __init__(self, driver: Driver, *, node: str = NODE) -> None:
        self._driver, self._node = driver, node
        self._given: set[frozenset[str]] = set()
        self._endpoint: DeviceEndpoint | None = None
        self._listed: tuple[ListedDevice, ...] = ()
        self._news = asyncio.Event()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            root = Path(tempfile.mkdtemp(prefix="cs-"))
            stack.callback(shutil.rmtree, root, ignore_errors=True)
            paths = self._paths = NodePaths.compact(root)
            paths.make()
            for folder in (paths.folder_of(self._driver.name), pod_resources_socket(paths).parent):
                folder.mkdir()
            device_checkpoint_path(paths).write_bytes(encode_checkpoint(Snapshot()))
            resources = RpcServer(
                pod_resources_socket(paths), [answer(LIST_POD_RESOURCES, self._list, refuse=PluginRefusedError)]
            )
            kubelet = KubeletPlugins(paths.device_plugins, self)
            await resources.start()
            stack.push_async_callback(resources.stop)
            await kubelet.start()
            stack.push_async_callback(kubelet.close)
            executor = stack.enter_context(ThreadPoolExecutor(max_workers=1))
            self.plugins = await stack.enter_async_context(self._serve(paths, executor))
            self.plugins.update(await asyncio.to_thread(self._driver.discover))
            await self._wait_listed()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _serve(self, paths: NodePaths, executor: ThreadPoolExecutor) -> DevicePlugins:
        ledger = Ledger(paths.folder_of(self._driver.name), CdiFiles(paths.cdi, self._driver.name).read_claims)
        ledger.open()
        self._ledger = ledger
        host = PluginHost(
            driver=self._driver,
            node_name=self._node,
            paths=paths,
            boot_id="bench",
            ledger=ledger,
            executor=executor,
            meter=Meter(),
        )
        # Nobody looks by itself: the bench does when something is given back.
        options = DevicePluginOptions(
            rules=(ResourceRule(resource=RESOURCE),), poll_s=0.01, reconcile_s=3600, grace_s=0
        )
        return DevicePlugins(host, options)

    # --- what the kubelet's side of the sockets tells -----------------------------------------------------------------

    def connect(self, endpoint: DeviceEndpoint) -> None:
        """Take the plugin."""
        self._endpoint = endpoint

    def list_devices(self, endpoint: DeviceEndpoint, devices: tuple[ListedDevice, ...]) -> None:
        """Take its list of devices."""
        self._listed = devices
        self._news.set()

    def disconnect(self, endpoint: DeviceEndpoint) -> None:
        """Take note that it has gone."""
        self._endpoint = None

    @property
    def listed(self) -> tuple[ListedDevice, ...]:
        """The devices as the plugin listed them last."""
        return self._listed

    async def give(self, *ids: str) -> MergedEdits:
        """Give devices to a container as the kubelet does, up to its start, and return what it gets.

        Raises:
            PluginRefusedError: The driver failed, or the devices are not to be had.
        """
        assert self._endpoint is not None, "the kubelet's side did not take the driver"
        response = await self._endpoint.allocate(ids)
        self._given.add(frozenset(ids))
        await self._endpoint.pre_start(ids)
        return CdiRegistry(self._paths.cdi).resolve([device.name for device in response.cdi_devices])

    async def give_back(self, *ids: str) -> None:
        """End the container that has these devices, and let that be noticed."""
        self._given.discard(frozenset(ids))
        for _ in range(2):
            await self.plugins.look()

    def left(self) -> tuple[str, ...]:
        """Return the ids of what is still given away, and the names of the CDI files that are there."""
        files = sorted(path.name for path in self._paths.cdi.iterdir())
        return (*(id_ for grant in self._ledger.grants() for id_ in grant.ids), *files)

    async def _wait_listed(self) -> None:
        async with asyncio.timeout(_TIMEOUT_S):
            await self._news.wait()

    async def _list(self, request: messages.ListPodResourcesRequest) -> messages.ListPodResourcesResponse:
        pods = [
            messages.PodResources(
                namespace="default",
                name=f"pod-{index}",
                containers=[
                    messages.ContainerResources(
                        name="main", devices=[messages.ContainerDevices(resource_name=RESOURCE, device_ids=sorted(ids))]
                    )
                ],
            )
            for index, ids in enumerate(self._given)
        ]
        return messages.ListPodResourcesResponse(pod_resources=pods)

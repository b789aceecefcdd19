"""Device plugins come and go: the registration service of a kubelet, and the watch over what plugins list.

Source: pkg/kubelet/cm/devicemanager/plugin/v1beta1 (server.go, handler.go) of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from pathlib import Path
from typing import Final, Protocol

from claimsmith.embedded.kubelet.devices.endpoint import DeviceEndpoint, ListedDevice
from claimsmith.embedded.kubelet.rpc import RpcServer, answer
from claimsmith.embedded.kubelet.watcher import PluginInfo
from claimsmith.errors import PluginRefusedError
from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as messages
from claimsmith.kubelet.services import DEVICE_PLUGIN_VERSION, REGISTER_DEVICES
from claimsmith.telemetry import get_logger, log_event
from claimsmith.validate.names import is_extended_resource_name

__all__ = ["KUBELET_SOCKET", "DevicePlugins", "PluginUser"]

KUBELET_SOCKET: Final = "kubelet.sock"
"""Name of the socket at which plugins register, in the folder of the device plugins."""

_log = get_logger("embedded.kubelet")


class PluginUser(Protocol):
    """Who wants to know of plugins."""

    def connect(self, endpoint: DeviceEndpoint) -> None:
        """Take a plugin that can be called.

        Raises:
            PluginRefusedError: It can't be used.
        """
        ...

    def list_devices(self, endpoint: DeviceEndpoint, devices: tuple[ListedDevice, ...]) -> None:
        """Take the list of a plugin."""
        ...

    def disconnect(self, endpoint: DeviceEndpoint) -> None:
        """Take note that a plugin has gone."""
        ...


class DevicePlugins:
    """Serves registration, and keeps a stream open to each plugin; the watcher's handler for `DevicePlugin` too.

    Args:
        folder: Where the sockets are.
        user: Who wants to know of plugins.
    """

    def __init__(self, folder: Path, user: PluginUser) -> None:
        self._folder, self._user = folder, user
        self._server = RpcServer(
            folder / KUBELET_SOCKET, [answer(REGISTER_DEVICES, self._register, refuse=PluginRefusedError)]
        )
        self._watches: dict[DeviceEndpoint, asyncio.Task[None]] = {}
        self._forgotten: set[tuple[str, str]] = set()

    async def start(self) -> None:
        """Remove all sockets, so that plugins notice that the kubelet is new, and serve registration.

        Raises:
            ConfigError: The folder can't be used.
        """
        self._wipe_sockets()
        await self._server.start()

    async def close(self) -> None:
        """End; plugins are told by the end of their streams."""
        await self._server.stop()
        for endpoint in list(self._watches):
            await self._drop(endpoint)

    async def register(self, info: PluginInfo) -> None:
        """Take a plugin that was found in the folder of plugins.

        Raises:
            PluginRefusedError: It can't be used; the plugin is told why.
        """
        if DEVICE_PLUGIN_VERSION not in info.services:
            raise PluginRefusedError(
                f"manager version, {DEVICE_PLUGIN_VERSION}, is not among plugin supported versions "
                f"[{' '.join(info.services)}]"
            )
        _check_name(info.name)
        await self._connect(info.name, info.endpoint)

    async def deregister(self, info: PluginInfo) -> None:
        """Drop a plugin whose registration socket is gone; an unknown one is no error."""
        for endpoint in [item for item in self._watches if (item.resource, item.socket) == (info.name, info.endpoint)]:
            await self._drop(endpoint)

    async def _register(self, request: messages.RegisterRequest) -> messages.Empty:
        """Answer `Register`: after the plugin was called back."""
        if request.version != DEVICE_PLUGIN_VERSION:
            raise PluginRefusedError(
                f'requested API version "{request.version}" is not supported by kubelet. '
                f'Supported version is ["{DEVICE_PLUGIN_VERSION}"]'
            )
        _check_name(request.resource_name)
        await self._connect(request.resource_name, str(self._folder / request.endpoint.lstrip("/")))
        return messages.Empty()

    async def _connect(self, resource: str, socket: str) -> None:
        endpoint = DeviceEndpoint(resource, socket)
        try:
            await endpoint.connect()
            self._user.connect(endpoint)
        except BaseException as error:
            # As upstream, which then drops all that it knows of the socket, and never hears that its plugin ends.
            self._forgotten.add((resource, socket))
            await endpoint.close()
            log_event(_log, logging.WARNING, "Device plugin not registered", resource=resource, reason=error)
            raise
        self._forgotten.discard((resource, socket))
        log_event(_log, logging.INFO, "Device plugin registered", resource=resource, socket=socket)
        self._watches[endpoint] = asyncio.create_task(self._watch(endpoint), name=f"devices of {resource}")

    async def _watch(self, endpoint: DeviceEndpoint) -> None:
        try:
            async for devices in endpoint.watch():
                self._user.list_devices(endpoint, devices)
        except Exception:
            _log.exception("The devices of %s can't be taken in", endpoint.resource)
        finally:
            self._watches.pop(endpoint, None)
            if (endpoint.resource, endpoint.socket) not in self._forgotten:
                self._user.disconnect(endpoint)
            log_event(_log, logging.INFO, "Device plugin gone", resource=endpoint.resource, socket=endpoint.socket)
        await endpoint.close()

    async def _drop(self, endpoint: DeviceEndpoint) -> None:
        watch = self._watches.get(endpoint)
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        await endpoint.close()

    def _wipe_sockets(self) -> None:
        for path in self._folder.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink(missing_ok=True)


def _check_name(resource: str) -> None:
    if not is_extended_resource_name(resource):
        raise PluginRefusedError(f'the ResourceName "{resource}" is invalid')

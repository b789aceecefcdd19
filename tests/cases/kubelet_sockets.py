"""The kubelet's side of device plugin registration, with the troubles that scripts want."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from claimsmith.embedded.kubelet.devices.endpoint import DeviceEndpoint, ListedDevice
from claimsmith.embedded.kubelet.rpc import RpcServer, answer
from claimsmith.errors import PluginRefusedError
from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as messages
from claimsmith.kubelet.services import REGISTER_DEVICES

SOCKET = "kubelet.sock"


class RegistrationSide:
    """Takes device plugins, follows their lists, and counts.

    Attributes:
        registrations: How often a plugin was taken.
        refusals: How many of the next plugins are refused.
        devices: The devices that the plugin of now lists.
    """

    def __init__(self, folder: Path) -> None:
        self.registrations = self.refusals = 0
        self.devices: tuple[ListedDevice, ...] = ()
        self._folder = folder
        self._server: RpcServer | None = None
        self._watches: list[asyncio.Task[None]] = []

    async def start(self, *, wipe: bool = True) -> None:
        """Serve registration, as a kubelet that has just started."""
        if wipe:
            for path in self._folder.iterdir():
                if path.is_socket():
                    path.unlink()
        self._server = RpcServer(
            self._folder / SOCKET, [answer(REGISTER_DEVICES, self._register, refuse=PluginRefusedError)]
        )
        await self._server.start()

    async def replace(self) -> None:
        """Serve on another socket of the same name; there is no moment without one."""
        old = self._server
        await self._forget()
        await self.start(wipe=False)
        if old is not None:
            await old.stop()

    async def stop(self) -> None:
        """End."""
        await self._forget()
        if self._server is not None:
            await self._server.stop()
            self._server = None

    async def _forget(self) -> None:
        watches, self._watches, self.devices = self._watches, [], ()
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    async def _register(self, request: messages.RegisterRequest) -> messages.Empty:
        if self.refusals:
            self.refusals -= 1
            raise PluginRefusedError("the kubelet takes no plugin now")
        endpoint = DeviceEndpoint(request.resource_name, str(self._folder / request.endpoint))
        await endpoint.connect()
        self.registrations += 1
        self._watches.append(asyncio.create_task(self._watch(endpoint)))
        return messages.Empty()

    async def _watch(self, endpoint: DeviceEndpoint) -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(endpoint.close)
            async for devices in endpoint.watch():
                self.devices = devices
            self.devices = ()

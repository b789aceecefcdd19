"""The device plugin of one driver: its resources served, registered, and registered again whenever the kubelet is new.

The kubelet removes all sockets of the folder when it starts and makes its own anew. So both sockets are looked at from
time to time: by number and time of making, since a socket may be replaced without a moment of absence.

Source: device plugin v1beta1 of k8s.io/kubelet v0.37.2; pkg/kubelet/cm/devicemanager/plugin of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from claimsmith.errors import ConfigError, KubeletUnreachableError
from claimsmith.kube.backoff import Backoff
from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as messages
from claimsmith.kubelet.paths import SOCKET_PATH_MAX_BYTES
from claimsmith.kubelet.services import DEVICE_PLUGIN_VERSION, REGISTER_DEVICES
from claimsmith.node.deviceplugin_rules import DevicePluginOptions
from claimsmith.node.deviceplugin_service import ResourceService
from claimsmith.node.sockets import Identity, SocketServer, find_identity
from claimsmith.telemetry import get_logger, log_event

__all__ = ["KUBELET_SOCKET", "DevicePluginServer", "plugin_socket"]

KUBELET_SOCKET: Final = "kubelet.sock"
"""Name of the kubelet's socket in the folder of device plugins."""
_TIMEOUT_S: Final = 20.0
"""The kubelet calls back before it answers, for which it takes up to 10 s."""
_FOLLOW_S: Final = 10.0
"""Seconds within which a kubelet that has registered a plugin follows its list of devices."""

_log = get_logger("node")


def plugin_socket(folder: Path, resource: str, instance_uid: str = "") -> Path:
    """Return the path of a resource's socket, which is as readable as the length of socket paths allows.

    Args:
        folder: The folder in which the kubelet looks for device plugins.
        instance_uid: uid of the driver's pod; lets two of them serve during a rolling update. Empty: only one.
    """
    suffix = f"-{_digest(instance_uid, 6)}" if instance_uid else ""
    names = (f"claimsmith-{resource.replace('/', '_')}{suffix}.sock", f"cs-{_digest(resource, 12)}{suffix}.sock")
    fitting = (name for name in names if len(str(folder / name).encode()) <= SOCKET_PATH_MAX_BYTES)
    return folder / next(fitting, names[-1])


def _digest(text: str, size: int) -> str:
    return urlsafe_b64encode(sha256(text.encode()).digest()[:size]).decode().rstrip("=")


class DevicePluginServer:
    """Serves one resource and keeps it registered.

    Args:
        service: What is served.
        folder: The folder in which the kubelet looks for device plugins.
        options: How often sockets are looked at.
        instance_uid: uid of the driver's pod; needed only for two at a time.
        now_s: Monotonic seconds.

    Raises:
        ConfigError: The socket's path is too long.
    """

    def __init__(
        self,
        service: ResourceService,
        folder: Path,
        *,
        options: DevicePluginOptions,
        instance_uid: str = "",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.service, self.resource = service, service.rule.resource
        self.registered = False
        """Whether the kubelet of now has taken the resource."""
        self.registrations = 0
        """How often a kubelet has taken it."""
        self.error = ""
        """Why the resource is not registered; empty when it is."""
        self._path, self._kubelet = plugin_socket(folder, self.resource, instance_uid), folder / KUBELET_SOCKET
        self._options, self._now_s = options, now_s
        self._server = SocketServer(self._path, service.handlers())
        self._taken_by: Identity | None = None
        self._taken_s = self._next_s = 0.0
        self._backoff = Backoff(initial_s=0.25, max_s=options.retry_max_s)

    async def start(self) -> None:
        """Serve the resource.

        Raises:
            ConfigError: The socket can't be served, or another process serves it.
        """
        await self._server.start()

    async def stop(self) -> None:
        """Stop serving: the kubelet then counts the devices as unusable, while containers keep theirs."""
        self.service.close()
        await self._server.stop()

    async def run(self) -> None:
        """Keep the resource served and registered until cancelled."""
        while True:
            await self.turn()
            await asyncio.sleep(self._options.poll_s)

    async def turn(self) -> None:
        """Look at both sockets once, and do what they ask for."""
        if not self._server.is_there:
            await self._serve_again()
        kubelet = find_identity(self._kubelet)
        if kubelet != self._taken_by:
            self.registered = False
        if kubelet is None:
            self._taken_by = None
            self._fail("found no kubelet, allowed one that serves its socket")
        elif not self._is_followed(kubelet) and self._now_s() >= self._next_s:
            await self._try_to_register(kubelet)

    def _is_followed(self, kubelet: Identity) -> bool:
        """Tell whether this kubelet has taken the resource and follows it, or had no time to yet."""
        if kubelet != self._taken_by or not self._server.is_there:
            return False
        return self.service.streams > 0 or self._now_s() - self._taken_s < _FOLLOW_S

    async def _serve_again(self) -> None:
        """Serve on a new socket: somebody has removed or replaced the one that was served."""
        self._taken_by, self.registered = None, False
        await self._server.stop()
        self._server = SocketServer(self._path, self.service.handlers())
        try:
            await self.start()
        except ConfigError as error:
            self._fail(str(error))

    async def _try_to_register(self, kubelet: Identity) -> None:
        try:
            await self._register()
        except KubeletUnreachableError as error:
            self._next_s = self._now_s() + self._backoff.next_s()
            self._fail(str(error))
            return
        self._taken_by, self._taken_s, self.registered, self.error = kubelet, self._now_s(), True, ""
        self.registrations += 1
        self._backoff.reset()
        log_event(_log, logging.INFO, "The kubelet has taken a resource", resource=self.resource)

    async def _register(self) -> None:
        request = messages.RegisterRequest(
            version=DEVICE_PLUGIN_VERSION,
            endpoint=self._path.name,
            resource_name=self.resource,
            options=self.service.options,
        )
        async with grpc.aio.insecure_channel(f"unix:{self._kubelet}") as channel:
            call = channel.unary_unary(
                REGISTER_DEVICES.path,
                request_serializer=REGISTER_DEVICES.request.SerializeToString,
                response_deserializer=REGISTER_DEVICES.response.FromString,
            )
            try:
                await call(request, timeout=_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                reason = f"resource {self.resource} is not taken: {error.code().name}: {error.details()}"
                hint = "it is tried again; look into the kubelet's log"
                raise KubeletUnreachableError(self._kubelet, reason, hint=hint) from error

    def _fail(self, error: str) -> None:
        if error != self.error:
            log_event(_log, logging.WARNING, "Resource not registered", resource=self.resource, reason=error)
        self.error, self.registered = error, False

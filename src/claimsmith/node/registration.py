"""The registration socket, through which the kubelet learns of a driver.

Source: plugin registration v1; kubeletplugin/endpoint.go of k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from claimsmith.kubelet import pluginregistration_v1_pb2 as messages
from claimsmith.kubelet.paths import SOCKET_PATH_MAX_BYTES
from claimsmith.kubelet.services import GET_INFO, NOTIFY
from claimsmith.node.sockets import Handler, unary_handler
from claimsmith.telemetry import get_logger, log_event

__all__ = ["Registration", "registration_socket", "service_socket"]

_log = get_logger("node")


def registration_socket(folder: Path, driver: str, instance_uid: str = "") -> Path:
    """Return the path of the registration socket.

    Args:
        folder: The folder that the kubelet watches.
        instance_uid: uid of the driver's pod; lets two of them serve during a rolling update. Empty: only one.

    Source: RollingUpdateRegistrarSocketFile of kubeletplugin v0.37.2.
    """
    if not instance_uid:
        return folder / f"{driver}-reg.sock"
    uid = instance_uid.encode()
    names = (
        f"{driver}-{instance_uid}-reg.sock",
        f"{driver}-{_digest(uid, 8)}-reg.sock",
        f"dra-{_digest(driver.encode() + bytes(1) + uid, 16)}-reg.sock",
    )
    fitting = (name for name in names if len(str(folder / name).encode()) <= SOCKET_PATH_MAX_BYTES)
    return folder / next(fitting, names[-1])


def service_socket(folder: Path, instance_uid: str = "") -> Path:
    """Return the path of the service socket in a driver's own folder."""
    return folder / (f"dra-{instance_uid}.sock" if instance_uid else "dra.sock")


def _digest(data: bytes, size: int) -> str:
    return urlsafe_b64encode(sha256(data).digest()[:size]).decode().rstrip("=")


class Registration:
    """Answers the kubelet's questions at registration and keeps what it said of the outcome.

    Args:
        plugin_type: `DRAPlugin` or `DevicePlugin`.
        name: Name of the driver, or of the resource.
        endpoint: Service socket.
        services: Services by their registration names; the kubelet takes the first one that it knows.
    """

    def __init__(self, plugin_type: str, name: str, *, endpoint: Path, services: Sequence[str]) -> None:
        self._info = messages.PluginInfo(
            type=plugin_type, name=name, endpoint=str(endpoint), supported_versions=services
        )
        self._name = name
        self._answered, self._accepted = asyncio.Event(), asyncio.Event()
        self.registered = False
        """Whether the kubelet has accepted the plugin."""
        self.error = ""
        """Why the kubelet refused the plugin the last time; empty if it did not."""

    def handlers(self) -> tuple[Handler, ...]:
        """Return what serves the registration socket."""
        return (unary_handler(GET_INFO, self._get_info), unary_handler(NOTIFY, self._notify))

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the kubelet's answer; tell whether it has accepted the plugin."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._answered.wait()
        except TimeoutError:
            return False
        return self.registered

    async def wait_accepted(self) -> None:
        """Return once the kubelet has accepted the plugin for the first time."""
        await self._accepted.wait()

    async def _get_info(self, request: messages.InfoRequest) -> messages.PluginInfo:
        return self._info

    async def _notify(self, status: messages.RegistrationStatus) -> messages.RegistrationStatusResponse:
        self.registered, self.error = status.plugin_registered, status.error
        if status.plugin_registered:
            self._accepted.set()
            log_event(_log, logging.INFO, "The kubelet has registered the plugin", plugin=self._name)
        else:
            log_event(_log, logging.ERROR, "The kubelet refused the plugin", plugin=self._name, reason=status.error)
        self._answered.set()
        return messages.RegistrationStatusResponse()

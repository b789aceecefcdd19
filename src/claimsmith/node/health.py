"""The health service, v1 and v1alpha1: tells the kubelet how the devices of a driver fare.

The kubelet takes a device's health for unknown when nothing new came for 30 s, so that the whole list is sent again
more often than that; a driver reports changes alone.

Source: dra-health/v1 of k8s.io/kubelet v0.37.2; pkg/kubelet/cm/dra/healthinfo.go of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from claimsmith.kubelet import dra_health_v1_pb2 as v1
from claimsmith.kubelet import dra_health_v1alpha1_pb2 as v1alpha1
from claimsmith.kubelet.services import HEALTH_V1, HEALTH_V1ALPHA1, WATCH_V1, WATCH_V1ALPHA1
from claimsmith.model.inventory import DeviceHealth
from claimsmith.node.sockets import Handler, stream_handler

__all__ = ["HEALTH_SERVICES", "HealthService"]

HEALTH_SERVICES: Final = (HEALTH_V1, HEALTH_V1ALPHA1)
"""Services by their registration names; the kubelet takes the newest that it knows."""
_PERIOD_S: Final = 10.0
_MESSAGE_MAX: Final = 1024
_STATES: Final = {None: v1.UNKNOWN, True: v1.HEALTHY, False: v1.UNHEALTHY}


class HealthService:
    """Keeps what a driver reported last of each device, and streams it to the kubelet.

    Args:
        node_name: Name of the pool of devices that name none.
        now_s: Seconds since 1970.
        period_s: Seconds after which the list is sent again; < 30.
    """

    def __init__(self, node_name: str, *, now_s: Callable[[], float] = time.time, period_s: float = _PERIOD_S) -> None:
        self._node_name, self._now_s, self._period_s = node_name, now_s, period_s
        self._devices: dict[tuple[str, str], DeviceHealth] = {}
        self._changed = asyncio.Event()

    def report(self, *devices: DeviceHealth) -> None:
        """Take what a driver says of some devices; the others keep what was said of them. In the event loop only."""
        for device in devices:
            self._devices[device.pool or self._node_name, device.device] = device
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def handlers(self) -> tuple[Handler, ...]:
        """Return what serves the health services."""
        return (stream_handler(WATCH_V1, self._watch_v1), stream_handler(WATCH_V1ALPHA1, self._watch_v1alpha1))

    async def _watch_v1(self, request: v1.NodeWatchResourcesRequest) -> AsyncIterator[v1.NodeWatchResourcesResponse]:
        async for _ in self._moments():
            yield v1.NodeWatchResourcesResponse(devices=[v1.DeviceHealth(**facts) for facts in self._facts()])

    async def _watch_v1alpha1(
        self, request: v1alpha1.NodeWatchResourcesRequest
    ) -> AsyncIterator[v1alpha1.NodeWatchResourcesResponse]:
        async for _ in self._moments():
            devices = [v1alpha1.DeviceHealth(**facts) for facts in self._facts()]
            yield v1alpha1.NodeWatchResourcesResponse(devices=devices)

    async def _moments(self) -> AsyncIterator[None]:
        """Yield whenever the list must be sent: at once, after each change, and after each period."""
        while True:
            changed = self._changed
            yield
            try:
                async with asyncio.timeout(self._period_s):
                    await changed.wait()
            except TimeoutError:
                continue

    def _facts(self) -> Iterator[dict[str, Any]]:
        now_s = int(self._now_s())
        for (pool, name), device in self._devices.items():
            yield {
                "device": {"pool_name": pool, "device_name": name},
                "health": _STATES[device.healthy],
                "last_updated_time": now_s,
                "message": _cut(device.message),
            }


def _cut(message: str) -> str:
    """Return a driver's text as the protocol can carry it: no longer than the kubelet keeps, and UTF-8."""
    message = message.encode(errors="replace").decode()
    return message if len(message) <= _MESSAGE_MAX else message[: _MESSAGE_MAX - 3] + "..."

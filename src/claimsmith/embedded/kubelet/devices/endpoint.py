"""One device plugin, as its kubelet sees it: the calls, and whether it still serves.

Source: pkg/kubelet/cm/devicemanager/endpoint.go and plugin/v1beta1/client.go of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio

from claimsmith.embedded.kubelet.rpc import describe_failure, unary
from claimsmith.errors import PluginRefusedError
from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as messages
from claimsmith.kubelet.services import ALLOCATE, GET_OPTIONS, GET_PREFERRED, LIST_AND_WATCH, PRE_START, Method

__all__ = ["GRACE_S", "DeviceEndpoint", "ListedDevice"]

GRACE_S: Final = 300.0
"""How long the devices of a plugin that is gone still count for capacity."""
_DIAL_S: Final = 10.0
_PRE_START_S: Final = 30.0
_HEALTHY: Final = "Healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDevice:
    """A device as its plugin lists it.

    Args:
        numa: NUMA nodes that it is near to; empty when it names none.
    """

    id: str
    healthy: bool
    numa: tuple[int, ...] = ()


class DeviceEndpoint:
    """A plugin's socket.

    Args:
        resource: The extended resource that it serves.
        socket: Path of its socket; empty for a plugin that was there before the kubelet was restarted.
        stopped_s: When it stopped to serve, in seconds since 1970; None while it serves.
    """

    def __init__(self, resource: str, socket: str = "", *, stopped_s: float | None = None) -> None:
        self.resource, self.socket, self.stopped_s = resource, socket, stopped_s
        self.asks_pre_start = self.offers_preferred = False
        self._channel: grpc.aio.Channel | None = None

    def is_expired(self, now_s: float) -> bool:
        """Tell whether it has been gone for longer than the grace period."""
        return self.stopped_s is not None and now_s - self.stopped_s > GRACE_S

    async def connect(self) -> None:
        """Reach the plugin and ask for its options.

        Raises:
            PluginRefusedError: It can't be reached within ten seconds, or gives no options.
        """
        channel = self._channel = grpc.aio.insecure_channel(
            f"unix:{self.socket}", options=[("grpc.default_authority", "localhost")]
        )
        try:
            async with asyncio.timeout(_DIAL_S):
                await channel.channel_ready()
        except TimeoutError:
            raise PluginRefusedError("failed to dial device plugin: context deadline exceeded") from None
        try:
            options = await unary(channel, GET_OPTIONS)(messages.Empty())
        except grpc.aio.AioRpcError as error:
            raise PluginRefusedError(f"failed to get device plugin options: {describe_failure(error)}") from error
        self.asks_pre_start = options.pre_start_required
        self.offers_preferred = options.get_preferred_allocation_available

    async def close(self) -> None:
        """Close the connection; calls that run end with an error."""
        if self._channel is not None:
            await self._channel.close(None)

    async def watch(self) -> AsyncIterator[tuple[ListedDevice, ...]]:
        """Yield each list that the plugin sends, until its stream ends for any reason."""
        if self._channel is None:
            return
        call = self._channel.unary_stream(
            LIST_AND_WATCH.path,
            request_serializer=LIST_AND_WATCH.request.SerializeToString,
            response_deserializer=LIST_AND_WATCH.response.FromString,
        )
        try:
            async for response in call(messages.Empty()):
                yield tuple(_read_device(device) for device in response.devices)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError):
            return

    async def allocate(self, ids: Sequence[str]) -> messages.ContainerAllocateResponse:
        """Allocate devices for one container.

        Raises:
            PluginRefusedError: The plugin is gone, or refuses, or says nothing for the container.
        """
        request = messages.AllocateRequest(container_requests=[{"devices_ids": ids}])
        response = await self._call(ALLOCATE, request)
        if not response.container_responses:
            raise PluginRefusedError(f"no containers return in allocation response {response}")
        found: messages.ContainerAllocateResponse = response.container_responses[0]
        return found

    async def prefer(self, available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the devices that the plugin would choose; empty when it says none.

        Raises:
            PluginRefusedError: The plugin is gone, or refuses.
        """
        wanted = {
            "available_deviceIDs": available,
            "must_include_deviceIDs": must_include,
            "allocation_size": size,
        }
        try:
            response = await self._call(GET_PREFERRED, messages.PreferredAllocationRequest(container_requests=[wanted]))
        except PluginRefusedError as error:
            raise PluginRefusedError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error
        return tuple(response.container_responses[0].deviceIDs) if response.container_responses else ()

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Say that a container with these devices is about to start.

        Raises:
            PluginRefusedError: The plugin is gone, refuses, or does not answer within 30 s.
        """
        try:
            await self._call(PRE_START, messages.PreStartContainerRequest(devices_ids=ids), timeout_s=_PRE_START_S)
        except PluginRefusedError as error:
            raise PluginRefusedError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    async def _call(self, method: Method[Any, Any], message: Any, *, timeout_s: float | None = None) -> Any:
        if self._channel is None or self.stopped_s is not None:
            raise PluginRefusedError(f"endpoint {self.socket or self.resource} has been stopped")
        try:
            return await unary(self._channel, method)(message, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            raise PluginRefusedError(describe_failure(error)) from error
        except grpc.aio.UsageError as error:  # The connection was closed meanwhile.
            raise PluginRefusedError(f"endpoint {self.socket} has been stopped") from error


def _read_device(device: messages.Device) -> ListedDevice:
    numa = tuple(node.ID for node in device.topology.nodes) if device.HasField("topology") else ()
    return ListedDevice(id=device.ID, healthy=device.health == _HEALTHY, numa=numa)

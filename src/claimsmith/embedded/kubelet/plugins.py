"""The DRA drivers that are registered on a node, and the calls to them.

Source: pkg/kubelet/cm/dra/plugin of kubernetes v1.37.2.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from claimsmith.embedded.kubelet.health import DeviceKey, DeviceState, read_states
from claimsmith.embedded.kubelet.rpc import describe_failure
from claimsmith.embedded.kubelet.watcher import PluginInfo
from claimsmith.errors import PluginRefusedError, PodStartError
from claimsmith.kubelet.services import (
    DRA_V1,
    DRA_V1BETA1,
    HEALTH_V1,
    HEALTH_V1ALPHA1,
    PREPARE_V1,
    PREPARE_V1BETA1,
    UNPREPARE_V1,
    UNPREPARE_V1BETA1,
    WATCH_V1,
    WATCH_V1ALPHA1,
    Method,
)
from claimsmith.telemetry import get_logger, log_event

__all__ = ["ClaimCall", "DraPlugin", "DraPlugins", "PreparedDevice"]

_log = get_logger("embedded.kubelet")
_CALL_TIMEOUT_S: Final = 45.0
_PREPARE: Final[Mapping[str, Method[Any, Any]]] = {DRA_V1: PREPARE_V1, DRA_V1BETA1: PREPARE_V1BETA1}
_UNPREPARE: Final[Mapping[str, Method[Any, Any]]] = {DRA_V1: UNPREPARE_V1, DRA_V1BETA1: UNPREPARE_V1BETA1}
_WATCH: Final[Mapping[str, Method[Any, Any]]] = {HEALTH_V1: WATCH_V1, HEALTH_V1ALPHA1: WATCH_V1ALPHA1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimCall:
    """A claim as a driver is told of it."""

    namespace: str
    name: str
    uid: str


class PreparedDevice(msgspec.Struct, frozen=True):
    """A device that a driver has prepared.

    Args:
        requests: Requests that it is for; empty for all.
    """

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""


class DraPlugin:
    """One endpoint of a driver.

    Raises:
        PluginRefusedError: It has no service that this kubelet knows.
    """

    def __init__(self, info: PluginInfo) -> None:
        known = next((service for service in info.services if service in _PREPARE), None)
        if known is None:
            raise PluginRefusedError(
                f"plugin {info.name} at {info.endpoint}: found services {list(info.services)}, "
                f"allowed one of {list(_PREPARE)}; serve one of them"
            )
        self.driver, self.endpoint, self.service = info.name, info.endpoint, known
        self.health_service = next((service for service in _WATCH if service in info.services), "")
        """The health service that is followed; empty when the plugin has none."""
        self._channel = grpc.aio.insecure_channel(f"unix:{info.endpoint}")
        # gRPC connects only when it is asked to; the state tells whether the plugin lives.
        self._channel.get_state(try_to_connect=True)

    @property
    def connected(self) -> bool:
        """Whether the plugin could be reached when it was last tried."""
        state = self._channel.get_state(try_to_connect=True)
        return state not in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(None)

    async def prepare(self, claims: Sequence[ClaimCall]) -> dict[str, tuple[PreparedDevice, ...]]:
        """Prepare claims; return the devices of each by its uid.

        Raises:
            PodStartError: The call failed, or a claim in it, or the answer has other claims than were asked for.
        """
        answer = await self._call(_PREPARE[self.service], claims)
        return {uid: tuple(_device(device) for device in entry.devices) for uid, entry in answer.items()}

    async def unprepare(self, claims: Sequence[ClaimCall]) -> None:
        """Undo the preparation of claims.

        Raises:
            PodStartError: As for `prepare`.
        """
        await self._call(_UNPREPARE[self.service], claims)

    async def watch_health(self) -> AsyncIterator[dict[DeviceKey, DeviceState]]:
        """Yield what the plugin says of its devices, until the stream ends for any reason.

        Raises:
            NotImplementedError: It does not tell, now or later.
        """
        method = _WATCH[self.health_service]
        call = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            async for response in call(method.request()):
                yield read_states(response.devices)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise NotImplementedError(error.details()) from error
        except grpc.aio.UsageError:  # The connection was closed.
            return

    async def _call(self, method: Method[Any, Any], claims: Sequence[ClaimCall]) -> dict[str, Any]:
        call = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        wanted = [{"namespace": claim.namespace, "name": claim.name, "uid": claim.uid} for claim in claims]
        try:
            response = await call(method.request(claims=wanted), timeout=_CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise _failed(f"{method.name}: {describe_failure(error)}") from error
        except grpc.aio.UsageError as error:  # The connection was closed: the plugin has gone, or registers anew.
            raise _failed(f"{method.name}: {error}") from error
        return _check_entries(method.name, claims, response.claims)


class DraPlugins:
    """All endpoints of all drivers, in the order of their registration; the watcher's handler for `DRAPlugin`.

    Args:
        came: Called with each plugin that has come.
        goes: Called with each plugin before its connection is closed.
    """

    def __init__(
        self,
        came: Callable[[DraPlugin], None] = lambda _plugin: None,
        goes: Callable[[DraPlugin], Awaitable[None]] | None = None,
    ) -> None:
        self._plugins: dict[str, list[DraPlugin]] = {}
        self._came, self._goes = came, goes

    async def register(self, info: PluginInfo) -> None:
        """Take a plugin.

        Raises:
            PluginRefusedError: It has no service that is known, or its endpoint is taken.
        """
        plugins = self._plugins.setdefault(info.name, [])
        if any(plugin.endpoint == info.endpoint for plugin in plugins):
            raise PluginRefusedError(f"endpoint {info.endpoint} already registered for DRA driver plugin {info.name}")
        plugin = DraPlugin(info)
        plugins.append(plugin)
        log_event(_log, logging.INFO, "DRA plugin registered", driver=info.name, endpoint=info.endpoint)
        self._came(plugin)

    async def deregister(self, info: PluginInfo) -> None:
        """Drop a plugin whose registration socket is gone; an unknown one is no error."""
        plugins = self._plugins.get(info.name, [])
        for plugin in [plugin for plugin in plugins if plugin.endpoint == info.endpoint]:
            plugins.remove(plugin)
            await self._close(plugin)
            log_event(_log, logging.INFO, "DRA plugin deregistered", driver=info.name, endpoint=info.endpoint)

    def drivers(self) -> tuple[str, ...]:
        """Return all drivers that have registered since the start, also those that are gone."""
        return tuple(self._plugins)

    def is_usable(self, driver: str) -> bool:
        """Tell whether a plugin of the driver can be reached."""
        return any(plugin.connected for plugin in self._plugins.get(driver, ()))

    def get_plugin(self, driver: str) -> DraPlugin:
        """Return the plugin of a driver that registered last, one that can be reached before others.

        Raises:
            PodStartError: There is none.
        """
        plugins = self._plugins.get(driver)
        if not plugins:
            raise _failed(f"DRA driver {driver} is not registered")
        connected = [plugin for plugin in plugins if plugin.connected]
        return (connected or plugins)[-1]

    async def close(self) -> None:
        """Close all connections."""
        for plugins in self._plugins.values():
            for plugin in plugins:
                await self._close(plugin)
        self._plugins.clear()

    async def _close(self, plugin: DraPlugin) -> None:
        if self._goes is not None:
            await self._goes(plugin)
        await plugin.close()


def _failed(message: str) -> PodStartError:
    return PodStartError(f"prepare dynamic resources: {message}", reason="FailedPrepareDynamicResources")


def _device(device: Any) -> PreparedDevice:
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=tuple(device.request_names),
        cdi_ids=tuple(device.cdi_device_ids),
        share_id=getattr(device, "share_id", ""),
    )


def _check_entries(method: str, claims: Iterable[ClaimCall], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of an answer: exactly one for each claim, none with an error."""
    names = {claim.uid: claim.name for claim in claims}
    for uid, entry in entries.items():
        if uid not in names:
            raise _failed(f"{method} returned result for unknown claim UID {uid}")
        if entry.error:
            raise _failed(f"{method} failed for ResourceClaim {names[uid]}: {entry.error}")
    if missing := len(names) - len(entries):
        raise _failed(f"{method} skipped {missing} ResourceClaims")
    return dict(entries)

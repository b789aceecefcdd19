"""A device plugin written by hand, as a vendor would without a framework, that keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from claimsmith.kubelet import deviceplugin_v1beta1_pb2 as v1beta1
from claimsmith.kubelet.services import (
    ALLOCATE,
    GET_OPTIONS,
    GET_PREFERRED,
    LIST_AND_WATCH,
    PRE_START,
    REGISTER_DEVICES,
    Method,
)

RESOURCE = "vendor.example/gpu"


class SmallPlugin:
    """Serves devices of one resource on a socket of its own.

    Args:
        folder: The folder of device plugins.
        devices: Device ids with their health.
        options: Options that it tells.
        endpoint: Name of its socket.
        numa: NUMA nodes of some devices.
    """

    def __init__(
        self,
        folder: Path,
        devices: Mapping[str, str],
        *,
        options: Mapping[str, bool] | None = None,
        endpoint: str = "gpu.sock",
        numa: Mapping[str, int] | None = None,
    ) -> None:
        self.folder, self.devices, self.options, self.endpoint = folder, dict(devices), options or {}, endpoint
        self.numa, self.calls, self.refusals = numa or {}, list[tuple[str, Any]](), dict[str, str]()
        self.prefers: tuple[str, ...] = ()
        self.prefers_first = False
        self._changed = asyncio.Event()

    async def __aenter__(self) -> SmallPlugin:
        self._server = grpc.aio.server()
        for method, rpc in (
            (GET_OPTIONS, grpc.unary_unary_rpc_method_handler(self._options, **codec(GET_OPTIONS))),
            (LIST_AND_WATCH, grpc.unary_stream_rpc_method_handler(self._watch, **codec(LIST_AND_WATCH))),
            (GET_PREFERRED, grpc.unary_unary_rpc_method_handler(self._prefer, **codec(GET_PREFERRED))),
            (ALLOCATE, grpc.unary_unary_rpc_method_handler(self._allocate, **codec(ALLOCATE))),
            (PRE_START, grpc.unary_unary_rpc_method_handler(self._pre_start, **codec(PRE_START))),
        ):
            handler = grpc.method_handlers_generic_handler(method.service, {method.name: rpc})
            self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix:{self.folder / self.endpoint}")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)

    async def register(self, *, version: str = "v1beta1", resource: str = RESOURCE) -> None:
        """Register with the kubelet; what it answers as an error is raised."""
        async with grpc.aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            call = channel.unary_unary(
                REGISTER_DEVICES.path, REGISTER_DEVICES.request.SerializeToString, REGISTER_DEVICES.response.FromString
            )
            await call(v1beta1.RegisterRequest(version=version, endpoint=self.endpoint, resource_name=resource))

    def set_health(self, **health: str) -> None:
        """Let devices fare otherwise."""
        self.devices.update({name.replace("_", "-"): value for name, value in health.items()})
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def asked(self, name: str) -> list[Any]:
        """Return what it was asked by one method."""
        return [facts for method, facts in self.calls if method == name]

    async def _options(self, request: Any, context: Any) -> v1beta1.DevicePluginOptions:
        return v1beta1.DevicePluginOptions(**self.options)

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[v1beta1.ListAndWatchResponse]:
        while True:
            changed = self._changed
            yield v1beta1.ListAndWatchResponse(devices=[self._describe(name) for name in self.devices])
            await changed.wait()

    def _describe(self, name: str) -> v1beta1.Device:
        device = v1beta1.Device(ID=name, health=self.devices[name])
        if name in self.numa:
            device.topology.nodes.add(ID=self.numa[name])
        return device

    async def _prefer(self, request: Any, context: Any) -> v1beta1.PreferredAllocationResponse:
        asked = request.container_requests[0]
        available, must = list(asked.available_deviceIDs), list(asked.must_include_deviceIDs)
        self.calls.append(("prefer", (available, must, asked.allocation_size)))
        await self._refuse("prefer", context)
        others = [name for name in sorted(available) if name not in must]
        first = [*sorted(must), *others][: asked.allocation_size]
        return v1beta1.PreferredAllocationResponse(
            container_responses=[{"deviceIDs": first if self.prefers_first else self.prefers}]
        )

    async def _allocate(self, request: Any, context: Any) -> v1beta1.AllocateResponse:
        ids = sorted(request.container_requests[0].devices_ids)
        self.calls.append(("allocate", ids))
        await self._refuse("allocate", context)
        answer = v1beta1.ContainerAllocateResponse(
            envs={"GPUS": ",".join(ids)},
            mounts=[{"container_path": "/opt/gpu", "host_path": "/usr/lib/gpu", "read_only": True}],
            devices=[{"container_path": f"/dev/{name}", "host_path": "/dev/null", "permissions": "rw"} for name in ids],
        )
        return v1beta1.AllocateResponse(container_responses=[answer])

    async def _pre_start(self, request: Any, context: Any) -> v1beta1.PreStartContainerResponse:
        self.calls.append(("pre_start", list(request.devices_ids)))
        await self._refuse("pre_start", context)
        return v1beta1.PreStartContainerResponse()

    async def _refuse(self, method: str, context: Any) -> None:
        if method in self.refusals:
            await context.abort(grpc.StatusCode.INTERNAL, self.refusals[method])


def codec(method: Method[Any, Any]) -> dict[str, Any]:
    """Return how the messages of a method are read and written."""
    return {
        "request_deserializer": method.request.FromString,
        "response_serializer": method.response.SerializeToString,
    }

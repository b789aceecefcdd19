"""A DRA driver's plugin written by hand, which keeps each call as it came and answers as a test says."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from claimsmith.kubelet import dra_health_v1_pb2 as health
from claimsmith.kubelet import dra_v1_pb2 as dra
from claimsmith.kubelet import pluginregistration_v1_pb2 as registration
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import DRA_V1, GET_INFO, HEALTH_V1, NOTIFY, PREPARE_V1, UNPREPARE_V1, WATCH_V1
from tests.scenarios.small_plugin import codec

DRIVER = "dra.vendor.example"
KIND = "vendor.example/gpu"
STATES = {"Healthy": health.HEALTHY, "Unhealthy": health.UNHEALTHY, "Unknown": health.UNKNOWN}

Results = Sequence[tuple[str, Sequence[str]] | tuple[str, Sequence[str], str]]
"""Devices of a claim, each with the requests that it is for, and the id of the share that it is."""


class SmallDra:
    """Serves one driver on its two sockets.

    Args:
        paths: The node's folders.
        devices: Devices that each claim gets, by the claim's name.
        services: Services that it registers with.
        name: Name of the driver.
    """

    def __init__(
        self,
        paths: NodePaths,
        devices: Mapping[str, Results],
        *,
        services: Sequence[str] = (DRA_V1, HEALTH_V1),
        name: str = DRIVER,
    ) -> None:
        self.paths, self.devices, self.services, self.name = paths, dict(devices), services, name
        self.calls: list[tuple[str, list[str]]] = []
        self.failures: dict[str, str] = {}
        self.said: list[tuple[bool, str]] = []
        self._health: dict[str, tuple[str, str]] = {}
        self._changed = asyncio.Event()
        self._told = asyncio.Event()

    async def __aenter__(self) -> SmallDra:
        folder = self.paths.folder_of(self.name)
        folder.mkdir(parents=True, exist_ok=True)
        self._write_cdi()
        self._service = await self._serve(
            folder / "dra.sock",
            (PREPARE_V1, grpc.unary_unary_rpc_method_handler(self._prepare, **codec(PREPARE_V1))),
            (UNPREPARE_V1, grpc.unary_unary_rpc_method_handler(self._unprepare, **codec(UNPREPARE_V1))),
            (WATCH_V1, grpc.unary_stream_rpc_method_handler(self._watch, **codec(WATCH_V1))),
        )
        self._registration = await self._serve(
            self.paths.plugins_registry / f"{self.name}-reg.sock",
            (GET_INFO, grpc.unary_unary_rpc_method_handler(self._info, **codec(GET_INFO))),
            (NOTIFY, grpc.unary_unary_rpc_method_handler(self._notify, **codec(NOTIFY))),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._registration.stop(0)
        await self._service.stop(0)

    async def registered(self) -> None:
        """Wait until the kubelet has said that it takes this plugin, since the last time that this was asked."""
        async with asyncio.timeout(60):
            await self._told.wait()
        self._told.clear()

    def set_health(self, device: str, state: str, message: str = "") -> None:
        """Let a device fare so from now on."""
        self._health[device] = (state, message)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _serve(self, path: Path, *handlers: tuple[Any, Any]) -> grpc.aio.Server:
        server = grpc.aio.server()
        for method, rpc in handlers:
            handler = grpc.method_handlers_generic_handler(method.service, {method.name: rpc})
            server.add_generic_rpc_handlers((handler,))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        return server

    def _write_cdi(self) -> None:
        """Write a CDI file with ten devices, whose edits are a variable, a device file and a mount."""
        devices = [
            {
                "name": f"gpu-{number}",
                "containerEdits": {
                    "env": [f"GPU_{number}=card-{number}"],
                    "deviceNodes": [{"path": f"/dev/gpu-{number}", "hostPath": "/dev/null", "type": "c"}],
                    "mounts": [
                        {"hostPath": "/usr/lib", "containerPath": f"/opt/gpu-{number}", "options": ["ro", "bind"]}
                    ],
                },
            }
            for number in range(10)
        ]
        spec = {"cdiVersion": "0.6.0", "kind": KIND, "devices": devices}
        (self.paths.cdi / "vendor.example-gpu.json").write_text(json.dumps(spec))

    async def _info(self, request: Any, context: Any) -> registration.PluginInfo:
        endpoint = str(self.paths.folder_of(self.name) / "dra.sock")
        return registration.PluginInfo(
            type="DRAPlugin", name=self.name, endpoint=endpoint, supported_versions=self.services
        )

    async def _notify(self, request: Any, context: Any) -> registration.RegistrationStatusResponse:
        self.said.append((request.plugin_registered, request.error))
        self._told.set()
        return registration.RegistrationStatusResponse()

    async def _prepare(self, request: Any, context: Any) -> dra.NodePrepareResourcesResponse:
        self.calls.append(("prepare", [claim.name for claim in request.claims]))
        return dra.NodePrepareResourcesResponse(claims=self._answer(request, self._prepare_one))

    async def _unprepare(self, request: Any, context: Any) -> dra.NodeUnprepareResourcesResponse:
        self.calls.append(("unprepare", [claim.name for claim in request.claims]))
        return dra.NodeUnprepareResourcesResponse(
            claims=self._answer(request, lambda _: dra.NodeUnprepareResourceResponse())
        )

    def _answer(self, request: Any, make: Callable[[str], Any]) -> dict[str, Any]:
        """Return an answer for each claim but those that a test wants left out, with the text `-`."""
        answers = {}
        for claim in request.claims:
            failure = self.failures.get(claim.name, "")
            if failure == "-":
                continue
            answers[claim.uid] = make(claim.name)
            if failure:
                answers[claim.uid].Clear()
                answers[claim.uid].error = failure
        return answers

    def _prepare_one(self, claim: str) -> dra.NodePrepareResourceResponse:
        devices = [
            dra.Device(
                request_names=requests,
                pool_name="pool",
                device_name=device,
                cdi_device_ids=[f"{KIND}={device}"],
                share_id=share[0] if share else None,
            )
            for device, requests, *share in self.devices[claim]
        ]
        return dra.NodePrepareResourceResponse(devices=devices)

    async def _watch(self, request: Any, context: Any) -> AsyncIterator[health.NodeWatchResourcesResponse]:
        while True:
            changed = self._changed
            now_s = int(time.time())
            yield health.NodeWatchResourcesResponse(
                devices=[
                    health.DeviceHealth(
                        device={"pool_name": "pool", "device_name": device},
                        health=STATES[state],
                        message=message,
                        last_updated_time=now_s,
                    )
                    for device, (state, message) in self._health.items()
                ]
            )
            await changed.wait()

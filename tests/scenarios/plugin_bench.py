"""One node with a driver behind real sockets, called as the kubelet calls it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc.aio

from claimsmith.errors import NotFoundError, UnreachableError
from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import PREPARE_V1, UNPREPARE_V1, Method
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.node.holding import Holding, HoldPolicy
from claimsmith.node.plugin import NodePlugin, PluginOptions
from claimsmith.testing.builders import allocated, claim, request, result
from tests.unit.node.recording_driver import RecordingDriver

DRIVER = RecordingDriver.name


class StoredClaims:
    """An API server that has some claims, or does not answer."""

    def __init__(self, *claims: ResourceClaim) -> None:
        self.claims = {item.ref: item for item in claims}
        self.down = False

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        if self.down:
            raise UnreachableError("the API server does not answer")
        if ref not in self.claims:
            raise NotFoundError(f"claim {ref}: found none", status=404, reason="NotFound")
        return self.claims[ref]


class PluginBench:
    """One node with a driver, and an API server."""

    def __init__(self, root: Path) -> None:
        self.paths = NodePaths.compact(root)
        self.paths.make()
        self.driver = RecordingDriver()
        self.holding, self.options = Holding(HoldPolicy(hold_s=0)), PluginOptions()
        self.claims = StoredClaims(*(ready(name, device) for name, device in (("a", "gpu-0"), ("b", "gpu-1"))))

    def plugin(self, *, instance_uid: str = "", serves_health: bool = False) -> NodePlugin:
        return NodePlugin(
            self.driver,
            paths=self.paths,
            node_name="node-a",
            claims=self.claims,
            boot_id="boot",
            options=replace(self.options, instance_uid=instance_uid, serves_health=serves_health, holding=self.holding),
        )

    @property
    def service(self) -> Path:
        return self.paths.folder_of(DRIVER) / "dra.sock"

    @property
    def registrar(self) -> Path:
        return self.paths.plugins_registry / f"{DRIVER}-reg.sock"

    def sockets(self) -> list[str]:
        return sorted(path.name for path in self.paths.plugins_registry.parent.rglob("*") if path.is_socket())

    def cdi_files(self) -> int:
        return len(list(self.paths.cdi.iterdir()))


def ready(name: str, device: str) -> ResourceClaim:
    return allocated(claim(name, request()), result(device), reserved_for=["pod"])


def named(*names: str) -> list[v1.Claim]:
    return [v1.Claim(namespace="default", name=name, uid=f"uid-{name}") for name in names]


async def call(path: Path, method: Method[Any, Any], message: Any, *, timeout_s: float = 60.0) -> Any:
    """Call a service; it learns how long the caller waits."""
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        rpc = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return await rpc(message, timeout=timeout_s)


async def prepare(bench: PluginBench, *names: str) -> dict[str, v1.NodePrepareResourceResponse]:
    answer = await call(bench.service, PREPARE_V1, v1.NodePrepareResourcesRequest(claims=named(*names)))
    return dict(answer.claims)


async def unprepare(bench: PluginBench, *names: str) -> dict[str, str]:
    answer = await call(bench.service, UNPREPARE_V1, v1.NodeUnprepareResourcesRequest(claims=named(*names)))
    return {uid: entry.error for uid, entry in answer.claims.items()}

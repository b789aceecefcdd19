"""An embedded API server with one node, and helpers to look at its slices over real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from claimsmith.api.kinds import NODE, RESOURCE_SLICE, Kind
from claimsmith.api.resource import parse_resource_slice
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient, KubeObject, Preconditions
from claimsmith.model.pool import ResourceSlice

WAIT_S = 60.0


class CountingClient(KubeClient):
    """A client that counts writes, and whose watches a test can break."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client._transport)
        self.writes = 0

    async def create(self, kind: Kind, obj: Mapping[str, Any], *, namespace: str = "") -> KubeObject:
        self.writes += 1
        return await super().create(kind, obj, namespace=namespace)

    async def update(self, kind: Kind, obj: Mapping[str, Any], *, subresource: str = "") -> KubeObject:
        self.writes += 1
        return await super().update(kind, obj, subresource=subresource)

    async def delete(
        self, kind: Kind, name: str, *, namespace: str = "", preconditions: Preconditions | None = None,
        grace_period_s: int | None = None, propagation: str = "",
    ) -> KubeObject:  # fmt: skip
        self.writes += 1
        return await super().delete(kind, name, namespace=namespace, preconditions=preconditions)


@contextlib.asynccontextmanager
async def api_server(*nodes: str) -> AsyncIterator[KubeClient]:
    """Serve an API with some nodes; gives a client of it."""
    async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
        client = KubeClient.for_url(server.url)
        for name in nodes:
            await client.create(NODE, {"metadata": {"name": name}})
        try:
            yield client
        finally:
            await client.close()


async def list_slices(client: KubeClient) -> tuple[ResourceSlice, ...]:
    """Return all slices by name."""
    return tuple(parse_resource_slice(obj) for obj in (await client.list(RESOURCE_SLICE)).items)


async def wait_for(client: KubeClient, holds: Callable[[tuple[ResourceSlice, ...]], bool]) -> tuple[ResourceSlice, ...]:
    """Return the slices once something holds of them."""
    async with asyncio.timeout(WAIT_S):
        while True:
            listed = await client.list(RESOURCE_SLICE)
            slices = tuple(map(parse_resource_slice, listed.items))
            if holds(slices):
                return slices
            async for event in client.watch(RESOURCE_SLICE, resource_version=listed.resource_version, timeout_s=5):
                if event.type != "BOOKMARK":
                    break


def shows(*names: str) -> Callable[[tuple[ResourceSlice, ...]], bool]:
    """Return a test of slices: one slice, with these devices."""
    return lambda slices: [[device.name for device in item.devices] for item in slices] == [list(names)]

"""Talks to the API server's application without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlencode, urlsplit

from claimsmith.embedded.api.app import ApiApp
from claimsmith.embedded.api.garbage import GarbageCollector
from claimsmith.embedded.api.logs import LogSource
from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.startup import create_first_objects
from claimsmith.embedded.api.verbs import Verbs
from claimsmith.embedded.store import Store, StoreLimits
from tests.unit.embedded.stored import FakeClock

__all__ = [
    "CLAIMS",
    "CLASSES",
    "MERGE",
    "NODES",
    "PODS",
    "SLICES",
    "STRATEGIC",
    "Api",
    "Reply",
    "claim",
    "open_api",
    "pod",
]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(slots=True)
class Reply:
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes
    pieces: list[bytes] = field(default_factory=list)

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of a watch."""
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def reason(self) -> str:
        """The reason of a Status; empty for anything else."""
        found: str = self.json.get("reason", "")
        return found

    @property
    def message(self) -> str:
        """The message of a Status; empty for anything else."""
        found: str = self.json.get("message", "")
        return found


class Api:
    """A client of one application."""

    def __init__(self, app: ApiApp, store: Store, clock: FakeClock) -> None:
        self.app, self.store, self.clock = app, store, clock

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        gone: asyncio.Event | None = None,
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> Reply:
        """Send one request; `gone` tells the server that the client went away."""
        parts = urlsplit(path)
        text = "&".join(part for part in (parts.query, urlencode(query)) if part)
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        scope = {
            "type": "http",
            "method": method,
            "path": parts.path,
            "query_string": text.encode(),
            "headers": [
                (b"content-type", content_type.encode()),
                (b"accept", accept.encode()),
                (b"user-agent", b"tester/1.0"),
                *((name.encode(), value.encode()) for name, value in (headers or {}).items()),
            ],
        }
        reply, sent = Reply(0, {}, b""), False

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if not sent and method not in ("GET", "HEAD"):
                sent = True
                return {"type": "http.request", "body": data, "more_body": False}
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                reply.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                reply.pieces.append(message.get("body", b""))
                reply.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return reply

    async def get(self, path: str, **options: Any) -> Reply:
        """GET a path."""
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Reply:
        """POST an object."""
        return await self.request("POST", path, body, **options)

    async def put(self, path: str, body: Any, **options: Any) -> Reply:
        """PUT an object."""
        return await self.request("PUT", path, body, **options)

    async def patch(self, path: str, body: Any, *, kind: str = MERGE, **options: Any) -> Reply:
        """PATCH an object."""
        return await self.request("PATCH", path, body, content_type=kind, **options)

    async def apply(self, path: str, body: Any, *, manager: str = "me", **options: Any) -> Reply:
        """Apply a configuration on the server's side."""
        return await self.patch(path, body, kind="application/apply-patch+yaml", fieldManager=manager, **options)

    async def delete(self, path: str, body: Any = None, **options: Any) -> Reply:
        """DELETE an object."""
        return await self.request("DELETE", path, body, **options)

    async def settle(self) -> None:
        """Let the garbage collector do all that is to be done."""
        before = -1
        while before != self.store.version:
            before = self.store.version
            for _ in range(10):
                await asyncio.sleep(0)


@asynccontextmanager
async def open_api(
    *,
    logs: LogSource | None = None,
    token: str = "",
    limits: StoreLimits | None = None,
    hosts: tuple[str, ...] = (),
) -> AsyncIterator[Api]:
    """Open a cluster with its first objects; uids count up, the clock stands still, generated names end in `bbbbb`."""
    clock, uids = FakeClock(), count(1)
    async with Store(stored_kinds(), clock=clock, new_uid=lambda: f"uid-{next(uids)}", limits=limits) as store:
        objects = ObjectApi(store, choose=lambda text: text[0])
        collecting = asyncio.create_task(GarbageCollector(objects).run())
        await create_first_objects(objects)
        try:
            yield Api(ApiApp(Verbs(objects, logs=logs), token=token, hosts=hosts), store, clock)
        finally:
            collecting.cancel()
            await asyncio.wait([collecting])


def pod(name: str = "web", *, node_name: str = "", **metadata: Any) -> dict[str, Any]:
    """Return a manifest of a pod with one container `main`."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "example/one:1"}]}
    if node_name:
        spec["nodeName"] = node_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def claim(name: str = "gpu", **metadata: Any) -> dict[str, Any]:
    """Return a manifest of a claim of one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }

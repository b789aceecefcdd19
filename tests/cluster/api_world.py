"""Two API servers that tests ask the same: the one of Kubernetes, and the embedded one with its controllers."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.controllers.all import Controllers
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient
from claimsmith.kube.informers import Informers
from tests.cluster.cluster import RealCluster

__all__ = ["ApiWorld", "Reply", "embedded_api", "real_api"]

_TIMEOUT_S: Final = 180.0
_AGENT: Final = "equal/1"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered: the body as JSON, as text where it is no JSON, as a list of events for a watch."""

    status: int
    headers: Mapping[str, str]
    body: Any


class ApiWorld:
    """One API server.

    Args:
        name: How failures call it.
        url: Its address.
        token: Bearer token; empty for none.
        context: How to trust it; None for plain HTTP.
    """

    def __init__(self, name: str, url: str, *, token: str = "", context: ssl.SSLContext | None = None) -> None:
        self.name = name
        self._address = urlsplit(url)
        self._context = context
        self.forget: Callable[[], None] = lambda: None
        """Has the server forget all changes of before: a real one knows none from before its start."""
        self._headers = {"User-Agent": _AGENT, **({"Authorization": f"Bearer {token}"} if token else {})}
        self._kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Reply:
        """Send a request over the one connection and return the answer."""
        if self._kept is None:
            self._kept = self._connect()
        try:
            reply = self._exchange(self._kept, method, path, body, headers or {})
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if reply.headers.get("connection") == "close":
            self.close()
        return reply

    def watch(self, path: str, headers: Mapping[str, str] | None = None) -> Reply:
        """Return all events of a watch, which must have a `timeoutSeconds` or end at once."""
        with closing(self._connect()) as connection:
            return self._exchange(connection, "GET", path, b"", headers or {})

    def follow(self, path: str) -> Generator[Any]:
        """Yield the events of a watch as they come; close the generator to end it."""
        with closing(self._connect()) as connection:
            connection.request("GET", path, headers=self._headers)
            with connection.getresponse() as response:
                for line in response:
                    yield json.loads(line)

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> Reply:
        connection.request(method, path, body=body or None, headers={**self._headers, **headers})
        with connection.getresponse() as response:
            content = response.read()
            found = {name.lower(): value for name, value in response.getheaders() if name.lower() != "warning"}
            warnings = response.headers.get_all("Warning") or []
        joined = {"warning": ", ".join(warnings)} if warnings else {}
        return Reply(response.status, {**found, **joined}, _parse(content))

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._context is None:
            return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=self._context)


@contextmanager
def real_api(cluster: RealCluster) -> Iterator[ApiWorld]:
    """Give the API server of a real cluster."""
    context = ssl.create_default_context(cafile=cluster.folder / "certs" / "apiserver.crt")
    with closing(ApiWorld("real", cluster.layout.server, token="admin", context=context)) as world:

        def forget() -> None:
            asyncio.run(cluster.restart("apiserver"))
            world.close()

        world.forget = forget
        yield world


@contextmanager
def embedded_api() -> Iterator[ApiWorld]:
    """Run an embedded API server and its controllers in a thread of their own."""
    served = _Served()
    thread = threading.Thread(target=asyncio.run, args=[served.run()], name="embedded API server")
    thread.start()
    try:
        assert served.ready.wait(_TIMEOUT_S), "the embedded API server does not start"
        with closing(ApiWorld("embedded", served.url)) as world:
            world.forget = served.forget
            yield world
    finally:
        served.end()
        thread.join(_TIMEOUT_S)


class _Served:
    def __init__(self) -> None:
        self.ready, self.url = threading.Event(), ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    def forget(self) -> None:
        assert self._loop is not None
        done = threading.Event()

        def compact() -> None:
            self.store.compact()
            done.set()

        self._loop.call_soon_threadsafe(compact)
        assert done.wait(_TIMEOUT_S)

    def end(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ended.set)

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
            self.store = store
            client = KubeClient.for_url(server.url)
            informers = Informers(client)
            tasks = [asyncio.create_task(work) for work in (Controllers(client, informers).run(), informers.run())]
            self.url = server.url
            self.ready.set()
            await self._ended.wait()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await client.close()


def _parse(content: bytes) -> Any:
    text = content.decode(errors="replace")
    try:
        return json.loads(text) if text else None
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return text

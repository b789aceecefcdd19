"""The API server on a socket of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final

import uvicorn

from claimsmith.embedded.api.app import ApiApp
from claimsmith.embedded.api.expiry import expire_events
from claimsmith.embedded.api.garbage import GarbageCollector
from claimsmith.embedded.api.logs import LogSource
from claimsmith.embedded.api.objects import ObjectApi
from claimsmith.embedded.api.startup import create_first_objects
from claimsmith.embedded.api.verbs import Verbs
from claimsmith.embedded.store import Store
from claimsmith.errors import ConfigError

__all__ = ["EmbeddedApiServer", "kubeconfig_for"]

_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_BACKLOG: Final = 1024
_END_TIMEOUT_S: Final = 5


class EmbeddedApiServer:
    """Serves the objects of a store over HTTP while the context is open.

    Args:
        store: The objects; made with `stored_kinds()`.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        allow_remote: Permit an address that other machines can reach. There is no encryption: use it in a
            network that you trust.
        token: Bearer token that every request must carry; empty to let everybody in.
        logs: Where the output of containers comes from; None if nothing runs here.

    Raises:
        ConfigError: The address is not of this machine alone, or the port is taken.
    """

    def __init__(
        self,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allow_remote: bool = False,
        token: str = "",
        logs: LogSource | None = None,
    ) -> None:
        if not allow_remote and not _is_loopback(host):
            raise ConfigError(
                f"API server address {host}: other machines could reach it, allowed are loopback addresses; "
                "use 127.0.0.1, or permit remote access explicitly"
            )
        self.store, self.token = store, token
        self.api = ObjectApi(store)
        self._host, self._port = host, port
        self._app = ApiApp(
            Verbs(self.api, logs=logs), token=token, hosts=() if allow_remote else {*_LOOPBACK_NAMES, host}
        )
        self._server: _QuietServer | None = None
        self._task: asyncio.Task[None] | None = None
        self._sweepers: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        """Return the address of the server, such as `http://127.0.0.1:40123`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> EmbeddedApiServer:
        listener = _listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        await create_first_objects(self.api)
        self._sweepers = [
            asyncio.create_task(GarbageCollector(self.api).run(), name="garbage-collector"),
            asyncio.create_task(expire_events(self.api), name="event-expiry"),
        ]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_END_TIMEOUT_S,
        )
        self._server = _QuietServer(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]), name="api-server")
        await self._server.ready.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.close()
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
        for sweeper in self._sweepers:
            sweeper.cancel()
        await asyncio.gather(*self._sweepers, return_exceptions=True)


class _QuietServer(uvicorn.Server):
    """A uvicorn server that tells when it listens, and leaves signals to the program around it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def kubeconfig_for(url: str, *, token: str = "", name: str = "claimsmith") -> dict[str, Any]:
    """Return a kubeconfig that points kubectl and client libraries to a server.

    Args:
        url: Address of the server.
        token: Bearer token; empty for none.
        name: Name of the cluster, the user and the context.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {"token": token} if token else {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only for sockets that name their protocol.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"API server address {host}:{port}: can't listen there ({error.strerror}); name a free port, or 0 for any"
        ) from error
    listener.setblocking(False)
    return listener

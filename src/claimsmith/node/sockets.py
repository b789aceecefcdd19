"""One gRPC server on one unix socket, which takes its name only once it is served and gives up only what is its own.

gRPC binds a hidden name in the same folder; the socket is then renamed. So a client never meets a name that nobody
serves, an old socket is replaced in one step, and gRPC, which removes the name it bound when it stops, can't remove the
socket of a successor.

In a folder that the kubelet watches, the hidden name is in a hidden folder that stays: the kubelet looks at each name
that appears, and logs an error about one that is gone by then. It does not look into hidden folders.

Source: handleCreateEvent in pkg/kubelet/pluginmanager/pluginwatcher of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import socket
import stat
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from claimsmith.errors import ConfigError, PluginCallError
from claimsmith.kubelet.paths import parse_socket_path
from claimsmith.kubelet.services import Method

__all__ = [
    "Handler",
    "Identity",
    "SocketServer",
    "find_identity",
    "remove_dead_sockets",
    "stream_handler",
    "timed_handler",
    "unary_handler",
]

Identity = tuple[int, int, int]
"""What tells a file from others that have had its name: device, inode and time of the last change."""
_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)
_GRACE_S: Final = 1.0
_LONGEST_CALL_S: Final = 45.0
"""Source: defaultClientCallTimeout in pkg/kubelet/cm/dra/plugin/dra_plugin.go of kubernetes v1.37.2."""
_COVER: Final = re.compile(r"\.[0-9a-f]{6}")
_OLD_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """What answers one method."""

    method: Method[Any, Any]
    rpc: grpc.RpcMethodHandler[Any, Any]


def unary_handler(method: Method[_Request, _Response], answer: Callable[[_Request], Awaitable[_Response]]) -> Handler:
    """Return the handler of a method that gives one response."""

    async def behave(request: _Request, waits_s: float | None) -> _Response:
        del waits_s
        return await answer(request)

    return timed_handler(method, behave)


def timed_handler(
    method: Method[_Request, _Response], answer: Callable[[_Request, float | None], Awaitable[_Response]]
) -> Handler:
    """Return the handler of a method that gives one response, and is told how many seconds its caller waits.

    What can't be read, and a `PluginCallError`, ends the call as an invalid argument, without a word in the log.
    """

    async def behave(data: bytes, context: grpc.aio.ServicerContext[bytes, _Response]) -> _Response:
        request = await _read(method, data, context)
        try:
            return await answer(request, context.time_remaining())
        except PluginCallError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    rpc = grpc.unary_unary_rpc_method_handler(behave, response_serializer=method.response.SerializeToString)
    return Handler(method=method, rpc=rpc)


def stream_handler(
    method: Method[_Request, _Response], answer: Callable[[_Request], AsyncIterator[_Response]]
) -> Handler:
    """Return the handler of a method that gives a stream of responses."""

    async def behave(data: bytes, context: grpc.aio.ServicerContext[bytes, _Response]) -> AsyncIterator[_Response]:
        async for response in answer(await _read(method, data, context)):
            yield response

    rpc = grpc.unary_stream_rpc_method_handler(behave, response_serializer=method.response.SerializeToString)
    return Handler(method=method, rpc=rpc)


async def _read(
    method: Method[_Request, _Response], data: bytes, context: grpc.aio.ServicerContext[bytes, _Response]
) -> _Request:
    """Return the request, or end the call: left to gRPC, a text that is no UTF-8 fills the log with a traceback."""
    try:
        return method.request.FromString(data)
    except DecodeError as error:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, f"{method.path}: found no request of this method: {error}"
        )


class SocketServer:
    """Serves methods on a unix socket.

    Args:
        path: Where the socket is; an old socket that nobody serves is replaced.
        is_watched: Whether the kubelet watches the folder.

    Raises:
        ConfigError: The path is too long for a socket.
    """

    def __init__(self, path: Path, handlers: Iterable[Handler], *, is_watched: bool = False) -> None:
        self.path = parse_socket_path(path)
        self._hidden = path.with_name(f".{os.urandom(3).hex()}")
        self._cover: Path | None = None
        if is_watched:
            self._cover, self._hidden = self._hidden, self._hidden / "s"
        parse_socket_path(self._hidden)
        self._handlers = tuple(handlers)
        self._server: grpc.aio.Server | None = None
        self._identity: Identity | None = None
        self._endings: dict[grpc.aio.Server, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Serve.

        Raises:
            ConfigError: The folder can't be used, something else than a socket has the path, or another process
                serves it.
        """
        check_replaceable(self.path)
        server = grpc.aio.server()
        for handler in self._handlers:
            method = handler.method
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(method.service, {method.name: handler.rpc}),)
            )
        try:
            _check_writable(self.path.parent)
            if self._cover is not None:
                _remove_old_covers(self._cover.parent)
                self._cover.mkdir(exist_ok=True)
            server.add_insecure_port(f"unix:{self._hidden}")
            await _start_whole(server)
            os.rename(self._hidden, self.path)
        except asyncio.CancelledError:
            await self._end(server, 0)
            raise
        except (RuntimeError, OSError) as error:
            await self._end(server, 0)
            raise ConfigError(
                f"socket {self.path}: can't be served: {str(error).splitlines()[0]}, allowed a writable folder; "
                "correct its permissions or choose another folder"
            ) from error
        self._server, self._identity = server, find_identity(self.path)

    @property
    def is_lost(self) -> bool:
        """Whether somebody has removed or replaced the socket that is served."""
        return self._server is not None and not self.is_there

    @property
    def is_there(self) -> bool:
        """Whether it serves, and its socket has its name."""
        return self._server is not None and find_identity(self.path) == self._identity

    async def serve_again(self) -> None:
        """Serve on a new socket of the same name; calls that run on the one before go on, new ones come here.

        Raises:
            ConfigError: As from `start`; what was served before goes on.
        """
        before = self._server
        await self.start()
        if before is not None:
            ending = asyncio.create_task(self._end(before, _LONGEST_CALL_S), name=f"end {self.path.name}")
            self._endings[before] = ending
            ending.add_done_callback(lambda _: self._endings.pop(before, None))

    async def stop(self) -> None:
        """Take the socket away, if it is still this server's, and end after the running calls; may be called twice."""
        server, self._server = self._server, None
        await asyncio.gather(*(self._end(before, _GRACE_S) for before in tuple(self._endings)))
        if server is None:
            return
        if self._identity is not None and find_identity(self.path) == self._identity:
            with contextlib.suppress(OSError):  # On a read-only disk it stays, and nobody serves it.
                self.path.unlink()
        await self._end(server, _GRACE_S)

    async def _end(self, server: grpc.aio.Server, grace_s: float) -> None:
        await server.stop(grace_s)
        if self._cover is not None:
            with contextlib.suppress(OSError):
                self._cover.rmdir()


async def _start_whole(server: grpc.aio.Server) -> None:
    """Start a server also when cancelled meanwhile: gRPC can't stop one that has started by half."""
    starting = asyncio.ensure_future(server.start())
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await starting
        raise


def _check_writable(folder: Path) -> None:
    """Raise what writing would raise: left to gRPC, it prints a line of its own at each try."""
    if folder.exists() and not os.access(folder, os.W_OK):
        raise OSError(errno.EROFS, "found a folder that can't be written")


def check_replaceable(path: Path) -> None:
    """Check that a path is free, or has a socket that nobody serves any more.

    Raises:
        ConfigError: It has something else.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"socket {path}: can't be served: {error.strerror or error}, allowed a usable folder; choose another folder"
        ) from error
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"socket {path}: found another kind of file, allowed a socket or nothing; remove the file")
    if _is_served(path):
        raise ConfigError(
            f"socket {path}: found another process that serves it, allowed one; "
            "stop that process, or give both an instance uid"
        )


def remove_dead_sockets(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Remove sockets that nobody serves any more, as a killed process leaves them; return which.

    A socket here gets its name only once it is served, so that none of a process that starts is taken for dead.
    """
    removed = []
    for path in paths:
        try:
            if stat.S_ISSOCK(path.lstat().st_mode) and not _is_served(path):
                path.unlink()
                removed.append(path)
        except OSError:
            continue  # It is gone already, or not ours to remove.
    return tuple(removed)


def _remove_old_covers(folder: Path) -> None:
    """Remove the hidden folders that killed processes have left."""
    for path in folder.glob(".*"):
        # A folder that is still needed is only just made, or has something in it.
        with contextlib.suppress(OSError):
            if _COVER.fullmatch(path.name) and time.time() - path.stat().st_mtime > _OLD_S:
                path.rmdir()


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True  # Somebody is there, but too busy to answer.
        return True


def find_identity(path: Path) -> Identity | None:
    """Return which file is there now; None when there is none. An inode alone may be that of a file that has gone."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns)

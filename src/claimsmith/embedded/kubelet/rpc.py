"""Calls to plugins and services for clients, on unix sockets; errors are told in the words of a real kubelet.

A service binds a hidden name and is then renamed: nobody meets a socket that nobody serves, and gRPC, which removes the
name that it bound when it stops, can't remove the socket of a successor.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from claimsmith.errors import ConfigError
from claimsmith.kubelet.paths import parse_socket_path
from claimsmith.kubelet.services import Method

__all__ = ["Answer", "RpcServer", "answer", "describe_failure", "unary"]

_GRACE_S: Final = 0.5
_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)
Answer = tuple[Method[Any, Any], "grpc.RpcMethodHandler[Any, Any]"]
"""A method and what answers it."""
_GO_NAMES: Final = {"OK": "OK", "CANCELLED": "Canceled"}


def describe_failure(error: grpc.aio.AioRpcError) -> str:
    """Return a failed call as Go prints it, which is what events and status of real pods show."""
    name = error.code().name
    words = _GO_NAMES.get(name) or "".join(word.title() for word in name.split("_"))
    return f"rpc error: code = {words} desc = {error.details()}"


def unary(channel: grpc.aio.Channel, method: Method[_Request, _Response]) -> Callable[..., Awaitable[_Response]]:
    """Return what calls a method that gives one response."""
    call: Callable[..., Awaitable[_Response]] = channel.unary_unary(
        method.path,
        request_serializer=method.request.SerializeToString,
        response_deserializer=method.response.FromString,
    )
    return call


def answer(
    method: Method[_Request, _Response], behave: Callable[[_Request], Awaitable[_Response]], *, refuse: type[Exception]
) -> Answer:
    """Return what answers a method.

    Args:
        method: The method.
        behave: Makes the response.
        refuse: What it raises when it refuses; the caller is told the text with the code Unknown, as by a server in Go.
    """

    async def serve(request: _Request, context: grpc.aio.ServicerContext[_Request, _Response]) -> _Response:
        try:
            return await behave(request)
        except refuse as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
            raise

    handler = grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=method.response.SerializeToString,
    )
    return method, handler


class RpcServer:
    """Serves methods on a unix socket.

    Args:
        path: Where the socket is; an old one is replaced.

    Raises:
        ConfigError: The path is too long for a socket.
    """

    def __init__(self, path: Path, answers: Iterable[Answer]) -> None:
        self._path = parse_socket_path(path)
        self._hidden = parse_socket_path(path.with_name(f".{os.urandom(3).hex()}"))
        self._answers = tuple(answers)
        self._server: grpc.aio.Server | None = None
        self._inode: tuple[int, int] | None = None

    async def start(self) -> None:
        """Serve.

        Raises:
            ConfigError: The folder can't be used.
        """
        server = grpc.aio.server()
        for method, handler in self._answers:
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(method.service, {method.name: handler}),)
            )
        try:
            server.add_insecure_port(f"unix:{self._hidden}")
            starting = asyncio.ensure_future(server.start())
            try:
                await asyncio.shield(starting)
            except asyncio.CancelledError:  # gRPC can't stop a server that has started by half.
                await starting
                raise
            self._hidden.rename(self._path)
        except asyncio.CancelledError:
            await server.stop(0)
            raise
        except (RuntimeError, OSError) as error:
            await server.stop(0)
            raise ConfigError(
                f"socket {self._path}: can't be served: {str(error).splitlines()[0]}, allowed a writable folder; "
                "correct its permissions or choose another folder"
            ) from error
        self._server, self._inode = server, _find_inode(self._path)

    async def stop(self) -> None:
        """Take the socket away, if it is still this server's, and end after the running calls; may be called twice."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._inode is not None and _find_inode(self._path) == self._inode:
            self._path.unlink(missing_ok=True)
        await server.stop(_GRACE_S)


def _find_inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""A way to the API server that notes what right each request takes, and can be cut."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from claimsmith.errors import ForbiddenError, UnreachableError
from claimsmith.kube.direct import DirectTransport
from claimsmith.kube.transport import Answer, Request

__all__ = ["WatchedTransport"]

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class WatchedTransport:
    """A real connection.

    Attributes:
        used: How often each right was used, as verb, API group and resource.
        cut: Whether no request gets an answer.
        forbidden: Resource that may not be read; empty for none.
        refused: Set once a request got none.
    """

    def __init__(self, url: str) -> None:
        self._inner = DirectTransport(url)
        self.used: Counter[tuple[str, str, str]] = Counter()
        self.cut, self.forbidden = False, ""
        self.refused = asyncio.Event()

    async def send(self, request: Request) -> Answer:
        self._note(request)
        return await self._inner.send(request)

    async def stream(self, request: Request) -> AsyncGenerator[bytes | Answer, None]:
        self._note(request)
        async with aclosing(self._inner.stream(request)) as lines:
            async for line in lines:
                yield line

    async def close(self) -> None:
        await self._inner.close()

    def _note(self, request: Request) -> None:
        if self.cut:
            self.refused.set()
            raise UnreachableError(f"{request.method}: connection refused, allowed an answer; start the server")
        right = _find_right(request)
        if right[2] == self.forbidden:
            self.refused.set()
            raise ForbiddenError("forbidden by the test", status=403)
        self.used[right] += 1


def _find_right(request: Request) -> tuple[str, str, str]:
    path, _, query = request.target.partition("?")
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource = "/".join((rest[0], *rest[2:]))
    if request.method != "GET":
        return _VERBS[request.method], group, resource
    if len(rest) > 1:
        return "get", group, resource
    return ("watch" if "watch=" in query else "list"), group, resource

"""A way to the API server that fails as a case wants, and counts what goes over it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal

from claimsmith.errors import UnreachableError
from claimsmith.kube.direct import DirectTransport
from claimsmith.kube.transport import Answer, Request

BreakForm = Literal["error-event", "http-status"]


@dataclass(eq=False)
class _Break:
    """What ends the watches that run."""

    happened: asyncio.Event = field(default_factory=asyncio.Event)
    last_line: bytes = b""


class FlakyTransport:
    """A real connection, with faults.

    Attributes:
        down: No request gets an answer.
        status: Every request is answered with this HTTP status; 0: by the server.
        writes: Requests that change something, by method and path.
        failed: Requests that were answered by a fault.
    """

    def __init__(self, url: str) -> None:
        self._inner = DirectTransport(url)
        self.down, self.status = False, 0
        self.writes: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self._open = asyncio.Event()
        self._open.set()
        self._break = _Break()
        self._refusals = 0
        self._watches = 0

    @property
    def written(self) -> int:
        """Number of requests that changed something."""
        return sum(self.writes.values())

    async def send(self, request: Request) -> Answer:
        path = request.target.partition("?")[0]
        if (answer := self._fail(request.method, path)) is not None:
            return answer
        if request.method == "GET":
            await self._open.wait()
        else:
            self.writes[f"{request.method} {path}"] += 1
        return await self._inner.send(request)

    async def stream(self, request: Request) -> AsyncGenerator[bytes | Answer, None]:
        if (answer := self._fail("WATCH", request.target)) is not None:
            yield answer
            return
        await self._open.wait()
        if self._refusals:
            self._refusals -= 1
            yield Answer(status=410, body=_gone())
            return
        broken = self._break
        self._watches += 1
        try:
            async with aclosing(self._inner.stream(request)) as lines:
                async for line in _until(lines, broken.happened):
                    yield line
            if broken.happened.is_set() and broken.last_line:
                yield broken.last_line
        finally:
            self._watches -= 1

    async def close(self) -> None:
        await self._inner.close()

    def break_watches(self, form: BreakForm) -> None:
        """End all watches as a server does that has forgotten where they were; nothing is read before `resume`."""
        self._open.clear()
        if form == "error-event":
            self._break.last_line = json.dumps({"type": "ERROR", "object": json.loads(_gone())}).encode()
        else:
            self._refusals = self._watches
        self._break.happened.set()
        self._break = _Break()

    def resume(self) -> None:
        """Let the readers go on."""
        self._open.set()

    def _fail(self, method: str, path: str) -> Answer | None:
        if not (self.down or self.status):
            return None
        self.failed[f"{method} {path}"] += 1
        if self.down:
            raise UnreachableError(f"{method} {path}: connection refused, allowed a complete answer; start the server")
        return Answer(status=self.status, body=_status(self.status, "InternalError"))


async def _until(
    lines: AsyncGenerator[bytes | Answer, None], happened: asyncio.Event
) -> AsyncGenerator[bytes | Answer, None]:
    """Yield lines until they end or something happens."""
    stop = asyncio.ensure_future(happened.wait())
    line = asyncio.ensure_future(anext(lines, None))
    try:
        while True:
            await asyncio.wait({line, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not line.done() or (found := line.result()) is None:
                return
            yield found
            line = asyncio.ensure_future(anext(lines, None))
    finally:
        stop.cancel()
        line.cancel()
        await asyncio.wait({line})


def _gone() -> bytes:
    return _status(410, "Expired")


def _status(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code}
    return json.dumps({**status, "reason": reason, "message": f"answered by the test: {reason}"}).encode()

from __future__ import annotations

import asyncio

import pytest

from claimsmith.errors import UnreachableError
from claimsmith.kube.direct import IDLE_MAX_S
from claimsmith.kube.transport import Answer
from claimsmith.kube.warm import keep_warm


class Server:
    """Counts what it is asked, and answers every second time."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fetch(self, path: str) -> Answer:
        self.asked.append(path)
        if len(self.asked) % 2:
            raise UnreachableError("no answer")
        return Answer(status=200)


async def test_a_connection_is_used_before_it_has_rested_too_long_also_after_failures() -> None:
    server, pauses_s = Server(), list[float]()

    async def sleep(pause_s: float) -> None:
        pauses_s.append(pause_s)
        if len(pauses_s) > 4:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await keep_warm(server, sleep=sleep)

    assert server.asked == ["/version"] * 4
    assert max(pauses_s) < IDLE_MAX_S

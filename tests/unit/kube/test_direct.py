from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from claimsmith.errors import KubeconfigError, UnreachableError
from claimsmith.kube.direct import DirectTransport
from claimsmith.kube.transport import Answer, Request

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = Request(method="GET", target="/x", timeout_s=60.0)


@asynccontextmanager
async def served(serve: Serve, *, now: list[float] | None = None) -> AsyncIterator[DirectTransport]:
    """A transport to a server on the loopback that answers each connection with `serve`."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    moment = now or [0.0]
    transport = DirectTransport(f"http://127.0.0.1:{port}", clock=lambda: moment[0])
    try:
        yield transport
    finally:
        await transport.close()
        server.close()


class Server:
    """Answers every request of a connection with the same bytes and counts connections and requests."""

    def __init__(self, answer: bytes, *, requests_max: int = 1000) -> None:
        self.answer, self.requests_max = answer, requests_max
        self.connections, self.heads = 0, list[bytes]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            for _ in range(self.requests_max):
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def test_requests_one_after_another_share_a_connection() -> None:
    server = Server(OK)
    async with served(server) as transport:
        answers = [await transport.send(GET) for _ in range(3)]

    assert [answer.body for answer in answers] == [b"ok"] * 3
    assert server.connections == 1


async def test_a_connection_that_rested_too_long_is_not_used_again() -> None:
    server, now = Server(OK), [0.0]
    async with served(server, now=now) as transport:
        await transport.send(GET)
        now[0] = 60.0
        await transport.send(GET)

    assert server.connections == 2


async def test_reading_again_hides_a_connection_that_the_server_closed() -> None:
    server = Server(OK, requests_max=1)
    async with served(server) as transport:
        answers = [await transport.send(GET) for _ in range(3)]

    assert [answer.status for answer in answers] == [200, 200, 200]


async def test_a_chunked_body_is_put_together() -> None:
    chunked = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n"
    async with served(Server(chunked)) as transport:
        answers = [await transport.send(GET) for _ in range(2)]

    assert answers == [Answer(status=201, headers={"transfer-encoding": "chunked"}, body=b"abcde")] * 2


async def test_a_server_that_does_not_answer_is_unreachable_and_named() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with served(silent) as transport:
        with pytest.raises(UnreachableError, match=r"GET /x at 127\.0\.0\.1:\d+: no answer within 0\.01 s"):
            await transport.send(Request(method="GET", target="/x", timeout_s=0.01))


async def test_a_half_answer_is_unreachable() -> None:
    half = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf", requests_max=1)
    async with served(half) as transport:
        with pytest.raises(UnreachableError, match="GET /x"):
            await transport.send(GET)


async def test_a_stream_gives_lines_whatever_the_chunks() -> None:
    body = b"6\r\none\ntw\r\n4\r\no\n\nt\r\n5\r\nhree\n\r\n0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with served(Server(head + body)) as transport:
        lines = [line async for line in transport.stream(GET)]

    assert lines == [b"one", b"two", b"three"]


async def test_a_refused_stream_gives_the_whole_answer() -> None:
    async with served(Server(b"HTTP/1.1 410 Gone\r\nContent-Length: 2\r\n\r\nno")) as transport:
        lines = [line async for line in transport.stream(GET)]

    assert lines == [Answer(status=410, headers={"content-length": "2"}, body=b"no")]


async def test_a_stream_that_falls_silent_is_unreachable() -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    async with served(Server(start)) as transport:
        lines = transport.stream(Request(method="GET", target="/x", timeout_s=1.0))
        seen = await anext(lines)
        with pytest.raises(UnreachableError, match=r"silent for 1 s"):
            await anext(lines)

    assert seen == b"one"


async def test_nobody_listening_is_unreachable() -> None:
    async with served(Server(OK)) as transport:
        pass

    with pytest.raises(UnreachableError):
        await transport.send(GET)


@pytest.mark.parametrize("url", ["https://127.0.0.1:6443", "127.0.0.1:8080", "http://"])
async def test_an_address_that_is_not_plain_http_is_refused(url: str) -> None:
    with pytest.raises(KubeconfigError, match="allowed http://host:port"):
        DirectTransport(url)

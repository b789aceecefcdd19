"""HTTP/1.1 written straight onto a stream, with TLS and a token or a client certificate where the server asks for them.

A request costs about a fifth of what a general HTTP client takes. The embedded cluster runs server, scheduler,
controllers and nodes on one core, so that this decides how many pods a minute it can start; on a node it keeps the
agent small.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from claimsmith.errors import KubeconfigError, UnreachableError
from claimsmith.kube.access import Access
from claimsmith.kube.transport import Answer, Request

__all__ = ["IDLE_MAX_S", "DirectTransport"]

IDLE_MAX_S: Final = 60.0
"""How long a connection to kube-apiserver may rest; it closes those that have rested for 90 s.

Source: the IdleTimeout of k8s.io/apiserver v0.37.2 pkg/server/secure_serving.go.
"""
_HEAD_LIMIT_BYTES: Final = 64 * 1024
_LINE_LIMIT_BYTES: Final = 16 * 1024 * 1024
_NO_BODY: Final = frozenset({204, 304})


class _Connection:
    """One open connection, used by one request at a time."""

    __slots__ = ("idle_since_s", "reader", "tls", "writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext | None) -> None:
        self.reader, self.writer, self.tls = reader, writer, tls
        self.idle_since_s = 0.0

    @property
    def is_usable(self) -> bool:
        """False once the server has closed its side."""
        return not (self.reader.at_eof() or self.writer.is_closing())

    def close(self) -> None:
        """Close without waiting."""
        self.writer.close()


class DirectTransport:
    """Connections that are kept open and used again.

    Args:
        access: The way to the server, or just its address, `http://host:port`.
        connections_max: Requests at the same time, watches not counted.
        idle_max_s: A connection unused for longer is not used again: the server may be closing it.
        clock: Monotonic seconds.

    Raises:
        KubeconfigError: The address is not `http://host`, or with TLS `https://host`.
    """

    def __init__(
        self,
        access: Access | str,
        *,
        connections_max: int = 32,
        idle_max_s: float = 4.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        chosen = Access(url=access) if isinstance(access, str) else access
        parts, scheme = urlsplit(chosen.url), "http" if chosen.tls is None else "https"
        if parts.scheme != scheme or not parts.hostname:
            found = f"found {chosen.url!r}, allowed {scheme}://host:port"
            raise KubeconfigError("server address", found, hint="use a kubeconfig")
        self._access = chosen
        self._host, self._port = parts.hostname, parts.port or (80 if chosen.tls is None else 443)
        self._prefix = parts.path.rstrip("/")
        self._authority = parts.netloc
        self._idle: list[_Connection] = []
        self._slots = asyncio.Semaphore(connections_max)
        self._idle_max_s, self._clock = idle_max_s, clock

    async def send(self, request: Request) -> Answer:
        """Return the answer, whatever its status.

        Raises:
            UnreachableError: There was no complete answer in time.
        """
        try:
            async with asyncio.timeout(request.timeout_s), self._slots:
                return await self._exchange(request)
        except TimeoutError as error:
            raise self._unreachable(request, f"no answer within {request.timeout_s:g} s") from error
        except (OSError, EOFError, ValueError) as error:
            raise self._unreachable(request, str(error) or type(error).__name__) from error

    async def stream(self, request: Request) -> AsyncGenerator[bytes | Answer, None]:
        """Yield the lines of a 200 answer as they come, or the whole answer if its status is another one.

        Raises:
            UnreachableError: The connection broke, or was silent for `timeout_s`.
        """
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(request.timeout_s):
                connection = await self._connect()
                connection.writer.write(self._encode(request))
                status, headers = await _read_head(connection.reader)
                refusal = b"" if status == 200 else await _read_body(connection.reader, headers)
            if status != 200:
                yield Answer(status=status, headers=headers, body=refusal)
                return
            if request.on_open is not None:
                request.on_open()
            lines = _LineReader(connection.reader, headers, request.timeout_s)
            while (line := await lines.next()) is not None:
                yield line
        except TimeoutError as error:
            raise self._unreachable(request, f"silent for {request.timeout_s:g} s") from error
        except (OSError, EOFError, ValueError) as error:
            raise self._unreachable(request, str(error) or type(error).__name__) from error
        finally:
            if connection is not None:
                connection.close()

    async def close(self) -> None:
        """Close every connection that is not in use."""
        while self._idle:
            connection = self._idle.pop()
            connection.close()
            with suppress(OSError):
                await connection.writer.wait_closed()

    async def _exchange(self, request: Request) -> Answer:
        data = self._encode(request)
        connection = self._find_idle()
        if connection is not None:
            try:
                return await self._use(connection, data)
            except (OSError, EOFError):
                if request.method != "GET":
                    raise
        return await self._use(await self._connect(), data)

    async def _use(self, connection: _Connection, data: bytes) -> Answer:
        kept = False
        try:
            connection.writer.write(data)
            status, headers = await _read_head(connection.reader)
            body = b"" if status in _NO_BODY else await _read_body(connection.reader, headers)
            kept = headers.get("connection", "").lower() != "close" and _has_length(headers, status)
            return Answer(status=status, headers=headers, body=body)
        finally:
            if kept:
                connection.idle_since_s = self._clock()
                self._idle.append(connection)
            else:
                connection.close()

    def _find_idle(self) -> _Connection | None:
        """Return a connection that rests; none with certificates of before, which the server may refuse by now."""
        oldest_s, tls = self._clock() - self._idle_max_s, self._find_tls()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.idle_since_s >= oldest_s and connection.tls is tls:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        tls = self._find_tls()
        name = None if tls is None else self._access.server_name or self._host
        reader, writer = await asyncio.open_connection(
            self._host, self._port, limit=_LINE_LIMIT_BYTES, ssl=tls, server_hostname=name
        )
        return _Connection(reader, writer, tls)

    def _find_tls(self) -> ssl.SSLContext | None:
        return None if self._access.tls is None else self._access.tls()

    def _encode(self, request: Request) -> bytes:
        head = f"{request.method} {self._prefix}{request.target} HTTP/1.1\r\nHost: {self._authority}\r\n"
        head += "Accept: application/json\r\nUser-Agent: claimsmith\r\n"
        if self._access.token is not None:
            head += f"Authorization: Bearer {self._access.token()}\r\n"
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            head += f"Content-Type: {request.content_type}\r\nContent-Length: {len(request.body)}\r\n"
        return head.encode("ascii") + b"\r\n" + request.body

    def _unreachable(self, request: Request, found: str) -> UnreachableError:
        path = request.target.partition("?")[0]
        return UnreachableError(
            f"{request.method} {path} at {self._authority}: {found}, allowed a complete answer; see whether the API "
            "server runs"
        )


class _LineReader:
    """Lines of a body that arrives in chunks, or until the connection ends."""

    def __init__(self, reader: asyncio.StreamReader, headers: dict[str, str], silence_s: float) -> None:
        self._reader, self._silence_s = reader, silence_s
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self._pending = bytearray()
        self._searched = 0
        self._ended = False

    async def next(self) -> bytes | None:
        """Return the next line without its end; None when the server has ended the body."""
        while True:
            end = self._pending.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._pending[:end])
                del self._pending[: end + 1]
                self._searched = 0
                if line:
                    return line
                continue
            if self._ended:
                return None
            self._searched = len(self._pending)
            if self._searched > _LINE_LIMIT_BYTES:
                raise ValueError(f"a line of more than {_LINE_LIMIT_BYTES} bytes")
            async with asyncio.timeout(self._silence_s):
                piece = await (_read_chunk(self._reader) if self._chunked else self._reader.read(65536))
            self._ended = not piece
            self._pending += piece


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = await reader.readuntil(b"\r\n\r\n")
    if len(head) > _HEAD_LIMIT_BYTES:
        raise ValueError(f"an answer head of {len(head)} bytes")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"an answer that starts with {first[:40]!r}, not HTTP/1.1")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(rest[:3]), headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        pieces = []
        while piece := await _read_chunk(reader):
            pieces.append(piece)
        return b"".join(pieces)
    length = headers.get("content-length")
    return await reader.read() if length is None else await reader.readexactly(int(length))


async def _read_chunk(reader: asyncio.StreamReader) -> bytes:
    """Return the next chunk; empty at the end of the body, whose trailers are read as well."""
    size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
    if size:
        piece = await reader.readexactly(size + 2)
        return piece[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b""


def _has_length(headers: dict[str, str], status: int) -> bool:
    return status in _NO_BODY or "content-length" in headers or "transfer-encoding" in headers

"""What a daemon says of itself over HTTP, when asked to: whether it lives, whether it serves, and numbers.

A few requests a minute need no web framework: HTTP/1.0, one request for each connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from claimsmith.errors import ConfigError, InputError
from claimsmith.telemetry import Sample

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["ListenAddress", "Status", "listening", "parse_listen_address", "render_metrics"]

_HEAD_MAX: Final = 8 * 1024
_TIMEOUT_S: Final = 5.0
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """Where to listen; port 0 for any free one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is told at one moment.

    Args:
        missing: One sentence for each thing that keeps the daemon from serving; none when it is ready.
        samples: Numbers.
    """

    missing: tuple[str, ...]
    samples: Mapping[Sample, float]


def parse_listen_address(text: str) -> ListenAddress:
    """Return the address of `PORT`, on the loopback interface, or of `HOST:PORT`.

    Raises:
        InputError: It is neither.
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in text and not host):
        raise InputError(f"--listen: found {text!r}, allowed PORT or HOST:PORT; correct it")
    return ListenAddress(host=host.strip("[]") or "127.0.0.1", port=int(port))


@contextlib.asynccontextmanager
async def listening(address: ListenAddress, tell: Callable[[], Status]) -> AsyncIterator[int]:
    """Answer requests while the context is open; gives the port.

    Args:
        address: Where.
        tell: Gives what is told now.

    Raises:
        ConfigError: The address can't be used.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, tell))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(serve, address.host, address.port, limit=_HEAD_MAX)
    except OSError as error:
        raise ConfigError(
            f"--listen {address.host}:{address.port}: can't be listened on ({error.strerror or error}), allowed a free "
            "address of this machine; choose another port"
        ) from error
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


def render_metrics(samples: Mapping[Sample, float]) -> bytes:
    """Return numbers in the text format of Prometheus."""
    from prometheus_client.exposition import generate_latest
    from prometheus_client.registry import Collector, CollectorRegistry

    class Numbers(Collector):
        def collect(self) -> Iterable[Metric]:
            return _build_metrics(samples)

    registry = CollectorRegistry()
    registry.register(Numbers())
    return generate_latest(registry)


def _build_metrics(samples: Mapping[Sample, float]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    names = dict.fromkeys(name for name, _ in sorted(samples))
    for name in names:
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        rows = {labels: value for (found, labels), value in sorted(samples.items()) if found == name}
        keys = [key for key, _ in next(iter(rows))]
        family = kind(name, name.removeprefix("claimsmith_").replace("_", " "), labels=keys)
        for labels, value in rows.items():
            family.add_metric([text for _, text in labels], value)
        yield family


def _answer(head: bytes, tell: Callable[[], Status]) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if not rest:
        return _encode(400, b"bad request\n")
    if method not in (b"GET", b"HEAD"):
        return _encode(405, b"only GET\n")
    if path == b"/healthz":
        return _encode(200, b"ok\n")
    if path == b"/readyz":
        missing = tell().missing
        return _encode(503 if missing else 200, "".join(f"{line}\n" for line in missing or ("ok",)).encode())
    if path == b"/metrics":
        return _encode(200, render_metrics(tell().samples), form=_METRICS_TYPE)
    return _encode(404, b"allowed /healthz, /readyz, /metrics\n")


def _encode(status: int, body: bytes, *, form: str = "text/plain; charset=utf-8") -> bytes:
    head = f"HTTP/1.0 {status} {_REASONS[status]}\r\nContent-Type: {form}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("ascii") + body

"""What a daemon says of itself over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import pytest

from claimsmith.daemons.status_server import ListenAddress, Status, listening, parse_listen_address, render_metrics
from claimsmith.errors import ConfigError, InputError
from claimsmith.telemetry import Sample

ANYWHERE = ListenAddress(host="127.0.0.1", port=0)
SAMPLES: Mapping[Sample, float] = {
    ("claimsmith_driver_calls_total", (("driver", "gpu.example.com"), ("result", "ok"))): 3,
    ("claimsmith_driver_calls_total", (("driver", "gpu.example.com"), ("result", "error"))): 1,
    ("claimsmith_prepared_claims", (("driver", "gpu.example.com"),)): 2,
}


async def ask(request: bytes, *missing: str) -> tuple[int, str]:
    """Send one request; return the status and the body of the answer."""
    async with listening(ANYWHERE, lambda: Status(missing=missing, samples=SAMPLES)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        answer = await reader.read()
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


async def test_a_daemon_that_answers_lives() -> None:
    assert await ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == (200, "ok\n")


async def test_a_daemon_is_ready_when_nothing_is_missing() -> None:
    assert await ask(b"GET /readyz HTTP/1.0\r\n\r\n") == (200, "ok\n")


async def test_a_daemon_that_is_not_ready_says_why() -> None:
    assert await ask(b"GET /readyz?verbose HTTP/1.0\r\n\r\n", "no kubelet", "no API server") == (
        503,
        "no kubelet\nno API server\n",
    )


async def test_numbers_are_told_as_prometheus_reads_them() -> None:
    status, body = await ask(b"GET /metrics HTTP/1.0\r\n\r\n")

    assert status == 200
    assert 'claimsmith_driver_calls_total{driver="gpu.example.com",result="ok"} 3.0\n' in body
    assert "# TYPE claimsmith_prepared_claims gauge\n" in body


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /other HTTP/1.0\r\n\r\n", 404),
        (b"POST /healthz HTTP/1.0\r\n\r\n", 405),
        (b"hello\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
    ],
)
async def test_other_requests_are_refused(request_: bytes, status: int) -> None:
    assert (await ask(request_))[0] == status


async def test_a_request_that_is_too_long_is_not_answered() -> None:
    async with listening(ANYWHERE, lambda: Status(missing=(), samples={})) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /" + b"x" * 20_000)
        answer = b""
        with contextlib.suppress(ConnectionError):  # It may be told by a reset: not all was read.
            answer = await reader.read()
        writer.close()

    assert answer == b""


async def test_a_port_that_somebody_else_has_is_refused() -> None:
    async with listening(ANYWHERE, lambda: Status(missing=(), samples={})) as port:
        with pytest.raises(ConfigError, match="choose another port"):
            async with listening(ListenAddress(host="127.0.0.1", port=port), lambda: Status(missing=(), samples={})):
                pass


def test_no_numbers_are_an_empty_text() -> None:
    assert render_metrics({}) == b""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9400", ListenAddress(host="127.0.0.1", port=9400)),
        ("0.0.0.0:0", ListenAddress(host="0.0.0.0", port=0)),
        ("[::1]:80", ListenAddress(host="::1", port=80)),
    ],
)
def test_an_address_is_a_port_or_host_and_port(text: str, address: ListenAddress) -> None:
    assert parse_listen_address(text) == address


@pytest.mark.parametrize("text", ["", "x", ":80", "127.0.0.1:", "70000", "-1", "host:x"])
def test_another_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="allowed PORT or HOST:PORT"):
        parse_listen_address(text)

"""Whatever bytes reach a driver's sockets, the server answers, logs no traceback, and serves the next call."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet.services import (
    GET_INFO,
    NOTIFY,
    PREPARE_V1,
    PREPARE_V1BETA1,
    UNPREPARE_V1,
    UNPREPARE_V1BETA1,
    WATCH_V1,
    WATCH_V1ALPHA1,
    Method,
)
from claimsmith.node.draplugin import CLAIMS_MAX
from tests.scenarios.plugin_bench import PluginBench, prepare

CALLS = (PREPARE_V1, UNPREPARE_V1, PREPARE_V1BETA1, UNPREPARE_V1BETA1)
ENDS = (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)

texts = st.text(max_size=40) | st.sampled_from(["", "a", "uid-a", "default", "../../etc", "a" * 5000, "\0", "\u202e"])
claims = st.builds(lambda namespace, name, uid: v1.Claim(namespace=namespace, name=name, uid=uid), texts, texts, texts)
requests = st.lists(claims, max_size=12).map(lambda found: v1.NodePrepareResourcesRequest(claims=found))
messages = st.binary(max_size=200) | requests.map(lambda message: message.SerializeToString())


class Tracebacks(logging.Handler):
    """Keeps every record with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(record.getMessage())


async def send(channel: grpc.aio.Channel, method: Method[Any, Any], data: bytes) -> grpc.StatusCode:
    """Send bytes to a method; return how the call ended."""
    try:
        if method.streams:
            stream = channel.unary_stream(method.path, request_serializer=None, response_deserializer=None)(data)
            await anext(aiter(stream))
            stream.cancel()
        else:
            await channel.unary_unary(method.path, request_serializer=None, response_deserializer=None)(data)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def bombard(calls: list[tuple[Method[Any, Any], bytes]]) -> tuple[list[grpc.StatusCode], str, list[str]]:
    """Send everything; return how each call ended, the error of an honest call afterwards, and the tracebacks."""
    seen, root = Tracebacks(), logging.getLogger()
    root.addHandler(seen)
    try:
        with tempfile.TemporaryDirectory(prefix="cs-") as folder:
            bench = PluginBench(Path(folder))
            async with bench.plugin(serves_health=True):
                ends = [await _send_to(bench, method, data) for method, data in calls]
                answer = await prepare(bench, "b")
        return ends, answer["uid-b"].error, seen.found
    finally:
        root.removeHandler(seen)


async def _send_to(bench: PluginBench, method: Method[Any, Any], data: bytes) -> grpc.StatusCode:
    socket = bench.registrar if method in (GET_INFO, NOTIFY) else bench.service
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        async with asyncio.timeout(60):
            return await send(channel, method, data)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((*CALLS, WATCH_V1, WATCH_V1ALPHA1, GET_INFO, NOTIFY)), messages), max_size=8))
def test_no_bytes_stop_the_server_or_fill_the_log(calls: list[tuple[Method[Any, Any], bytes]]) -> None:
    ends, error, tracebacks = asyncio.run(bombard(calls))

    assert set(ends) <= set(ENDS)
    assert (error, tracebacks) == ("", [])


@pytest.mark.parametrize("method", CALLS)
def test_a_text_that_is_no_utf_8_is_an_invalid_argument(method: Method[Any, Any]) -> None:
    claim = bytes([0x0A, 2, 0xFF, 0xFE])
    ends, error, tracebacks = asyncio.run(bombard([(method, bytes([0x0A, len(claim)]) + claim)]))

    assert ends == [grpc.StatusCode.INVALID_ARGUMENT]
    assert (error, tracebacks) == ("", [])


@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize(("count", "end"), [(CLAIMS_MAX, ENDS[0]), (CLAIMS_MAX + 1, ENDS[1]), (30_000, ENDS[1])])
def test_a_call_names_at_most_so_many_claims(method: Method[Any, Any], count: int, end: grpc.StatusCode) -> None:
    many = [v1.Claim(namespace="default", name=f"c{number}", uid=f"u{number}") for number in range(count)]
    data = v1.NodePrepareResourcesRequest(claims=many).SerializeToString()
    ends, error, _ = asyncio.run(bombard([(method, data)]))

    assert (ends, error) == ([end], "")

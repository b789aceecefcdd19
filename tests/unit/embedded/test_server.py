"""The server on its socket: where it listens, how it begins and ends."""

from __future__ import annotations

import asyncio
import socket

import pytest

from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer, kubeconfig_for
from claimsmith.embedded.store import Store
from claimsmith.errors import ConfigError


async def ask(url: str, request: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {request} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
    return reader, writer


async def test_a_server_answers_on_a_free_port_of_this_machine() -> None:
    async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
        reader, writer = await ask(server.url, "/healthz")
        answer = await reader.readuntil(b"ok")
        writer.close()

    assert server.url.startswith("http://127.0.0.1:")
    assert answer.startswith(b"HTTP/1.1 200")


async def test_an_ending_server_ends_its_watches() -> None:
    async with Store(stored_kinds()) as store:
        async with EmbeddedApiServer(store) as server:
            reader, writer = await ask(server.url, "/api/v1/pods?watch=true")
            await reader.readuntil(b"\r\n\r\n")
        async with asyncio.timeout(60):
            rest = await reader.read()
        writer.close()

    assert rest.endswith(b"0\r\n\r\n")
    assert store.count_watchers() == 0


async def test_a_port_in_use_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}: can't listen there .*; name a free port"):
            async with EmbeddedApiServer(Store(stored_kinds()), port=port):
                raise AssertionError


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_an_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="allowed are loopback addresses"):
        EmbeddedApiServer(Store(stored_kinds()), host=host)


def test_a_kubeconfig_points_to_the_server() -> None:
    config = kubeconfig_for("http://127.0.0.1:1234", token="secret")

    assert config["clusters"][0]["cluster"]["server"] == "http://127.0.0.1:1234"
    assert config["users"][0]["user"] == {"token": "secret"}
    assert config["current-context"] == config["contexts"][0]["name"]

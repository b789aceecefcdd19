"""The plain ways to an API server: TLS, tokens, certificates; anything else is left to the library."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from claimsmith.errors import UnreachableError
from claimsmith.kube.access import TokenFile, find_access, find_pod_access
from claimsmith.kube.direct import DirectTransport
from claimsmith.kube.transport import Request
from tests.unit.kube.test_direct import OK, Server

DATA = Path(__file__).parent / "certificates"
CERTIFICATE, KEY = DATA / "certificate.pem", DATA / "key.pem"
OTHER_CERTIFICATE, OTHER_KEY = DATA / "other_certificate.pem", DATA / "other_key.pem"
GET = Request(method="GET", target="/x", timeout_s=5.0)


def kubeconfig(path: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
    """Write a kubeconfig with one context."""
    config = {
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@asynccontextmanager
async def tls_server(*, asks_certificate: bool = False) -> AsyncIterator[tuple[Server, str]]:
    """A server with TLS, and its address."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(CERTIFICATE, KEY)
    if asks_certificate:
        tls.load_verify_locations(CERTIFICATE)
        tls.verify_mode = ssl.CERT_REQUIRED
    answers = Server(OK)
    server = await asyncio.start_server(answers, "127.0.0.1", 0, ssl=tls)
    try:
        yield answers, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def ask(path: Path) -> bytes:
    """Send one request as a kubeconfig describes; return the body of the answer."""
    access = find_access(path, environment={})
    assert access is not None
    transport = DirectTransport(access)
    try:
        return (await transport.send(GET)).body
    finally:
        await transport.close()


async def test_a_token_goes_over_tls_to_a_server_that_is_checked(tmp_path: Path) -> None:
    async with tls_server() as (server, url):
        cluster = {"server": url, "certificate-authority-data": encoded(CERTIFICATE)}
        body = await ask(kubeconfig(tmp_path / "kc", cluster=cluster, user={"token": "secret"}))

    assert body == b"ok"
    assert b"Authorization: Bearer secret\r\n" in server.heads[0]


async def test_a_server_that_nobody_vouches_for_gets_no_token(tmp_path: Path) -> None:
    async with tls_server() as (server, url):
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await ask(kubeconfig(tmp_path / "kc", cluster={"server": url}, user={"token": "secret"}))

    assert server.heads == []


async def test_a_server_under_another_name_is_refused(tmp_path: Path) -> None:
    async with tls_server() as (_, url):
        cluster = {
            "server": url, "certificate-authority": str(CERTIFICATE), "tls-server-name": "other.claimsmith.dev",
        }  # fmt: skip
        with pytest.raises(UnreachableError, match="Hostname mismatch"):
            await ask(kubeconfig(tmp_path / "kc", cluster=cluster))


async def test_a_check_that_is_turned_off_is_off(tmp_path: Path) -> None:
    async with tls_server() as (_, url):
        body = await ask(kubeconfig(tmp_path / "kc", cluster={"server": url, "insecure-skip-tls-verify": True}))

    assert body == b"ok"


@pytest.mark.parametrize("embedded", [True, False])
async def test_a_client_certificate_is_shown(tmp_path: Path, embedded: bool) -> None:
    user = {"client-certificate": str(CERTIFICATE), "client-key": str(KEY)}
    if embedded:
        user = {f"{name}-data": encoded(Path(file)) for name, file in user.items()}
    async with tls_server(asks_certificate=True) as (_, url):
        cluster = {"server": url, "certificate-authority": str(CERTIFICATE)}
        body = await ask(kubeconfig(tmp_path / "kc", cluster=cluster, user=user))

    assert body == b"ok"


def test_names_of_files_are_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE.read_bytes())
    access = find_access(kubeconfig(tmp_path / "kc", cluster={"certificate-authority": "ca.crt"}), environment={})

    assert access is not None
    assert access.tls is not None
    assert access.tls().cert_store_stats()["x509"] == 1
    assert access.namespace == "team"


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {"exec": {"command": "login"}}),
        ({}, {"username": "a", "password": "b"}),
        ({}, {"auth-provider": {"name": "oidc"}}),
        ({}, {"token": "t", "as": "somebody-else"}),
        ({"proxy-url": "http://127.0.0.1:1"}, {}),
        ({"server": "unix:///run/api"}, {}),
        ({"certificate-authority-data": "!"}, {}),
        ({}, {"client-certificate-data": "eA==", "client-key-data": "eA=="}),
    ],
)
def test_what_is_not_plain_is_left_to_the_library(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    assert find_access(kubeconfig(tmp_path / "kc", cluster=cluster, user=user), environment={}) is None


def test_a_proxy_is_left_to_the_library(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "kc")

    assert find_access(path, environment={"HTTPS_PROXY": "http://127.0.0.1:1"}) is None
    assert find_access(path, environment={}) is not None


def test_a_pod_finds_server_certificate_token_and_namespace(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE.read_bytes())
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("claimsmith-system")
    place = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = find_pod_access(tmp_path, environment=place)

    assert access is not None
    assert access.token is not None
    assert (access.url, access.namespace, access.token()) == ("https://[fd00::1]:443", "claimsmith-system", "first")


def test_without_a_service_account_there_is_no_way(tmp_path: Path) -> None:
    place = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    assert find_pod_access(tmp_path, environment=place) is None
    assert find_pod_access(tmp_path, environment={}) is None


def test_a_token_that_the_kubelet_replaces_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    token = TokenFile(path)
    first = token()
    (tmp_path / "new").write_text("second")
    os.replace(tmp_path / "new", path)

    assert (first, token()) == ("first", "second")


def test_a_token_stays_while_its_file_is_away(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    token = TokenFile(path)
    token()
    path.unlink()

    assert token() == "first"


def put(source: Path, target: Path) -> None:
    """Replace a file in one step, as the kubelet does."""
    hidden = target.with_name("new")
    hidden.write_bytes(source.read_bytes())
    os.replace(hidden, target)


async def test_an_authority_that_is_replaced_is_read_again(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    put(OTHER_CERTIFICATE, authority)
    async with tls_server() as (_, url):
        access = find_access(
            kubeconfig(tmp_path / "kc", cluster={"server": url, "certificate-authority": "ca.crt"}), environment={}
        )
        assert access is not None
        transport = DirectTransport(access)
        with pytest.raises(UnreachableError, match="certificate verify failed"):
            await transport.send(GET)
        put(CERTIFICATE, authority)
        answer = await transport.send(GET)
        await transport.close()

    assert answer.body == b"ok"


async def test_a_client_certificate_that_is_replaced_is_shown_from_then_on_also_where_a_connection_rests(
    tmp_path: Path,
) -> None:
    put(CERTIFICATE, tmp_path / "one.crt")
    put(KEY, tmp_path / "one.key")
    user = {"client-certificate": "one.crt", "client-key": "one.key"}
    async with tls_server(asks_certificate=True) as (_, url):
        cluster = {"server": url, "certificate-authority": str(CERTIFICATE)}
        access = find_access(kubeconfig(tmp_path / "kc", cluster=cluster, user=user), environment={})
        assert access is not None
        transport = DirectTransport(access)
        answer = await transport.send(GET)
        put(OTHER_CERTIFICATE, tmp_path / "one.crt")
        between = await transport.send(GET)
        put(OTHER_KEY, tmp_path / "one.key")
        with pytest.raises(UnreachableError):
            await transport.send(GET)
        await transport.close()

    assert (answer.body, between.body) == (b"ok", b"ok")


@pytest.mark.parametrize("damage", [lambda path: path.write_text("half a certif"), Path.unlink])
async def test_certificates_stay_while_a_file_can_not_be_used(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    put(CERTIFICATE, tmp_path / "ca.crt")
    access = find_access(kubeconfig(tmp_path / "kc", cluster={"certificate-authority": "ca.crt"}), environment={})
    assert access is not None
    assert access.tls is not None
    before = access.tls()
    damage(tmp_path / "ca.crt")

    assert access.tls() is before


def test_the_authority_of_a_pod_is_read_again_too(tmp_path: Path) -> None:
    put(OTHER_CERTIFICATE, tmp_path / "ca.crt")
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("n")
    place = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    access = find_pod_access(tmp_path, environment=place)
    assert access is not None
    assert access.tls is not None
    before = access.tls()
    put(CERTIFICATE, tmp_path / "ca.crt")

    assert access.tls().get_ca_certs() != before.get_ca_certs()

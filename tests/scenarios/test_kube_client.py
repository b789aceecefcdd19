"""The API client on a real server: by address, by kubeconfig, with and without leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from claimsmith.api.kinds import EVENT, LEASE, NAMESPACE, NODE, POD, SERVICE_ACCOUNT
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer, kubeconfig_for
from claimsmith.embedded.store import Store, StoreLimits
from claimsmith.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidObjectError,
    KubeconfigError,
    NotFoundError,
    UnreachableError,
)
from claimsmith.kube.client import KubeClient, Preconditions
from claimsmith.kube.configured import ConfiguredTransport, parse_kubeconfig
from claimsmith.kube.lease import LeaderLease
from claimsmith.kube.reflector import ObjectKey
from claimsmith.model.names import PodRef
from tests.scenarios.scheduling import meta, pod_object

TOKEN = "a-token"


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedApiServer]:
    async with EmbeddedApiServer(Store(stored_kinds()), token=TOKEN) as found:
        yield found


@pytest.fixture
def kubeconfig(server: EmbeddedApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig_for(server.url, token=TOKEN)))
    return path


def configured(path: Path) -> KubeClient:
    """Return a client that sends through the library, as for ways to log in that are not plain."""
    return KubeClient(ConfiguredTransport(parse_kubeconfig(path)))


@pytest.fixture(params=["address", "kubeconfig", "library"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of a server without token, once by each way of sending."""
    async with EmbeddedApiServer(Store(stored_kinds())) as server:
        if request.param == "address":
            found = KubeClient.for_url(server.url)
        else:
            path = tmp_path / "config"
            path.write_text(yaml.safe_dump(kubeconfig_for(server.url)))
            library = request.param == "library"
            found = configured(path) if library else KubeClient.from_kubeconfig(path)
        try:
            yield found
        finally:
            await found.close()


async def test_a_kubeconfig_logs_in_by_its_token_and_names_the_namespace(kubeconfig: Path) -> None:
    client = KubeClient.from_kubeconfig(kubeconfig)
    names = [item["metadata"]["name"] for item in (await client.list(NAMESPACE)).items]
    await client.close()

    assert client.namespace == "default"
    assert "kube-system" in names


async def test_without_the_token_there_is_no_access(server: EmbeddedApiServer) -> None:
    client = KubeClient.for_url(server.url)

    with pytest.raises(ForbiddenError, match="401"):
        await client.list(NODE)
    await client.close()


async def test_an_object_lives_through_every_verb(client: KubeClient) -> None:
    made = await client.create(NODE, {"metadata": {"name": "a", "annotations": {"x.test/unknown": "kept"}}})
    made["metadata"]["labels"] = {"zone": "b"}
    updated = await client.update(NODE, made)
    patched = await client.patch(NODE, "a", {"spec": {"unschedulable": True}})
    await client.delete(NODE, "a", preconditions=Preconditions(uid=made["metadata"]["uid"]))

    assert updated["metadata"]["annotations"] == {"x.test/unknown": "kept"}
    assert (patched["metadata"]["labels"], patched["spec"]["unschedulable"]) == ({"zone": "b"}, True)
    with pytest.raises(NotFoundError):
        await client.get(NODE, "a")


async def test_an_old_version_is_a_conflict(client: KubeClient) -> None:
    made = await client.create(NODE, {"metadata": {"name": "a"}})
    await client.patch(NODE, "a", {"metadata": {"labels": {"x": "y"}}})

    with pytest.raises(ConflictError):
        await client.update(NODE, made)
    version = made["metadata"]["resourceVersion"]
    with pytest.raises(ConflictError):
        await client.patch(NODE, "a", {"metadata": {"resourceVersion": version, "labels": {"x": "z"}}})


async def test_deleting_another_object_of_the_name_is_refused(client: KubeClient) -> None:
    await client.create(NODE, {"metadata": {"name": "a"}})

    with pytest.raises(ConflictError):
        await client.delete(NODE, "a", preconditions=Preconditions(uid="another"))


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_changing_another_object_of_the_name_is_a_conflict(client: KubeClient, subresource: str) -> None:
    await client.create(NODE, {"metadata": {"name": "a"}})
    patch = {"metadata": {"name": "a", "uid": "00000000-0000-4000-8000-000000000000"}, "status": {"phase": "Running"}}

    for kind in ("merge", "strategic"):
        with pytest.raises(ConflictError):
            await client.patch(NODE, "a", patch, patch_type=kind, subresource=subresource)
    with pytest.raises(ConflictError):
        await client.apply(NODE, patch, field_manager="m", subresource=subresource)


async def test_a_name_can_be_used_once(client: KubeClient) -> None:
    await client.create(SERVICE_ACCOUNT, {"metadata": meta("a")})

    with pytest.raises(AlreadyExistsError):
        await client.create(SERVICE_ACCOUNT, {"metadata": meta("a")})


async def test_an_object_that_is_not_allowed_is_refused_with_its_field(client: KubeClient) -> None:
    with pytest.raises(InvalidObjectError, match="name"):
        await client.create(NODE, {"metadata": {"name": "Not A Name"}})


async def test_a_pod_is_bound_once(client: KubeClient) -> None:
    made = await client.create(POD, pod_object("p", (), "", {}))
    ref = PodRef("default", "p")
    await client.bind(ref, "node-a", uid=made["metadata"]["uid"])

    assert (await client.get(POD, "p", namespace="default"))["spec"]["nodeName"] == "node-a"
    with pytest.raises(ConflictError):
        await client.bind(ref, "node-b")


async def test_a_list_is_read_in_pages(client: KubeClient) -> None:
    for number in range(7):
        await client.create(NODE, {"metadata": {"name": f"n{number}"}})

    listed = await client.list(NODE, limit=3)

    assert [item["metadata"]["name"] for item in listed.items] == [f"n{number}" for number in range(7)]


async def test_a_watch_gives_what_came_after_the_list(client: KubeClient) -> None:
    listed = await client.list(NODE)
    watch = client.watch(NODE, resource_version=listed.resource_version)
    await client.create(NODE, {"metadata": {"name": "a"}})
    await client.delete(NODE, "a")
    async with asyncio.timeout(60):
        events = [await anext(watch), await anext(watch)]
    await watch.aclose()

    assert [(event.type, event.object["metadata"]["name"]) for event in events] == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_tells_that_it_is_open_though_nothing_changes(client: KubeClient) -> None:
    listed, is_open = await client.list(NODE), asyncio.Event()
    watch = client.watch(NODE, resource_version=listed.resource_version, on_open=is_open.set)
    first = asyncio.ensure_future(anext(watch))
    async with asyncio.timeout(60):
        await is_open.wait()
    is_first_open = not first.done()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    assert is_first_open


async def test_a_watch_that_is_refused_was_never_open(server: EmbeddedApiServer) -> None:
    client, opened = KubeClient.for_url(server.url), asyncio.Event()
    with pytest.raises(ApiError):
        await anext(client.watch(NODE, on_open=opened.set))
    await client.close()

    assert not opened.is_set()


async def test_a_version_that_is_no_longer_kept_is_gone() -> None:
    store = Store(stored_kinds(), limits=StoreLimits(history=5))
    async with EmbeddedApiServer(store) as server:
        client = KubeClient.for_url(server.url)
        listed = await client.list(NODE)
        for number in range(20):
            await client.create(NODE, {"metadata": {"name": f"n{number}"}})
        with pytest.raises(GoneError):
            await anext(client.watch(NODE, resource_version=listed.resource_version))
        await client.close()


async def test_server_side_apply_makes_and_changes_an_object(client: KubeClient) -> None:
    await client.apply(LEASE, {"metadata": meta("l"), "spec": {"holderIdentity": "a"}})
    changed = await client.apply(LEASE, {"metadata": meta("l"), "spec": {"holderIdentity": "b"}})

    assert changed["spec"]["holderIdentity"] == "b"


async def test_leaders_take_turns_on_a_real_lease(client: KubeClient) -> None:
    key = ObjectKey("kube-system", "claimsmith")
    first, second = LeaderLease(client, key, identity="a"), LeaderLease(client, key, identity="b")
    held = [await first.try_hold(), await second.try_hold()]
    await first.release()

    assert (held, await second.try_hold()) == ([True, False], True)


async def test_a_server_that_is_gone_is_unreachable(tmp_path: Path) -> None:
    async with EmbeddedApiServer(Store(stored_kinds())) as server:
        url = server.url
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig_for(url)))
    for client in (KubeClient.for_url(url), KubeClient.from_kubeconfig(path), configured(path)):
        with pytest.raises(UnreachableError, match="GET /api/v1/events"):
            await client.list(EVENT)
        await client.close()


@pytest.mark.parametrize(
    ("text", "context", "found"),
    [
        ("{}", None, "found no kubeconfig"),
        ("clusters: [", None, "found no kubeconfig"),
        (yaml.safe_dump(kubeconfig_for("http://127.0.0.1:1")), "other", "Context 'other' not found"),
        (None, None, "not found"),
    ],
)
def test_an_unusable_kubeconfig_is_named(tmp_path: Path, text: str | None, context: str | None, found: str) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)

    with pytest.raises(KubeconfigError, match=found):
        KubeClient.from_kubeconfig(path, context=context)

"""Watches over the API: lines, bookmarks, tables, and every way to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from claimsmith.api.kinds import POD
from claimsmith.embedded.api.accept import AcceptedForm
from claimsmith.embedded.api.http import Request
from claimsmith.embedded.api.served import get_kind
from claimsmith.embedded.api.watching import next_bookmark, open_watch
from claimsmith.embedded.store import StoreLimits
from tests.unit.embedded.asgi import PODS, Api, Reply, open_api, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

Watching = tuple[asyncio.Task[Reply], asyncio.Event]


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        yield opened


async def watch(
    api: Api, *, accept: str = "application/json", **query: str
) -> tuple[asyncio.Task[Reply], asyncio.Event]:
    """Begin to watch; return the reply to be, and what makes the client go away."""
    gone = asyncio.Event()
    task = asyncio.create_task(api.get(PODS, accept=accept, gone=gone, watch="true", **query))
    for _ in range(5):
        await asyncio.sleep(0)
    return task, gone


async def finish(watching: Watching) -> Reply:
    """Let the client read everything and go away."""
    task, gone = watching
    for _ in range(5):
        await asyncio.sleep(0)
    gone.set()
    return await task


def kinds(reply: Reply) -> list[str]:
    return [line["type"] for line in reply.lines]


async def test_a_watch_tells_every_change_as_a_line(api: Api) -> None:
    watching = await watch(api)
    await api.post(PODS, pod())
    await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "1"}}})
    await api.delete(f"{PODS}/web")
    reply = await finish(watching)

    assert kinds(reply) == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert [line["object"]["kind"] for line in reply.lines] == ["Pod"] * 4


async def test_a_list_and_a_watch_from_its_version_miss_nothing(api: Api) -> None:
    version = (await api.get(PODS)).json["metadata"]["resourceVersion"]
    await api.post(PODS, pod())
    reply = await finish(await watch(api, resourceVersion=version))

    assert kinds(reply) == ["ADDED"]


async def test_a_watch_without_a_version_begins_with_what_is_there(api: Api) -> None:
    await api.post(PODS, pod())

    assert kinds(await finish(await watch(api))) == ["ADDED"]
    assert kinds(await finish(await watch(api, resourceVersion="0"))) == ["ADDED"]


async def test_a_watch_list_ends_its_beginning_with_a_bookmark(api: Api) -> None:
    await api.post(PODS, pod())
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    reply = await finish(await watch(api, **query))
    bookmark = reply.lines[1]["object"]["metadata"]

    assert kinds(reply) == ["ADDED", "BOOKMARK"]
    assert bookmark["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["resourceVersion"] == str(api.store.version)


async def test_a_watch_without_initial_events_begins_now(api: Api) -> None:
    await api.post(PODS, pod())
    reply = await finish(await watch(api, sendInitialEvents="false", resourceVersionMatch="NotOlderThan"))

    assert reply.lines == []


@pytest.mark.parametrize("query", [{"sendInitialEvents": "true"}, {"resourceVersionMatch": "NotOlderThan"}])
async def test_initial_events_and_version_match_come_together(api: Api, query: dict[str, str]) -> None:
    reply = await api.get(PODS, watch="true", **query)

    assert reply.status == 422


async def test_a_watch_from_a_version_that_is_gone_begins_with_its_refusal_and_ends(api: Api) -> None:
    await api.post(PODS, pod())
    api.store.compact()
    reply = await api.get(PODS, watch="true", resourceVersion="1")

    assert (reply.status, reply.json["type"]) == (200, "ERROR")
    assert (reply.json["object"]["code"], reply.json["object"]["reason"]) == (410, "Expired")


async def test_a_client_that_is_too_slow_is_told_to_list_again() -> None:
    async with open_api(limits=StoreLimits(watcher_queue=2)) as api:
        watching = await watch(api)
        for name in "abcd":
            await api.store.create(api.store.kinds["/pods"], pod(name, namespace="default"))
        reply = await watching[0]

    assert (kinds(reply), reply.lines[0]["object"]["code"]) == (["ERROR"], 410)


async def test_a_watch_ends_with_its_time(api: Api) -> None:
    async def never() -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    query = {"timeoutSeconds": "7", "allowWatchBookmarks": "true"}
    request = Request(method="GET", path=PODS, query=query, headers={}, body=b"", receive=never)
    stream = open_watch(api.store, get_kind(POD), "default", request, AcceptedForm())
    asked_s, stream.timeout_s = stream.timeout_s, 0.001
    written: list[bytes] = []

    async def write(piece: bytes) -> None:
        written.append(piece)

    await stream.run(request, write)

    assert asked_s == 7
    assert written == []


@pytest.mark.parametrize(
    ("now", "deadline", "due"), [(0.0, 1800.0, 60.0), (1750.0, 1800.0, 1798.0), (1798.0, 1800.0, 1800.0)]
)
def test_bookmarks_come_each_minute_and_last_just_before_the_end(now: float, deadline: float, due: float) -> None:
    assert next_bookmark(now, deadline) == due


async def test_a_watch_ends_with_the_server(api: Api) -> None:
    task, _ = await watch(api)
    api.app.close()

    assert (await task).status == 200
    assert (await api.get(PODS, watch="true")).status == 503


async def test_a_client_that_goes_away_leaves_no_watcher_behind(api: Api) -> None:
    await finish(await watch(api))

    assert api.store.count_watchers() == 0


async def test_a_watch_can_tell_tables_with_columns_in_the_first_alone(api: Api) -> None:
    watching = await watch(api, accept=TABLE)
    await api.post(PODS, pod("a"))
    await api.post(PODS, pod("b"))
    tables = [line["object"] for line in (await finish(watching)).lines]

    assert [table["rows"][0]["cells"][0] for table in tables] == ["a", "b"]
    assert [table["columnDefinitions"] is None for table in tables] == [False, True]


async def test_a_watch_by_node_sees_a_pod_when_it_is_bound(api: Api) -> None:
    await api.post(PODS, pod())
    watching = await watch(api, fieldSelector="spec.nodeName=n1")
    await api.post(f"{PODS}/web/binding", {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}})
    reply = await finish(watching)

    assert kinds(reply) == ["ADDED"]

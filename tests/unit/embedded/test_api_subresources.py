"""Binding, eviction and log of pods."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from claimsmith.embedded.api.logs import LogLine
from tests.unit.embedded.asgi import PODS, Api, open_api, pod
from tests.unit.embedded.stored import NOON

TO_NODE = {"target": {"kind": "Node", "name": "n1"}}


class PaperLogs:
    """The output of one container of the first pod."""

    def __init__(self) -> None:
        self.lines = [LogLine(time_s=NOON + i, text=f"line {i}") for i in range(4)]
        self.later: asyncio.Queue[LogLine | None] = asyncio.Queue()

    def find_lines(self, pod_uid: str, container: str) -> Sequence[LogLine] | None:
        return self.lines if container == "main" else None

    async def follow_lines(self, pod_uid: str, container: str, *, after: int) -> AsyncIterator[LogLine]:
        while (line := await self.later.get()) is not None:
            yield line


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with open_api() as opened:
        await opened.post(PODS, pod())
        yield opened


def binding(name: str) -> dict[str, Any]:
    """Return the binding of a pod to the node."""
    return {"metadata": {"name": name}, **TO_NODE}


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
@pytest.mark.parametrize("metadata", [{}, {"name": "other"}])
async def test_a_body_for_another_pod_than_the_path_is_refused(
    api: Api, subresource: str, metadata: dict[str, str]
) -> None:
    reply = await api.post(f"{PODS}/web/{subresource}", {"metadata": metadata, **TO_NODE})

    assert (reply.status, reply.message) == (
        400, f"name in URL does not match name in {subresource.title()} object",
    )  # fmt: skip


async def test_binding_puts_a_pod_on_its_node(api: Api) -> None:
    reply = await api.post(f"{PODS}/web/binding", binding("web"))
    bound = (await api.get(f"{PODS}/web")).json

    assert (reply.status, reply.json["status"]) == (201, "Success")
    assert bound["spec"]["nodeName"] == "n1"
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]


async def test_binding_works_through_its_collection(api: Api) -> None:
    reply = await api.post("/api/v1/namespaces/default/bindings", {"metadata": {"name": "web"}, **TO_NODE})

    assert reply.status == 201
    assert (await api.get(f"{PODS}/web")).json["spec"]["nodeName"] == "n1"


async def test_binding_carries_annotations(api: Api) -> None:
    await api.post(f"{PODS}/web/binding", {"metadata": {"name": "web", "annotations": {"a": "1"}}, **TO_NODE})

    assert (await api.get(f"{PODS}/web")).json["metadata"]["annotations"] == {"a": "1"}


async def test_a_bound_pod_cannot_be_bound_again(api: Api) -> None:
    await api.post(f"{PODS}/web/binding", binding("web"))
    reply = await api.post(f"{PODS}/web/binding", {**binding("web"), "target": {"kind": "Node", "name": "n2"}})

    assert (reply.status, reply.reason) == (409, "Conflict")
    assert 'is already assigned to node "n1"' in reply.message


async def test_a_gated_pod_cannot_be_bound(api: Api) -> None:
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    await api.post(PODS, gated)

    assert (await api.post(f"{PODS}/gated/binding", binding("gated"))).status == 409


async def test_a_binding_for_an_earlier_pod_of_the_name_conflicts(api: Api) -> None:
    reply = await api.post(f"{PODS}/web/binding", {"metadata": {"name": "web", "uid": "earlier"}, **TO_NODE})

    assert reply.status == 409


@pytest.mark.parametrize("target", [{"kind": "Node"}, {"kind": "Pod", "name": "x"}, {}])
async def test_a_binding_needs_a_node(api: Api, target: dict[str, str]) -> None:
    assert (await api.post(f"{PODS}/web/binding", {**binding("web"), "target": target})).status == 500


async def test_a_pod_that_does_not_exist_cannot_be_bound(api: Api) -> None:
    assert (await api.post(f"{PODS}/missing/binding", binding("missing"))).status == 404


async def test_eviction_deletes_a_pod(api: Api) -> None:
    reply = await api.post(f"{PODS}/web/eviction", {"kind": "Eviction", "metadata": {"name": "web"}})

    assert (reply.status, (await api.get(f"{PODS}/web")).status) == (201, 404)


async def with_logs(logs: PaperLogs, **query: str) -> str:
    async with open_api(logs=logs) as api:
        await api.post(PODS, pod(node_name="n1"))
        reply = await api.get(f"{PODS}/web/log", **query)
    assert reply.headers["content-type"] == "text/plain"
    return reply.body.decode()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({}, "line 0\nline 1\nline 2\nline 3\n"),
        ({"tailLines": "1"}, "line 3\n"),
        ({"tailLines": "0"}, ""),
        ({"tailLines": "9"}, "line 0\nline 1\nline 2\nline 3\n"),
        ({"limitBytes": "6"}, "line 0"),
        ({"sinceTime": "2030-01-01T12:00:02Z"}, "line 2\nline 3\n"),
        ({"container": "main", "tailLines": "1", "timestamps": "true"}, "2030-01-01T12:00:03Z line 3\n"),
    ],
)
async def test_the_output_of_a_container_is_shown(query: dict[str, str], text: str) -> None:
    assert await with_logs(PaperLogs(), **query) == text


async def test_output_is_followed_until_the_container_ends() -> None:
    logs = PaperLogs()
    logs.later.put_nowait(LogLine(time_s=NOON, text="more"))
    logs.later.put_nowait(None)

    assert await with_logs(logs, follow="true", tailLines="1") == "line 3\nmore\n"


async def test_following_ends_with_the_server() -> None:
    async with open_api(logs=PaperLogs()) as api:
        await api.post(PODS, pod(node_name="n1"))
        following = asyncio.create_task(api.get(f"{PODS}/web/log", follow="true"))
        for _ in range(5):
            await asyncio.sleep(0)
        api.app.close()
        reply = await following

    assert reply.body.endswith(b"line 3\n")


@pytest.mark.parametrize(
    ("containers", "query", "why"),
    [
        (["main", "side"], {}, "a container name must be specified for pod web, choose one of: \\[main side\\]"),
        (["main"], {"container": "other"}, "container other is not valid for pod web"),
        (["side"], {}, 'container "side" in pod "web" is waiting to start: ContainerCreating'),
        (["main"], {"tailLines": "x"}, "tailLines: found 'x'"),
    ],
)
async def test_output_that_cannot_be_shown(containers: list[str], query: dict[str, str], why: str) -> None:
    manifest = pod(node_name="n1")
    manifest["spec"]["containers"] = [{"name": name, "image": "example/x"} for name in containers]
    async with open_api(logs=PaperLogs()) as api:
        await api.post(PODS, manifest)
        reply = await api.get(f"{PODS}/web/log", **query)

    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert re.search(why, reply.message)


async def test_a_pod_without_a_node_has_no_output_yet(api: Api) -> None:
    reply = await api.get(f"{PODS}/web/log")

    assert (reply.status, reply.body) == (200, b"")

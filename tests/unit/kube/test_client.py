from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from claimsmith.api.kinds import NODE, POD, RESOURCE_CLAIM
from claimsmith.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidObjectError,
    NotFoundError,
    ThrottledError,
)
from claimsmith.kube.client import KubeClient, Preconditions, WatchEvent
from claimsmith.kube.transport import Answer, Request
from claimsmith.model.names import PodRef


class ScriptedTransport:
    """Answers requests from a list, and keeps them."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.answers.pop(0)

    async def stream(self, request: Request) -> AsyncGenerator[bytes | Answer, None]:
        self.requests.append(request)
        for answer in self.answers:
            if answer.status != 200:
                yield answer
            else:
                yield answer.body

    async def close(self) -> None:
        self.answers.clear()


def ok(body: object = None, *, status: int = 200) -> Answer:
    return Answer(status=status, body=msgspec.json.encode(body if body is not None else {}))


def failed(code: int, reason: str = "", **details: Any) -> Answer:
    return ok({"kind": "Status", "message": "because", "reason": reason, "details": details}, status=code)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (failed(404, "NotFound"), NotFoundError),
        (failed(409, "Conflict"), ConflictError),
        (failed(409, "AlreadyExists"), AlreadyExistsError),
        (failed(410, "Expired"), GoneError),
        (failed(401, "Unauthorized"), ForbiddenError),
        (failed(403, "Forbidden"), ForbiddenError),
        (failed(422, "Invalid"), InvalidObjectError),
        (failed(422, "Invalid", causes=[{"field": "metadata.name"}]), InvalidObjectError),
        (failed(422, "Invalid", causes=[{"field": "metadata.uid"}]), ConflictError),
        (failed(400, "BadRequest"), InvalidObjectError),
        (Answer(status=502, body=b"<html>bad gateway</html>"), ApiError),
    ],
)
async def test_a_refusal_becomes_the_error_that_says_who_must_act(answer: Answer, error: type[ApiError]) -> None:
    client = KubeClient(ScriptedTransport(answer))

    with pytest.raises(error, match="GET /api/v1/namespaces/default/pods/x: API server answered") as caught:
        await client.get(POD, "x", namespace="default")
    assert type(caught.value) is error


async def test_an_answer_that_is_no_json_object_names_the_address() -> None:
    client = KubeClient(ScriptedTransport(Answer(status=200, body=b"<html>hello")))

    with pytest.raises(ApiError, match=r"GET /api/v1/nodes/a: found an answer that starts with '<html>hello'"):
        await client.get(NODE, "a")


async def test_the_pages_of_a_list_are_put_together() -> None:
    first = {"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [{"a": 1}]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [{"a": 2}]}
    transport = ScriptedTransport(ok(first), ok(second))

    listed = await KubeClient(transport).list(RESOURCE_CLAIM, limit=1)

    assert (listed.items, listed.resource_version) == ([{"a": 1}, {"a": 2}], "7")
    assert "continue=next" in transport.requests[1].target


async def test_a_busy_server_is_asked_again_after_the_pause_it_wants() -> None:
    transport = ScriptedTransport(failed(429, retryAfterSeconds=0), ok({"kind": "Node"}))

    found = await KubeClient(transport).get(NODE, "a")

    assert found == {"kind": "Node"}


async def test_a_server_that_stays_busy_is_reported_as_busy() -> None:
    transport = ScriptedTransport(*[failed(429, retryAfterSeconds=0)] * 4)

    with pytest.raises(ThrottledError):
        await KubeClient(transport).get(NODE, "a")


async def test_an_eviction_that_a_budget_refuses_is_not_repeated() -> None:
    transport = ScriptedTransport(failed(429, "TooManyRequests", retryAfterSeconds=0))

    with pytest.raises(ThrottledError):
        await KubeClient(transport).evict(PodRef("default", "x"))
    assert len(transport.requests) == 1


async def test_a_watch_gives_events_and_stops_at_an_error_event() -> None:
    added = {"type": "ADDED", "object": {"metadata": {"name": "a"}}}
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}}
    watch = KubeClient(ScriptedTransport(ok(added), ok(expired))).watch(POD, resource_version="3")
    seen = [await anext(watch)]

    with pytest.raises(GoneError, match="watch of /api/v1/pods"):
        await anext(watch)
    assert seen == [WatchEvent("ADDED", {"metadata": {"name": "a"}})]


async def test_a_watch_asks_for_bookmarks_and_an_end() -> None:
    transport = ScriptedTransport()

    assert [event async for event in KubeClient(transport).watch(POD, resource_version="3", timeout_s=50)] == []
    assert transport.requests[0].target == (
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=50&resourceVersion=3"
    )


async def test_deletion_carries_its_preconditions() -> None:
    transport = ScriptedTransport(ok())

    await KubeClient(transport).delete(POD, "x", namespace="n", preconditions=Preconditions(uid="u1"), grace_period_s=0)

    assert msgspec.json.decode(transport.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u1"},
    }


async def test_apply_names_the_manager_and_completes_the_object() -> None:
    transport = ScriptedTransport(ok())

    await KubeClient(transport).apply(NODE, {"metadata": {"name": "a"}}, field_manager="me", force=True)

    assert transport.requests[0].target == "/api/v1/nodes/a?fieldManager=me&force=true"
    assert transport.requests[0].content_type == "application/apply-patch+yaml"
    assert msgspec.json.decode(transport.requests[0].body) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
    }


async def test_a_pod_is_bound_by_its_uid() -> None:
    transport = ScriptedTransport(ok(status=201))

    await KubeClient(transport).bind(PodRef("default", "x"), "node-a", uid="u1")

    body = msgspec.json.decode(transport.requests[0].body)
    assert transport.requests[0].target == "/api/v1/namespaces/default/pods/x/binding?fieldManager=claimsmith"
    assert (body["metadata"]["uid"], body["target"]["name"]) == ("u1", "node-a")

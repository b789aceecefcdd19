"""The output of containers: where it comes from, and `pods/NAME/log`.

Source: k8s.io/kubernetes v1.37.2 pkg/registry/core/pod/strategy.go (LogLocation); PodLogOptions of core/v1.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from claimsmith.embedded.api.ages import parse_time
from claimsmith.embedded.api.http import Answer, Request, Stream
from claimsmith.embedded.store_changes import format_time
from claimsmith.embedded.store_faults import bad_request
from claimsmith.embedded.store_records import JsonObject, Record

__all__ = ["LogLine", "LogSource", "answer_log"]

_TEXT: Final = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line that a container wrote.

    Args:
        time_s: When, in seconds since 1970.
        text: The line, without its end.
    """

    time_s: float
    text: str


class LogSource(Protocol):
    """Where the output of containers comes from; the kubelets of the cluster are one."""

    def find_lines(self, pod_uid: str, container: str) -> Sequence[LogLine] | None:
        """Return what a container has written so far; None if it has not started."""

    def follow_lines(self, pod_uid: str, container: str, *, after: int) -> AsyncIterator[LogLine]:
        """Yield what a container writes, without the first `after` lines, until it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogOptions:
    container: str
    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    limit_bytes: int | None = None
    since_s: float | None = None


def answer_log(
    source: LogSource | None, record: Record, request: Request, *, now: float, ending: asyncio.Event
) -> Answer | Stream:
    """Return the output of a container of a pod.

    Args:
        source: Where output comes from; None if nothing runs here.
        record: The pod.
        request: The request with its options.
        now: Seconds since 1970.
        ending: Set when the server ends; nothing is followed any longer then.

    Raises:
        RequestError: 400, there is no such container, or it has not started.
    """
    options = _parse_options(record, request.query, now)
    uid = record.value["metadata"]["uid"]
    lines = source.find_lines(uid, options.container) if source is not None else None
    if source is None or lines is None:
        if not (record.value.get("spec") or {}).get("nodeName"):
            return Answer(body=b"", content_type=_TEXT)
        why = _waiting_reason(record, options.container)
        raise bad_request(f'container "{options.container}" in pod "{record.name}" is waiting to start: {why}')
    body = _first_bytes(_render(_select(lines, options), options), options)
    if not options.follow:
        return Answer(body=body, content_type=_TEXT)
    follower = source.follow_lines(uid, options.container, after=len(lines))

    async def pump(write: Callable[[bytes], Awaitable[None]]) -> None:
        if body:
            await write(body)
        async for line in follower:
            await write(_render([line], options))

    return Stream(run=lambda write: _until_first(pump(write), _until_gone(request), ending.wait()), content_type=_TEXT)


async def _until_first(*ends: Coroutine[Any, Any, Any]) -> None:
    """Run until the first of several things has happened; stop the others."""
    tasks = [asyncio.create_task(end) for end in ends]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _parse_options(record: Record, query: Mapping[str, str], now: float) -> _LogOptions:
    since_s = None
    if query.get("sinceTime"):
        since_s = parse_time(query["sinceTime"])
    elif query.get("sinceSeconds"):
        since_s = now - (_parse_number(query, "sinceSeconds") or 0)
    return _LogOptions(
        container=_choose_container(record, query.get("container", "")),
        follow=query.get("follow") == "true",
        timestamps=query.get("timestamps") == "true",
        tail=_parse_number(query, "tailLines"),
        limit_bytes=_parse_number(query, "limitBytes"),
        since_s=since_s,
    )


def _parse_number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not text.isdigit() or len(text) > 18:
        raise bad_request(f"{name}: found {text[:80]!r}, allowed a whole number >= 0")
    return int(text)


def _choose_container(record: Record, wanted: str) -> str:
    spec: JsonObject = record.value.get("spec") or {}
    names = [found["name"] for found in spec.get("containers") or ()]
    others = [found["name"] for found in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in (*names, *others):
            raise bad_request(f"container {wanted[:80]} is not valid for pod {record.name}")
        return wanted
    if len(names) != 1:
        message = f"a container name must be specified for pod {record.name}, choose one of: [{' '.join(names)}]"
        if others:
            message += f" or one of the init containers: [{' '.join(others)}]"
        raise bad_request(message)
    only: str = names[0]
    return only


def _waiting_reason(record: Record, container: str) -> str:
    statuses = (record.value.get("status") or {}).get("containerStatuses") or ()
    for status in statuses:
        waiting = (status.get("state") or {}).get("waiting") or {}
        if status.get("name") == container and waiting.get("reason"):
            return str(waiting["reason"])
    return "ContainerCreating"


def _select(lines: Sequence[LogLine], options: _LogOptions) -> Sequence[LogLine]:
    since_s = options.since_s
    if since_s is not None:
        lines = [line for line in lines if line.time_s >= since_s]
    if options.tail is not None:
        lines = lines[len(lines) - options.tail :] if options.tail < len(lines) else lines
    return lines


def _render(lines: Sequence[LogLine], options: _LogOptions) -> bytes:
    if options.timestamps:
        return "".join(f"{format_time(line.time_s)} {line.text}\n" for line in lines).encode()
    return "".join(f"{line.text}\n" for line in lines).encode()


def _first_bytes(body: bytes, options: _LogOptions) -> bytes:
    return body if options.limit_bytes is None else body[: options.limit_bytes]

from __future__ import annotations

import asyncio

from claimsmith.embedded.api.logs import LogLine, LogSource
from claimsmith.embedded.kubelet.logs import ContainerLogs


def line(text: str) -> LogLine:
    return LogLine(time_s=1.0, text=text)


async def follow(source: LogSource, after: int) -> list[str]:
    return [found.text async for found in source.follow_lines("u", "main", after=after)]


async def test_a_container_that_has_not_started_has_no_lines_at_all() -> None:
    assert ContainerLogs().find_lines("u", "main") is None


async def test_a_follower_gets_what_comes_until_the_container_ends() -> None:
    logs = ContainerLogs()
    logs.write("u", "main", [line("one"), line("two")])
    following = asyncio.ensure_future(follow(logs, 1))
    await asyncio.sleep(0)
    logs.write("u", "main", [line("three")])
    await asyncio.sleep(0)
    logs.end("u", "main")

    assert await following == ["two", "three"]


async def test_a_follower_of_a_container_that_has_ended_ends_at_once() -> None:
    logs = ContainerLogs()
    logs.write("u", "main", [line("one")])
    logs.end("u", "main")

    assert await follow(logs, 0) == ["one"]


async def test_a_follower_ends_when_the_pod_is_gone() -> None:
    logs = ContainerLogs()
    logs.write("u", "main", [line("one")])
    following = asyncio.ensure_future(follow(logs, 0))
    await asyncio.sleep(0)
    logs.forget("u")

    assert await following == ["one"]
    assert logs.find_lines("u", "main") is None

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from claimsmith.api.kinds import POD, Kind
from claimsmith.errors import ForbiddenError, NotFoundError
from claimsmith.kube.events import EventRecorder, ObjectReference, cut_text

ABOUT = ObjectReference(kind=POD, name="p", namespace="ns", uid="u1")


class EventServer:
    """Keeps events by name; can lose or refuse them."""

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.refuses = False
        self.asked = asyncio.Semaphore(0)

    async def create(self, kind: Kind, obj: dict[str, Any], *, namespace: str = "") -> dict[str, Any]:
        self.writes += 1
        self.asked.release()
        if self.refuses:
            raise ForbiddenError("no", status=403)
        self.events[obj["metadata"]["name"]] = dict(obj)
        return obj

    async def patch(self, kind: Kind, name: str, patch: dict[str, Any], *, namespace: str = "") -> dict[str, Any]:
        self.writes += 1
        if name not in self.events:
            raise NotFoundError("gone", status=404)
        self.events[name].update(patch)
        return self.events[name]


class Recorded:
    def __init__(self) -> None:
        self.server = EventServer()
        self.moment = datetime(2030, 1, 1, tzinfo=UTC)
        self.recorder = EventRecorder(self.server, "test", now=lambda: self.moment)

    async def written(self) -> list[dict[str, Any]]:
        await self.recorder.flush()
        return list(self.server.events.values())


async def test_a_repeated_event_is_counted_in_one_object() -> None:
    run = Recorded()
    for _ in range(3):
        run.recorder.record(ABOUT, "Warning", "FailedScheduling", "no device")
        await run.recorder.flush()
        run.moment += timedelta(seconds=7)

    events = await run.written()

    assert [(event["count"], event["lastTimestamp"]) for event in events] == [(3, "2030-01-01T00:00:14Z")]


async def test_events_of_another_text_are_objects_of_their_own() -> None:
    run = Recorded()
    run.recorder.record(ABOUT, "Normal", "Scheduled", "to a")
    run.recorder.record(ABOUT, "Normal", "Scheduled", "to b")

    assert [event["message"] for event in await run.written()] == ["to a", "to b"]


async def test_one_object_cannot_flood_the_server() -> None:
    run = Recorded()
    for number in range(100):
        run.recorder.record(ABOUT, "Normal", "Noise", f"number {number}")
        await run.recorder.flush()

    assert run.server.writes == 25


async def test_the_budget_of_an_object_comes_back_with_time() -> None:
    run = Recorded()
    for number in range(30):
        run.recorder.record(ABOUT, "Normal", "Noise", f"number {number}")
    await run.recorder.flush()
    run.moment += timedelta(seconds=21)
    for number in range(10):
        run.recorder.record(ABOUT, "Normal", "Noise", f"later {number}")
    await run.recorder.flush()

    assert run.server.writes == 27


async def test_an_event_that_the_server_lost_is_made_again() -> None:
    run = Recorded()
    run.recorder.record(ABOUT, "Normal", "Pulled", "x")
    await run.recorder.flush()
    run.server.events.clear()
    run.recorder.record(ABOUT, "Normal", "Pulled", "x")

    assert [event["count"] for event in await run.written()] == [2]


async def test_a_refused_event_is_dropped_and_counted_and_the_next_one_is_written() -> None:
    run = Recorded()
    run.server.refuses = True
    task = asyncio.create_task(run.recorder.run())
    run.recorder.record(ABOUT, "Normal", "A", "x")
    await asyncio.wait_for(run.server.asked.acquire(), 60)
    run.server.refuses = False
    run.recorder.record(ABOUT, "Normal", "B", "x")
    await asyncio.wait_for(run.server.asked.acquire(), 60)
    task.cancel()

    assert run.recorder.dropped == 1
    assert [event["reason"] for event in await run.written()] == ["B"]


def test_a_long_text_is_cut_to_bytes_without_cutting_a_character() -> None:
    assert cut_text("ä" * 10, bytes_max=10) == "äää…"


def test_a_text_of_exactly_the_limit_stays() -> None:
    assert cut_text("a" * 10, bytes_max=10) == "a" * 10

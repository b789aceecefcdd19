from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from claimsmith.api.kinds import POD
from claimsmith.errors import FieldError, GoneError, NotFoundError, UnreachableError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import ObjectList, WatchEvent
from claimsmith.kube.reflector import ObjectKey, Reflector
from tests.unit.kube.scripted import OPENED, ScriptedSource, Step, bookmark, pod

Change = tuple[str | None, str | None]


def spot(obj: dict[str, Any]) -> str:
    if "broken" in obj["spec"]:
        raise FieldError("spec.broken", True, allowed="nothing", hint="remove it")
    return f"{obj['metadata']['name']}@{obj['metadata']['resourceVersion']}"


class Followed:
    """A reflector run on a script until the script is used up, with what its handler heard and how it paused."""

    def __init__(self, lists: list[ObjectList | Exception], watches: list[list[Step]]) -> None:
        self.source = ScriptedSource(lists, watches)
        self.changes: list[Change] = []
        self.pauses_s: list[float] = []
        self.seconds, self.step_s = 0.0, 5.0
        backoff = Backoff(initial_s=1.0, jitter=0.0, random=Random(1), pause=self._pause)
        self.reflector = Reflector(self.source, POD, spot, backoff=backoff, clock=self._clock)
        self.reflector.subscribe(lambda old, new: self.changes.append((old, new)))

    def _clock(self) -> float:
        self.seconds += self.step_s
        return self.seconds

    async def _pause(self, seconds: float) -> None:
        self.pauses_s.append(seconds)

    async def until_idle(self) -> Followed:
        task = asyncio.create_task(self.reflector.run())
        try:
            async with asyncio.timeout(60):
                await self.source.idle.wait()
        finally:
            task.cancel()
        return self


def listed(version: int, *items: dict[str, Any]) -> ObjectList:
    return ObjectList(items=list(items), resource_version=str(version))


async def test_handlers_hear_the_list_and_then_each_change() -> None:
    events: list[Step] = [
        WatchEvent("ADDED", pod("b", 6)),
        WatchEvent("MODIFIED", pod("a", 7)),
        WatchEvent("DELETED", pod("b", 8)),
    ]

    run = await Followed([listed(5, pod("a", 3))], [events]).until_idle()

    assert run.changes == [(None, "a@3"), (None, "b@6"), ("a@3", "a@7"), ("b@6", None)]


async def test_a_watch_goes_on_where_the_last_bookmark_was() -> None:
    run = await Followed([listed(5)], [[bookmark(17)]]).until_idle()

    assert run.source.watched_from == ["5", "17"]


async def test_a_broken_watch_resumes_without_a_new_list() -> None:
    broken: list[Step] = [WatchEvent("ADDED", pod("a", 6)), UnreachableError("broken")]

    run = await Followed([listed(5)], [broken]).until_idle()

    assert run.source.watched_from == ["5", "6"]


async def test_after_410_what_is_gone_from_the_new_list_counts_as_deleted() -> None:
    lists: list[ObjectList | Exception] = [listed(5, pod("a", 3), pod("b", 4)), listed(90, pod("b", 4), pod("c", 80))]

    run = await Followed(lists, [[GoneError("too old")]]).until_idle()

    assert run.changes == [(None, "a@3"), (None, "b@4"), ("a@3", None), (None, "c@80")]


async def test_the_first_410_is_answered_at_once_and_the_next_ones_after_growing_pauses() -> None:
    gone: list[list[Step]] = [[GoneError("too old")] for _ in range(4)]

    run = await Followed([listed(n) for n in range(1, 6)], gone).until_idle()

    assert run.pauses_s == [2.0, 4.0, 8.0]


async def test_pauses_grow_while_the_server_is_away_and_shrink_after_an_event() -> None:
    away = UnreachableError("away")
    watches: list[list[Step]] = [[away], [away], [bookmark(6), away]]

    run = await Followed([away, listed(5)], watches).until_idle()

    assert run.pauses_s == [1.0, 2.0, 4.0, 1.0]


async def test_an_error_is_over_when_a_watch_is_open_though_nothing_changes() -> None:
    run = await Followed([listed(5)], [[UnreachableError("away")]]).until_idle()

    assert run.reflector.last_error is None


async def test_pauses_shrink_after_a_watch_that_lasted_though_nothing_changed() -> None:
    away = UnreachableError("away")

    run = await Followed([listed(5)], [[away], [away], [OPENED, away]]).until_idle()

    assert run.pauses_s == [1.0, 2.0, 1.0]


async def test_pauses_grow_while_watches_break_as_soon_as_they_are_open() -> None:
    run = Followed([listed(5)], [[OPENED, UnreachableError("away")] for _ in range(3)])
    run.step_s = 0.1
    await run.until_idle()

    assert run.pauses_s == [1.0, 2.0, 4.0]


async def test_an_object_that_cannot_be_read_counts_as_absent_and_stops_nobody() -> None:
    events: list[Step] = [WatchEvent("MODIFIED", pod("a", 6, broken=True)), WatchEvent("ADDED", pod("b", 7))]

    run = await Followed([listed(5, pod("a", 3))], [events]).until_idle()

    assert run.changes == [(None, "a@3"), ("a@3", None), (None, "b@7")]
    assert list(run.reflector.undecodable) == [ObjectKey("default", "a")]


async def test_a_late_handler_hears_what_is_already_there() -> None:
    run = await Followed([listed(5, pod("a", 3))], []).until_idle()
    late: list[Change] = []

    run.reflector.subscribe(lambda old, new: late.append((old, new)))

    assert late == [(None, "a@3")]


async def test_waiting_for_the_first_list_ends_with_an_empty_list() -> None:
    run = await Followed([listed(5)], []).until_idle()

    await asyncio.wait_for(run.reflector.wait_synced(), 60)

    assert len(run.reflector) == 0


async def test_a_kind_that_the_server_does_not_know_has_no_objects_until_it_does() -> None:
    run = Followed([NotFoundError("no such kind", status=404), listed(5, pod("a", 3))], [])
    run.reflector.subscribe(lambda old, new: run.source.idle.set())
    waited = asyncio.create_task(run.reflector.wait_synced())
    await run.until_idle()

    assert waited.done()
    assert run.changes == [(None, "a@3")]


async def test_a_handler_that_fails_does_not_stop_the_others() -> None:
    run = Followed([listed(5, pod("a", 3))], [[WatchEvent("ADDED", pod("b", 6))]])
    heard: list[str | None] = []

    def fail(old: str | None, new: str | None) -> None:
        raise RuntimeError("a bug")

    run.reflector.subscribe(fail)
    run.reflector.subscribe(lambda old, new: heard.append(new))
    await run.until_idle()

    assert heard == ["a@3", "b@6"]

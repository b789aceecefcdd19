from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from claimsmith.errors import ConflictError
from claimsmith.kube.workqueue import WorkQueue


class Work:
    """Keeps what was worked on; `steps` says what the work on a key does, one entry per turn."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.steps: dict[str, list[Callable[[], Awaitable[None]]]] = {}
        self.counts: Counter[str] = Counter()
        self.more = asyncio.Event()

    async def __call__(self, key: str) -> None:
        self.counts[key] += 1
        self.more.set()
        for step in self.steps.get(key, [])[:1]:
            self.steps[key].pop(0)
            await step()
        self.done.append(key)
        self.more.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.more.clear()
                await self.more.wait()


async def fail() -> None:
    raise ConflictError("changed")


async def crash() -> None:
    raise RuntimeError("a bug")


async def run(work: Work, *keys: str, until: Callable[[], bool], workers: int = 4) -> None:
    queue = WorkQueue("test", work, workers=workers, random=Random(1))
    for key in keys:
        queue.add(key)
    task = asyncio.create_task(queue.run())
    try:
        await work.until(until)
    finally:
        task.cancel()


async def test_a_key_added_twice_is_worked_on_once() -> None:
    work = Work()

    await run(work, "a", "a", "b", until=lambda: "b" in work.done)

    assert sorted(work.done) == ["a", "b"]


async def test_a_failed_key_is_tried_again_and_does_not_hold_up_others() -> None:
    work = Work()
    work.steps["a"] = [fail, fail]

    await run(work, "a", "b", until=lambda: "a" in work.done, workers=1)

    assert (work.done, work.counts["a"]) == (["b", "a"], 3)


async def test_a_crash_of_the_work_is_tried_again_too() -> None:
    work = Work()
    work.steps["a"] = [crash]

    await run(work, "a", until=lambda: "a" in work.done)

    assert work.counts["a"] == 2


async def test_a_key_added_while_it_is_worked_on_is_worked_on_once_more_afterwards() -> None:
    work = Work()
    queue = WorkQueue("test", work)
    inside: list[int] = []

    async def add_again() -> None:
        queue.add("a")
        queue.add("a")
        await asyncio.sleep(0)
        inside.append(work.counts["a"])

    work.steps["a"] = [add_again]
    queue.add("a")
    task = asyncio.create_task(queue.run())
    await work.until(lambda: work.done == ["a", "a"])
    task.cancel()

    assert inside == [1]


async def test_a_later_key_waits_for_its_time() -> None:
    work, now = Work(), [0.0]
    queue = WorkQueue("test", work, clock=lambda: now[0])
    queue.add_after("late", 30.0)
    queue.add("early")
    task = asyncio.create_task(queue.run())
    await work.until(lambda: work.done == ["early"])
    now[0] = 31.0
    queue.add("now")
    await work.until(lambda: len(work.done) == 3)
    task.cancel()

    assert sorted(work.done[1:]) == ["late", "now"]

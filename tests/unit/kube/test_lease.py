from __future__ import annotations

import asyncio
import copy
from typing import Any

from claimsmith.api.kinds import Kind
from claimsmith.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError, UnreachableError
from claimsmith.kube.lease import LeaderLease, LeaseTimes
from claimsmith.kube.reflector import ObjectKey

KEY = ObjectKey("kube-system", "claimsmith")


class LeaseServer:
    """Keeps one Lease with a resourceVersion that must fit."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.failure: ApiError | None = None
        self.hangs = False

    def _store(self, obj: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return copy.deepcopy(self.lease)

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> dict[str, Any]:
        if self.failure:
            raise self.failure
        if self.hangs:
            await asyncio.Event().wait()
        if self.lease is None:
            raise NotFoundError("no lease", status=404)
        return copy.deepcopy(self.lease)

    async def create(self, kind: Kind, obj: dict[str, Any], *, namespace: str = "") -> dict[str, Any]:
        if self.lease is not None:
            raise AlreadyExistsError("there", status=409)
        return self._store(obj)

    async def update(self, kind: Kind, obj: dict[str, Any], *, subresource: str = "") -> dict[str, Any]:
        if obj["metadata"]["resourceVersion"] != str(self.version):
            raise ConflictError("changed", status=409)
        return self._store(obj)

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    async def pause(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)


def candidate(server: LeaseServer, name: str, clock: Clock) -> LeaderLease:
    times = LeaseTimes(duration_s=15.0, renew_deadline_s=10.0, retry_s=2.0)
    return LeaderLease(server, KEY, identity=name, times=times, clock=clock, pause=clock.pause)


async def test_the_first_candidate_leads_and_the_second_waits() -> None:
    server, clock = LeaseServer(), Clock()
    first, second = candidate(server, "first", clock), candidate(server, "second", clock)

    assert (await first.try_hold(), await second.try_hold()) == (True, False)


class SlowServer(LeaseServer):
    """Lets others in between its answer to a read and what follows."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> dict[str, Any]:
        try:
            return await super().get(kind, name, namespace=namespace)
        finally:
            await asyncio.sleep(0)


async def test_of_two_that_ask_at_once_one_leads_and_the_other_has_nothing_to_complain_of() -> None:
    server, clock = SlowServer(), Clock()
    both = candidate(server, "first", clock), candidate(server, "second", clock)
    new = await asyncio.gather(*(one.try_hold() for one in both))
    for one in both:
        await one.release()
    free = await asyncio.gather(*(one.try_hold() for one in both))

    assert (new, free) == ([True, False], [True, False])
    assert [one.last_error for one in both] == [None, None]


async def test_a_lease_that_nobody_renews_is_taken_after_its_duration() -> None:
    server, clock = LeaseServer(), Clock()
    await candidate(server, "first", clock).try_hold()
    second = candidate(server, "second", clock)
    held = [await second.try_hold()]
    for _ in range(2):
        clock.now_s += 8.0
        held.append(await second.try_hold())

    assert held == [False, False, True]


async def test_a_renewed_lease_is_not_taken() -> None:
    server, clock = LeaseServer(), Clock()
    first, second = candidate(server, "first", clock), candidate(server, "second", clock)
    await first.try_hold()
    await second.try_hold()
    clock.now_s += 14.0
    await first.try_hold()
    clock.now_s += 14.0

    assert not await second.try_hold()


async def test_a_released_lease_is_free_at_once() -> None:
    server, clock = LeaseServer(), Clock()
    first, second = candidate(server, "first", clock), candidate(server, "second", clock)
    await first.try_hold()
    await first.release()

    assert await second.try_hold()


async def test_work_is_cancelled_when_somebody_else_took_the_lease() -> None:
    server, clock = LeaseServer(), Clock()
    first = candidate(server, "first", clock)
    ended = asyncio.Event()

    async def work() -> None:
        assert server.lease is not None
        server.lease["spec"]["holderIdentity"] = "thief"
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await asyncio.wait_for(first.lead(work), 60)

    assert ended.is_set()
    assert server.holder == "thief"


async def test_work_is_cancelled_when_the_server_is_away_for_too_long() -> None:
    server, clock = LeaseServer(), Clock()
    first = candidate(server, "first", clock)

    async def work() -> None:
        server.failure = UnreachableError("away")
        await asyncio.Event().wait()

    await asyncio.wait_for(first.lead(work), 60)

    assert clock.now_s >= 110.0


async def test_the_lease_is_given_back_when_the_work_is_done() -> None:
    server, clock = LeaseServer(), Clock()
    first = candidate(server, "first", clock)

    async def work() -> None:
        assert server.holder == "first"

    await asyncio.wait_for(first.lead(work), 60)

    assert server.holder == ""


async def test_work_is_cancelled_when_the_server_does_not_answer_at_all() -> None:
    server = LeaseServer()
    times = LeaseTimes(duration_s=0.3, renew_deadline_s=0.1, retry_s=0.01)
    first = LeaderLease(server, KEY, identity="first", times=times)

    async def work() -> None:
        server.hangs = True
        await asyncio.Event().wait()

    await asyncio.wait_for(first.lead(work), 60)

    assert not first.is_leader


async def test_the_last_failure_is_known_until_an_answer_comes() -> None:
    server, clock = LeaseServer(), Clock()
    first = candidate(server, "first", clock)
    server.failure = UnreachableError("away")
    await first.try_hold()
    failed = first.last_error
    server.failure = None
    await first.try_hold()

    assert str(failed) == "away"
    assert first.last_error is None

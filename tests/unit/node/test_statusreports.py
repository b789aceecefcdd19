from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from claimsmith.errors import ApiError, ConflictError, InvalidObjectError, NotFoundError, UnreachableError
from claimsmith.kube.backoff import Backoff
from claimsmith.model.claim import AllocatedDeviceStatus
from claimsmith.node.claimstatus import ClaimStatus
from claimsmith.node.statusreports import StatusReports
from claimsmith.testing.builders import claim_key

REPORT = AllocatedDeviceStatus(driver="d", pool="p", device="gpu-0")


class Server:
    """Takes statuses, or fails; `failures` are raised first."""

    def __init__(self, *failures: ApiError) -> None:
        self.failures, self.tries = list(failures), 0
        self.written: asyncio.Queue[ClaimStatus] = asyncio.Queue()

    async def write_devices(self, status: ClaimStatus) -> None:
        self.tries += 1
        if self.failures:
            raise self.failures.pop(0)
        self.written.put_nowait(status)


class Bench:
    def __init__(self, *failures: ApiError) -> None:
        self.server, self.pauses = Server(*failures), 0
        self.statuses: dict[str, ClaimStatus] = {}
        self.reports = StatusReports(self.server, self.statuses.get, backoff=Backoff(pause=self.pause))

    async def pause(self, seconds: float) -> None:
        self.pauses += 1

    def say(self, name: str = "claim") -> None:
        self.statuses[f"uid-{name}"] = ClaimStatus(claim=claim_key(name), devices=(REPORT,))
        self.reports.note(claim_key(name))

    async def next(self) -> ClaimStatus:
        return await asyncio.wait_for(self.server.written.get(), 60)

    @contextlib.asynccontextmanager
    async def running(self, *known: str) -> AsyncIterator[None]:
        task = asyncio.create_task(self.reports.run([claim_key(name) for name in known]))
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_status_is_written_once() -> None:
    bench = Bench()
    async with bench.running():
        bench.say()
        await bench.next()
        bench.say("other")
        await bench.next()

    assert bench.server.tries == 2


async def test_a_status_is_taken_back_when_the_claim_is_unprepared() -> None:
    bench = Bench()
    async with bench.running():
        bench.say()
        await bench.next()
        bench.statuses.clear()
        bench.reports.note(claim_key())

        assert await bench.next() == ClaimStatus(claim=claim_key())


async def test_what_another_instance_told_is_taken_back_too() -> None:
    bench = Bench()
    bench.statuses["uid-claim"] = ClaimStatus(claim=claim_key(), devices=(REPORT,))
    async with bench.running():
        bench.reports.remember(claim_key())
        bench.statuses.clear()
        bench.reports.note(claim_key())

        assert await bench.next() == ClaimStatus(claim=claim_key())


async def test_claims_of_drivers_that_tell_nothing_cost_no_request() -> None:
    bench = Bench()
    async with bench.running():
        bench.reports.note(claim_key("silent"))
        bench.say()
        await bench.next()

    assert bench.server.tries == 1


async def test_what_a_stopped_process_did_not_tell_is_told_after_the_start() -> None:
    bench = Bench()
    bench.statuses["uid-claim"] = ClaimStatus(claim=claim_key(), devices=(REPORT,))
    async with bench.running("claim"):
        assert (await bench.next()).devices == (REPORT,)


async def test_a_server_that_is_away_is_tried_again_after_pauses() -> None:
    bench = Bench(UnreachableError("away"), UnreachableError("away"))
    async with bench.running():
        bench.say()
        await bench.next()

    assert (bench.server.tries, bench.pauses) == (3, 2)


@pytest.mark.parametrize("error", [NotFoundError("gone"), ConflictError("another uid"), InvalidObjectError("wrong")])
async def test_what_can_not_succeed_is_tried_once_and_keeps_no_other_waiting(error: ApiError) -> None:
    bench = Bench(error)
    async with bench.running():
        bench.say("hopeless")
        bench.say("other")

        assert (await bench.next()).claim == claim_key("other")
    assert bench.pauses == 0

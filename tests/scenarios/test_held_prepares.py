"""Prepare calls that can't succeed yet wait, over real sockets, and nothing waits behind them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import pytest

from claimsmith.kubelet import dra_v1_pb2 as v1
from claimsmith.kubelet.services import PREPARE_V1
from claimsmith.model.names import ClaimRef
from claimsmith.node.holding import Holding
from claimsmith.telemetry import PREPARES_WAITING
from claimsmith.testing.builders import allocated, claim, request
from tests.scenarios.plugin_bench import DRIVER, PluginBench, call, named, prepare, ready, unprepare
from tests.unit.node.waiting_clock import JumpingClock, StandingClock


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def bench(clock: StandingClock) -> Iterator[PluginBench]:
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        made = PluginBench(Path(folder))
        made.holding = Holding(clock=clock)
        yield made


def want(bench: PluginBench, name: str, device: str) -> None:
    made = ready(name, device)
    bench.claims.claims[made.ref] = made


async def test_the_next_claim_of_a_device_waits_until_the_old_one_is_unprepared(
    bench: PluginBench, clock: StandingClock
) -> None:
    want(bench, "next", "gpu-0")
    async with bench.plugin():
        await prepare(bench, "a")
        waiting = asyncio.create_task(prepare(bench, "next"))
        await clock.waits.wait()
        released = await unprepare(bench, "a")

        assert released == {"uid-a": ""}
        assert not (await waiting)["uid-next"].error


async def test_the_number_of_waiting_calls_is_measured(bench: PluginBench, clock: StandingClock) -> None:
    want(bench, "next", "gpu-0")
    async with bench.plugin() as plugin:
        await prepare(bench, "a")
        waiting = asyncio.create_task(prepare(bench, "next"))
        await clock.waits.wait()
        sample = (PREPARES_WAITING, (("driver", DRIVER),))
        during = plugin.meter.values()[sample]
        await unprepare(bench, "a")
        await waiting

        assert (during, plugin.meter.values()[sample]) == (1, 0)


async def test_neither_other_calls_nor_other_claims_of_the_call_wait(bench: PluginBench, clock: StandingClock) -> None:
    want(bench, "next", "gpu-0")
    want(bench, "c", "gpu-2")
    async with bench.plugin() as plugin:
        await prepare(bench, "a")
        waiting = asyncio.create_task(prepare(bench, "next", "b"))
        await clock.waits.wait()
        other = await prepare(bench, "c")

        assert not other["uid-c"].error
        assert {entry.claim.name for entry in plugin.prepared()} == {"a", "b", "c"}
        await unprepare(bench, "a")
        assert {uid: entry.error for uid, entry in (await waiting).items()} == {"uid-next": "", "uid-b": ""}


async def test_a_claim_that_is_not_allocated_yet_is_prepared_once_it_is(
    bench: PluginBench, clock: StandingClock
) -> None:
    bench.claims.claims[ClaimRef("default", "late")] = claim("late", request())
    async with bench.plugin():
        waiting = asyncio.create_task(prepare(bench, "late"))
        await clock.waits.wait()
        bench.claims.claims[ClaimRef("default", "late")] = allocated(
            claim("late", request()), "gpu-2", reserved_for=["pod"]
        )
        bench.holding.wake()

        assert not (await waiting)["uid-late"].error


async def test_a_claim_is_prepared_when_the_api_server_comes_back(bench: PluginBench, clock: StandingClock) -> None:
    bench.claims.down = True
    async with bench.plugin():
        waiting = asyncio.create_task(prepare(bench, "a"))
        await clock.waits.wait()
        bench.claims.down = False
        bench.holding.wake()

        assert not (await waiting)["uid-a"].error


async def test_a_driver_that_fails_twice_is_asked_a_third_time(bench: PluginBench) -> None:
    bench.holding, failures = Holding(clock=JumpingClock()), iter((True, True))

    def fail(operation: str) -> None:
        if next(failures, False):
            raise RuntimeError("the card is being reset")

    bench.driver.fail = fail
    async with bench.plugin():
        answer = await prepare(bench, "a")

    assert not answer["uid-a"].error
    assert bench.driver.calls == [("prepare", "uid-a")] * 3


async def test_the_last_reason_is_answered_while_the_kubelet_still_waits(bench: PluginBench) -> None:
    time = JumpingClock()
    bench.holding = Holding(clock=time)
    want(bench, "next", "gpu-0")
    async with bench.plugin():
        await prepare(bench, "a")
        wanted = v1.NodePrepareResourcesRequest(claims=named("next"))
        answer = (await call(bench.service, PREPARE_V1, wanted, timeout_s=20)).claims

    assert "found prepared for claim default/a (uid uid-a)" in answer["uid-next"].error
    assert time.time_s < 19


@pytest.mark.parametrize("name", ["missing", "made-again"])
async def test_a_claim_that_is_gone_is_answered_at_once(bench: PluginBench, name: str) -> None:
    want(bench, "made-again", "gpu-0")
    asked = v1.Claim(namespace="default", name=name, uid="another-uid")
    async with bench.plugin():
        answer = await call(bench.service, PREPARE_V1, v1.NodePrepareResourcesRequest(claims=[asked]))

    assert answer.claims["another-uid"].error


async def test_a_call_that_its_claims_unprepare_overtook_prepares_nothing(
    bench: PluginBench, clock: StandingClock
) -> None:
    want(bench, "next", "gpu-0")
    async with bench.plugin() as plugin:
        await prepare(bench, "a")
        waiting = asyncio.create_task(prepare(bench, "next"))
        await clock.waits.wait()
        await unprepare(bench, "next")
        answer = await waiting

        assert "found it unprepared while the call waited" in answer["uid-next"].error
        assert [entry.claim.name for entry in plugin.prepared()] == ["a"]


async def test_a_claim_is_prepared_again_by_a_call_after_its_unprepare(bench: PluginBench) -> None:
    async with bench.plugin():
        await prepare(bench, "a")
        await unprepare(bench, "a")

        assert not (await prepare(bench, "a"))["uid-a"].error


async def test_a_call_that_the_kubelet_gave_up_prepares_nothing_later(bench: PluginBench, clock: StandingClock) -> None:
    want(bench, "next", "gpu-0")
    async with bench.plugin() as plugin:
        await prepare(bench, "a")
        async with grpc.aio.insecure_channel(f"unix:{bench.service}") as channel:
            rpc = channel.unary_unary(
                PREPARE_V1.path,
                request_serializer=PREPARE_V1.request.SerializeToString,
                response_deserializer=PREPARE_V1.response.FromString,
            )(v1.NodePrepareResourcesRequest(claims=named("next")))
            await clock.waits.wait()
            rpc.cancel()
        await unprepare(bench, "a")
        await prepare(bench, "b")

        assert [entry.claim.name for entry in plugin.prepared()] == ["b"]
        assert bench.holding.waiting == 0

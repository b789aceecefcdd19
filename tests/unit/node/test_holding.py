from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from claimsmith.errors import (
    CheckpointError,
    ClaimNotReadyError,
    ClaimsmithError,
    ConfigError,
    DeviceHeldError,
    DriverAnswerError,
    DriverError,
    FieldError,
    ThrottledError,
)
from claimsmith.node.holding import Holding, HoldPolicy, LoopClock, may_pass
from claimsmith.testing.builders import claim_key
from tests.unit.node.waiting_clock import JumpingClock, StandingClock

BUSY = DeviceHeldError("d/p/gpu-0", holder="default/old", holder_uid="u1")
KUBELET_S = 45.0


def failing(error: Exception, times: int | None = None) -> Callable[[], Awaitable[str]]:
    """Return a try that fails so many times, or always."""
    tries = itertools.count()

    async def attempt() -> str:
        if times is None or next(tries) < times:
            raise error
        return "done"

    return attempt


@pytest.mark.parametrize(
    "error",
    [
        BUSY,
        DriverError("the card is being reset"),
        ClaimNotReadyError(claim_key(), "found no allocation, allowed an allocated claim"),
        ConfigError("file /x: can't be written: No space left on device"),
    ],
)
async def test_what_may_pass_is_tried_again_until_it_has_passed(error: Exception) -> None:
    clock = JumpingClock()

    assert await Holding(clock=clock).hold(failing(error, times=4), subject="c") == "done"
    assert len(clock.pauses) == 4


@pytest.mark.parametrize(
    "error",
    [
        ClaimNotReadyError(claim_key(), "found uid a, allowed b", lasts=True),
        DriverAnswerError("devices[0]", 1, allowed="2"),
        FieldError("opaque.parameters.x", 1, allowed="nothing", hint="remove it"),
        CheckpointError("/x", "found version 9", hint="start the later claimsmith"),
        RuntimeError("a mistake of ours"),
    ],
)
async def test_what_lasts_is_answered_at_once(error: Exception) -> None:
    clock = JumpingClock()
    with pytest.raises(type(error)):
        await Holding(clock=clock).hold(failing(error), subject="c")

    assert not clock.pauses
    assert not may_pass(error)


async def test_the_last_reason_is_answered_before_the_kubelet_gives_up() -> None:
    clock = JumpingClock()
    reasons = iter([DriverError("the first reason"), *[BUSY] * 100])

    async def attempt() -> str:
        raise next(reasons)

    with pytest.raises(DeviceHeldError):
        await Holding(clock=clock).hold(attempt, subject="c", caller_waits_s=KUBELET_S)
    assert 39.0 <= clock.time_s <= 41.0


async def test_a_caller_who_waits_less_is_answered_earlier() -> None:
    clock = JumpingClock()
    with pytest.raises(DeviceHeldError):
        await Holding(clock=clock).hold(failing(BUSY), subject="c", caller_waits_s=9.0)

    assert clock.time_s == pytest.approx(8.0)


async def test_the_pauses_grow_and_stay_below_a_limit_so_that_a_call_costs_few_tries() -> None:
    clock = JumpingClock()
    with pytest.raises(DeviceHeldError):
        await Holding(clock=clock).hold(failing(BUSY), subject="c")

    assert clock.pauses[:6] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0]
    assert len(clock.pauses) <= 14


async def test_a_server_that_asks_for_a_pause_gets_it() -> None:
    clock = JumpingClock()
    refused = ClaimNotReadyError(claim_key(), "it can't be read")
    refused.__cause__ = ThrottledError("too many requests", retry_after_s=7.0)
    await Holding(clock=clock).hold(failing(refused, times=1), subject="c")

    assert clock.pauses == [7.0]


async def test_a_device_that_is_given_back_ends_the_pause() -> None:
    clock, free = StandingClock(), asyncio.Event()
    holding = Holding(clock=clock)

    async def attempt() -> str:
        if not free.is_set():
            raise BUSY
        return "done"

    call = asyncio.create_task(holding.hold(attempt, subject="c"))
    await clock.waits.wait()
    waiting = holding.waiting
    free.set()
    holding.wake()

    assert await call == "done"
    assert (waiting, holding.waiting) == (1, 0)


async def test_a_device_given_back_during_a_try_is_not_missed() -> None:
    clock = StandingClock()
    holding, tries = Holding(clock=clock), itertools.count()

    async def attempt() -> str:
        if next(tries) == 0:
            holding.wake()
            raise BUSY
        return "done"

    assert await asyncio.wait_for(holding.hold(attempt, subject="c"), 60) == "done"


async def test_nothing_is_held_when_the_policy_says_so() -> None:
    clock = JumpingClock()
    with pytest.raises(DeviceHeldError):
        await Holding(HoldPolicy(hold_s=0), clock).hold(failing(BUSY), subject="c")

    assert not clock.pauses


async def test_a_driver_that_never_answers_is_named_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("claimsmith.node.holding._TRY_MIN_S", 0.01)

    async def attempt() -> str:
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(DriverError, match=r"claim c: found no answer of the driver after 0\.01 s"):
        await Holding(HoldPolicy(hold_s=0.01)).hold(attempt, subject="c")


async def test_the_real_clock_ends_a_pause_by_time_and_by_event() -> None:
    clock, event = LoopClock(), asyncio.Event()
    await clock.wait(event, 0.001)
    event.set()
    begun_s = clock.now_s()
    await clock.wait(event, 60.0)

    assert clock.now_s() - begun_s < 30.0


def test_every_error_of_ours_is_either_passing_or_lasting() -> None:
    assert may_pass(ClaimsmithError("unknown"))


async def test_a_call_that_nobody_needs_any_more_ends_within_a_second_also_in_a_long_pause() -> None:
    clock, waste = JumpingClock(), ClaimNotReadyError(claim_key(), "found its pod being deleted", lasts=True)

    async def find_waste() -> ClaimsmithError | None:
        return waste if clock.time_s > 20.0 else None

    with pytest.raises(ClaimNotReadyError, match="found its pod being deleted"):
        await Holding(clock=clock).hold(failing(BUSY), subject="c", find_waste=find_waste)
    assert 20.0 < clock.time_s <= 21.0


async def test_looking_who_needs_the_answer_costs_no_further_tries() -> None:
    tries = []

    async def count() -> str:
        tries.append(1)
        raise BUSY

    async def find_no_waste() -> None:
        return None

    with pytest.raises(DeviceHeldError):
        await Holding(clock=JumpingClock()).hold(count, subject="c")
    plain = len(tries)
    with pytest.raises(DeviceHeldError):
        await Holding(clock=JumpingClock()).hold(count, subject="c", find_waste=find_no_waste)

    assert len(tries) == 2 * plain


async def test_looking_who_needs_the_answer_delays_no_device_that_is_given_back() -> None:
    clock, free = StandingClock(), asyncio.Event()
    holding = Holding(clock=clock)

    async def attempt() -> str:
        if not free.is_set():
            raise BUSY
        return "done"

    async def find_no_waste() -> None:
        return None

    held = asyncio.create_task(holding.hold(attempt, subject="c", find_waste=find_no_waste))
    await clock.waits.wait()
    free.set()
    holding.wake()

    assert await held == "done"


async def test_nobody_is_asked_who_needs_an_answer_once_the_device_is_given_back() -> None:
    clock, free, asked = StandingClock(), asyncio.Event(), []
    holding = Holding(clock=clock)

    async def attempt() -> str:
        if not free.is_set():
            raise BUSY
        return "done"

    async def find_no_waste() -> None:
        asked.append(1)

    held = asyncio.create_task(holding.hold(attempt, subject="c", find_waste=find_no_waste))
    await clock.waits.wait()
    free.set()
    holding.wake()
    await held

    assert asked == []


async def test_a_look_that_never_ends_holds_no_call_beyond_its_time() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    policy = HoldPolicy(hold_s=0.05, first_pause_s=0.01, max_pause_s=0.01, look_s=0.001)
    with pytest.raises(DeviceHeldError):
        await asyncio.wait_for(Holding(policy).hold(failing(BUSY), subject="c", find_waste=never), 30.0)


@pytest.mark.parametrize(("error", "level"), [(BUSY, "INFO"), (DriverError("the card is being reset"), "WARNING")])
async def test_a_wait_is_a_warning_when_the_driver_is_its_cause(
    error: Exception, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await Holding(clock=JumpingClock()).hold(failing(error, times=2), subject="c")

    assert [(record.levelname, record.message.partition(" subject=")[0]) for record in caplog.records] == [
        (level, "A call waits")
    ]

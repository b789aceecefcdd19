"""Signals end what runs, once, and let it tidy up."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from claimsmith.cli.interrupts import run_interruptible


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


class Work:
    """Gets signals while it runs and while it tidies up."""

    def __init__(self, *signals: signal.Signals) -> None:
        self.signals, self.tidy = list(signals), False

    async def run(self) -> str:
        try:
            os.kill(os.getpid(), self.signals[0])
            await asyncio.Event().wait()
        finally:
            for number in self.signals[1:]:
                os.kill(os.getpid(), number)
                for _ in range(3):
                    await asyncio.sleep(0)
            self.tidy = True
        return "never"


def test_what_ends_by_itself_gives_its_value() -> None:
    async def work() -> str:
        return "done"

    assert run_interruptible(work()) == "done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_work_and_is_returned(number: signal.Signals) -> None:
    work = Work(number)

    assert run_interruptible(work.run()) is number
    assert work.tidy


def test_further_signals_do_not_cut_the_tidying_short() -> None:
    work = Work(signal.SIGTERM, signal.SIGINT, signal.SIGTERM)

    assert run_interruptible(work.run()) is signal.SIGTERM
    assert work.tidy


def test_a_signal_that_is_ignored_from_the_start_stays_ignored() -> None:
    async def work() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return "done"

    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    assert run_interruptible(work()) == "done"


def test_what_fails_while_it_tidies_up_is_not_hidden() -> None:
    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            raise KeyError

    with pytest.raises(KeyError):
        run_interruptible(work())


def test_work_that_cancels_itself_is_no_signal() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_interruptible(work())

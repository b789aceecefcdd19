"""Ctrl-C, and the signals that ask a process to end: what runs is cancelled once, and tidies up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

__all__ = ["run_interruptible"]

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_interruptible(work: Coroutine[Any, Any, T]) -> T | signal.Signals:
    """Run work to its end and return what it gives, or the signal that has ended it.

    The first signal cancels the work; later ones are ignored, so that tidying up is not cut short. A signal that the
    process ignores from its start, as below `nohup`, stays ignored.
    """
    return asyncio.run(_run(work))


async def _run(work: Coroutine[Any, Any, T]) -> T | signal.Signals:
    task = asyncio.ensure_future(work)
    got: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        if not got:
            got.append(number)
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not got:
            raise
        return got[0]

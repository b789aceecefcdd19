"""Calls of a driver: counted, timed, and never able to stop the server."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from claimsmith.errors import ClaimsmithError, DriverError
from claimsmith.sdk.answers import check_prepared
from claimsmith.telemetry import DRIVER_CALLS, DRIVER_SECONDS, Meter, get_logger, log_event

__all__ = ["call_driver"]

_log = get_logger("node")
_Answer = TypeVar("_Answer")


def call_driver(operation: str, call: Callable[[], _Answer], *, driver: str, meter: Meter) -> _Answer:
    """Return what a call of a driver gives.

    Args:
        operation: What is called: `prepare` or `unprepare`.
        driver: Name of the driver.
        meter: Takes the numbers.

    Raises:
        ClaimsmithError: What the driver raised on purpose.
        DriverError: Whatever else it raised, or an answer of `prepare` that is of another type than it must be.
    """
    start, result = time.monotonic(), "error"
    try:
        answer = call()
        if operation == "prepare":
            check_prepared(driver, answer)
        result = "ok"
    except ClaimsmithError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        log_event(
            _log, logging.ERROR, "A driver failed in a way of its own",
            driver=driver, operation=operation, reason=reason,
        )  # fmt: skip
        _log.debug("The driver's error", exc_info=error)
        raise DriverError(f"driver {driver}: {operation} failed: {reason}") from error
    finally:
        meter.add(DRIVER_CALLS, driver=driver, operation=operation, result=result)
        meter.add(DRIVER_SECONDS, time.monotonic() - start, driver=driver, operation=operation)
    return answer

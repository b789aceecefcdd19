"""Runs a driver's watching methods in threads of their own, and brings what they say into the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.prepared import ClaimKey
from claimsmith.sdk.driver import Driver, StopSignal, WatchesInventory, WatchesPrepared
from claimsmith.telemetry import get_logger, log_event

__all__ = ["DriverWatches"]

_RETRY_FIRST_S: Final = 1.0
_RETRY_MAX_S: Final = 60.0
_JOIN_S: Final = 2.0

_log = get_logger("agent")


class DriverWatches:
    """The watches of one driver; a driver that has none costs no thread.

    Args:
        driver: The driver.
        on_health: Gets reports of health, in the event loop.
        on_change: Called when `discover` would give another answer, in the event loop.
        on_prepared: Gets each claim of which the driver has learnt more, in the event loop.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        on_health: Callable[[tuple[DeviceHealth, ...]], None],
        on_change: Callable[[], None],
        on_prepared: Callable[[ClaimKey], None] = lambda _: None,
    ) -> None:
        self._driver, self._on_health, self._on_change = driver, on_health, on_change
        self._on_prepared = on_prepared
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        driver = self._driver
        if type(driver).watch_health is not Driver.watch_health:
            self._spawn("health", lambda stop: driver.watch_health(self._report, stop))
        if isinstance(driver, WatchesInventory):
            self._spawn("inventory", lambda stop: driver.watch_inventory(self._changed, stop))

        if isinstance(driver, WatchesPrepared):
            self._spawn("prepared", lambda stop: driver.watch_prepared(self._learnt, stop))

    async def stop(self) -> None:
        """Ask the threads to end, and wait a little for them; one that does not listen is left behind."""
        self._stop.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join, _JOIN_S)
            if thread.is_alive():
                log_event(_log, logging.WARNING, "A driver's watch does not end", driver=self._driver.name)
        self._threads.clear()

    def _spawn(self, what: str, watch: Callable[[StopSignal], None]) -> None:
        name = f"{what}-{self._driver.name}"
        thread = threading.Thread(target=self._run, args=(what, watch), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, what: str, watch: Callable[[StopSignal], None]) -> None:
        """Call a watching method; again after a while if it raises, not if it returns."""
        pause_s = _RETRY_FIRST_S
        while not self._stop.is_set():
            try:
                watch(self._stop)
                return
            except Exception as error:
                log_event(
                    _log, logging.ERROR, "A driver's watch failed and is started again",
                    driver=self._driver.name, watch=what, reason=f"{type(error).__name__}: {error}",
                )  # fmt: skip
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _RETRY_MAX_S)

    def _report(self, *devices: DeviceHealth) -> None:
        self._call(lambda: self._on_health(devices))

    def _changed(self) -> None:
        self._call(self._on_change)

    def _learnt(self, claim: ClaimKey) -> None:
        self._call(lambda: self._on_prepared(claim))

    def _call(self, action: Callable[[], None]) -> None:
        """Do something in the event loop; nothing once the agent has ended."""
        if self._stop.is_set():
            return
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            self._stop.set()

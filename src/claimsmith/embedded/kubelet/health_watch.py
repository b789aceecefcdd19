"""Follows the health streams of DRA drivers, and tells which devices fare otherwise than before.

Source: add and HandleWatchResourcesStream in pkg/kubelet/cm/dra of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from claimsmith.embedded.kubelet.clock import Clock
from claimsmith.embedded.kubelet.health import DeviceKey, HealthBook
from claimsmith.embedded.kubelet.plugins import DraPlugin
from claimsmith.telemetry import get_logger, log_event

__all__ = ["HealthWatch"]

_log = get_logger("embedded.kubelet")
_RETRY_S: Final = 5.0


class HealthWatch:
    """One stream for each plugin that offers one.

    Args:
        book: Where it is kept.
        clock: Tells the time.
        changed: Called with a driver and its devices that fare otherwise.
    """

    def __init__(self, book: HealthBook, clock: Clock, changed: Callable[[str, frozenset[DeviceKey]], None]) -> None:
        self._book, self._clock, self._changed = book, clock, changed
        self._tasks: dict[DraPlugin, asyncio.Task[None]] = {}

    def start(self, plugin: DraPlugin) -> None:
        """Follow a plugin that has come; one without the service is no error."""
        if plugin.health_service:
            self._tasks[plugin] = asyncio.create_task(self._follow(plugin), name=f"health of {plugin.driver}")

    async def stop(self, plugin: DraPlugin) -> None:
        """Follow a plugin no more."""
        task = self._tasks.pop(plugin, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def check(self) -> None:
        """Find devices of which nothing was heard for too long."""
        for driver, devices in self._book.expire(self._clock.now_s()).items():
            self._changed(driver, devices)

    async def _follow(self, plugin: DraPlugin) -> None:
        while await self._follow_once(plugin):
            await self._clock.sleep(_RETRY_S)

    async def _follow_once(self, plugin: DraPlugin) -> bool:
        """Follow a stream until it ends; tell whether another may be better."""
        driver = plugin.driver
        try:
            async for states in plugin.watch_health():
                if devices := self._book.update(driver, states, self._clock.now_s()):
                    self._changed(driver, devices)
        except NotImplementedError:
            return False
        except Exception:
            _log.exception("The health of %s can't be taken in", driver)
        finally:
            if devices := self._book.clear(driver):
                self._changed(driver, devices)
        log_event(_log, logging.DEBUG, "Health stream ended", driver=driver)
        return True

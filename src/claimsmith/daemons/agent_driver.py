"""One driver of an agent: discovers again and again, turns health into taints, and tells all who offer the devices."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.daemons.agent_health import DriverHealth
from claimsmith.daemons.agent_names import LabelledDriver
from claimsmith.daemons.agent_watch import DriverWatches
from claimsmith.errors import ClaimsmithError, DriverError
from claimsmith.kube.backoff import Backoff
from claimsmith.model.device import DeviceTaint
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey
from claimsmith.publish.content import DeviceNotes
from claimsmith.publish.health_policy import HealthPolicy
from claimsmith.publish.health_report import HealthReporter
from claimsmith.publish.publisher import SlicePublisher
from claimsmith.publish.taintrules import TaintRuleKeeper
from claimsmith.sdk.driver import Driver
from claimsmith.telemetry import get_logger, log_event

__all__ = ["DriverLoop", "FindHeld", "Found", "LoopOptions", "Taints"]

_SLOW_S: Final = 30.0
_GATHER_S: Final = 0.05

FindHeld = Callable[[frozenset[DeviceId]], Awaitable[frozenset[DeviceId]]]
"""Gets devices that are published but listed no longer; gives those of them that claims hold."""

Taints = Mapping[DeviceId, tuple[DeviceTaint, ...]]
"""Taints by device."""

_log = get_logger("agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is known of a driver's devices at one moment: what every way of offering them is made from.

    Args:
        taints: Taints for health.
        health: What the driver said last of devices, by device.
    """

    inventory: Inventory
    taints: Taints
    health: Mapping[DeviceId, DeviceHealth]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOptions:
    """How often things are looked at.

    Args:
        rediscover_s: Seconds between two calls of `discover` when nothing asks for one.
        recheck_held_s: Seconds between two looks at who holds devices that are listed no longer.
        not_listed_effect: Effect of the taint that such devices have meanwhile: NoSchedule or NoExecute.
        health: When a device that failed may be used again.
    """

    rediscover_s: float = 60.0
    recheck_held_s: float = 10.0
    not_listed_effect: str = "NoSchedule"
    health: HealthPolicy = field(default_factory=HealthPolicy)


class DriverLoop:
    """Keeps all who offer a driver's devices told of them and of their health.

    Args:
        driver: The driver.
        node: Name of the node.
        publisher: Who publishes slices; None when nobody does.
        find_held: Tells which devices claims hold.
        tell_kubelet: Gets what the driver says of the health of devices.
        options: How often things are looked at.
        reporter: Tells of changes of health; None: nobody does.
        rules: Keeps DeviceTaintRules, for a policy that wants taints there.
        find_uses: Gives the taints of devices that claims must not get since somebody else has them.
        on_found: Gets what is known of the devices, whenever that is looked at again.
        on_prepared: Gets each claim of which the driver has learnt more since it was prepared.
    """

    def __init__(  # noqa: PLR0913 - each is somebody to be asked or told
        self,
        driver: LabelledDriver,
        *,
        node: str,
        publisher: SlicePublisher | None,
        find_held: FindHeld,
        tell_kubelet: Callable[..., None],
        options: LoopOptions,
        reporter: HealthReporter | None = None,
        rules: TaintRuleKeeper | None = None,
        find_uses: Callable[[], Taints] = dict,
        on_found: Callable[[Found], None] = lambda _: None,
        on_prepared: Callable[[ClaimKey], None] = lambda _: None,
    ) -> None:
        self.last_error: ClaimsmithError | None = None
        """Why the devices can't be listed now; None when they can."""
        self._driver, self._node, self._publisher = driver, node, publisher
        self._find_held, self._options = find_held, options
        self._find_uses, self._on_found = find_uses, on_found
        self._health: dict[DeviceId, DeviceHealth] = {}
        policy = options.health
        self._wake = asyncio.Event()
        self._graded = DriverHealth(
            driver.name,
            node,
            policy,
            tell_kubelet=tell_kubelet,
            reporter=reporter,
            rules=rules if policy.taints == "rules" else None,
            can_adopt=type(driver.inner).watch_health is not Driver.watch_health,
            wake=self.look_again,
        )
        self._inventory: Inventory | None = None
        self._must_discover = True
        self._due_s = 0.0
        self._backoff = Backoff(initial_s=0.5)
        self._watches = DriverWatches(
            driver.inner, on_health=self._on_health, on_change=self._on_change, on_prepared=on_prepared
        )

    async def run(self) -> None:
        """Work until cancelled."""
        self._watches.start()
        try:
            while True:
                pause_s = await self._turn()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
                        await asyncio.sleep(_GATHER_S)
                self._wake.clear()
        finally:
            await self._watches.stop()

    async def _turn(self) -> float:
        """Discover if need be, and publish; return after how many seconds to look again."""
        if self._must_discover or self._is_due():
            await self._discover()
        if self._inventory is None:
            return self._backoff.next_s()
        now_s = time.monotonic()
        taints = self._graded.look(now_s)
        self._on_found(Found(inventory=self._inventory, taints=taints, health=dict(self._health)))
        held = await self._publish(self._inventory, taints)
        ends = [self._due_s if self.last_error is None else now_s + self._backoff.next_s()]
        if (next_s := self._graded.find_next_s(now_s)) is not None:
            ends.append(next_s)
        if held:
            ends.append(now_s + self._options.recheck_held_s)
        return max(0.0, min(ends) - now_s)

    async def _publish(self, inventory: Inventory, taints: Taints) -> frozenset[DeviceId]:
        """Publish the devices; return those that stay only since claims hold them."""
        if self._publisher is None:
            return frozenset()
        await self._publisher.wait_synced()
        if self._options.health.taints == "slices" and self._graded.adopt(_list_taints(self._publisher)):
            taints = self._graded.look(time.monotonic())
        taints = self._graded.for_slices(taints)
        held = await self._find_held(self._missing(self._publisher, inventory))
        notes = DeviceNotes(
            taints=_join(taints, self._find_uses()),
            held=held,
            not_listed_effect=self._options.not_listed_effect,
        )
        self._publisher.publish(inventory, notes=notes)
        return held

    def _is_due(self) -> bool:
        return self.last_error is not None or time.monotonic() >= self._due_s

    async def _discover(self) -> None:
        """Ask the driver; what it raises leaves the last answer in place."""
        self._must_discover = False
        self._due_s = time.monotonic() + self._options.rediscover_s
        try:
            found = await self._call_driver()
        except ClaimsmithError as error:
            if str(error) != str(self.last_error):
                log_event(_log, logging.ERROR, "Devices can't be listed", driver=self._driver.name, reason=error)
            self.last_error = error
        else:
            self._inventory, self.last_error = found, None
            self._graded.place(found)
            self._backoff.reset()

    async def _call_driver(self) -> Inventory:
        """Call `discover` in a thread, and wait however long it takes: a second call would help nobody."""
        call = asyncio.ensure_future(asyncio.to_thread(self._driver.discover))
        done, _ = await asyncio.wait([call], timeout=_SLOW_S)
        if not done:
            log_event(_log, logging.WARNING, "discover takes long", driver=self._driver.name, seconds=_SLOW_S)
        try:
            found = await call
        except ClaimsmithError:
            raise
        except Exception as error:
            raise DriverError(
                f"driver {self._driver.name}: discover failed: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(found, Inventory):
            kind = type(found).__name__
            raise DriverError(f"driver {self._driver.name}: discover gave a {kind}, allowed an Inventory; correct it")
        return found

    def release(self, device: DeviceId) -> bool:
        """Take a device back into use by hand; tell whether a taint went. In the event loop only."""
        return self._graded.release(device)

    def look_again(self) -> None:
        """Tell all again, since somebody who is asked would answer otherwise. In the event loop only."""
        self._wake.set()

    def _missing(self, publisher: SlicePublisher, inventory: Inventory) -> frozenset[DeviceId]:
        """Return the devices that are published, but that the driver lists no longer."""
        driver = self._driver.name
        listed = {
            DeviceId(driver, pool.name or self._node, device.name)
            for pool in inventory.pools
            for device in pool.devices
        }
        published = (
            DeviceId(driver, item.pool, device.name) for item in publisher.published() for device in item.devices
        )
        return frozenset(published) - listed

    def _on_health(self, devices: tuple[DeviceHealth, ...]) -> None:
        published = [self._driver.translate(health) for health in devices]
        for health in published:
            self._health[DeviceId(self._driver.name, health.pool or self._node, health.device)] = health
        self._graded.note(published, time.monotonic())
        self._wake.set()

    def _on_change(self) -> None:
        self._must_discover = True
        self._wake.set()


def _join(one: Taints, other: Taints) -> Taints:
    """Return all taints of both."""
    return {device: (*one.get(device, ()), *other.get(device, ())) for device in {**one, **other}}


def _list_taints(publisher: SlicePublisher) -> Taints:
    """Return the taints that slices show now."""
    return {
        DeviceId(item.driver, item.pool, device.name): device.taints
        for item in publisher.published()
        for device in item.devices
        if device.taints
    }

"""One driver of an agent: discovers again and again, turns health into taints, and tells all who offer the devices.

Three things go on side by side, since each of the first two may take as long as it likes: the driver is asked for its
devices, slices are published, and all others are told what is known. A driver whose library hangs on a broken card, or
an API server that is away, so keeps nobody from learning that the card is broken.
"""

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
from claimsmith.sdk.answers import check_inventory
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
        self._warned: set[DeviceId] = set()
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
        self._listed = asyncio.Event()
        self._ask = asyncio.Event()
        self._offer = asyncio.Event()
        self._backoff = Backoff(initial_s=0.5)
        self._watches = DriverWatches(
            driver.inner, on_health=self._on_health, on_change=self._ask.set, on_prepared=on_prepared
        )

    async def run(self) -> None:
        """Work until cancelled."""
        self._watches.start()
        try:
            async with asyncio.TaskGroup() as group:
                name = self._driver.name
                group.create_task(self._keep_listing(), name=f"discover {name}")
                group.create_task(self._keep_telling(), name=f"tell {name}")
                if self._publisher is not None:
                    group.create_task(self._keep_publishing(self._publisher), name=f"offer {name}")
        finally:
            await self._watches.stop()

    async def _keep_listing(self) -> None:
        """Ask the driver for its devices whenever they may have changed, and now and then."""
        while True:
            self._ask.clear()
            await self._discover()
            pause_s = self._options.rediscover_s if self.last_error is None else self._backoff.next_s()
            await _wait(self._ask, pause_s)

    async def _keep_telling(self) -> None:
        """Tell all what is known whenever that changes; waits for nobody."""
        await self._listed.wait()
        while True:
            self._wake.clear()
            next_s = self._tell()
            await _wait(self._wake, None if next_s is None else max(0.0, next_s - time.monotonic()))

    def _tell(self) -> float | None:
        """Tell all what is known; return when something changes by itself."""
        if self._inventory is None:
            return None
        now_s = time.monotonic()
        taints = self._graded.look(now_s)
        self._on_found(Found(inventory=self._inventory, taints=taints, health=dict(self._health)))
        self._offer.set()
        return self._graded.find_next_s(now_s)

    async def _keep_publishing(self, publisher: SlicePublisher) -> None:
        """Publish what is known whenever that changes, from when it is known what the API server has."""
        await publisher.wait_synced()
        while True:
            await self._offer.wait()
            self._offer.clear()
            if self._inventory is not None and await self._publish(publisher, self._inventory):
                await _wait(self._offer, self._options.recheck_held_s, gather_s=0.0)
                self._offer.set()

    async def _publish(self, publisher: SlicePublisher, inventory: Inventory) -> frozenset[DeviceId]:
        """Publish the devices; return those that stay only since claims hold them."""
        if self._options.health.taints == "slices":
            self._graded.adopt(_list_taints(publisher))
        held = await self._find_held(self._missing(publisher, inventory))
        taints = self._graded.for_slices(self._graded.look(time.monotonic()))
        notes = DeviceNotes(
            taints=_join(taints, self._find_uses()),
            held=held,
            not_listed_effect=self._options.not_listed_effect,
        )
        publisher.publish(inventory, notes=notes)
        return held

    async def _discover(self) -> None:
        """Ask the driver; what it raises leaves the last answer in place."""
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
            self._listed.set()
            self._wake.set()

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
        return check_inventory(self._driver.name, found)

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
            device = DeviceId(self._driver.name, health.pool or self._node, health.device)
            self._warn_if_unknown(device)
            self._health[device] = health
        self._graded.note(published, time.monotonic())
        self._wake.set()

    def _warn_if_unknown(self, device: DeviceId) -> None:
        """Tell once of a device that the driver speaks of, but does not list."""
        if self._inventory is None or device in self._warned:
            return
        pools = {pool.name or self._node: pool for pool in self._inventory.pools}
        if device.pool in pools and any(item.name == device.device for item in pools[device.pool].devices):
            return
        self._warned.add(device)
        hint = "report devices by the names and pools of discover"
        log_event(_log, logging.WARNING, f"Health of a device that is not listed; {hint}", device=device)


async def _wait(event: asyncio.Event, timeout_s: float | None, *, gather_s: float = _GATHER_S) -> None:
    """Wait for an event and for what comes along with it, or so many seconds; for ever without a number."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
            await asyncio.sleep(gather_s)


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

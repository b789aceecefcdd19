"""Keeps the slices of one driver on one node as its inventory says, whatever happens to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from claimsmith.api.kinds import NODE, RESOURCE_SLICE, Kind
from claimsmith.errors import ClaimsmithError, ConflictError, ThrottledError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeObject
from claimsmith.kube.reflector import ListWatch, Reflector, Selection
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import ResourceSlice
from claimsmith.publish.apply import SliceWriter, StoredSlice, Write, apply_plan, decode_stored
from claimsmith.publish.content import DeviceNotes, PublishProblem
from claimsmith.publish.contest import Contest, find_last_manager
from claimsmith.publish.plan import SliceOwner, SlicePlan, plan_slices
from claimsmith.telemetry import get_logger, log_event

__all__ = ["PublisherClient", "SlicePublisher"]

_GATHER_S: Final = 0.02
_SEEN_TIMEOUT_S: Final = 1.5
_AWAY_MAX_S: Final = 5.0
"""Longest pause before the server is asked again: slices that were deleted meanwhile must be back soon after it is."""
_TOLD: Final = {False: (logging.ERROR, "Not published"), True: (logging.WARNING, "Published in another form")}

_log = get_logger("publish")


class PublisherClient(ListWatch, SliceWriter, Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind, name: str) -> KubeObject:
        """Return one object."""
        ...


@dataclass(slots=True)
class _Wanted:
    """What should be published."""

    inventory: Inventory
    notes: DeviceNotes = field(default_factory=DeviceNotes)


class SlicePublisher:
    """Publishes an inventory, and puts back what others delete or edit.

    Every own write is awaited in the watch before the next plan is made, so that a slow watch makes no duplicates.

    Args:
        client: The API server.
        driver: Name of the driver.
        node: Name of the node.
        backoff: Pauses after failures of the API server.
        repairs: Pauses when slices have to be put back again and again.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        client: PublisherClient,
        *,
        driver: str,
        node: str,
        backoff: Backoff | None = None,
        repairs: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problems: tuple[PublishProblem, ...] = ()
        """What of the inventory is not published, or in another form, as of the last plan."""
        self._client = client
        self._owner = SliceOwner(driver=driver, node=node)
        self._backoff = backoff or Backoff(initial_s=0.2, max_s=_AWAY_MAX_S)
        self._contest = Contest(repairs, clock=clock)
        self._contest_handlers: list[Callable[[str], None]] = []
        self._wanted: _Wanted | None = None
        self._wake = asyncio.Event()
        self._published = asyncio.Event()
        self._synced = asyncio.Event()
        self._stored: dict[str, StoredSlice] = {}
        self._unseen: set[str] = set()
        self._all_seen = asyncio.Event()
        self._all_seen.set()
        self._accepted: dict[str, tuple[ResourceSlice, ResourceSlice]] = {}
        self._is_wide = False
        self._error: ClaimsmithError | None = None
        self._reflector: Reflector[StoredSlice] | None = None
        self._reflecting: asyncio.Task[None] | None = None

    @property
    def last_error(self) -> ClaimsmithError | None:
        """Why nothing can be published or watched now; None when all is well."""
        return self._error or (self._reflector.last_error if self._reflector is not None else None)

    def publish(self, inventory: Inventory, *, notes: DeviceNotes | None = None) -> None:
        """Publish this from now on; returns at once.

        Args:
            inventory: What the driver found.
            notes: Taints for health, and devices that claims hold.
        """
        wanted = _Wanted(inventory, notes or DeviceNotes())
        if wanted == self._wanted:
            return
        self._wanted = wanted
        self._published.clear()
        self._contest.reset()
        self._wake.set()

    def subscribe_contests(self, handler: Callable[[str], None]) -> None:
        """Call the handler with a sentence whenever somebody else begins to delete or change the slices."""
        self._contest_handlers.append(handler)

    async def wait_synced(self) -> None:
        """Return once it is known what the API server has."""
        await self._synced.wait()

    @property
    def is_published(self) -> bool:
        """Whether the API server shows what was last given to `publish`."""
        return self._published.is_set()

    async def wait_published(self) -> None:
        """Return once the API server shows what was last given to `publish`."""
        await self._published.wait()

    def published(self) -> tuple[ResourceSlice, ...]:
        """Return the slices as the API server was last seen to have them, by name."""
        return tuple(self._stored[name].value for name in sorted(self._stored))

    def find_attributes(self, device: DeviceId) -> Mapping[str, DeviceAttribute]:
        """Return the attributes of a device as they are published; empty when it is not."""
        for item in self._stored.values():
            for found in item.value.devices if item.value.pool == device.pool else ():
                if found.name == device.device:
                    return found.attributes
        return {}

    async def run(self) -> None:
        """Publish until cancelled."""
        try:
            while True:
                self._wake.clear()
                await self._sync_safely(self._wanted)
                await self._wake.wait()
                await asyncio.sleep(_GATHER_S)  # Several slices that vanish together are one event.
        finally:
            await self._stop_reflecting()

    async def _sync_safely(self, wanted: _Wanted | None) -> None:
        """Bring the API server up to date; after a failure wait and ask for another try."""
        try:
            await self._follow(is_wide=wanted is not None and any(map(_is_shared, wanted.inventory.pools)))
            self._synced.set()
            if wanted is not None:
                await self._sync(wanted)
            self._backoff.reset()
            self._error = None
        except ConflictError as error:
            log_event(_log, logging.DEBUG, "A slice was changed meanwhile", driver=self._owner.driver, reason=error)
            self._wake.set()
        except ClaimsmithError as error:
            self._error = error
            log_event(_log, logging.WARNING, "Slices can't be published now", driver=self._owner.driver, reason=error)
            await self._backoff.pause(_pause_of(error, self._backoff.next_s()))
            self._wake.set()

    async def _sync(self, wanted: _Wanted) -> None:
        if not self._owner.node_uid:
            await self._read_node()
        stored = await self._read_stored()
        plan = self._plan(wanted, stored)
        if plan.creates and await self._read_node():
            plan = self._plan(wanted, stored)
        self._tell(plan)
        if plan.writes:
            await self._pace(stored)
            await self._write(plan, stored)
            self._wake.set()
        elif wanted is self._wanted:
            self._published.set()

    def _plan(self, wanted: _Wanted, stored: Mapping[str, StoredSlice]) -> SlicePlan:
        existing = [item.value for item in stored.values()]
        return plan_slices(self._owner, wanted.inventory, existing, notes=wanted.notes, accepted=self._accepted)

    async def _write(self, plan: SlicePlan, stored: Mapping[str, StoredSlice]) -> None:
        done: list[Write] = []
        try:
            await apply_plan(self._client, plan, stored, done=done)
        finally:
            self._contest.written()
            for write in done:
                self._note(write)
        log_event(
            _log, logging.INFO, "Slices published", driver=self._owner.driver, node=self._owner.node,
            created=len(plan.creates), updated=len(plan.updates), deleted=len(plan.deletes),
        )  # fmt: skip

    def _note(self, write: Write) -> None:
        """Remember an own write until the watch has shown it."""
        self._accepted.pop(write.name, None)
        if write.sent is not None and write.stored is not None:
            self._accepted[write.name] = (write.sent, write.stored)
        version = None if write.stored is None else write.stored.metadata.resource_version
        seen = self._stored.get(write.name)
        if (None if seen is None else seen.value.metadata.resource_version) != version:
            self._unseen.add(write.name)
            self._all_seen.clear()

    async def _pace(self, stored: Mapping[str, StoredSlice]) -> None:
        """Slow down when slices have to be put back again and again, and tell who changed them."""
        is_repair = self._error is None  # Else it is another try of a write that the API server did not take.
        if is_repair and self._contest.count():
            manager = find_last_manager(item.raw for item in stored.values())
            text = (
                f"Slices of driver {self._owner.driver} on node {self._owner.node} were deleted or changed by others "
                f"{self._contest.repairs} times in a row" + (f", last by {manager}" if manager else "")
            )
            log_event(_log, logging.WARNING, "Slices are contested", reason=text)
            for handler in self._contest_handlers:
                handler(f"{text}; let one publisher own the driver's slices")
        await self._contest.pace()

    def _tell(self, plan: SlicePlan) -> None:
        """Log problems that are new."""
        for problem in plan.problems:
            if problem not in self.problems:
                level, title = _TOLD[problem.published]
                log_event(_log, level, title, what=problem.subject, reason=problem.text)
        self.problems = plan.problems

    async def _read_node(self) -> bool:
        """Read the node's uid; tell whether it is another one than before: slices of a node that is gone go, too."""
        node = await self._client.get(NODE, self._owner.node)
        uid = str((node.get("metadata") or {}).get("uid") or "")
        changed = uid != self._owner.node_uid
        self._owner = replace(self._owner, node_uid=uid)
        return changed

    # --- what is there ------------------------------------------------------------------------------------------------

    async def _read_stored(self) -> Mapping[str, StoredSlice]:
        """Return the slices as watched, or as listed when the watch does not show an own write in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_TIMEOUT_S):
                await self._all_seen.wait()
        if not self._unseen:
            return dict(self._stored)
        self._unseen.clear()
        self._all_seen.set()
        listed = await self._client.list(RESOURCE_SLICE, field_selector=self._field_selector(self._is_wide))
        items = [decode_stored(obj) for obj in listed.items]
        return {item.value.name: item for item in items if self._is_own(item.value)}

    def _field_selector(self, is_wide: bool) -> str:
        driver = f"spec.driver={self._owner.driver}"
        return driver if is_wide else f"spec.nodeName={self._owner.node},{driver}"

    def _is_own(self, item: ResourceSlice) -> bool:
        """Tell whether a slice is of this node; one for several nodes says so by its owner."""
        if item.node_name is not None:
            return item.node_name == self._owner.node
        return any(owner.uid == self._owner.node_uid for owner in item.metadata.owner_references)

    def _take(self, old: StoredSlice | None, new: StoredSlice | None) -> None:
        """Take in a change that the watch shows."""
        item = new or old
        if item is None or not self._is_own(item.value):
            return
        name = item.value.name
        if new is None:
            self._stored.pop(name, None)
            self._accepted.pop(name, None)
        else:
            self._stored[name] = new
        self._unseen.discard(name)
        if not self._unseen:
            self._all_seen.set()
        self._wake.set()

    async def _follow(self, *, is_wide: bool) -> None:
        """Watch the slices: those of the node, or once a pool is for several nodes all of the driver."""
        if self._reflecting is not None and not self._reflecting.done() and (self._is_wide or not is_wide):
            return
        if not self._owner.node_uid:
            await self._read_node()
        await self._stop_reflecting()
        self._is_wide = self._is_wide or is_wide
        self._stored.clear()
        selection = Selection(field_selector=self._field_selector(self._is_wide))
        backoff = Backoff(initial_s=0.2, max_s=_AWAY_MAX_S)
        reflector = Reflector(self._client, RESOURCE_SLICE, decode_stored, selection=selection, backoff=backoff)
        reflector.subscribe(self._take)
        self._reflector = reflector
        self._reflecting = asyncio.create_task(reflector.run(), name=f"slices of {self._owner.driver}")
        await reflector.wait_synced()

    async def _stop_reflecting(self) -> None:
        if self._reflecting is not None:
            self._reflecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reflecting
            self._reflecting = None


def _pause_of(error: ClaimsmithError, pause_s: float) -> float:
    """Return the pause after an error; a server that asks for a longer one gets it."""
    return max(pause_s, error.retry_after_s) if isinstance(error, ThrottledError) else pause_s


def _is_shared(pool: Pool) -> bool:
    """Tell whether a pool's slices are for more than this node."""
    per_device = any(item.node_name or item.node_selector or item.all_nodes for item in pool.devices)
    return pool.all_nodes or pool.node_selector is not None or per_device

"""Gives the devices of plugins to the containers of a node: at admission, for good, and written down.

As with the topology policy `none` of a real kubelet, no NUMA node is preferred: what the pod's init containers had
comes first, then what the plugin prefers, then the order in which it lists them.

Source: pkg/kubelet/cm/devicemanager/manager.go of kubernetes v1.37.2.

Deviates: plugin-order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from claimsmith.embedded.kubelet.clock import Clock
from claimsmith.embedded.kubelet.devices.checkpoint import (
    CHECKPOINT_FILE,
    Snapshot,
    decode_checkpoint,
    encode_checkpoint,
)
from claimsmith.embedded.kubelet.devices.endpoint import DeviceEndpoint, ListedDevice
from claimsmith.embedded.kubelet.devices.stock import Amounts, DeviceStock, Shelf
from claimsmith.embedded.kubelet.devices.table import NO_NUMA, DeviceTable, Grant
from claimsmith.embedded.kubelet.views import ContainerView, PodView
from claimsmith.errors import CheckpointError, DeviceRefusedError, PluginRefusedError
from claimsmith.telemetry import get_logger, log_event

__all__ = ["DeviceObserver", "PodDevices"]

_log = get_logger("embedded.kubelet")
_Reusable = dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceObserver:
    """Who wants to know of devices.

    Args:
        amounts_changed: Called when the node has more or fewer devices, or others are healthy.
        health_changed: Called with the uids of pods that have a device whose health has changed.
    """

    amounts_changed: Callable[[], None] = lambda: None
    health_changed: Callable[[Collection[str]], None] = lambda _uids: None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Want:
    """What a container wants of one resource."""

    pod_uid: str
    container: str
    resource: str
    amount: int


@dataclass(slots=True, kw_only=True)
class PodDevices:
    """The devices of one node and who has them; hears of plugins from `DevicePlugins`.

    Args:
        folder: Where the checkpoint is.
        clock: Tells the time, for the grace period of plugins.
        observer: Who wants to know of devices.
        active: Returns the uids of the pods that are admitted and have not ended; others give their devices back.
    """

    folder: Path
    clock: Clock
    observer: DeviceObserver = field(default_factory=DeviceObserver)
    active: Callable[[], Collection[str]] = field(default=frozenset)
    stock: DeviceStock = field(default_factory=DeviceStock, init=False)
    table: DeviceTable = field(default_factory=DeviceTable, init=False)
    _taken: dict[str, set[str]] = field(default_factory=dict, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _admitting: str = field(default="", init=False)

    def load(self) -> None:
        """Read the checkpoint; a missing or damaged one counts as empty."""
        path = self.folder / CHECKPOINT_FILE
        try:
            found = decode_checkpoint(path.read_bytes(), path)
        except FileNotFoundError:
            return
        except (OSError, CheckpointError) as error:
            log_event(_log, logging.WARNING, "The kubelet's devices can't be read", file=path, reason=error)
            return
        self.table.load(found.pod_device_entries or ())
        self._taken = self.table.taken()
        for resource in found.registered_devices or {}:
            self.stock.restore(resource, self.clock.now_s())

    # --- plugins ------------------------------------------------------------------------------------------------------

    def connect(self, endpoint: DeviceEndpoint) -> None:
        """Take a plugin that can be called.

        Raises:
            PluginRefusedError: A plugin with the same socket is there.
        """
        self.stock.connect(endpoint)

    def disconnect(self, endpoint: DeviceEndpoint) -> None:
        """Take note that a plugin has gone."""
        self.stock.disconnect(endpoint, self.clock.now_s())
        self.observer.amounts_changed()

    def list_devices(self, endpoint: DeviceEndpoint, devices: tuple[ListedDevice, ...]) -> None:
        """Take the list of a plugin."""
        changed = self.stock.list_devices(endpoint, devices)
        self._save()
        self.observer.amounts_changed()
        if uids := self.table.users(endpoint.resource, changed):
            self.observer.health_changed(uids)

    def count(self) -> Amounts:
        """Return what the node has to offer; a resource whose plugin is gone for long is told as removed, once."""
        amounts = self.stock.count(self.clock.now_s())
        if amounts.removed:
            self._save()
        return amounts

    # --- pods ---------------------------------------------------------------------------------------------------------

    def serves(self, resource: str) -> bool:
        """Tell whether a plugin serves a resource, or a container has some of it."""
        return self.stock.find(resource) is not None or resource in self._taken

    async def admit(self, pod: PodView, *, running: bool) -> None:
        """Give all containers of a pod what they ask for.

        Args:
            pod: The pod.
            running: Whether its containers were running when the kubelet was started; they keep what they have.

        Raises:
            DeviceRefusedError: Something that a container asks for can't be given.
        """
        async with self._lock:
            self._admitting = pod.uid
            try:
                await self._give_all(pod, running=running)
            finally:
                self._admitting = ""

    async def _give_all(self, pod: PodView, *, running: bool) -> None:
        reusable: _Reusable = {}
        for container in pod.init_containers:
            await self._give(pod, container, reusable, running=running)
            for resource, grant in self.table.find(pod.uid, container.name).items():
                known = reusable.get(resource, ())
                kept = [device for device in known if device not in grant.ids]
                reusable[resource] = tuple(kept) if container.sidecar else (*kept, *grant.ids)
        for container in pod.containers:
            await self._give(pod, container, reusable, running=running)
            for resource, grant in self.table.find(pod.uid, container.name).items():
                known = reusable.get(resource, ())
                reusable[resource] = tuple(device for device in known if device not in grant.ids)

    async def pre_start(self, pod: PodView, container: ContainerView) -> Mapping[str, Grant]:
        """Tell plugins that want to know it that a container starts; return what it has, by resource.

        Raises:
            DeviceRefusedError: A plugin refuses.
        """
        grants = self.table.find(pod.uid, container.name)
        for resource, amount in container.limits.items():
            if amount == 0 or not self.serves(resource):
                continue
            shelf = self.stock.find(resource)
            if shelf is None:
                raise DeviceRefusedError(f"endpoint not found in cache for a registered resource: {resource}")
            if not shelf.endpoint.asks_pre_start:
                continue
            if resource not in grants:
                raise DeviceRefusedError(
                    f"no devices found allocated in local cache for pod {pod.uid}, "
                    f"container {container.name}, resource {resource}"
                )
            try:
                await shelf.endpoint.pre_start(grants[resource].ids)
            except PluginRefusedError as error:
                raise DeviceRefusedError(str(error)) from error
        return grants

    def free_ended(self) -> None:
        """Take back the devices of pods that are no longer active; one that is being admitted keeps what it has got."""
        self.table.keep_only({*self.active(), self._admitting})
        self._taken = self.table.taken()

    async def _give(self, pod: PodView, container: ContainerView, reusable: _Reusable, *, running: bool) -> None:
        has_changed = is_freed = False
        for resource, amount in container.limits.items():
            by_claim = any((name, item) == (container.name, resource) for name, item, _ in pod.extended)
            if by_claim or not self.serves(resource):
                continue
            if not is_freed:
                self.table.keep_only({*self.active(), self._admitting})
                self._taken, is_freed = self.table.taken(), True
            try:
                want = _Want(pod_uid=pod.uid, container=container.name, resource=resource, amount=amount)
                has_it = self._has(want)
                if running:
                    continue
                shelf = self._find_shelf(want)
                ids = () if has_it else await self._pick(want, shelf, reusable.get(resource, ()))
                if ids:
                    await self._allocate(want, ids)
                    has_changed = True
            except BaseException:
                self._taken = self.table.taken()
                raise
        if has_changed:
            self._save()

    def _has(self, want: _Want) -> bool:
        """Tell whether a container has already what it wants, which is checked when it can be.

        Raises:
            DeviceRefusedError: It has another number.
        """
        grant = self.table.find(want.pod_uid, want.container).get(want.resource)
        if grant is None:
            return False
        if len(grant.ids) != want.amount:
            raise DeviceRefusedError(
                f'pod "{want.pod_uid}" container "{want.container}" changed request for resource "{want.resource}" '
                f"from {len(grant.ids)} to {want.amount}"
            )
        return True

    def _find_shelf(self, want: _Want) -> Shelf:
        """Return the devices of which a container wants some.

        Raises:
            DeviceRefusedError: None of them is healthy, or not all that the container has already.
        """
        resource = want.resource
        shelf = self.stock.find(resource)
        if shelf is None:
            raise DeviceRefusedError(f"cannot allocate unregistered device {resource}")
        if not shelf.healthy:
            raise DeviceRefusedError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        grant = self.table.find(want.pod_uid, want.container).get(resource)
        if grant is not None and not set(grant.ids) <= set(shelf.healthy):
            raise DeviceRefusedError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )
        return shelf

    async def _pick(self, want: _Want, shelf: Shelf, reusable: Sequence[str]) -> tuple[str, ...]:
        """Take devices, in upstream's order.

        Raises:
            DeviceRefusedError: There are not as many.
        """
        resource, amount = want.resource, want.amount
        taken = self._taken.setdefault(resource, set())
        picked: dict[str, None] = {}

        def pick(ids: Iterable[str]) -> bool:
            for device in ids:
                if len(picked) == amount:
                    break
                picked[device] = None
                taken.add(device)
            return len(picked) == amount

        if pick(reusable):
            return tuple(picked)
        available = [device for device in shelf.healthy if device not in taken]
        if len(available) < amount - len(picked):
            raise DeviceRefusedError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {amount - len(picked)}, Available: {len(available)}"
            )
        preferred: Sequence[str] = ()
        if shelf.endpoint.offers_preferred:
            try:
                preferred = await shelf.endpoint.prefer([*available, *picked], list(picked), amount)
            except PluginRefusedError as error:
                raise DeviceRefusedError(str(error)) from error
        if not pick(device for device in preferred if device in available) and not pick(available):
            raise DeviceRefusedError(
                f"unexpectedly allocated less resources than required. Requested: {amount}, Got: {len(picked)}"
            )
        return tuple(picked)

    async def _allocate(self, want: _Want, ids: Sequence[str]) -> None:
        shelf = self.stock.find(want.resource)
        if shelf is None:
            raise DeviceRefusedError(f"unknown Device Plugin {want.resource}")
        try:
            response = await shelf.endpoint.allocate(ids)
        except PluginRefusedError as error:
            raise DeviceRefusedError(str(error)) from error
        by_numa: dict[int, list[str]] = {}
        for device in ids:
            listed = shelf.listed.get(device)
            for node in (listed.numa if listed is not None else ()) or (NO_NUMA,):
                by_numa.setdefault(node, []).append(device)
        self.table.put(want.pod_uid, want.container, want.resource, Grant(by_numa=by_numa, response=response))

    def _save(self) -> None:
        """Write the checkpoint; a folder that can't be written is told in the log, as by a real kubelet.

        Not flushed to the disk, since an embedded node ends with its machine.
        """
        registered: dict[str, tuple[str, ...] | None] = {
            name: shelf.healthy for name, shelf in self.stock.resources().items()
        }
        content = encode_checkpoint(Snapshot(pod_device_entries=self.table.entries(), registered_devices=registered))
        path = self.folder / CHECKPOINT_FILE
        hidden = path.with_name(f".{path.name}")
        try:
            hidden.write_bytes(content)
            hidden.rename(path)
        except OSError as error:
            log_event(_log, logging.WARNING, "The kubelet's devices can't be written", file=path, reason=error)

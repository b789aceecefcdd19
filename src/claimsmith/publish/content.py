"""What each pool of a driver has to hold: the inventory, with taints for health, and with what claims still hold.

Attributes that the API server would refuse are made to fit. A device that it would refuse all the same is left out,
with a problem that says what to fix; the others are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from claimsmith.model.device import CounterConsumption, Device, DeviceTaint
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.names import DeviceId, PoolId
from claimsmith.model.pool import CounterSet, ResourceSlice
from claimsmith.publish.fitting import fit_device
from claimsmith.publish.limits import find_counter_set_fault, find_device_fault

__all__ = ["NOT_LISTED_TAINT", "DeviceNotes", "PoolContent", "PublishProblem", "plan_content"]

NOT_LISTED_TAINT: Final = DeviceTaint(key="claimsmith.dev/not-listed", effect="NoSchedule")
"""Taint of a device that its driver lists no longer while a claim holds it, unless another effect is wished for."""
_TAINTS_MAX: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNotes:
    """What is known of devices besides the inventory.

    Args:
        taints: Taints by device, such as those for health; added to the driver's own.
        held: Devices that claims hold; they stay published although the driver lists them no longer.
        not_listed_effect: Effect of the taint of such devices: NoSchedule, or NoExecute, which evicts their pods.
    """

    taints: Mapping[DeviceId, tuple[DeviceTaint, ...]] = field(default_factory=dict)
    held: frozenset[DeviceId] = frozenset()
    not_listed_effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishProblem:
    """Something of the inventory that is not published, or in another form.

    Args:
        subject: `driver/pool/device`, or `driver/pool` when it is about the pool.
        text: What was found, what is allowed, and what to do.
        published: True when the subject is published all the same, but for what the text says.
    """

    subject: str
    text: str
    published: bool = False

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolContent:
    """What one pool has to hold; name, devices and their order are final."""

    pool: Pool
    problems: tuple[PublishProblem, ...] = ()

    @property
    def per_device_nodes(self) -> bool:
        """Whether the devices of the pool choose their nodes themselves."""
        return _chooses_per_device(self.pool)


def plan_content(
    driver: str,
    inventory: Inventory,
    *,
    node: str,
    existing: Iterable[ResourceSlice] = (),
    notes: DeviceNotes | None = None,
) -> tuple[PoolContent, ...]:
    """Return what the pools have to hold: at least one pool, if only an empty one.

    Args:
        driver: Name of the driver.
        inventory: What the driver found.
        node: Name of the node; the name of a pool that has none.
        existing: The driver's slices that are published now.
        notes: Taints and held devices.
    """
    known = notes or DeviceNotes()
    published = sorted((item for item in existing if item.driver == driver), key=lambda item: -item.generation)
    named = [replace(pool, name=pool.name or node) for pool in inventory.pools]
    pools = {pool.name: pool for pool in reversed(named)}
    for item in published:
        if item.pool not in pools and any(_is_held(item, device, known) for device in item.devices):
            pools[item.pool] = Pool(name=item.pool, node_selector=item.node_selector, all_nodes=item.all_nodes)
    order = dict.fromkeys([*(pool.name for pool in named), *pools, *([] if pools else [node])])
    return tuple(
        _Planner(
            id=PoolId(driver, name),
            pool=pools.get(name, Pool(name=name)),
            published=tuple(item for item in published if item.pool == name),
            notes=known,
            is_twice=sum(pool.name == name for pool in named) > 1,
        ).plan()
        for name in order
    )


def _is_held(item: ResourceSlice, device: Device, notes: DeviceNotes) -> bool:
    return DeviceId(item.driver, item.pool, device.name) in notes.held


def _chooses_per_device(pool: Pool) -> bool:
    return any(item.node_name is not None or item.node_selector or item.all_nodes for item in pool.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """Works out the content of one pool."""

    id: PoolId
    pool: Pool
    published: tuple[ResourceSlice, ...]
    notes: DeviceNotes
    is_twice: bool

    def plan(self) -> PoolContent:
        problems = (
            [self._problem("found two pools of this name, allowed one; rename the second")] if self.is_twice else []
        )
        sets = dict(self._usable_sets(problems))
        kept = list(self._kept_devices(sets))
        devices = [self._noted(device) for device in self._usable_devices(sets, problems)]
        pool = replace(self.pool, devices=(*devices, *kept), counter_sets=tuple(sets.values()))
        return PoolContent(pool=pool, problems=tuple(problems))

    def _problem(self, text: str, device: str = "") -> PublishProblem:
        return PublishProblem(subject=f"{self.id}/{device}" if device else str(self.id), text=text)

    def _adjusted(self, text: str, device: str) -> PublishProblem:
        return replace(self._problem(text, device), published=True)

    def _usable_sets(self, problems: list[PublishProblem]) -> Iterator[tuple[str, CounterSet]]:
        """Yield the counter sets that can be published, by name."""
        seen: set[str] = set()
        for counter_set in self.pool.counter_sets:
            fault = find_counter_set_fault(counter_set)
            if fault is None and counter_set.name in seen:
                fault = "found two of this name, allowed one; rename the second"
            if fault is None:
                seen.add(counter_set.name)
                yield counter_set.name, counter_set
            else:
                problems.append(self._problem(f"counter set {counter_set.name!r}: {fault}"))

    def _usable_devices(self, sets: Mapping[str, CounterSet], problems: list[PublishProblem]) -> Iterator[Device]:
        """Yield the devices that can be published, in order."""
        seen: set[str] = set()
        per_device = _chooses_per_device(self.pool)
        # What the API server holds just so, it has accepted: most devices need no look at the rules.
        held = {item.name: item for part in self.published if part.per_device_node_selection is per_device
                for item in part.devices}  # fmt: skip
        for reported in self.pool.devices:
            device, changes, fault = reported, tuple[str, ...](), None
            if held.get(device.name) != device:
                device, changes = fit_device(self.id.driver, device)
                fault = find_device_fault(device, per_device_nodes=per_device)
            fault = fault or _counter_fault(device, sets)
            if fault is None and device.name in seen:
                fault = "found two devices of this name, allowed one in a pool; rename the second"
            if fault is None:
                seen.add(device.name)
                problems.extend(self._adjusted(text, device.name) for text in changes)
                yield device
            else:
                problems.append(self._problem(fault, device.name))

    def _kept_devices(self, sets: dict[str, CounterSet]) -> Iterator[Device]:
        """Yield the devices that only claims remember; their counter sets are put back."""
        listed = {device.name for device in self.pool.devices}
        old_sets = {item.name: item for part in reversed(self.published) for item in part.shared_counters}
        for part in self.published:
            for device in part.devices:
                if device.name in listed or not _is_held(part, device, self.notes):
                    continue
                listed.add(device.name)
                for name in (item.counter_set for item in device.consumes_counters):
                    if name not in sets and name in old_sets:
                        sets[name] = old_sets[name]
                taint = replace(NOT_LISTED_TAINT, effect=self.notes.not_listed_effect)
                yield self._noted(_without_unknown_counters(device, sets), taint)

    def _noted(self, device: Device, *more: DeviceTaint) -> Device:
        """Return a device with the taints that are known of it, at most as many as the API allows."""
        known = (*more, *self.notes.taints.get(DeviceId(*self.id, device.name), ()))
        own = [taint for taint in device.taints if all((taint.key, taint.effect) != (n.key, n.effect) for n in known)]
        return replace(device, taints=(*known, *own)[:_TAINTS_MAX]) if known else device


def _counter_fault(device: Device, sets: Mapping[str, CounterSet]) -> str | None:
    """Return which counter a device consumes that its pool does not have: the whole pool would be invalid."""
    for item in device.consumes_counters:
        if item.counter_set not in sets:
            found, allowed = item.counter_set, ", ".join(sets) or "none in this pool"
            return f"consumesCounters: found counter set {found!r}, allowed {allowed}; add it to the pool"
        for name in item.counters:
            if name not in sets[item.counter_set].counters:
                allowed = ", ".join(sets[item.counter_set].counters)
                return f"consumesCounters: found counter {name!r} of {item.counter_set!r}, allowed {allowed}; add it"
    return None


def _without_unknown_counters(device: Device, sets: Mapping[str, CounterSet]) -> Device:
    """Return a device that consumes nothing that its pool lacks."""

    def known(item: CounterConsumption) -> CounterConsumption:
        counters = sets[item.counter_set].counters
        return replace(item, counters={name: value for name, value in item.counters.items() if name in counters})

    consumptions = (known(item) for item in device.consumes_counters if item.counter_set in sets)
    return replace(device, consumes_counters=tuple(item for item in consumptions if item.counters))

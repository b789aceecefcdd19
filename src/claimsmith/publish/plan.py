"""Which ResourceSlices to delete, update and create so that the API server shows an inventory.

Applying a plan twice changes nothing the second time. A pool never has two complete generations: obsolete slices go
first, and a new generation is complete only with its last write.

Source: syncPool of the resourceslice controller, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory
from claimsmith.model.metadata import Metadata, OwnerReference
from claimsmith.model.pool import CounterSet, ResourceSlice
from claimsmith.publish.content import DeviceNotes, PoolContent, PublishProblem, plan_content
from claimsmith.publish.split import split_counter_sets, split_devices

__all__ = ["SliceOwner", "SlicePlan", "plan_slices", "preview_slices", "same_content"]

_INDEX_MIN_DIGITS: Final = 5
_Part = tuple[CounterSet, ...] | tuple[Device, ...]
_INDEX: Final = re.compile(r"([0-9a-f]+)-")


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOwner:
    """Whose slices they are.

    Args:
        driver: Name of the driver.
        node: Name of the node.
        node_uid: The node's uid: slices go when the node goes. Empty for slices that are never stored.
    """

    driver: str
    node: str
    node_uid: str = ""

    @property
    def reference(self) -> tuple[OwnerReference, ...]:
        """The owner reference of the slices."""
        if not self.node_uid:
            return ()
        return (OwnerReference(api_version="v1", kind="Node", name=self.node, uid=self.node_uid, controller=True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """Writes in the order in which they must be done: deletes, updates, creates.

    Args:
        deletes: Slices as they are stored; only these very versions may be deleted.
        updates: Slices as they must be; name, uid and resourceVersion are those of the stored ones.
        creates: Slices without a name, but with a `generate_name` that keeps the order.
        problems: What could not be planned; everything else is.
    """

    deletes: tuple[ResourceSlice, ...] = ()
    updates: tuple[ResourceSlice, ...] = ()
    creates: tuple[ResourceSlice, ...] = ()
    problems: tuple[PublishProblem, ...] = ()

    @property
    def writes(self) -> int:
        """Number of requests."""
        return len(self.deletes) + len(self.updates) + len(self.creates)


def plan_slices(
    owner: SliceOwner,
    inventory: Inventory,
    existing: Iterable[ResourceSlice],
    *,
    notes: DeviceNotes | None = None,
    accepted: Mapping[str, tuple[ResourceSlice, ResourceSlice]] | None = None,
) -> SlicePlan:
    """Return what to write so that the slices of a driver on a node show its inventory.

    Args:
        owner: Whose slices they are.
        inventory: What the driver found.
        existing: The owner's slices as they are stored.
        notes: Taints for health, and devices that claims hold.
        accepted: By slice name, what was last sent and what the server made of it: a server that drops a field that
            it does not know gets no further update for that.
    """
    own = [item for item in existing if item.driver == owner.driver]
    contents = plan_content(owner.driver, inventory, node=owner.node, existing=own, notes=notes)
    plans = [_PoolPlanner(owner=owner, content=item, accepted=accepted or {}).plan(own) for item in contents]
    pools = {item.pool.name for item in contents}
    return SlicePlan(
        deletes=tuple(item for item in own if item.pool not in pools) + _joined(plan.deletes for plan in plans),
        updates=_joined(plan.updates for plan in plans),
        creates=_joined(plan.creates for plan in plans),
        problems=tuple(problem for item in contents for problem in item.problems),
    )


def preview_slices(
    driver: str, node: str, inventory: Inventory, *, notes: DeviceNotes | None = None
) -> tuple[ResourceSlice, ...]:
    """Return the slices that an inventory becomes, with names that keep the order, for use without an API server."""
    plan = plan_slices(SliceOwner(driver=driver, node=node), inventory, (), notes=notes)

    def named(item: ResourceSlice, index: int) -> ResourceSlice:
        return replace(item, metadata=replace(item.metadata, name=f"{item.metadata.generate_name}{index}"))

    return tuple(named(item, index) for index, item in enumerate(plan.creates))


def same_content(stored: ResourceSlice, wanted: ResourceSlice) -> bool:
    """Tell whether a stored slice holds what is wanted; taint times that the server set count for nothing."""
    return _timeless(stored) == _timeless(wanted)


def _timeless(item: ResourceSlice) -> ResourceSlice:
    devices = tuple(
        replace(device, taints=tuple(replace(taint, time_added=None) for taint in device.taints))
        if device.taints
        else device
        for device in item.devices
    )
    return replace(item, metadata=Metadata(name=""), devices=devices)


def _joined(parts: Iterable[tuple[ResourceSlice, ...]]) -> tuple[ResourceSlice, ...]:
    return tuple(item for part in parts for item in part)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PoolPlanner:
    """Plans the slices of one pool."""

    owner: SliceOwner
    content: PoolContent
    accepted: Mapping[str, tuple[ResourceSlice, ResourceSlice]] = field(default_factory=dict)

    def plan(self, own: Sequence[ResourceSlice]) -> SlicePlan:
        stored = [item for item in own if item.pool == self.content.pool.name]
        generation = max((item.generation for item in stored), default=0)
        current = [item for item in stored if item.generation == generation]
        parts = self._parts(current)
        matched = self._match(current, len(parts))
        obsolete = tuple(item for item in stored if item not in matched.values())
        wanted = self._slices(parts, generation)
        changed = [index for index, item in matched.items() if not self._is_fine(item, wanted[index])]
        missing = [index for index in range(len(parts)) if index not in matched]
        risky = [item for item in obsolete if item.generation == generation]
        if not stored or ((changed or missing) and len(changed) + len(missing) + len(risky) > 1):
            wanted = self._slices(parts, generation + 1)
            changed = list(matched)
        return SlicePlan(
            deletes=obsolete,
            updates=tuple(_updated(matched[index], wanted[index]) for index in sorted(changed)),
            creates=tuple(wanted[index] for index in missing),
        )

    def _parts(self, current: Sequence[ResourceSlice]) -> list[_Part]:
        """Cut the pool: counter sets first, then the devices."""
        ordered = sorted((item for item in current if item.devices), key=lambda item: item.name)
        previous = [[device.name for device in item.devices] for item in ordered]
        counters = split_counter_sets(self.content.pool.counter_sets)
        devices = split_devices(self.content.pool.devices, previous=previous)
        return [*counters, *(part for part in devices if part or not counters)]

    def _match(self, current: Sequence[ResourceSlice], count: int) -> dict[int, ResourceSlice]:
        """Find the stored slice of each index; of two with one index the first by name stays."""
        matched: dict[int, ResourceSlice] = {}
        for item in sorted(current, key=lambda item: item.name):
            index = _find_index(item.name, _index_digits(count))
            if index is not None and index < count and self._is_ours(item):
                matched.setdefault(index, item)
        return dict(sorted(matched.items()))

    def _is_ours(self, item: ResourceSlice) -> bool:
        """Tell whether a slice can be updated: its node can't be changed, nor who owns it."""
        node = None if self._is_shared else self.owner.node
        return item.node_name == node and item.metadata.owner_references == self.owner.reference

    @property
    def _is_shared(self) -> bool:
        pool = self.content.pool
        return pool.all_nodes or pool.node_selector is not None or self.content.per_device_nodes

    def _is_fine(self, stored: ResourceSlice, wanted: ResourceSlice) -> bool:
        if same_content(stored, wanted):
            return True
        sent, answered = self.accepted.get(stored.name, (None, None))
        return (
            sent is not None
            and answered is not None
            and (same_content(sent, wanted) and same_content(stored, answered))
        )

    def _slices(
        self, parts: Sequence[tuple[CounterSet, ...] | tuple[Device, ...]], generation: int
    ) -> list[ResourceSlice]:
        digits = _index_digits(len(parts))
        pool = self.content.pool
        per_device = self.content.per_device_nodes
        return [
            ResourceSlice(
                metadata=Metadata(
                    name="",
                    generate_name=f"{index:0{digits}x}-{self.owner.driver}-{self.owner.node}-",
                    owner_references=self.owner.reference,
                ),
                driver=self.owner.driver,
                pool=pool.name,
                generation=generation,
                slice_count=len(parts),
                node_name=None if self._is_shared else self.owner.node,
                node_selector=None if per_device else pool.node_selector,
                all_nodes=pool.all_nodes and not per_device,
                per_device_node_selection=per_device,
                devices=tuple(item for item in part if isinstance(item, Device)),
                shared_counters=tuple(item for item in part if isinstance(item, CounterSet)),
            )
            for index, part in enumerate(parts)
        ]


def _index_digits(count: int) -> int:
    return max(_INDEX_MIN_DIGITS, len(f"{count - 1:x}"))


def _find_index(name: str, digits: int) -> int | None:
    """Return the index at the start of a slice's name; None when there is none of this length."""
    match = _INDEX.match(name)
    return int(match[1], 16) if match is not None and len(match[1]) == digits else None


def _updated(stored: ResourceSlice, wanted: ResourceSlice) -> ResourceSlice:
    """Return what is wanted under the stored slice's name, with the times of taints that were there before."""
    before = {device.name: device.taints for device in stored.devices}

    def timed(device: Device) -> Device:
        times = {taint.identity: taint.time_added for taint in before.get(device.name, ())}
        taints = (replace(taint, time_added=taint.time_added or times.get(taint.identity)) for taint in device.taints)
        return replace(device, taints=tuple(taints)) if device.taints else device

    return replace(wanted, metadata=stored.metadata, devices=tuple(map(timed, wanted.devices)))

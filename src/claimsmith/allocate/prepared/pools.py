"""The pools of a node: which slices count, whether they are complete and valid, in upstream's order.

Source: GatherPools in structured/internal/{incubating,stable}, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from claimsmith.allocate.prepared.node_selector import find_selector_error, matches_node
from claimsmith.allocate.prepared.records import DeviceRecord, SliceRecord
from claimsmith.model.device import Device
from claimsmith.model.features import Features
from claimsmith.model.names import PoolId
from claimsmith.model.node import Node
from claimsmith.model.pool import CounterSet, ResourceSlice
from claimsmith.model.topology import NodeSelector

__all__ = [
    "BadSelector",
    "GatheredPools",
    "PoolParts",
    "PoolView",
    "build_plain_pool",
    "build_pool",
    "gather_pools",
    "is_ignored",
    "node_reaches",
]


@dataclass(slots=True, eq=False, kw_only=True)
class PoolView:
    """A pool as one or several nodes see it. Compared by identity.

    Args:
        found, expected: Slices of the generation that were found, and that the pool should have.
        incomplete: Slices are missing: the pool gives no devices.
        invalid: Why the pool gives no devices; empty when it is valid.
        slices: Slices that target the node and have devices, in order of preference.
        other_slices: The pool's other slices with devices; they matter for counters alone.
        counter_sets: By name.
        is_local: Devices select their nodes by themselves.
        skips_operations: A driver skips node operations, which not every node can do without.
        cache: For what is computed from the view alone.
        live: For what is computed from the view and the devices in use; emptied when those change.
    """

    id: PoolId
    generation: int
    found: int
    expected: int
    incomplete: bool = False
    invalid: str = ""
    slices: tuple[SliceRecord, ...] = ()
    other_slices: tuple[SliceRecord, ...] = ()
    counter_sets: Mapping[str, CounterSet] = field(default_factory=dict)
    has_binding: bool = False
    is_local: bool = False
    skips_operations: bool = False
    cache: dict[object, object] = field(default_factory=dict)
    live: dict[object, object] = field(default_factory=dict)
    _devices: tuple[DeviceRecord, ...] | None = None

    def give(self, slices: Iterable[SliceRecord], others: Iterable[SliceRecord] = ()) -> None:
        """Let the pool offer the devices of slices; those of the others matter for counters alone."""
        self.slices, self.other_slices = tuple(slices), tuple(others)
        self.has_binding = any(record.has_binding for record in self.slices)
        self.is_local = any(record.slice.per_device_node_selection for record in self.slices)
        self.skips_operations = any(bool(record.slice.skip_node_operations) for record in self.slices)

    @property
    def differs_by_node(self) -> bool:
        """Whether nodes that reach the pool may find other devices there than their neighbours."""
        return self.is_local or self.skips_operations

    @property
    def devices(self) -> tuple[DeviceRecord, ...]:
        """Devices of the slices that target the node, in order of preference."""
        if self._devices is None:
            self._devices = tuple(chain.from_iterable(record.devices for record in self.slices))
        return self._devices

    @property
    def elsewhere(self) -> tuple[DeviceRecord, ...]:
        """Devices of the pool's other slices; they matter for counters alone."""
        return tuple(chain.from_iterable(record.devices for record in self.other_slices))

    @property
    def usable(self) -> bool:
        """Whether devices may be taken from the pool."""
        return not self.incomplete and not self.invalid


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolParts:
    """The slices that make a pool on a node; equal parts make equal views.

    Args:
        targeting: Slices of the newest generation that target the node, in list order.
        others: Further slices of that generation; empty when `targeting` is all there is.
        found: How many slices count for completeness.
    """

    id: PoolId
    targeting: tuple[SliceRecord, ...]
    others: tuple[SliceRecord, ...] = ()
    found: int

    @property
    def expected(self) -> int:
        """Number of slices that the pool should have: what the first slice says."""
        return self.targeting[0].slice.slice_count

    @property
    def complete(self) -> bool:
        """Whether all slices of the generation are there."""
        return self.found == self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class BadSelector:
    """A node selector of a slice that can't be read."""

    slice: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredPools:
    """What a node sees.

    Args:
        obsolete: Pools whose slices for this node are outdated by a newer generation elsewhere.
    """

    pools: tuple[PoolParts, ...]
    obsolete: tuple[PoolId, ...] = ()
    bad_selectors: tuple[BadSelector, ...] = ()


def gather_pools(
    node: Node,
    visible: Iterable[SliceRecord],
    *,
    find_slices: Callable[[PoolId], Sequence[SliceRecord]],
    features: Features,
    counters_everywhere: bool = False,
) -> GatheredPools:
    """Return the parts of each pool that the node can reach, without order.

    Args:
        visible: Slices that may target the node: those that name it, then those without a node name, each in list
            order.
        find_slices: All slices of a pool, in list order.
        counters_everywhere: Counter slices count for every node, as in upstream's stable implementation.
    """
    newest: dict[PoolId, list[SliceRecord]] = {}
    bad: list[BadSelector] = []
    for record in visible:
        if is_ignored(record, features):
            continue
        everywhere = counters_everywhere and bool(record.slice.shared_counters)
        if everywhere or _targets(record, node, bad):
            _collect(newest, record)
    parts, obsolete = [], []
    for pool, slices in newest.items():
        found = _complete(pool, slices, find_slices=find_slices, features=features)
        if found is None:
            obsolete.append(pool)
        else:
            parts.append(found)
    return GatheredPools(pools=tuple(parts), obsolete=tuple(obsolete), bad_selectors=tuple(bad))


def is_ignored(record: SliceRecord, features: Features) -> bool:
    """Tell whether a slice is left out because it uses a feature that is off."""
    slice = record.slice
    if not features.partitionable_devices and (slice.per_device_node_selection or slice.shared_counters):
        return True
    return not features.compatibility_groups and record.uses_groups


def _targets(record: SliceRecord, node: Node, bad: list[BadSelector]) -> bool:
    """Whether the slice has devices for the node; unreadable selectors are noted and match nothing."""
    slice = record.slice
    if record.selector_error:
        bad.append(BadSelector(slice=slice.name, text=record.selector_error))
        return False
    if slice.node_name or slice.all_nodes or slice.node_selector is not None:
        return node_reaches(slice, node)
    if not slice.per_device_node_selection:
        return False
    for device in slice.devices:
        if device.node_selector is not None and (error := find_selector_error(device.node_selector)):
            bad.append(BadSelector(slice=f"{slice.name}, device {device.name}", text=error))
        elif node_reaches(device, node):
            return True
    return False


def node_reaches(target: ResourceSlice | Device, node: Node) -> bool:
    """Tell whether the node selection of a slice, or of one device, includes the node."""
    if target.node_name:
        return target.node_name == node.name
    if target.all_nodes:
        return True
    selector: NodeSelector | None = target.node_selector
    return selector is not None and matches_node(selector, node)


def _collect(newest: dict[PoolId, list[SliceRecord]], record: SliceRecord) -> None:
    """Keep the slices of the highest generation of each pool."""
    pool = record.slice.pool_id
    slices = newest.get(pool)
    if slices is None or record.slice.generation > slices[0].slice.generation:
        newest[pool] = [record]
    elif record.slice.generation == slices[0].slice.generation:
        slices.append(record)


def _complete(
    pool: PoolId,
    slices: list[SliceRecord],
    *,
    find_slices: Callable[[PoolId], Sequence[SliceRecord]],
    features: Features,
) -> PoolParts | None:
    """The parts of a pool, with the slices that don't target the node when they are needed; None: outdated."""
    targeting = tuple(slices)
    first = slices[0].slice
    if len(slices) == first.slice_count:
        return PoolParts(id=pool, targeting=targeting, found=len(slices))
    same = []
    for record in find_slices(pool):
        if record.slice.generation > first.generation:
            return None
        if record.slice.generation == first.generation and (features.compatibility_groups or not record.uses_groups):
            same.append(record)
    names = {record.slice.name for record in slices}
    others = tuple(record for record in same if record.slice.name not in names) if len(slices) < len(same) else ()
    return PoolParts(id=pool, targeting=targeting, others=others, found=len(same))


def build_pool(parts: PoolParts, features: Features, *, in_list_order: bool = False) -> PoolView:
    """Return the view that the parts make: devices in order, counter sets, what is missing or wrong.

    Args:
        in_list_order: Take the slices as they are listed, as upstream's stable implementation does; else by name.
    """
    view = PoolView(
        id=parts.id,
        generation=parts.targeting[0].slice.generation,
        found=parts.found,
        expected=parts.expected,
        incomplete=not parts.complete,
    )
    if view.incomplete:
        return view
    ordered = list(parts.targeting)
    if not in_list_order:
        ordered.sort(key=lambda record: record.slice.name)
    partitions = features.partitionable_devices
    counter_slices = [r for r in (*ordered, *parts.others) if partitions and r.slice.shared_counters]
    device_slices = [r for r in ordered if not (partitions and r.slice.shared_counters)]
    other_slices = [r for r in parts.others if not (partitions and r.slice.shared_counters)]
    view.invalid = _find_duplicate_device(device_slices)
    if partitions and not view.invalid:
        view.invalid = _fill_counter_sets(view, counter_slices) or _find_unknown_counter(
            view.counter_sets, (*device_slices, *other_slices)
        )
    if not view.invalid:
        view.give(device_slices, other_slices)
    return view


def build_plain_pool(record: SliceRecord) -> PoolView:
    """Return the view of a pool that one slice without counters is all of."""
    slice = record.slice
    view = PoolView(id=slice.pool_id, generation=slice.generation, found=1, expected=1)
    view.invalid = _find_duplicate_device((record,))
    if not view.invalid:
        view.give((record,))
    return view


def _find_duplicate_device(slices: Iterable[SliceRecord]) -> str:
    names = [device.name for record in slices for device in record.slice.devices]
    if len(set(names)) == len(names):
        return ""
    seen: set[str] = set()
    first = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return f"duplicate device name {first}"


def _fill_counter_sets(view: PoolView, slices: Iterable[SliceRecord]) -> str:
    """Give the view its counter sets; return what is wrong with them."""
    sets: dict[str, CounterSet] = {}
    for record in slices:
        for counter_set in record.slice.shared_counters:
            if counter_set.name in sets:
                return f"duplicate counter set name {counter_set.name}"
            sets[counter_set.name] = counter_set
    view.counter_sets = sets
    return ""


def _find_unknown_counter(sets: Mapping[str, CounterSet], slices: Iterable[SliceRecord]) -> str:
    for device in chain.from_iterable(record.slice.devices for record in slices):
        for consumption in device.consumes_counters:
            counter_set = sets.get(consumption.counter_set)
            if counter_set is None:
                return f"counter set {consumption.counter_set} not found (device {device.name})"
            for counter in consumption.counters:
                if counter not in counter_set.counters:
                    return (
                        f"counter {counter} not found in counter set {consumption.counter_set} (device {device.name})"
                    )
    return ""

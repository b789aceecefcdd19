"""A problem in which some of what speaks against it is relaxed: edits are noted first and carried out once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from claimsmith.allocate.explain.case import NodeCase
from claimsmith.allocate.prepared.pools import is_ignored
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.prepared.records import DeviceRecord, SliceRecord
from claimsmith.model.claim import DeviceClass, DeviceRequest, ResourceClaim, Selector, SubRequest
from claimsmith.model.device import Capacity, CounterConsumption, Device, DeviceAttribute
from claimsmith.model.features import Features
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import CounterId, PoolId
from claimsmith.model.pool import CounterSet, ResourceSlice
from claimsmith.model.quantity import Quantity

__all__ = ["Draft", "Place", "SliceEdits", "TaintKey", "repair_slices"]

Place = tuple[int, int, int]
"""Places of a claim, of its request and of the request's alternative."""
TaintKey = tuple[str, str, str]
"""Key, value and effect of a taint."""

_PINNED: Final = "pinned.claimsmith.dev"
"""Domain of the attributes that keep answers of selectors."""
_ENDLESS: Final = Quantity(nanos=10**36)
_NOTHING: Final = Quantity(nanos=0)


@dataclass(slots=True, kw_only=True)
class SliceEdits:
    """What is relaxed about devices and pools.

    Args:
        taints: Taints that are taken away.
        counters: Counters that never run out.
        groups: Counter sets whose devices need not be compatible.
        pools: Pools that count as complete, valid and new.
        lacking: Capacities that every device has, if only nothing of it.
        unbound: No device has binding conditions.
        uncounted: No device takes counters.
        operated: No driver skips node operations.
    """

    taints: set[TaintKey] = field(default_factory=set)
    counters: set[tuple[PoolId, CounterId]] = field(default_factory=set)
    groups: set[tuple[PoolId, str]] = field(default_factory=set)
    pools: set[PoolId] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)
    unbound: bool = False
    uncounted: bool = False
    operated: bool = False

    def freeze(self) -> tuple[object, ...]:
        """Return the edits as a key; equal edits give equal slices."""
        sets: tuple[Iterable[object], ...] = (self.taints, self.counters, self.groups, self.pools, self.lacking)
        return (*(frozenset(found) for found in sets), self.unbound, self.uncounted, self.operated)


@dataclass(slots=True, eq=False, kw_only=True)
class Draft:
    """A problem in the making.

    Args:
        case: The node and the claims, with nothing relaxed.
        known: Slices that were made before, by their edits.
        counts: How many devices an alternative wants, where it is fewer than before.
        gone: Requests that are left out.
        some: Alternatives for all devices that are content with one.
        clauses: Clauses of requests that are left out: the place, and the position among its selectors.
        class_clauses: Clauses of classes that are left out.
        made_classes: Classes that are made up, without selectors.
        constraints: Constraints that are left out, by claim and position.
        amounts: Capacities of which an alternative asks for nothing.
        freed: Positions of uses that are left out.
        gates: Gates that are on.
        changes: Further changes, which are carried out last.
    """

    case: NodeCase
    known: dict[tuple[object, ...], tuple[ResourceSlice, ...]]
    slices: SliceEdits = field(default_factory=SliceEdits)
    counts: dict[Place, int] = field(default_factory=dict)
    gone: set[tuple[int, int]] = field(default_factory=set)
    some: set[Place] = field(default_factory=set)
    clauses: set[tuple[Place, int]] = field(default_factory=set)
    class_clauses: set[tuple[str, int]] = field(default_factory=set)
    made_classes: set[str] = field(default_factory=set)
    constraints: set[tuple[int, int]] = field(default_factory=set)
    amounts: set[tuple[Place, str]] = field(default_factory=set)
    freed: set[int] = field(default_factory=set)
    gates: set[str] = field(default_factory=set)
    changes: list[Callable[[AllocationProblem], AllocationProblem]] = field(default_factory=list)

    def build(self) -> AllocationProblem:
        """Return the problem."""
        case = self.case
        problem = AllocationProblem(
            node=case.node,
            claims=tuple(self._edit_claim(number, claim) for number, claim in enumerate(case.claims)),
            slices=self._edit_slices(),
            classes=self._edit_classes(),
            allocated=tuple(part.standin for number, part in enumerate(case.uses) if number not in self.freed),
            features=self._edit_features(),
            history=case.history,
        )
        for change in self.changes:
            problem = change(problem)
        return problem

    def _edit_features(self) -> Features:
        return replace(self.case.features, **dict.fromkeys(self.gates, True)) if self.gates else self.case.features

    def _edit_classes(self) -> dict[str, DeviceClass]:
        classes = dict(self.case.classes)
        for name in {name for name, _ in self.class_clauses}:
            kept = tuple(
                selector
                for position, selector in enumerate(classes[name].selectors)
                if (name, position) not in self.class_clauses
            )
            classes[name] = replace(classes[name], selectors=kept)
        for name in self.made_classes:
            classes[name] = DeviceClass(metadata=Metadata(name=name))
        if self.slices.lacking and self.case.pinned:
            for name, item in classes.items():
                classes[name] = replace(item, selectors=tuple(map(self._pin, item.selectors)))
        return classes

    def _pin(self, selector: Selector) -> Selector:
        """A selector that says of devices with added capacity what it said before."""
        if selector.expression not in self.case.pinned:
            return selector
        number = self.case.pinned.index(selector.expression)
        return Selector(expression=f'device.attributes["{_PINNED}"].c{number}')

    def _edit_claim(self, number: int, claim: ResourceClaim) -> ResourceClaim:
        requests = tuple(
            self._edit_request(number, place, request)
            for place, request in enumerate(claim.spec.requests)
            if (number, place) not in self.gone
        )
        constraints = tuple(
            constraint
            for position, constraint in enumerate(claim.spec.constraints)
            if (number, position) not in self.constraints
        )
        return replace(claim, spec=replace(claim.spec, requests=requests, constraints=constraints))

    def _edit_request(self, claim: int, place: int, request: DeviceRequest) -> DeviceRequest:
        specs = tuple(self._edit_spec((claim, place, number), spec) for number, spec in enumerate(request.alternatives))
        if request.exactly is not None:
            return replace(request, exactly=specs[0])
        return replace(request, first_available=specs)

    def _edit_spec(self, place: Place, spec: SubRequest) -> SubRequest:
        selectors = spec.selectors
        if self.clauses and place not in self._kept_all(place, spec):
            selectors = tuple(
                selector for number, selector in enumerate(selectors) if (place, number) not in self.clauses
            )
        asked = spec.capacity
        if asked is not None and self.amounts and place not in self._kept_all(place, spec):
            asked = {name: _NOTHING if (place, name) in self.amounts else amount for name, amount in asked.items()}
        if self.slices.lacking:
            selectors = tuple(map(self._pin, selectors))
        if spec.allocation_mode == "All" and place in self.some:
            return replace(spec, selectors=selectors, capacity=asked, allocation_mode="ExactCount", count=1)
        return replace(spec, selectors=selectors, capacity=asked, count=self.counts.get(place, spec.count))

    def _kept_all(self, place: Place, spec: SubRequest) -> tuple[Place, ...]:
        """What a request for all devices selects is a part of its being for all: it is never left out by itself."""
        return (place,) if spec.allocation_mode == "All" and place not in self.some else ()

    def _edit_slices(self) -> tuple[ResourceSlice, ...]:
        key = self.slices.freeze()
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = tuple(_edit_slices(self.case, self.slices))
        return found


def _edit_slices(case: NodeCase, edits: SliceEdits) -> Iterator[ResourceSlice]:
    repaired: dict[PoolId, list[ResourceSlice]] = {pool: [] for pool in edits.pools}
    for slice in case.slices:
        if slice.pool_id in repaired:
            repaired[slice.pool_id].append(slice)
        else:
            yield _edit_slice(_pin_answers(case, slice, edits), edits)
    for pool, slices in repaired.items():
        for slice in repair_slices(slices, frozenset(case.targeting.get(pool, ())), case.features):
            yield _edit_slice(_pin_answers(case, slice, edits), edits)


def _pin_answers(case: NodeCase, slice: ResourceSlice, edits: SliceEdits) -> ResourceSlice:
    """The slice with what clauses that read capacity say of its devices, if devices are given capacity."""
    if not edits.lacking or not case.pinned:
        return slice
    evaluate = case.cluster.selectors.evaluate
    devices = []
    for device in slice.devices:
        record = DeviceRecord(slice, device)
        answers = {
            f"{_PINNED}/c{number}": DeviceAttribute.of(evaluate(text, record) is True)
            for number, text in enumerate(case.pinned)
        }
        devices.append(replace(device, attributes={**device.attributes, **answers}))
    return replace(slice, devices=tuple(devices))


def _edit_slice(slice: ResourceSlice, edits: SliceEdits) -> ResourceSlice:
    devices = tuple(_edit_device(slice.pool_id, device, edits) for device in slice.devices)
    counters = tuple(_edit_counters(slice.pool_id, item, edits) for item in slice.shared_counters)
    skips = () if edits.operated else slice.skip_node_operations
    if all(map(_is, devices, slice.devices)) and all(map(_is, counters, slice.shared_counters)):
        return slice if skips == slice.skip_node_operations else replace(slice, skip_node_operations=skips)
    return replace(slice, devices=devices, shared_counters=counters, skip_node_operations=skips)


def _is(one: object, two: object) -> bool:
    return one is two


def _edit_counters(pool: PoolId, item: CounterSet, edits: SliceEdits) -> CounterSet:
    freed = [name for name in item.counters if (pool, CounterId(item.name, name)) in edits.counters]
    return replace(item, counters={**item.counters, **dict.fromkeys(freed, _ENDLESS)}) if freed else item


def _edit_device(pool: PoolId, device: Device, edits: SliceEdits) -> Device:
    if edits.taints and device.taints:
        kept = tuple(taint for taint in device.taints if taint.identity not in edits.taints)
        device = device if len(kept) == len(device.taints) else replace(device, taints=kept)
    missing = [name for name in edits.lacking if name not in device.capacity]
    if missing:
        device = replace(device, capacity={**device.capacity, **dict.fromkeys(missing, Capacity(value=_NOTHING))})
    if edits.unbound and device.binding_conditions:
        device = replace(device, binding_conditions=(), binding_failure_conditions=())
    if edits.uncounted and device.consumes_counters:
        device = replace(device, consumes_counters=())
    if edits.groups and device.consumes_counters:
        consumed = tuple(_edit_groups(pool, item, edits) for item in device.consumes_counters)
        device = replace(device, consumes_counters=consumed) if consumed != device.consumes_counters else device
    return device


def _edit_groups(pool: PoolId, item: CounterConsumption, edits: SliceEdits) -> CounterConsumption:
    relaxed = (pool, item.counter_set) in edits.groups and item.compatibility_groups
    return replace(item, compatibility_groups=()) if relaxed else item


def repair_slices(
    slices: Iterable[ResourceSlice], targeting: frozenset[str], features: Features
) -> Iterator[ResourceSlice]:
    """Give the slices of a pool that are of use on the node, as if all were there and none contradicted another.

    Args:
        slices: All slices of the pool.
        targeting: Names of those that target the node, of the newest generation among them.
        features: The gates; slices that need one that is off stay away.
    """
    near = [slice for slice in slices if slice.name in targeting]
    generation = max((slice.generation for slice in near), default=0)
    kept = [slice for slice in slices if slice.generation == generation and not _is_left_out(slice, features)]
    kept.sort(key=lambda slice: slice.name not in targeting)
    names, sets = set[str](), dict[str, CounterSet]()
    parts = []
    for slice in kept:
        devices = tuple(device for device in slice.devices if not (device.name in names or names.add(device.name)))  # type: ignore[func-returns-value]
        counters = tuple(item for item in slice.shared_counters if sets.setdefault(item.name, item) is item)
        parts.append(replace(slice, devices=devices, shared_counters=counters, slice_count=len(kept)))
    for slice in parts:
        yield replace(slice, devices=tuple(_drop_unknown(device, sets) for device in slice.devices))


def _is_left_out(slice: ResourceSlice, features: Features) -> bool:
    return is_ignored(SliceRecord(slice, position=0), features)


def _drop_unknown(device: Device, sets: dict[str, CounterSet]) -> Device:
    """The device without the counters that its pool does not have."""
    if not device.consumes_counters:
        return device
    kept = []
    for item in device.consumes_counters:
        known = sets.get(item.counter_set)
        if known is not None:
            counters = {name: amount for name, amount in item.counters.items() if name in known.counters}
            kept.append(replace(item, counters=counters))
    return replace(device, consumes_counters=tuple(kept))

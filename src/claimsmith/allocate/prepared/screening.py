"""What can be said of each device of a pool before anything is chosen: may a request of some shape have it?

The answers depend on the cluster alone, so all pods and nodes share them until a claim or a slice of the pool changes.

Source: allocateOne and allocateDevice in structured/internal/experimental, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.prepared.capacity import CapacityPlan, plan_capacity
from claimsmith.allocate.prepared.counters import Groups, PoolCounters
from claimsmith.allocate.prepared.eligibility import MATCH, RequestShape, Selectors, Verdict, is_experimental
from claimsmith.allocate.prepared.pools import PoolView, node_reaches
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.taints import find_blocking_taint
from claimsmith.model.decision import DecisionWarning, RefusedKind
from claimsmith.model.deviations import Deviation
from claimsmith.model.features import Features
from claimsmith.model.node import Node

__all__ = ["NODE_OPERATIONS_FEATURE", "Candidate", "Poison", "Screen", "Screened"]

NODE_OPERATIONS_FEATURE: Final = "DRAOptionalNodeOperations"
"""What a node declares when its kubelet can do without a driver's node operations."""


@dataclass(frozen=True, slots=True)
class Poison:
    """Why looking at a device aborts the whole allocation, as upstream does."""

    kind: RefusedKind
    text: str


@dataclass(slots=True, eq=False)
class Candidate:
    """A device that a request of some shape may have, as far as the cluster's state says. Compared by identity.

    Args:
        shareable: The device allows several allocations.
        plan: What the request takes from its capacity; None when capacity doesn't count.
        charges: Taking the device takes counters: it has some, and no share of it is charged already.
        poison: Looking at the device aborts the allocation.
        blocked: The device may not be had now; only kept in lists of all devices.
        full: The shares that exist leave too little of its capacity; only kept in lists of all devices.
    """

    record: DeviceRecord
    view: PoolView
    shareable: bool
    plan: CapacityPlan | None
    charges: bool
    poison: Poison | None = None
    blocked: bool = False
    full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """The devices of one pool, or of a node, for one shape.

    Args:
        candidates: In order of preference.
        poisoned: Any candidate is poison.
        warnings: Devices whose selectors can't be evaluated, which are passed over.
    """

    candidates: tuple[Candidate, ...] = ()
    poisoned: bool = False
    warnings: tuple[DecisionWarning, ...] = ()

    @classmethod
    def join(cls, parts: list[Screened]) -> Screened:
        """Return the parts one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            candidates=tuple(candidate for part in parts for candidate in part.candidates),
            poisoned=any(part.poisoned for part in parts),
            warnings=tuple(warning for part in parts for warning in part.warnings),
        )


@dataclass(slots=True, eq=False)
class _Eligible:
    """The devices of a pool whose selectors a shape passes, or on which they fail; node-local ones by node."""

    everywhere: list[tuple[int, DeviceRecord, Verdict]] = field(default_factory=list)
    by_node: dict[str, list[tuple[int, DeviceRecord, Verdict]]] = field(default_factory=dict)
    warnings: list[DecisionWarning] = field(default_factory=list)

    def on_node(self, name: str) -> list[tuple[int, DeviceRecord, Verdict]]:
        """Return the devices that may be on the node, in order."""
        local = self.by_node.get(name)
        if not local:
            return self.everywhere
        return sorted((*self.everywhere, *local), key=lambda entry: entry[0])


class Screen:
    """Decides about devices one by one; keeps its answers in the views of the pools.

    Args:
        deviations: Without SELECTOR_ERROR a selector or capacity that can't be evaluated on a device aborts the
            allocation; otherwise the device is passed over with a warning.
        find_counters: The counters of a pool.
    """

    __slots__ = ("_aborts", "_features", "_find_counters", "selectors")

    def __init__(
        self,
        features: Features,
        selectors: Selectors,
        *,
        find_counters: Callable[[PoolView], PoolCounters],
        deviations: frozenset[Deviation],
    ) -> None:
        self._features = features
        self._find_counters = find_counters
        self._aborts = Deviation.SELECTOR_ERROR not in deviations
        self.selectors = selectors

    def screen_pool(self, view: PoolView, shape: RequestShape, node: Node) -> Screened:
        """Return the devices that a request for a number of devices may choose from."""
        if not view.usable:
            return Screened()
        key = ("free", shape, _node_key(view, node))
        found = view.live.get(key)
        if not isinstance(found, Screened):
            found = view.live[key] = self._screen_free(view, shape, node)
        return found

    def screen_all(self, view: PoolView, shape: RequestShape, node: Node) -> Screened:
        """Return the devices that a request for all devices stands for, free or not."""
        key = ("all", shape, _node_key(view, node))
        found = view.live.get(key)
        if not isinstance(found, Screened):
            found = view.live[key] = self._screen_all(view, shape, node)
        return found

    def plan(self, record: DeviceRecord, shape: RequestShape) -> CapacityPlan | None:
        """Return what the shape takes from the device's capacity; None when the gate is off."""
        if not self._features.consumable_capacity:
            return None
        found = record.plans.get(shape.capacity)
        if found is None:
            fractional = self._features.fractional_capacity_range
            found = plan_capacity(record.device, shape.requested, fractional=fractional)
            record.plans[shape.capacity] = found
        return found

    def shareable(self, record: DeviceRecord) -> bool:
        """Tell whether the device allows several allocations."""
        return self._features.consumable_capacity and record.device.allow_multiple_allocations

    def fits_capacity(self, record: DeviceRecord, plan: CapacityPlan | None) -> bool:
        """Tell whether the shares that exist leave enough."""
        if plan is None:
            return True
        if plan.kind != "fits":
            return False
        consumed = record.use.consumed
        return not consumed or all(consumed.get(name, 0) + nanos <= total for name, nanos, total in plan.nanos)

    def charges(self, record: DeviceRecord) -> bool:
        """Tell whether taking the device takes counters."""
        return bool(record.device.consumes_counters) and not (self.shareable(record) and record.use.shares > 0)

    def fits_counters(self, view: PoolView, record: DeviceRecord) -> bool:
        """Tell whether the pool's counters and groups admit a device that charges them, with nothing else chosen."""
        if not self._features.partitionable_devices:
            return not record.device.consumes_counters
        counters = self._find_counters(view)
        if counters.exceeded or not self.fits_groups(counters, record):
            return False
        return all(nanos <= counters.left[counter] for counter, nanos in record.consumption)

    def fits_groups(self, counters: PoolCounters, record: DeviceRecord) -> bool:
        """Tell whether the device may be used beside those in use on its counter sets."""
        if not self._features.compatibility_groups:
            return True
        for consumption in record.device.consumes_counters:
            own: Groups = frozenset(consumption.compatibility_groups) or None
            if consumption.counter_set in counters.groups:
                current = counters.groups[consumption.counter_set]
                if (own is None) != (current is None) or (own and current is not None and not own & current):
                    return False
        return True

    def tolerates(self, record: DeviceRecord, shape: RequestShape) -> bool:
        """Tell whether the shape tolerates the device's taints."""
        if not self._features.device_taints or not record.device.taints:
            return True
        return find_blocking_taint(record.device.taints, shape.tolerations) is None

    def node_operates(self, record: DeviceRecord, node: Node) -> bool:
        """Tell whether the node can do without the node operations that the device's driver skips.

        Upstream's incubating and stable implementations ignore the field.
        """
        if not record.slice.skip_node_operations or not is_experimental(self._features):
            return True
        return self._features.optional_node_operations and NODE_OPERATIONS_FEATURE in node.declared_features

    def _screen_free(self, view: PoolView, shape: RequestShape, node: Node) -> Screened:
        eligible = self._find_eligible(view, shape)
        candidates, warnings = list[Candidate](), list(eligible.warnings)
        for _, record, verdict in eligible.on_node(node.name):
            if record.use.dedicated and not shape.admin:
                continue
            poison = self._find_poison(record, shape, verdict, node)
            if poison is not None:
                candidates.append(Candidate(record, view, False, None, False, poison))
            elif verdict is MATCH and _reaches(record, node):
                candidate = self._admit(view, record, shape, node)
                if not candidate.blocked and not candidate.full:
                    candidates.append(candidate)
                elif candidate.plan is not None and candidate.plan.kind == "fatal":
                    warnings.append(_warn_of_capacity(record, candidate.plan))
        return Screened(
            candidates=tuple(candidates),
            poisoned=any(candidate.poison for candidate in candidates),
            warnings=tuple(warnings),
        )

    def _screen_all(self, view: PoolView, shape: RequestShape, node: Node) -> Screened:
        eligible = self._find_eligible(view, shape)
        candidates, warnings = list[Candidate](), list(eligible.warnings)
        for _, record, verdict in eligible.on_node(node.name):
            poison = self._find_poison(record, shape, verdict, node)
            if poison is not None:
                candidates.append(Candidate(record, view, False, None, False, poison))
            elif verdict is MATCH and _reaches(record, node):
                plan = self.plan(record, shape)
                if plan is None or plan.kind == "fits":
                    candidates.append(self._admit(view, record, shape, node))
                elif plan.kind == "fatal":
                    warnings.append(_warn_of_capacity(record, plan))
        return Screened(
            candidates=tuple(candidates),
            poisoned=any(candidate.poison for candidate in candidates),
            warnings=tuple(warnings),
        )

    def _admit(self, view: PoolView, record: DeviceRecord, shape: RequestShape, node: Node) -> Candidate:
        """Return the device as a candidate; `blocked` or `full` when the cluster's state forbids it."""
        plan, charges = self.plan(record, shape), self.charges(record)
        blocked = (
            (record.use.dedicated and not shape.admin)
            or not self.tolerates(record, shape)
            or not self.node_operates(record, node)
            or (charges and not self.fits_counters(view, record))
        )
        full = not self.fits_capacity(record, plan)
        return Candidate(record, view, self.shareable(record), plan, charges, None, blocked, full)

    def _find_poison(self, record: DeviceRecord, shape: RequestShape, verdict: Verdict, node: Node) -> Poison | None:
        if not self._aborts:
            return None
        if verdict.error is not None:
            kind: RefusedKind = "cel-compile" if verdict.kind == "broken" else "cel-runtime"
            return Poison(kind, describe_error(record, shape, verdict))
        plan = self.plan(record, shape)
        if plan is not None and plan.kind == "fatal" and _reaches(record, node):
            return Poison("capacity", f"device {record.id}: {plan.text}")
        return None

    def _find_eligible(self, view: PoolView, shape: RequestShape) -> _Eligible:
        key = ("eligible", shape)
        found = view.cache.get(key)
        if not isinstance(found, _Eligible):
            found = view.cache[key] = self._sort_out(view, shape)
        return found

    def _sort_out(self, view: PoolView, shape: RequestShape) -> _Eligible:
        eligible = _Eligible()
        for position, record in enumerate(view.devices):
            verdict = self.selectors.find_verdict(shape, record)
            if verdict.error is not None:
                text = describe_error(record, shape, verdict)
                eligible.warnings.append(DecisionWarning(kind="selector-error", text=text, devices=(record.id,)))
                if self._aborts:
                    eligible.everywhere.append((position, record, verdict))
            elif verdict is MATCH:
                local = record.slice.per_device_node_selection and record.device.node_name
                entries = eligible.by_node.setdefault(local, []) if local else eligible.everywhere
                entries.append((position, record, verdict))
        return eligible


def describe_error(record: DeviceRecord, shape: RequestShape, verdict: Verdict) -> str:
    """Return one sentence about a selector that can't be evaluated on a device."""
    whose = f"class {shape.class_name}" if verdict.of_class else "request"
    return f"{whose} selector {verdict.position} on device {record.id}: {verdict.error}"


def _warn_of_capacity(record: DeviceRecord, plan: CapacityPlan) -> DecisionWarning:
    return DecisionWarning(kind="capacity-error", text=f"device {record.id}: {plan.text}", devices=(record.id,))


def _reaches(record: DeviceRecord, node: Node) -> bool:
    return not record.slice.per_device_node_selection or node_reaches(record.device, node)


def _node_key(view: PoolView, node: Node) -> object:
    """What of the node decides about the pool's devices."""
    if view.is_local:
        return node.name
    return view.skips_operations and NODE_OPERATIONS_FEATURE in node.declared_features

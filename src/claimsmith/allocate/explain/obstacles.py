"""Which devices of a node each kept reason keeps from the claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from claimsmith.allocate.explain.draft import Place
from claimsmith.allocate.explain.finding import NodeFinding
from claimsmith.allocate.explain.relaxations import Part, Relaxation, list_places
from claimsmith.allocate.prepared.capacity import plan_capacity
from claimsmith.allocate.prepared.pools import node_reaches
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.taints import find_blocking_taint
from claimsmith.errors import InputError
from claimsmith.model.claim import DeviceRequest, SubRequest
from claimsmith.model.names import DeviceId

__all__ = ["Obstacles", "find_places"]

_FIRST: tuple[Part, ...] = (
    "pool", "class-clause", "clause", "capacity", "taint", "operations", "binding", "partitions", "use",
)  # fmt: skip
"""The order in which a device falls to the reasons."""


def find_places(finding: NodeFinding) -> dict[Place, tuple[DeviceRequest, SubRequest]]:
    """Return the alternatives of the requests that the kept reasons leave in the problem, with their places."""
    kept = {r.place[:2] for r in finding.kept if r.part in ("request", "count", "all") and r.place}
    return {place: (request, spec) for place, request, spec in list_places(finding.case) if place[:2] in kept}


@dataclass(slots=True, eq=False)
class Obstacles:
    """The devices of a node, sorted by the kept reason that they fall to first.

    Attributes:
        devices: All devices that are published for the node, in order.
        held: How many pieces of what is kept hold a device, by device.
    """

    finding: NodeFinding
    devices: tuple[DeviceRecord, ...] = field(init=False)
    used: frozenset[DeviceId] = field(init=False)
    _ordered: list[Relaxation] = field(init=False)
    _classified: dict[tuple[str, DeviceId], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        case, kept = self.finding.case, self.finding.kept
        self.devices = tuple(self._list_devices())
        self._ordered = sorted(
            (r for r in kept if r.part in _FIRST), key=lambda relaxation: _FIRST.index(relaxation.part)
        )
        self.used = frozenset(
            case.uses[number].device for r, keep in kept.items() if r.part == "use" for number in r.uses[:keep]
        )

    def find_fallen(self, relaxation: Relaxation) -> tuple[DeviceRecord, ...]:
        """Return the devices that fall to a reason before they fall to another; all that fall to it if none does.

        Those that are of no class that is asked for are left out, unless that is the reason or there are no others.
        """
        failing = [record for record in self.devices if self.blocks(relaxation, record)]
        if relaxation.part != "class-clause":
            places = (relaxation.place,) if relaxation.place is not None else find_places(self.finding)
            meant = [record for record in failing if any(self.is_meant(record, place) for place in places)]
            failing = meant or failing
        first = [record for record in failing if self._find_first(record) is relaxation]
        return tuple(first or failing)

    def find_usable(self, place: Place) -> tuple[DeviceRecord, ...]:
        """Return the devices that no kept reason keeps from one alternative."""
        usable = tuple(
            record
            for record in self.devices
            if not any(self.blocks(r, record) for r in self._ordered if self._concerns(r, place))
            and not self.find_defect(record, place)
        )
        return tuple(record for record in usable if self.is_meant(record, place)) or usable

    def is_meant(self, record: DeviceRecord, place: Place) -> bool:
        """Tell whether a device is of the class that an alternative names; one that does not exist has all."""
        name = self._spec(place).device_class
        key = (name, record.id)
        if key not in self._classified:
            cluster = self.finding.case.cluster
            selectors = cluster.classes[name].selectors if name in cluster.classes else ()
            texts = [selector.expression for selector in selectors]
            self._classified[key] = all(text and cluster.selectors.evaluate(text, record) is True for text in texts)
        return self._classified[key]

    def find_defect(self, record: DeviceRecord, place: Place) -> str:
        """Return why no claim ever gets a device, whatever else is changed; empty when it has no such fault."""
        features = self.finding.case.features
        if not features.consumable_capacity:
            return ""
        asked, fractional = self._spec(place).capacity, features.fractional_capacity_range
        plan = plan_capacity(record.device, asked, fractional=fractional)
        return plan.text if plan.kind == "fatal" else ""

    def is_asked_for(self, record: DeviceRecord, place: Place) -> bool:
        """Tell whether a device is of the class, meets the selectors and has the taints that an alternative accepts.

        It does not matter which of them are relaxed.
        """
        evaluate = self.finding.case.cluster.selectors.evaluate
        claim, request, alternative = place
        spec = self.finding.case.asked[claim].spec.requests[request].alternatives[alternative]
        texts = [selector.expression for selector in spec.selectors]
        if not self.is_meant(record, place) or find_blocking_taint(record.device.taints, spec.tolerations):
            return False
        return all(text and evaluate(text, record) is True for text in texts)

    def blocks(self, relaxation: Relaxation, record: DeviceRecord) -> bool:
        """Tell whether a kept reason keeps a device from the claims."""
        match relaxation.part:
            case "clause" | "class-clause":
                return self.evaluate(relaxation, record) is not True
            case "capacity":
                return self._lacks(relaxation, record)
            case "taint":
                return self._is_tainted(relaxation, record)
            case "use":
                kept = relaxation.uses[: self.finding.kept.get(relaxation, 0)]
                return any(self.finding.case.uses[number].device == record.id for number in kept)
            case "operations":
                return bool(record.slice.skip_node_operations)
            case "binding":
                return bool(record.device.binding_conditions)
            case "partitions":
                return bool(record.device.consumes_counters)
            case "pool":
                return str(record.id.pool_id) == relaxation.name
        return False

    def evaluate(self, relaxation: Relaxation, record: DeviceRecord) -> bool | InputError:
        """Return what a clause says of a device."""
        if not relaxation.name:
            return False
        return self.finding.case.cluster.selectors.evaluate(relaxation.name, record)

    def _find_first(self, record: DeviceRecord) -> Relaxation | None:
        return next((relaxation for relaxation in self._ordered if self.blocks(relaxation, record)), None)

    def _concerns(self, relaxation: Relaxation, place: Place) -> bool:
        if relaxation.part == "class-clause":
            spec = self._spec(place)
            return spec.device_class == relaxation.subject
        return relaxation.place in (None, place)

    def _spec(self, place: Place) -> SubRequest:
        claim, request, alternative = place
        return self.finding.case.claims[claim].spec.requests[request].alternatives[alternative]

    def _is_tainted(self, relaxation: Relaxation, record: DeviceRecord) -> bool:
        """Whether the device has the taint, and some request that is left does not tolerate it."""
        for taint in record.device.taints:
            if (taint.key, taint.value, taint.effect) == relaxation.subject:
                specs = (spec for _, spec in find_places(self.finding).values())
                return any(find_blocking_taint((taint,), spec.tolerations) for spec in specs)
        return False

    def _lacks(self, relaxation: Relaxation, record: DeviceRecord) -> bool:
        """Whether the device has too little of a capacity for the alternative, with the uses that are kept."""
        if relaxation.place is None:
            return False
        asked = self._spec(relaxation.place).capacity or {}
        name, case = relaxation.name, self.finding.case
        if name not in record.device.capacity:
            return True
        fractional = case.features.fractional_capacity_range
        plan = plan_capacity(record.device, {name: asked[name]}, fractional=fractional)
        if plan.kind != "fits":
            return True
        held = sum(
            case.uses[number].use.consumed.get(name, 0)
            for r, keep in self.finding.kept.items()
            if r.part == "use"
            for number in r.uses[:keep]
            if case.uses[number].device == record.id
        )
        return any(entry == name and nanos + held > total for entry, nanos, total in plan.nanos)

    def _list_devices(self) -> Iterator[DeviceRecord]:
        case = self.finding.case
        seen: set[DeviceId] = set()
        for pool, names in case.targeting.items():
            for slice in case.slices:
                if slice.pool_id != pool or slice.name not in names:
                    continue
                for device in slice.devices:
                    record = case.records.get(DeviceId(slice.driver, slice.pool, device.name))
                    local = slice.per_device_node_selection
                    if record is None or record.id in seen or (local and not node_reaches(device, case.node)):
                        continue
                    seen.add(record.id)
                    yield record

"""The kept reasons of a node as sentences: each names the devices, counters, holders or clauses that it is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from claimsmith.allocate.explain.devices import NAMES_SHOWN, format_amount, format_names
from claimsmith.allocate.explain.draft import Place
from claimsmith.allocate.explain.finding import NodeFinding
from claimsmith.allocate.explain.nearest_names import suggest_key, suggest_name
from claimsmith.allocate.explain.obstacles import Obstacles, find_places
from claimsmith.allocate.explain.pool_gaps import describe_obsolete, find_pool_gap
from claimsmith.allocate.explain.relaxations import Relaxation
from claimsmith.allocate.explain.wording_counters import word_counter
from claimsmith.allocate.explain.wording_sets import word_constraint, word_group
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.errors import CelError, InputError
from claimsmith.model.claim import ALLOCATION_RESULTS_MAX, SubRequest
from claimsmith.model.decision import Reason
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.quantity import Quantity

__all__ = ["GATES", "word_reasons"]

GATES: Final = {
    "prioritized_list": "DRAPrioritizedList",
    "consumable_capacity": "DRAConsumableCapacity",
    "derived_attributes": "DRADerivedAttributes",
    "admin_access": "DRAAdminAccess",
    "device_binding_and_status": "DRADeviceBindingConditions",
    "partitionable_devices": "DRAPartitionableDevices",
}
"""Names of the gates that a reason can be about."""


def word_reasons(finding: NodeFinding) -> tuple[Reason, ...]:
    """Return one reason for each relaxation that is kept, in the order in which people want to read them."""
    writer = _Writer(finding)
    kept = sorted(finding.kept, key=lambda relaxation: relaxation.rank)
    return tuple(writer.write(relaxation) for relaxation in kept)


class _Writer:
    """Writes the reasons of one node."""

    def __init__(self, finding: NodeFinding) -> None:
        self._finding = finding
        self._case = finding.case
        self._obstacles = Obstacles(finding)

    def write(self, relaxation: Relaxation) -> Reason:
        """Return the reason that a relaxation stands for."""
        match relaxation.part:
            case "request" | "count" | "all":
                return self._write_count(relaxation)
            case "clause" | "class-clause":
                return self._write_clause(relaxation)
            case "capacity":
                return self._write_capacity(relaxation)
            case "use":
                return self._write_use(relaxation)
            case "pool":
                return self._write_pool(relaxation)
            case "constraint":
                return self._place(relaxation, *word_constraint(self._finding, self._obstacles, relaxation))
            case "counter":
                return self._place(relaxation, *word_counter(self._finding, self._obstacles, relaxation))
            case "group":
                return self._place(relaxation, *word_group(self._finding, self._obstacles, relaxation))
        return self._write_rest(relaxation)

    # --- what is asked for --------------------------------------------------------------------------------------------

    def _write_count(self, relaxation: Relaxation) -> Reason:
        place = relaxation.place or (0, 0, 0)
        spec = self._spec(relaxation)
        places = self._list_alternatives(place) if relaxation.part == "request" else [place]
        usable, verb = self._find_usable(place, places)
        devices = tuple(record.id for record in usable)
        if relaxation.part == "all":
            text = f"all devices wanted: {format_names(devices)}" if devices else "all devices wanted, there is none"
            return self._place(relaxation, text, devices, {"wanted": "all", "rule": "all devices wanted"})
        if relaxation.part == "request":
            wanted = self._format_alternatives(place)
        else:
            kept = self._finding.kept[relaxation] + (0 if relaxation.levels == spec.count else 1)
            more = "" if kept == spec.count or not usable else f" (even {kept} {'do' if kept > 1 else 'does'}n't fit)"
            more += self._format_limit(place[0])
            wanted = f"{_count(spec.count)} wanted{more}"
        text = f"{wanted}, {self._format_had(usable, places, verb)}{self._format_defects(places)}"
        rule = f"{wanted}, {len(devices) or 'none'} can be had"
        data = {"wanted": str(spec.count), "usable": str(len(devices)), "rule": rule}
        return self._place(relaxation, text, devices, data)

    def _find_usable(self, place: Place, places: Sequence[Place]) -> tuple[tuple[DeviceRecord, ...], str]:
        """The devices that can be had, and what to say of them.

        Where they are enough, something else keeps them away: a counter, a constraint, or what other requests want.
        Then it is those that would do without it. A selector that rejects devices is no reason where the others are
        enough, but they would not do all the same.
        """
        usable = self._obstacles.find_usable(place)
        if not self._is_enough(len(usable), places):
            return usable, "can be had"
        suited = tuple(r for r in usable if any(self._obstacles.is_asked_for(r, other) for other in places))
        return (suited, "would do") if suited else (usable, "is left" if len(usable) == 1 else "are left")

    def _list_alternatives(self, place: Place) -> list[Place]:
        alternatives = self._case.claims[place[0]].spec.requests[place[1]].alternatives
        return [(*place[:2], number) for number in range(len(alternatives))]

    def _format_limit(self, claim: int) -> str:
        """The limit of a claim, where it is what the claim exceeds."""
        kept = self._finding.kept.items()
        total = sum(keep for r, keep in kept if r.part == "count" and r.place and r.place[0] == claim)
        limit = ALLOCATION_RESULTS_MAX
        return f" and a claim can have {limit} devices at most" if total > limit else ""

    def _format_alternatives(self, place: tuple[int, int, int]) -> str:
        specs = self._case.claims[place[0]].spec.requests[place[1]].first_available
        if not specs:
            return "at least 1 device wanted"
        return f"{specs[0].name} wanted" if len(specs) == 1 else f"one of {', '.join(s.name for s in specs)} wanted"

    def _format_had(self, usable: tuple[DeviceRecord, ...], places: Sequence[Place], verb: str) -> str:
        """What can be had of what the node has of the classes that are asked for."""
        node, all_of_them = self._case.node.name, self._obstacles.devices
        if not all_of_them:
            pools = ", ".join(str(pool.id) for pool in self._case.view.pools)
            seen = f"its pools {pools} have no device for it" if pools else "no pool reaches it"
            return f"node {node} has no device: {seen}"
        total = sum(any(self._obstacles.is_meant(record, place) for place in places) for record in all_of_them)
        classes = f"of class {' or '.join(dict.fromkeys(self._spec_at(place).device_class for place in places))}"
        if not total:
            return f"node {node} has no device {classes}"
        where = f"of node {node}" if total == len(all_of_them) else f"{classes} on node {node}"
        if not usable:
            return (
                f"the only device {where} can't be had"
                if total == 1
                else f"none of the {_count(total)} {where} can be had"
            )
        names = format_names(record.id for record in usable)
        if len(usable) == total:
            return f"node {node} has {total}{'' if total == len(all_of_them) else f' {classes}'}: {names}"
        return f"{len(usable)} of the {_count(total)} {where} {verb}: {names}"

    def _is_enough(self, usable: int, places: Sequence[Place]) -> bool:
        """Whether there are enough devices, so that it must be something else that keeps them away."""
        kept = self._finding.kept.items()
        needed = sum(keep for r, keep in kept if r.part == "count" and r.place in places)
        return usable >= max(needed, 1)

    def _format_defects(self, places: Sequence[Place]) -> str:
        """Which devices no claim ever gets, and why."""
        faulty: dict[str, list[DeviceId]] = defaultdict(list)
        for record in self._obstacles.devices:
            for place in places:
                if (text := self._obstacles.find_defect(record, place)) and self._obstacles.is_meant(record, place):
                    faulty[text].append(record.id)
        return "".join(f"; {format_names(dict.fromkeys(devices))}: {text}" for text, devices in faulty.items())

    # --- selectors ----------------------------------------------------------------------------------------------------

    def _write_clause(self, relaxation: Relaxation) -> Reason:
        if relaxation.part == "class-clause":
            return self._write_class_clause(relaxation)
        fallen = self._obstacles.find_fallen(relaxation)
        false, errors = self._judge(relaxation, fallen)
        text = relaxation.name or "without an expression"
        sentences = [f"{format_names(false)}: selector {text} is false"] if false else []
        sentences += [
            f"{format_names(devices)}: selector {text} can't be evaluated: {problem}"
            for problem, devices in errors.items()
        ]
        if not sentences:
            sentences.append(f"selector {text} is true for no device of node {self._case.node.name}")
        data = {"expression": relaxation.name, "rule": f"selector {text} is false"}
        return self._place_clause(relaxation, "; ".join(sentences), fallen, data, errors=errors, fails=not false)

    def _write_class_clause(self, relaxation: Relaxation) -> Reason:
        """That devices are of another class goes without saying where there are others."""
        fallen, name = self._obstacles.find_fallen(relaxation), str(relaxation.subject)
        false, errors = self._judge(relaxation, fallen)
        text = relaxation.name or "without an expression"
        parts = [f"is false for {format_names(false)}"] if false else []
        parts += [f"can't be evaluated for {format_names(devices)}: {problem}" for problem, devices in errors.items()]
        data = {"expression": relaxation.name, "class": name, "rule": f"no device of class {name}: {text}"}
        places = [place for place in find_places(self._finding) if self._spec_at(place).device_class == name]
        if any(self._obstacles.is_meant(record, place) for record in self._obstacles.devices for place in places):
            data["implied"] = "by the count"
            sentence = f"not of class {name}: its selector {text} {'; '.join(parts)}"
        else:
            sentence = f"no device of class {name}: its selector {text} {'; '.join(parts) or 'is true for none'}"
        return self._place_clause(relaxation, sentence, fallen, data, errors=errors, fails=not false)

    def _judge(
        self, relaxation: Relaxation, records: Iterable[DeviceRecord]
    ) -> tuple[list[DeviceId], dict[str, list[DeviceId]]]:
        """Return the devices for which a clause is false, and those for which it fails, by what is wrong."""
        false, errors = list[DeviceId](), dict[str, list[DeviceId]]()
        for record in records:
            answer = self._obstacles.evaluate(relaxation, record)
            if isinstance(answer, InputError):
                problem = _problem(answer)
                errors.setdefault(f"{problem}{suggest_key(problem, record.device)}", []).append(record.id)
            else:
                false.append(record.id)
        return false, errors

    def _place_clause(
        self,
        relaxation: Relaxation,
        text: str,
        fallen: Sequence[DeviceRecord],
        data: dict[str, str],
        *,
        errors: Iterable[str],
        fails: bool,
    ) -> Reason:
        """A clause that is false for no device, but fails for some, is told as what is wrong with it."""
        problem, kind = "; ".join(errors), ""
        if problem:
            data = {**data, "error": problem}
        if problem and fails:
            kind, data["rule"] = "selector-error", f"{data['rule'].removesuffix(' is false')} fails: {problem}"
        return self._place(relaxation, text, [record.id for record in fallen], data, kind=kind)

    # --- devices ------------------------------------------------------------------------------------------------------

    def _write_capacity(self, relaxation: Relaxation) -> Reason:
        name, spec = relaxation.name, self._spec(relaxation)
        asked = (spec.capacity or {})[name]
        fallen = self._obstacles.find_fallen(relaxation)
        by_rest: dict[str, list[DeviceId]] = defaultdict(list)
        for record in fallen:
            by_rest[self._format_rest(record, name, asked)].append(record.id)
        sentences = [f"{format_names(devices)}: {text}" for text, devices in by_rest.items()]
        text = "; ".join(sentences) or f"{asked} of {name} needed of each device"
        data = {"capacity": name, "needed": str(asked), "rule": f"not enough {name} left, {asked} needed"}
        return self._place(relaxation, text, [record.id for record in fallen], data)

    def _format_rest(self, record: DeviceRecord, name: str, asked: Quantity) -> str:
        capacity = record.device.capacity.get(name)
        if capacity is None:
            return f"capacity {name} is not there{suggest_name(name, record.device.capacity)}"
        held = record.use.consumed.get(name, 0)
        left = format_amount(max(capacity.value.nanos - held, 0), like=capacity.value)
        if capacity.policy is not None and capacity.value.nanos - held >= asked.nanos:
            return f"{asked} of {name} is no amount that it gives"
        return f"{left} of {capacity.value} {name} left, {asked} needed"

    def _write_use(self, relaxation: Relaxation) -> Reason:
        numbers = relaxation.uses[: self._finding.kept[relaxation]]
        holders_of: dict[DeviceId, list[str]] = defaultdict(list)
        for number in numbers:
            part = self._case.uses[number]
            holders_of[part.device].append(self._case.context.name_holder(part.holder))
        devices_of: dict[tuple[str, ...], list[DeviceId]] = defaultdict(list)
        for device, holders in holders_of.items():
            devices_of[tuple(dict.fromkeys(holders))].append(device)
        sentences = []
        for holders_, devices in devices_of.items():
            share = self._format_share(numbers[0], len(numbers)) if len(holders_of) == 1 else ""
            gone = "" if devices[0] in self._case.records else ", no longer published,"
            sentences.append(f"{format_names(devices)}{gone} in use by {_format_holders(holders_)}{share}")
        names = dict.fromkeys(holder for holders in holders_of.values() for holder in holders)
        data = {"holders": ", ".join(names), "rule": "in use"}
        return self._place(relaxation, ", ".join(sentences), tuple(holders_of), data)

    def _format_share(self, number: int, count: int) -> str:
        """How much a share takes, of so many equal ones; nothing for a device that is held as a whole."""
        record = self._case.records.get(self._case.uses[number].device)
        parts = []
        for name, nanos in self._case.uses[number].use.consumed.items():
            total = record.device.capacity.get(name) if record else None
            if total is not None:
                parts.append(f"{format_amount(nanos, like=total.value)} of {total.value} {name}")
        each = " each" if count > 1 else ""
        return f" ({', '.join(parts)}{each})" if parts else ""

    def _write_pool(self, relaxation: Relaxation) -> Reason:
        view = relaxation.subject
        devices = [r.id for r in self._obstacles.devices if str(r.id.pool_id) == relaxation.name]
        data = {"pool": relaxation.name}
        if not isinstance(view, PoolView):
            return self._place(relaxation, describe_obsolete(relaxation.name), devices, data, kind="pool-obsolete")
        gap = find_pool_gap(view)
        assert gap is not None
        return self._place(relaxation, gap[1], devices, data, kind=gap[0])

    def _write_rest(self, relaxation: Relaxation) -> Reason:
        """Reasons of one fixed sentence."""
        fallen = self._obstacles.find_fallen(relaxation)
        devices = [record.id for record in fallen]
        names = format_names(devices)
        match relaxation.part:
            case "taint":
                text = f"{names} tainted {relaxation.name}, which is not tolerated"
                data = {"taint": relaxation.name}
            case "operations":
                text, data = f"{names} skips node operations, which the node's kubelet can't do without", {}
            case "binding":
                text, data = f"{names} has binding conditions, which are off", {}
            case "partitions":
                text, data = f"{names} takes counters, but DRAPartitionableDevices is off", {}
            case "gate":
                gate = GATES[relaxation.name]
                return self._place(relaxation, f"{gate} is off, and the claim needs it", (), {"gate": gate})
            case _:
                text, data = f"device class {relaxation.name} does not exist", {"class": relaxation.name}
                return self._place(relaxation, text, (), data)
        return self._place(relaxation, text, devices, {**data, "rule": text.removeprefix(f"{names} ")})

    # --- places -------------------------------------------------------------------------------------------------------

    def _place(
        self,
        relaxation: Relaxation,
        text: str,
        devices: Iterable[DeviceId],
        data: Mapping[str, str],
        *,
        kind: str = "",
    ) -> Reason:
        claim, request = self._find_place(relaxation)
        return Reason(
            kind=kind or relaxation.kind,  # type: ignore[arg-type]
            text=text,
            node=self._case.node.name,
            claim=claim,
            request=request,
            devices=tuple(devices),
            data={**data, "part": relaxation.part},
        )

    def _find_place(self, relaxation: Relaxation) -> tuple[ClaimRef | None, str]:
        """The claim and the request that a reason is about; that of all requests when it is about devices."""
        if relaxation.place is not None:
            claim, request, alternative = relaxation.place
            ref = self._case.claims[claim].ref
            if relaxation.part == "constraint":
                return ref, ""
            found = self._case.claims[claim].spec.requests[request]
            name = found.alternatives[alternative].name if found.first_available else ""
            name = "" if relaxation.part == "request" else name
            return ref, f"{found.name}/{name}" if name else found.name
        places = find_places(self._finding)
        labels = {(self._case.claims[place[0]].ref, request.name) for place, (request, _) in places.items()}
        if len(labels) == 1:
            return next(iter(labels))
        refs = {ref for ref, _ in labels}
        return (next(iter(refs)), "") if len(refs) == 1 else (None, "")

    def _spec(self, relaxation: Relaxation) -> SubRequest:
        return self._spec_at(relaxation.place or (0, 0, 0))

    def _spec_at(self, place: Place) -> SubRequest:
        claim, request, alternative = place
        return self._case.claims[claim].spec.requests[request].alternatives[alternative]


def _format_holders(holders: Sequence[str]) -> str:
    if len(holders) <= NAMES_SHOWN:
        return ", ".join(holders)
    return f"{', '.join(holders[:NAMES_SHOWN])} and {len(holders) - NAMES_SHOWN} more claims"


def _count(number: int) -> str:
    return f"{number} device" if number == 1 else f"{number} devices"


def _problem(error: InputError) -> str:
    return error.message if isinstance(error, CelError) else str(error)

"""Which devices are equal for the rest of a search, and which states of a search are equal.

Two devices are equal when every request of the pod sees them alike and the state of the search does too: when one has
failed, so will the other. Devices that draw from the same counters form a block; two blocks of the same build (two
cards cut into the same partitions) are equal as a whole, and so are their devices at the same place.

Skipping an equal device can't hide the first solution: swap the two devices (or blocks) in a solution that starts
with the skipped one, and it is a solution that comes earlier in upstream's order, so that it would have been found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from claimsmith.allocate.prepared.constraints import AttributeValue
from claimsmith.allocate.prepared.counters import PoolCounters
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.screening import Candidate, Screened
from claimsmith.allocate.search.attempt import Attempt

__all__ = ["Symmetry"]


@dataclass(slots=True, eq=False)
class _Place:
    """Where a device stands: its kind within its block, and the block with its build; no block when it is alone."""

    kind: int
    block: int | None = None
    build: int = 0


class Symmetry:
    """Keys of devices and of states during one search; prepared when the first of them is asked for."""

    __slots__ = (
        "_admin",
        "_attempt",
        "_builds",
        "_counted",
        "_counted_at",
        "_find_all",
        "_find_candidates",
        "_find_counters",
        "_ids",
        "_places",
        "_plan",
    )

    def __init__(
        self,
        plan: PodPlan,
        attempt: Attempt,
        *,
        find_candidates: Callable[[RequestPlan], Screened],
        find_all: Callable[[RequestPlan], Screened],
        find_counters: Callable[[PoolView], PoolCounters],
    ) -> None:
        self._plan = plan
        self._attempt = attempt
        self._find_candidates = find_candidates
        self._find_all = find_all
        self._find_counters = find_counters
        self._admin = any(request.shape.admin for request in plan.requests)
        self._ids: dict[Hashable, int] = {}
        self._places: dict[DeviceRecord, _Place] | None = None
        self._builds: dict[int, int] = {}
        self._counted: dict[int, Hashable] = {}
        self._counted_at = -1

    def device_key(self, candidate: Candidate) -> Hashable:
        """Return a key that devices share which are equal now."""
        record = candidate.record
        place = self._locate(record)
        state = self._state_of(record)
        if place.block is None:
            return (place.kind, state)
        return (place.build, self._block_states().get(place.block), place.kind, state)

    def state_key(self, claim: int) -> Hashable:
        """Return a key that states share which leave the same to the rest of the search, from this claim on."""
        alone: Counter[Hashable] = Counter()
        for record in self._touched():
            place = self._locate(record)
            if place.block is None:
                alone[place.kind, self._state_of(record)] += 1
        blocks = Counter((self._builds[block], state) for block, state in self._block_states().items())
        constraints = tuple(state.key() for state in self._attempt.constraint_states(claim))
        return (frozenset(alone.items()), frozenset(blocks.items()), constraints)

    def find_block(self, record: DeviceRecord) -> tuple[int, int, Hashable] | None:
        """Return the number, the build and the state of the device's block; None when it stands alone."""
        place = self._locate(record)
        if place.block is None:
            return None
        return (place.block, place.build, self._block_states().get(place.block))

    def find_kind(self, record: DeviceRecord) -> int:
        """Return what equal devices, or equal devices of one block, have in common whatever the state."""
        return self._locate(record).kind

    def _touched(self) -> Iterator[DeviceRecord]:
        yield from self._attempt.marks
        yield from self._attempt.shares

    def _state_of(self, record: DeviceRecord) -> Hashable:
        """What this attempt has done to the device."""
        marks = self._attempt.marks.get(record)
        if marks:
            return tuple(marks) if self._admin else True
        shares = self._attempt.shares.get(record)
        if not shares:
            return None
        total: Counter[str] = Counter()
        for share in shares:
            total.update(share)
        return frozenset(total.items())

    def _block_states(self) -> dict[int, Hashable]:
        """The state of each block that this attempt has touched."""
        if self._counted_at != self._attempt.changes:
            self._counted = self._count_blocks()
            self._counted_at = self._attempt.changes
        return self._counted

    def _count_blocks(self) -> dict[int, Hashable]:
        states: dict[int, Counter[Hashable]] = {}
        for record in self._touched():
            place = self._locate(record)
            if place.block is not None:
                states.setdefault(place.block, Counter())[place.kind, self._state_of(record)] += 1
        return {block: frozenset(counts.items()) for block, counts in states.items()}

    def _locate(self, record: DeviceRecord) -> _Place:
        if self._places is None:
            self._places = self._prepare()
        return self._places[record]

    def _prepare(self) -> dict[DeviceRecord, _Place]:
        """Find the place of every device that any request can get."""
        seen = self._collect()
        kinds = {record: self._describe(record, answers) for record, (_, answers) in seen.items()}
        blocks = _find_blocks({record: view for record, (view, _) in seen.items()})
        places: dict[DeviceRecord, _Place] = {}
        for number, (view, records) in enumerate(blocks):
            counters = self._find_counters(view) if records[0].consumption else None
            if counters is None:
                places[records[0]] = _Place(self._id(kinds[records[0]]))
                continue
            names = _number_sets(records)
            within = [self._id((kinds[record], _rename(record, names))) for record in records]
            build = self._id((tuple(within), _describe_counters(counters, names)))
            self._builds[number] = build
            for record, kind in zip(records, within, strict=True):
                places[record] = _Place(kind, number, build)
        return places

    def _collect(self) -> dict[DeviceRecord, tuple[PoolView, list[Hashable]]]:
        """Every device in order, with what each request thinks of it."""
        seen: dict[DeviceRecord, tuple[PoolView, list[Hashable]]] = {}
        asked: set[Hashable] = set()
        for plan in self._plan.requests:
            key = (plan.shape, plan.takes_all)
            if key in asked:
                continue
            asked.add(key)
            screened = self._find_all(plan) if plan.takes_all else self._find_candidates(plan)
            for candidate in screened.candidates:
                amounts = candidate.plan.nanos if candidate.plan is not None else None
                blocked = candidate.blocked, candidate.full
                answer = (len(asked), amounts, candidate.charges, candidate.poison is not None, *blocked)
                seen.setdefault(candidate.record, (candidate.view, []))[1].append(answer)
        return seen

    def _describe(self, record: DeviceRecord, answers: list[Hashable]) -> Hashable:
        """What tells devices apart, besides their counters."""
        values = []
        for plan in self._plan.requests:
            constraints = self._plan.claims[plan.claim].constraints
            for position in plan.constraints:
                value = self._attempt.find_value(record, plan, constraints[position].attribute)
                values.append(value if isinstance(value, AttributeValue) else None)
        use = record.use
        consumed = frozenset(use.consumed.items())
        groups = tuple(consumption.compatibility_groups for consumption in record.device.consumes_counters)
        shareable = record.device.allow_multiple_allocations
        return (tuple(answers), tuple(values), consumed, use.dedicated, use.shares > 0, shareable, groups)

    def _id(self, key: Hashable) -> int:
        return self._ids.setdefault(key, len(self._ids))


def _find_blocks(views: dict[DeviceRecord, PoolView]) -> list[tuple[PoolView, list[DeviceRecord]]]:
    """Devices that share counter sets, directly or through others, belong together; the rest stands alone."""
    block_of: dict[tuple[PoolView, str], list[DeviceRecord]] = {}
    blocks: dict[int, tuple[PoolView, list[DeviceRecord]]] = {}
    for record, view in views.items():
        sets = [(view, consumption.counter_set) for consumption in record.device.consumes_counters]
        members = [record]
        for found in {id(block_of[key]): block_of[key] for key in sets if key in block_of}.values():
            members = found + members
            del blocks[id(found)]
        blocks[id(members)] = (view, members)
        joined = {
            (view, consumption.counter_set) for member in members for consumption in member.device.consumes_counters
        }
        block_of.update(dict.fromkeys(joined, members))
    return list(blocks.values())


def _number_sets(records: list[DeviceRecord]) -> dict[str, int]:
    """Number the counter sets of a block in the order in which its devices name them."""
    names: dict[str, int] = {}
    for record in records:
        for counter, _ in record.consumption:
            names.setdefault(counter.counter_set, len(names))
    return names


def _rename(record: DeviceRecord, names: dict[str, int]) -> Hashable:
    return frozenset((names[counter.counter_set], counter.counter, nanos) for counter, nanos in record.consumption)


def _describe_counters(counters: PoolCounters, names: dict[str, int]) -> Hashable:
    """What is left of the block's counters, and the groups that are bound, by number of the set."""
    left = frozenset(
        (names[counter.counter_set], counter.counter, nanos)
        for counter, nanos in counters.left.items()
        if counter.counter_set in names
    )
    groups = frozenset((number, counters.groups[name]) for name, number in names.items() if name in counters.groups)
    return (left, groups)

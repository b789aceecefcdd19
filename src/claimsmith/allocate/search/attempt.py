"""The devices chosen so far in one search, and whether one more can be taken beside them.

Source: allocateDevice and rollbackDevice in structured/internal/experimental, k8s.io/dynamic-resource-allocation
v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from claimsmith.allocate.prepared.constraints import AttributeValue, ConstraintState, Distinct, Match, read_value
from claimsmith.allocate.prepared.counters import Groups, PoolCounters, join_groups
from claimsmith.allocate.prepared.eligibility import Selectors
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.screening import Candidate
from claimsmith.errors import CelCompileError, InputError
from claimsmith.model.decision import DecisionWarning, RefusedKind
from claimsmith.model.deviations import Deviation
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.features import Features
from claimsmith.model.names import CounterId

__all__ = ["Attempt", "Fatal", "Taken"]

_ABSENT: Final[Groups] = frozenset({""})
"""Stands for a counter set without devices; no group has an empty name."""


@dataclass(frozen=True, slots=True)
class Fatal:
    """Why the whole allocation is aborted."""

    kind: RefusedKind
    text: str
    plan: RequestPlan
    candidate: Candidate


@dataclass(slots=True, eq=False)
class Taken:
    """One device, or one share of it, that has been taken, with what is needed to give it back."""

    plan: RequestPlan
    candidate: Candidate
    charged: bool
    groups: dict[str, Groups] | None = None


class Attempt:
    """What a search has taken so far.

    Args:
        find_counters: The counters of a pool.
        deviations: Without SELECTOR_ERROR a derived attribute that can't be evaluated aborts the allocation; otherwise
            the device is passed over with a warning.
    """

    __slots__ = (
        "_constraints",
        "_deviations",
        "_features",
        "_find_counters",
        "_plan",
        "_selectors",
        "_values",
        "changes",
        "groups",
        "marks",
        "results",
        "shares",
        "spent",
        "warnings",
    )

    def __init__(
        self,
        plan: PodPlan,
        features: Features,
        *,
        selectors: Selectors,
        find_counters: Callable[[PoolView], PoolCounters],
        deviations: frozenset[Deviation],
    ) -> None:
        self._plan = plan
        self._features = features
        self._selectors = selectors
        self._find_counters = find_counters
        self._deviations = deviations
        self._constraints: list[list[ConstraintState]] = [
            [Match() if constraint.kind == "match" else Distinct() for constraint in claim.constraints]
            for claim in plan.claims
        ]
        self._values: dict[tuple[DeviceRecord, str, str], AttributeValue | InputError | None] = {}
        self.changes = 0
        self.results: list[list[Taken]] = [[] for _ in plan.claims]
        self.marks: dict[DeviceRecord, list[int]] = {}
        self.shares: dict[DeviceRecord, list[dict[str, int]]] = {}
        self.spent: dict[PoolView, dict[CounterId, int]] = {}
        self.groups: dict[PoolView, dict[str, Groups]] = {}
        self.warnings: list[DecisionWarning] = []

    def count_results(self, claim: int) -> int:
        """Return how many devices a claim has so far."""
        return len(self.results[claim])

    def constraint_states(self, claim: int) -> list[ConstraintState]:
        """Return the constraints of a claim as they stand."""
        return self._constraints[claim]

    def is_used(self, candidate: Candidate, plan: RequestPlan) -> bool:
        """Tell whether this attempt has the device already, so that the request can't have it."""
        marks = self.marks.get(candidate.record)
        if not marks:
            return False
        return plan.claim in marks if plan.shape.admin else True

    def take(self, candidate: Candidate, plan: RequestPlan, *, must: bool = False) -> Taken | Fatal | None:
        """Take the device for the request; None when something speaks against it.

        Args:
            must: A constraint that speaks against it is fatal, also when its capacity would not suffice.
        """
        record = candidate.record
        fits = not candidate.full and (record not in self.shares or self._fits_capacity(candidate))
        if not fits and not must:
            return None
        charged = self.charges(candidate)
        taken = Taken(plan, candidate, charged)
        if charged and not self._charge(taken):
            return None
        if plan.constraints:
            satisfied = self._push_constraints(record, plan)
            if satisfied is not True:
                self._discharge(taken)
                if satisfied is not False:
                    return Fatal(satisfied[0], satisfied[1], plan, candidate)
                return _refuse_constraint(plan, candidate) if must else None
        if not fits:
            self._pop_constraints(plan)
            self._discharge(taken)
            return None
        if candidate.shareable:
            nanos = candidate.plan.nanos if candidate.plan is not None else ()
            self.shares.setdefault(record, []).append({name: amount for name, amount, _ in nanos})
        else:
            self.marks.setdefault(record, []).append(plan.claim)
        self.results[plan.claim].append(taken)
        self.changes += 1
        return taken

    def undo(self, taken: Taken) -> None:
        """Give back what was taken last."""
        plan, record = taken.plan, taken.candidate.record
        self.changes += 1
        self.results[plan.claim].pop()
        holders = self.shares if taken.candidate.shareable else self.marks
        entries: list[object] = holders[record]  # type: ignore[assignment]
        entries.pop()
        if not entries:
            del holders[record]
        self._pop_constraints(plan)
        self._discharge(taken)

    def charges(self, candidate: Candidate) -> bool:
        """Tell whether taking the device now takes counters: a shared device takes them once."""
        return candidate.charges and not (candidate.shareable and candidate.record in self.shares)

    def admits(self, candidate: Candidate, plan: RequestPlan) -> bool:
        """Tell whether the device could be taken now, as far as use, capacity, counters and constraints say."""
        record = candidate.record
        if candidate.poison is not None or self.is_used(candidate, plan):
            return False
        shared = record in self.shares
        if shared and not self._fits_capacity(candidate):
            return False
        if self.charges(candidate):
            left, spent = self._find_counters(candidate.view).left, self.spent.get(candidate.view, {})
            if any(spent.get(counter, 0) + nanos > left[counter] for counter, nanos in record.consumption):
                return False
        claim, states = self._plan.claims[plan.claim], self._constraints[plan.claim]
        for position in plan.constraints:
            value = self.find_value(record, plan, claim.constraints[position].attribute)
            if not isinstance(value, AttributeValue) or not states[position].accepts(value):
                return False
        return True

    def find_room(self, candidate: Candidate, capacity: str) -> int:
        """Return what a shared device has left of a capacity, in nano units."""
        record = candidate.record
        taken = sum(share.get(capacity, 0) for share in self.shares.get(record, ()))
        return record.device.capacity[capacity].value.nanos - record.use.consumed.get(capacity, 0) - taken

    def find_value(self, record: DeviceRecord, plan: RequestPlan, attribute: str) -> AttributeValue | InputError | None:
        """Return a device's value of an attribute that a constraint of the request names."""
        expression = plan.derived.get(attribute, "")
        key = (record, attribute, expression)
        if key not in self._values:
            self._values[key] = self._read_value(record, attribute, expression)
        return self._values[key]

    def _read_value(self, record: DeviceRecord, attribute: str, expression: str) -> AttributeValue | InputError | None:
        found: DeviceAttribute | InputError | None
        found = self._selectors.derive(expression, record) if expression else record.find_attribute(attribute)
        if isinstance(found, InputError):
            text = f"derived attribute {attribute} on device {record.id}: {found}"
            self.warnings.append(DecisionWarning(kind="derived-error", text=text, devices=(record.id,)))
            return found
        return read_value(found, lists=self._features.list_type_attributes)

    def _fits_capacity(self, candidate: Candidate) -> bool:
        """Whether the shares of this attempt leave enough for one more."""
        if candidate.plan is None:
            return True
        consumed, shares = candidate.record.use.consumed, self.shares[candidate.record]
        for name, nanos, total in candidate.plan.nanos:
            if consumed.get(name, 0) + sum(share.get(name, 0) for share in shares) + nanos > total:
                return False
        return True

    def _charge(self, taken: Taken) -> bool:
        """Take the device's counters and groups; False, and nothing taken, when they are not there."""
        candidate = taken.candidate
        counters = self._find_counters(candidate.view)
        if self._features.compatibility_groups and not self._join_groups(taken, counters):
            return False
        spent = self.spent.setdefault(candidate.view, {})
        consumption, left = candidate.record.consumption, counters.left
        for counter, nanos in consumption:
            if spent.get(counter, 0) + nanos > left[counter]:
                self._restore_groups(taken)
                return False
        for counter, nanos in consumption:
            spent[counter] = spent.get(counter, 0) + nanos
        return True

    def _discharge(self, taken: Taken) -> None:
        if not taken.charged:
            return
        spent = self.spent[taken.candidate.view]
        for counter, nanos in taken.candidate.record.consumption:
            spent[counter] -= nanos
        self._restore_groups(taken)

    def _join_groups(self, taken: Taken, counters: PoolCounters) -> bool:
        """Narrow the groups of each counter set that the device takes from; remember what they were."""
        running = self.groups.setdefault(taken.candidate.view, {})
        taken.groups = {}
        for consumption in taken.candidate.record.device.consumes_counters:
            name = consumption.counter_set
            own: Groups = frozenset(consumption.compatibility_groups) or None
            current = running.get(name, counters.groups.get(name, _ABSENT))
            if current is not _ABSENT and (
                (own is None) != (current is None) or (own is not None and current is not None and not own & current)
            ):
                self._restore_groups(taken)
                return False
            taken.groups.setdefault(name, running.get(name, _ABSENT))
            running[name] = own if current is _ABSENT else join_groups(current, own)
        return True

    def _restore_groups(self, taken: Taken) -> None:
        if taken.groups is None:
            return
        running = self.groups[taken.candidate.view]
        for name, before in taken.groups.items():
            if before is _ABSENT:
                running.pop(name, None)
            else:
                running[name] = before
        taken.groups = None

    def _pop_constraints(self, plan: RequestPlan) -> None:
        """Take the last device out of the constraints that bind it."""
        states = self._constraints[plan.claim]
        for position in plan.constraints:
            states[position].pop()

    def _push_constraints(self, record: DeviceRecord, plan: RequestPlan) -> bool | tuple[RefusedKind, str]:
        """Add the device to the constraints that bind it; not True when nothing was added."""
        claim = self._plan.claims[plan.claim]
        states = self._constraints[plan.claim]
        for count, position in enumerate(plan.constraints):
            value = self.find_value(record, plan, claim.constraints[position].attribute)
            if isinstance(value, AttributeValue) and states[position].push(value):
                continue
            for pushed in plan.constraints[:count]:
                states[pushed].pop()
            if Deviation.SELECTOR_ERROR not in self._deviations and isinstance(value, InputError):
                kind: RefusedKind = "derived-compile" if isinstance(value, CelCompileError) else "derived-runtime"
                return kind, f"derived attribute of device {record.id}: {value}"
            return False
        return True


def _refuse_constraint(plan: RequestPlan, candidate: Candidate) -> Fatal:
    text = f"device {candidate.record.id} is one of all devices, and a constraint excludes it"
    return Fatal("all-constraint", text, plan, candidate)

"""Counting ahead: can what is left of the devices be enough for the requests that are still open?

The answer "no" is a proof; "perhaps" is not. Requests are counted by kind; devices that draw from the same counters
are counted together, by what combinations of requests they can serve at once (four 1g partitions and one 3g of a
card). Requests that leave a choice, alternatives and all devices, are not counted so, which keeps the proof sound; what
they take from counters at least is.

Deviates: unfinished.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from claimsmith.allocate.prepared.constraints import AttributeValue, Match
from claimsmith.allocate.prepared.counters import PoolCounters
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.screening import Candidate, Screened
from claimsmith.allocate.search.attempt import Attempt
from claimsmith.allocate.search.filling import most_filled
from claimsmith.allocate.search.least import LeastNeeds
from claimsmith.allocate.search.patterns import Consumption, Pattern, count_most, find_patterns, keep_largest
from claimsmith.allocate.search.symmetry import Symmetry
from claimsmith.model.names import CounterId, DeviceId

__all__ = ["Lookahead"]

KINDS_MAX: Final = 6
"""Kinds of requests that are counted jointly; with more, each kind is counted on its own."""
FRONTIER_MAX: Final = 256
"""Combinations of requests that are kept while blocks are added up."""
SHARES_MAX: Final = 1 << 20
"""Stands for any number of shares of a device without capacity."""


_Member = tuple[Candidate, frozenset[int]]
"""A device of a block, and the kinds of requests that accept it."""


@dataclass(slots=True, eq=False)
class _Demand:
    """Open requests of one kind: how many devices they want, and which may serve them.

    Args:
        requests: How many requests they are; each takes a device once.
    """

    plan: RequestPlan
    need: int
    candidates: list[Candidate]
    requests: int = 1


@dataclass(slots=True, eq=False)
class _Supply:
    """What the devices can serve.

    Args:
        single: Devices that serve one request, by the set of kinds that accept them.
        boxes: Most requests of each kind that shareable devices, and blocks too large to look into, can serve.
        blocks: For each block the combinations that it can serve at once.
    """

    kinds: int
    single: Counter[frozenset[int]] = field(default_factory=Counter)
    boxes: list[int] = field(default_factory=list)
    blocks: list[list[Pattern]] = field(default_factory=list)

    def falls_short(self, need: Pattern) -> bool:
        """Tell whether the supply can't cover the need, whatever is chosen."""
        every = range(self.kinds)
        subsets = [(kind,) for kind in every] + ([tuple(every)] if self.kinds > 1 else [])
        if any(sum(need[kind] for kind in kinds) > self._most(kinds) for kinds in subsets):
            return True
        if self.kinds == 1 or self.kinds > KINDS_MAX:
            return False
        frontier: list[Pattern] = [(0,) * self.kinds]
        for patterns in self.blocks:
            sums = {
                tuple(min(a + b, most) for a, b, most in zip(reached, pattern, need, strict=True))
                for reached in frontier
                for pattern in patterns
            }
            frontier = keep_largest(sums)
            if len(frontier) > FRONTIER_MAX:
                return False
        return not any(self._covers(reached, need) for reached in frontier)

    def _most(self, kinds: tuple[int, ...]) -> int:
        """The most requests of some kinds that can be served, added up block by block."""
        chosen = frozenset(kinds)
        single = sum(count for accepted, count in self.single.items() if accepted & chosen)
        blocks = sum(max(sum(pattern[kind] for kind in kinds) for pattern in patterns) for patterns in self.blocks)
        return single + blocks + sum(self.boxes[kind] for kind in kinds)

    def _covers(self, reached: Pattern, need: Pattern) -> bool:
        """Whether single devices can serve what the blocks don't (Hall's condition on sets of kinds)."""
        open_ = [max(need[kind] - reached[kind] - self.boxes[kind], 0) for kind in range(self.kinds)]
        wanted = [kind for kind in range(self.kinds) if open_[kind]]
        for size in range(1, len(wanted) + 1):
            for kinds in combinations(wanted, size):
                chosen = frozenset(kinds)
                supply = sum(count for accepted, count in self.single.items() if accepted & chosen)
                if sum(open_[kind] for kind in kinds) > supply:
                    return False
        return True


class Lookahead:
    """Counts devices against open requests during one search."""

    __slots__ = ("_attempt", "_cache", "_find_candidates", "_find_counters", "_least", "_plan", "_symmetry")

    def __init__(
        self,
        plan: PodPlan,
        attempt: Attempt,
        symmetry: Symmetry,
        *,
        find_candidates: Callable[[RequestPlan], Screened],
        find_counters: Callable[[PoolView], PoolCounters],
    ) -> None:
        self._plan = plan
        self._attempt = attempt
        self._symmetry = symmetry
        self._find_candidates = find_candidates
        self._find_counters = find_counters
        self._least = LeastNeeds(plan, attempt, find_candidates, find_counters)
        self._cache: dict[Hashable, list[Pattern] | None] = {}

    def is_hopeless(self, plan: RequestPlan, position: int, start: int) -> bool:
        """Tell whether the open requests can't all be served.

        Args:
            plan: The request, or alternative, whose next device is wanted.
            position: How many devices it has already.
            start: Place in its candidates from which the next one may be taken.
        """
        if self._least.exceed(plan, position):
            return True
        demands = list(self._list_demands(plan, position, start))
        if any(demand.need > 0 and not demand.candidates for demand in demands):
            return True
        if self._breaks_constraint(demands) or self._overfills(demands):
            return True
        merged = _merge(demands)
        return bool(merged) and self._count(merged).falls_short(tuple(demand.need for demand in merged))

    def _list_demands(self, plan: RequestPlan, position: int, start: int) -> Iterator[_Demand]:
        """Give the open requests, the one at hand first, with the devices that each could get now."""
        if not plan.takes_all and not plan.shape.admin:
            yield self._demand(plan, plan.count - position, start)
        for claim in self._plan.claims[plan.claim :]:
            for group in claim.groups:
                request = group.alternatives[0]
                behind = (request.claim, request.request) > (plan.claim, plan.request)
                if behind and not (group.prioritized or request.takes_all or request.shape.admin):
                    yield self._demand(request, request.count, 0)

    def _demand(self, plan: RequestPlan, need: int, start: int) -> _Demand:
        candidates = self._find_candidates(plan).candidates
        admits = self._attempt.admits
        return _Demand(plan, need, [candidate for candidate in candidates[start:] if admits(candidate, plan)])

    def _breaks_constraint(self, demands: list[_Demand]) -> bool:
        """Whether too few devices agree, or differ, in an attribute."""
        bound: dict[tuple[int, int], list[_Demand]] = defaultdict(list)
        for demand in demands:
            for position in demand.plan.constraints:
                bound[demand.plan.claim, position].append(demand)
        for (claim, position), group in bound.items():
            need = sum(demand.need for demand in group)
            attribute = self._plan.claims[claim].constraints[position].attribute
            matching = isinstance(self._attempt.constraint_states(claim)[position], Match)
            if self._most_agreeing(group, attribute, matching=matching) < need:
                return True
        return False

    def _overfills(self, demands: list[_Demand]) -> bool:
        """Whether requests that only shared devices can serve ask for more than those can be filled with."""
        amounts: dict[str, list[int]] = defaultdict(list)
        rooms: dict[str, dict[DeviceRecord, int]] = defaultdict(dict)
        for demand in demands:
            for name, nanos in _common_amounts(demand):
                amounts[name].extend([nanos] * demand.need)
                for candidate in demand.candidates:
                    rooms[name][candidate.record] = self._attempt.find_room(candidate, name)
        return any(sum(asked) > most_filled(asked, rooms[name].values()) for name, asked in amounts.items())

    def _most_agreeing(self, demands: list[_Demand], attribute: str, *, matching: bool) -> int:
        """The most devices with one value in common, or the most values, among the devices that may serve."""
        holders: dict[tuple[str, object], set[DeviceId]] = defaultdict(set)
        for demand in demands:
            for candidate in demand.candidates:
                value = self._attempt.find_value(candidate.record, demand.plan, attribute)
                if not isinstance(value, AttributeValue) or not value.kind or (matching and candidate.shareable):
                    return SHARES_MAX
                for element in value.values:
                    holders[value.kind, element].add(candidate.record.id)
        return max((len(devices) for devices in holders.values()), default=0) if matching else len(holders)

    def _count(self, demands: list[_Demand]) -> _Supply:
        supply = _Supply(len(demands), boxes=[0] * len(demands))
        accepted: dict[DeviceRecord, tuple[Candidate, list[int]]] = {}
        for kind, demand in enumerate(demands):
            for candidate in demand.candidates:
                accepted.setdefault(candidate.record, (candidate, []))[1].append(kind)
        blocks: dict[int, list[_Member]] = defaultdict(list)
        keys: dict[int, Hashable] = {}
        for record, (candidate, kinds) in accepted.items():
            if candidate.shareable and sum(demands[kind].requests for kind in kinds) > 1:
                for kind in kinds:
                    supply.boxes[kind] += min(demands[kind].requests, _count_shares(candidate))
                continue
            block = self._symmetry.find_block(record) if self._attempt.charges(candidate) else None
            if block is None:
                supply.single[frozenset(kinds)] += 1
                continue
            blocks[block[0]].append((candidate, frozenset(kinds)))
            keys[block[0]] = block[1:]
        for number, members in blocks.items():
            self._add_block(supply, members, keys[number])
        return supply

    def _add_block(self, supply: _Supply, members: list[_Member], state: Hashable) -> None:
        """Add what the devices of one block can serve together."""
        groups = Counter((self._symmetry.find_kind(candidate.record), kinds) for candidate, kinds in members)
        key = (state, frozenset(groups.items()), supply.kinds)
        if key not in self._cache:
            self._cache[key] = self._find_patterns(supply.kinds, members)
        patterns = self._cache[key]
        if patterns is not None:
            supply.blocks.append(patterns)
            return
        for kind in range(supply.kinds):
            consumptions = [candidate.record.consumption for candidate, kinds in members if kind in kinds]
            supply.boxes[kind] += count_most(consumptions, self._find_room(members))

    def _find_patterns(self, kinds: int, members: list[_Member]) -> list[Pattern] | None:
        grouped: Counter[tuple[Consumption, frozenset[int]]] = Counter(
            (candidate.record.consumption, accepted) for candidate, accepted in members
        )
        return find_patterns(kinds, grouped, self._find_room(members))

    def _find_room(self, members: list[_Member]) -> dict[CounterId, int]:
        """What is left of the counters of a block."""
        view = members[0][0].view
        left, spent = self._find_counters(view).left, self._attempt.spent.get(view, {})
        return {
            counter: left[counter] - spent.get(counter, 0)
            for candidate, _ in members
            for counter, _ in candidate.record.consumption
        }


def _common_amounts(demand: _Demand) -> list[tuple[str, int]]:
    """What the request takes from each capacity, as far as it takes the same from every device it may get."""
    if not all(candidate.shareable and candidate.plan is not None for candidate in demand.candidates):
        return []
    asked = [
        {name: nanos for name, nanos, _ in candidate.plan.nanos} for candidate in demand.candidates if candidate.plan
    ]
    first = asked[0] if asked else {}
    return [
        (name, nanos) for name, nanos in first.items() if nanos > 0 and all(other.get(name) == nanos for other in asked)
    ]


def _merge(demands: list[_Demand]) -> list[_Demand]:
    """Join requests that the same devices may serve."""
    merged: dict[Hashable, _Demand] = {}
    for demand in demands:
        if demand.need <= 0:
            continue
        key = (demand.plan.shape, frozenset(candidate.record for candidate in demand.candidates))
        if key in merged:
            merged[key].need += demand.need
            merged[key].requests += 1
        else:
            merged[key] = _Demand(demand.plan, demand.need, demand.candidates)
    return list(merged.values())


def _count_shares(candidate: Candidate) -> int:
    """The most shares of the requested size that a device has room for, used or not by this attempt."""
    if candidate.plan is None:
        return SHARES_MAX
    consumed = candidate.record.use.consumed
    room = [(total - consumed.get(name, 0)) // nanos for name, nanos, total in candidate.plan.nanos if nanos]
    return min(room, default=SHARES_MAX)

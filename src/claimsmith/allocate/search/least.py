"""What open requests take from shared counters at least, whichever of their alternatives and devices they get.

With a counter that all of them draw from, the least of each adds up: when more than that is spent on those before, the
rest can't be served. Requests that may be served without the counter, or from another pool, count as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from claimsmith.allocate.prepared.counters import PoolCounters
from claimsmith.allocate.prepared.plan import PodPlan, RequestGroup, RequestPlan
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.screening import Screened
from claimsmith.allocate.search.attempt import Attempt
from claimsmith.model.names import CounterId

__all__ = ["LeastNeeds"]

_Needs = Mapping[tuple[PoolView, CounterId], int]
"""Amounts in nano units."""


@dataclass(slots=True, eq=False)
class LeastNeeds:
    """The least needs of one pod's requests during one search."""

    plan: PodPlan
    attempt: Attempt
    find_candidates: Callable[[RequestPlan], Screened]
    find_counters: Callable[[PoolView], PoolCounters]
    _one: dict[RequestPlan, _Needs] = field(default_factory=dict)
    _behind: dict[tuple[int, int], _Needs] = field(default_factory=dict)

    def exceed(self, plan: RequestPlan, position: int) -> bool:
        """Tell whether the rest of a request and all behind it need more than is left of some counter.

        Args:
            plan: The request, or alternative, whose next device is wanted.
            position: How many devices it has already.
        """
        behind = self._find_behind(plan.claim, plan.request)
        own = self._find_one(plan)
        if not behind and not own:
            return False
        open_ = plan.count - position
        for view, counter in {**behind, **own}:
            key = (view, counter)
            left = self.find_counters(view).left[counter] - self.attempt.spent.get(view, {}).get(counter, 0)
            if behind.get(key, 0) + open_ * own.get(key, 0) > left:
                return True
        return False

    def _find_behind(self, claim: int, request: int) -> _Needs:
        """What all requests behind one need."""
        if not self._behind:
            total: dict[tuple[PoolView, CounterId], int] = {}
            places = [(c, r) for c, part in enumerate(self.plan.claims) for r in range(len(part.groups))]
            for c, r in reversed(places):
                self._behind[c, r] = dict(total)
                for key, nanos in self._find_group(self.plan.claims[c].groups[r]).items():
                    total[key] = total.get(key, 0) + nanos
        return self._behind[claim, request]

    def _find_group(self, group: RequestGroup) -> _Needs:
        """What a request needs, whichever alternative serves it; alternatives that none can serve don't count."""
        options = [
            {key: plan.count * nanos for key, nanos in self._find_one(plan).items()}
            for plan in group.alternatives
            if plan.takes_all or self.find_candidates(plan).candidates
        ]
        return _find_common(options)

    def _find_one(self, plan: RequestPlan) -> _Needs:
        """What each device for a request takes at least; shares and administrators may take nothing."""
        if plan.takes_all or plan.shape.admin:
            return {}
        known = self._one.get(plan)
        if known is None:
            known = self._one[plan] = _find_common(
                [
                    {(candidate.view, counter): nanos for counter, nanos in candidate.record.consumption}
                    if candidate.charges and not candidate.shareable
                    else {}
                    for candidate in self.find_candidates(plan).candidates
                ]
            )
        return known


def _find_common(options: list[dict[tuple[PoolView, CounterId], int]]) -> _Needs:
    """The least of each amount that all options have."""
    first, *others = options or [{}]
    return {
        key: min(nanos, *(other[key] for other in others)) if others else nanos
        for key, nanos in first.items()
        if all(key in other for other in others)
    }

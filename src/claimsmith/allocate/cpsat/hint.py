"""Decides for a batch one by one, in several orders: the floor of every joint answer, and the start of the solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.ledger import BatchLedger
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.engine import SearchLimits
from claimsmith.allocate.search import allocate_on_nodes
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Refused, Undecided
from claimsmith.model.names import ClaimRef

__all__ = ["OneByOne", "list_orders", "list_units", "search_batch"]

Unit = tuple[int, ...]
"""Members that are decided together: those of a gang, or one that is in none."""


def search_batch(
    layout: Layout, objective: Objective, *, limits: SearchLimits, share_ids: Callable[[], str]
) -> Solution:
    """Return the best answer of deciding one by one, over several orders; of equally good ones the first."""
    found = [OneByOne(layout, limits, share_ids).run(order) for order in list_orders(layout)]
    return min(found, key=objective.measure)


def list_orders(layout: Layout) -> list[list[Unit]]:
    """Return the orders to try: as they came, the largest first, the smallest first; by priority in each."""
    units = list_units(layout)
    priority = {unit: max(layout.members[place].priority for place in unit) for unit in units}
    size = {unit: sum(_count_devices(layout.members[place].claims) for place in unit) for unit in units}
    orders = [
        sorted(units, key=lambda unit: -priority[unit]),
        sorted(units, key=lambda unit: (-priority[unit], -size[unit])),
        sorted(units, key=lambda unit: (-priority[unit], size[unit])),
    ]
    return [order for place, order in enumerate(orders) if order not in orders[:place]]


class OneByOne:
    """One pass over members of a batch.

    Args:
        ledger: What has been booked before; None for nothing.
    """

    def __init__(
        self,
        layout: Layout,
        limits: SearchLimits,
        share_ids: Callable[[], str],
        *,
        ledger: BatchLedger | None = None,
    ) -> None:
        self._layout, self._limits, self._share_ids = layout, limits, share_ids
        self._ledger = BatchLedger(layout) if ledger is None else ledger

    def run(self, order: Iterable[Unit]) -> Solution:
        """Return what the members get in this order; the cluster is as before."""
        try:
            self.extend(order)
            return self._ledger.conclude()
        finally:
            self._ledger.undo(0)

    def extend(self, order: Iterable[Unit]) -> None:
        """Book what the members get in this order, beside what has been booked."""
        for unit in order:
            self._place_unit(unit)

    def _place_unit(self, unit: Unit) -> None:
        """Place the members of a unit; a gang that stays too small gives all back."""
        before = len(self._ledger.order)
        gang = self._layout.members[unit[0]].gang
        for place in unit:
            self._place(place)
        if not gang or len(self._ledger.order) - before >= self._layout.gangs[gang][0].min_count:
            return
        self._ledger.undo(before)
        self._place_together(unit, self._layout.gangs[gang][0].min_count)

    def _place(self, place: int) -> None:
        wanted = self._ledger.find_wanted(place)
        nodes = [self._layout.nodes[name] for name in self._ledger.find_nodes(place)]
        undecided = None
        for decision in allocate_on_nodes(
            self._layout.cluster, wanted, nodes=nodes, share_ids=self._share_ids, limits=self._limits
        ):
            if isinstance(decision, Allocation):
                self._ledger.book(place, decision, wanted)
                self._ledger.failed.pop(place, None)
                return
            if isinstance(decision, Undecided) or (isinstance(decision, Refused) and not decision.node_only):
                undecided = decision
                if isinstance(decision, Refused):
                    break
        if undecided is not None:
            self._ledger.failed[place] = undecided

    def _place_together(self, unit: Unit, min_count: int) -> None:
        """Try the first members of a gang on one node, by one search over the claims of all of them."""
        members = unit[:min_count]
        if len(members) < min_count:
            return
        wanted: dict[int, tuple[ResourceClaim, ...]] = {}
        seen: set[ClaimRef] = set()
        for place in members:
            wanted[place] = tuple(claim for claim in self._ledger.find_wanted(place) if claim.ref not in seen)
            seen.update(claim.ref for claim in wanted[place])
        names = [set(self._ledger.find_nodes(place)) for place in members]
        nodes = [self._layout.nodes[name] for name in self._layout.allowed[unit[0]] if all(name in n for n in names)]
        claims = [claim for place in members for claim in wanted[place]]
        for decision in allocate_on_nodes(
            self._layout.cluster, claims, nodes=nodes, share_ids=self._share_ids, limits=self._limits
        ):
            if isinstance(decision, Allocation) and self._book_all(decision, wanted):
                for place in unit[min_count:]:
                    self._place(place)
                return

    def _book_all(self, decision: Allocation, wanted: dict[int, tuple[ResourceClaim, ...]]) -> bool:
        """Count what members have got together; False, and nothing counted, when the node has no room for all."""
        before, start = len(self._ledger.order), 0
        for place, claims in wanted.items():
            if decision.node not in self._ledger.find_nodes(place):
                self._ledger.undo(before)
                return False
            part = decision.results[start : start + len(claims)]
            self._ledger.book(place, Allocation(node=decision.node, results=part, steps=decision.steps), claims)
            start += len(claims)
        return True


def list_units(layout: Layout) -> list[Unit]:
    """Return the gangs, each at the place of its first member, and the members that are in none."""
    units: dict[Unit, None] = {}
    for place, member in enumerate(layout.members):
        units[layout.gangs[member.gang][1] if member.gang else (place,)] = None
    return list(units)


def _count_devices(claims: Sequence[ResourceClaim]) -> int:
    """How many devices the claims want, by their first alternatives."""
    return sum(request.alternatives[0].count for claim in claims for request in claim.spec.requests)

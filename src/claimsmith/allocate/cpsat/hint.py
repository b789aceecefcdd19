"""Decides for a batch one by one, in several orders: the floor of every joint answer, and the start of the solver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.ledger import BatchLedger
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending, Refused, Undecided
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node

__all__ = ["BestFit", "Chooser", "FirstFit", "OneByOne", "count_devices", "list_orders", "list_units", "search_batch"]

Unit = tuple[int, ...]
"""Members that are decided together: those of a gang, or one that is in none."""


def search_batch(
    layout: Layout, objective: Objective, *, limits: SearchLimits, share_ids: Callable[[], str]
) -> Solution:
    """Return the best answer of deciding one by one; of equally good ones the first.

    The first node that fits is taken in the order in which the members came; the best node by the policy in that
    order, the largest first, and the smallest first.
    """
    orders = list_orders(layout)
    passes: list[tuple[list[Unit], Chooser]] = [(orders[0], FirstFit(layout, limits, share_ids))]
    best = BestFit(layout, limits, share_ids, Placer(layout.cluster, objective.policy))
    passes += [(order, best) for order in orders]
    found = [OneByOne(layout, chooser).run(order) for order, chooser in passes]
    return min(found, key=objective.measure)


def list_orders(layout: Layout) -> list[list[Unit]]:
    """Return the orders to try: as they came, the largest first, the smallest first; by priority in each."""
    units = list_units(layout)
    priority = {unit: max(layout.members[place].priority for place in unit) for unit in units}
    size = {unit: sum(_count_member(layout, place) for place in unit) for unit in units}
    orders = [
        sorted(units, key=lambda unit: -priority[unit]),
        sorted(units, key=lambda unit: (-priority[unit], -size[unit])),
        sorted(units, key=lambda unit: (-priority[unit], size[unit])),
    ]
    return [order for place, order in enumerate(orders) if order not in orders[:place]]


class Chooser(Protocol):
    """Finds a node and devices for claims."""

    def choose(
        self, claims: tuple[ResourceClaim, ...], names: tuple[str, ...], fits: Callable[[str], bool]
    ) -> Decision:
        """Return the decision on the nodes of these names, as far as they fit otherwise."""


@dataclass(frozen=True, slots=True)
class FirstFit:
    """The first node on which the claims find devices."""

    layout: Layout
    limits: SearchLimits
    share_ids: Callable[[], str]

    def choose(
        self, claims: tuple[ResourceClaim, ...], names: tuple[str, ...], fits: Callable[[str], bool]
    ) -> Decision:
        """Return the first allocation in the order of the nodes."""
        nodes = (self.layout.nodes[name] for name in names if fits(name))
        failed: Decision = Pending()
        for decision in allocate_on_nodes(
            self.layout.cluster, claims, nodes=nodes, share_ids=self.share_ids, limits=self.limits
        ):
            if isinstance(decision, Allocation):
                return decision
            if isinstance(decision, Refused) and not decision.node_only:
                return decision
            if isinstance(decision, Undecided):
                failed = decision
        return failed


@dataclass(frozen=True, slots=True)
class BestFit:
    """The best node by a policy."""

    layout: Layout
    limits: SearchLimits
    share_ids: Callable[[], str]
    placer: Placer
    _tuples: dict[tuple[str, ...], tuple[Node, ...]] = field(default_factory=dict)

    def choose(
        self, claims: tuple[ResourceClaim, ...], names: tuple[str, ...], fits: Callable[[str], bool]
    ) -> Decision:
        """Return the allocation on the node that the policy ranks first."""
        nodes = self._tuples.get(names)
        if nodes is None:
            nodes = self._tuples[names] = tuple(self.layout.nodes[name] for name in names)
        return self.placer.place(
            claims, nodes=nodes, share_ids=self.share_ids, limits=self.limits, fits=lambda found: fits(found.node)
        )


class OneByOne:
    """One pass over members of a batch.

    Args:
        ledger: What has been booked before; None for nothing.
    """

    def __init__(self, layout: Layout, chooser: Chooser, *, ledger: BatchLedger | None = None) -> None:
        self._layout, self._chooser = layout, chooser
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
        ledger = self._ledger
        wanted, names = ledger.find_wanted(place), self._layout.allowed[place]
        decision = self._chooser.choose(wanted, names, lambda name: ledger.is_open(place, name))
        if isinstance(decision, Allocation):
            ledger.book(place, decision, wanted)
            ledger.failed.pop(place, None)
        elif isinstance(decision, Undecided) or (isinstance(decision, Refused) and not decision.node_only):
            ledger.failed[place] = decision

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
        claims = tuple(claim for place in members for claim in wanted[place])
        decision = self._chooser.choose(claims, self._layout.allowed[unit[0]], lambda name: self._admits(members, name))
        if isinstance(decision, Allocation) and self._book_all(decision, wanted):
            for place in unit[min_count:]:
                self._place(place)

    def _admits(self, members: Unit, name: str) -> bool:
        """Whether a node is open to each of the members, and has room for all of them."""
        demand: Counter[str] = Counter()
        for place in members:
            demand.update(self._layout.members[place].demand)
        return all(
            name in self._layout.allowed[place] and self._ledger.is_open(place, name, demand=demand)
            for place in members
        )

    def _book_all(self, decision: Allocation, wanted: dict[int, tuple[ResourceClaim, ...]]) -> bool:
        """Count what members have got together; False, and nothing counted, when the node has no room for all."""
        before, start = len(self._ledger.order), 0
        for place, claims in wanted.items():
            if not self._ledger.is_open(place, decision.node):
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


def _count_member(layout: Layout, place: int) -> int:
    return sum(count_devices(claim) for claim in layout.members[place].claims)


def count_devices(claim: ResourceClaim) -> int:
    """Return how many devices a claim wants by its first alternatives; all devices count as one."""
    return sum(request.alternatives[0].count for request in claim.spec.requests if request.alternatives)

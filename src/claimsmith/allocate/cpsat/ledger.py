"""What the members of a batch hold while an answer is made: devices, room on nodes, claims that have got devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from claimsmith.allocate.cpsat.layout import Layout, has_room, reaches
from claimsmith.allocate.cpsat.solution import Placed, Solution
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision
from claimsmith.model.names import ClaimRef

__all__ = ["BatchLedger"]


class BatchLedger:
    """Books members one after the other, and gives back what it has booked."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._taken: dict[str, Counter[str]] = {}
        self._allocated: dict[ClaimRef, AllocationResult] = {}
        self.placed: list[Placed | None] = [None] * len(layout.members)
        self.order: list[int] = []
        self.failed: dict[int, Decision] = {}

    def find_wanted(self, place: int) -> tuple[ResourceClaim, ...]:
        """Return the claims of a member that have no devices yet, each once."""
        claims = {claim.ref: claim for claim in self._layout.members[place].claims if claim.allocation is None}
        return tuple(claim for ref, claim in claims.items() if ref not in self._allocated)

    def is_open(self, place: int, name: str, *, demand: Mapping[str, int] | None = None) -> bool:
        """Tell whether a node has room for a member and reaches the devices that its claims have got.

        Args:
            demand: What it must have room for instead of the member's own demand, in nano units.
        """
        member, layout = self._layout.members[place], self._layout
        wanted = member.demand if demand is None else demand
        if not has_room(layout.batch, name, wanted, taken=self._taken.get(name, Counter())):
            return False
        allocations = [self._allocated[claim.ref] for claim in member.claims if claim.ref in self._allocated]
        return all(reaches(allocation, layout.nodes[name]) for allocation in allocations)

    def book(self, place: int, found: Allocation, wanted: tuple[ResourceClaim, ...]) -> None:
        """Count what a member has got for the claims that it wanted."""
        member = self._layout.members[place]
        fresh = tuple(replace(claim, allocation=result) for claim, result in zip(wanted, found.results, strict=True))
        for claim in fresh:
            self._layout.cluster.hold(claim)
            if claim.allocation is not None:
                self._allocated[claim.ref] = claim.allocation
        self._taken.setdefault(found.node, Counter()).update(member.demand)
        known = {claim.ref: claim.allocation for claim in member.claims} | self._allocated
        results = tuple(result for claim in member.claims if (result := known[claim.ref]) is not None)
        self.placed[place] = Placed(node=found.node, results=results, fresh=fresh, steps=found.steps)
        self.order.append(place)

    def conclude(self) -> Solution:
        """Return what is booked as an answer."""
        return Solution(placed=tuple(self.placed), order=tuple(self.order), failed=dict(self.failed))

    def undo(self, count: int) -> None:
        """Give back what was booked, but for the first members."""
        while len(self.order) > count:
            place = self.order.pop()
            placed, self.placed[place] = self.placed[place], None
            if placed is None:
                continue
            for claim in reversed(placed.fresh):
                self._layout.cluster.release(claim)
                del self._allocated[claim.ref]
            self._taken[placed.node].subtract(self._layout.members[place].demand)

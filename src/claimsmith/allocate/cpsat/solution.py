"""One answer for a batch: where each member goes and what its claims get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending

__all__ = ["Placed", "Solution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A member with its node.

    Args:
        results: What each of its claims has.
        fresh: The claims that were allocated for it, with their allocation; the others had one, or another member's
            turn gave them one.
        steps: Steps of the search for it.
    """

    node: str
    results: tuple[AllocationResult, ...] = ()
    fresh: tuple[ResourceClaim, ...] = ()
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """An answer for a batch.

    Args:
        placed: For each member by place; None for those that have no node.
        order: Places of the members that have a node, in the order in which they got their devices.
        failed: Why members have none, where it is more than that they don't fit.
    """

    placed: tuple[Placed | None, ...]
    order: tuple[int, ...]
    failed: Mapping[int, Decision] = field(default_factory=dict)

    def decisions(self, layout: Layout) -> dict[str, Decision]:
        """Return the decision for each member by name."""
        return {member.name: self._decide(place) for place, member in enumerate(layout.members)}

    def fresh(self) -> Iterator[tuple[str, ResourceClaim]]:
        """Give each claim that is allocated, with the node for which it is, in the order in which it was."""
        for place in self.order:
            placed = self.placed[place]
            if placed is not None:
                yield from ((placed.node, claim) for claim in placed.fresh)

    def _decide(self, place: int) -> Decision:
        placed = self.placed[place]
        if placed is None:
            return self.failed.get(place, Pending())
        return Allocation(node=placed.node, results=placed.results, steps=placed.steps)

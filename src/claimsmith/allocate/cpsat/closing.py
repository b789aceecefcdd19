"""Closes nodes that deciding one by one has opened needlessly, where no solver is there to see to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from claimsmith.allocate.cpsat.hint import BestFit, Chooser, OneByOne, list_orders
from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Decision

__all__ = ["close_nodes"]

_PASSES_MAX: Final = 8
"""Passes over the members at most."""


@dataclass(frozen=True, slots=True)
class _Within:
    """Another chooser, on some nodes alone."""

    chooser: Chooser
    nodes: frozenset[str]

    def choose(
        self, claims: tuple[ResourceClaim, ...], names: tuple[str, ...], fits: Callable[[str], bool]
    ) -> Decision:
        """Return its decision on those of the nodes that may be used."""
        return self.chooser.choose(claims, names, lambda name: name in self.nodes and fits(name))


def close_nodes(
    layout: Layout, objective: Objective, found: Solution, *, limits: SearchLimits, share_ids: Callable[[], str]
) -> Solution:
    """Return an answer that is better in that it does without some of the nodes of another one, or that one.

    Node by node, those of the fewest members first, everything is decided anew on the others alone, and what is better
    by the objective is kept.
    """
    chooser = BestFit(layout, limits, share_ids, Placer(layout.cluster, objective.policy))
    order, passes = list_orders(layout)[0], 0
    best, cost = found, objective.measure(found)
    while True:
        counts = Counter(placed.node for placed in best.placed if placed is not None)
        for node in sorted(counts, key=lambda name: (counts[name], name)):
            if len(counts) < 2 or passes >= _PASSES_MAX:
                return best
            passes += 1
            trial = OneByOne(layout, _Within(chooser, frozenset(counts) - {node})).run(order)
            if objective.measure(trial) < cost:
                best, cost = trial, objective.measure(trial)
                break
        else:
            return best

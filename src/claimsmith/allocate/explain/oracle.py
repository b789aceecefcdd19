"""Decides whether a node can serve the claims with some things relaxed, by the allocator's own search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.explain.case import NodeCase
from claimsmith.allocate.explain.draft import Draft
from claimsmith.allocate.explain.relaxations import Relaxation
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.search.decide import NodeSearch
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Refused, Undecided
from claimsmith.model.features import Features
from claimsmith.model.names import ClaimRef
from claimsmith.model.pool import ResourceSlice

__all__ = ["BUDGET_STEPS", "TOTAL_STEPS", "Levels", "Oracle"]

BUDGET_STEPS: Final = 100_000
"""Steps after which one search gives up."""
TOTAL_STEPS: Final = 2_000_000
"""Steps after which all searches about one node give up."""
_CLUSTERS_MAX: Final = 64

Levels = Mapping[Relaxation, int]
"""How many pieces of each relaxation are kept; what is not named is kept as a whole."""


@dataclass(slots=True, eq=False)
class Oracle:
    """Solves one case again and again.

    Args:
        budget_steps: Steps after which one search gives up.
        total_steps: Steps after which every further search gives up at once.

    Attributes:
        searches, steps: How many searches were made, and how many steps they took.
        refused: What is refused about devices that were found, though they would do: a slice's node selector that no
            allocation can carry.
    """

    case: NodeCase
    budget_steps: int = BUDGET_STEPS
    total_steps: int = TOTAL_STEPS
    should_stop: Callable[[], bool] | None = None
    searches: int = 0
    steps: int = 0
    refused: Refused | None = None
    _slices: dict[tuple[object, ...], tuple[ResourceSlice, ...]] = field(default_factory=dict)
    _clusters: dict[tuple[int, Features], tuple[tuple[ResourceSlice, ...], PreparedCluster]] = field(
        default_factory=dict
    )

    def draft(self, levels: Levels) -> Draft:
        """Return the problem in which only so much of each relaxation is kept, open for further edits."""
        draft = Draft(case=self.case, known=self._slices)
        for relaxation, keep in levels.items():
            if keep < relaxation.levels:
                relaxation.relax(draft, keep)
        return draft

    def is_infeasible(self, problem: AllocationProblem) -> bool | None:
        """Tell whether the node can't serve the claims; None when that is not known."""
        decision = self.decide(problem)
        if isinstance(decision, Refused) and decision.kind == "node-selector":
            self.refused = self.refused or decision
            return False
        return None if isinstance(decision, Undecided) else not isinstance(decision, Allocation)

    def decide(self, problem: AllocationProblem) -> Decision:
        """Return the decision of the search; its shares have no uids."""
        budget = min(self.budget_steps, self.total_steps - self.steps)
        if budget <= 0:
            return Undecided(node=problem.node.name)
        self.searches += 1
        cluster = self._prepare(problem)
        limits = SearchLimits(budget_steps=budget, should_stop=self.should_stop)
        decision = NodeSearch(cluster, cluster.plan(problem.claims), problem.node, limits).decide(str)
        self.steps += decision.steps
        return decision

    def _prepare(self, problem: AllocationProblem) -> PreparedCluster:
        """Return the cluster of the problem; one with the same slices is used again."""
        key = (id(problem.slices), problem.features)
        known = self._clusters.get(key)
        if known is None:
            known = self._clusters[key] = (problem.slices, self._build(problem))
            if len(self._clusters) > _CLUSTERS_MAX:
                self._clusters.pop(next(iter(self._clusters)))
        cluster = known[1]
        cluster.classes = problem.classes
        cluster.replace_claims(_number(problem.allocated))
        return cluster

    def _build(self, problem: AllocationProblem) -> PreparedCluster:
        """Return a cluster of the slices, which takes over what selectors said of these devices before.

        Expressions that stand for answers under added capacity mean something else for other claims: those answers are
        not handed back.
        """
        deviations = self.case.cluster.deviations
        cluster = PreparedCluster(problem.features, deviations=deviations, history=problem.history)
        cluster.replace_slices(problem.slices)
        if problem.features != self.case.features:
            return cluster
        for slice in cluster.find_visible(problem.node):
            for record in slice.devices:
                known = self.case.records.get(record.id)
                if known is not None and known.slice.name == slice.slice.name:
                    record.answers = dict(known.answers) if self.case.pinned else known.answers
        return cluster


def _number(claims: tuple[ResourceClaim, ...]) -> dict[ClaimRef, ResourceClaim]:
    """Return claims by a name of their own each, whatever they are called."""
    return {ClaimRef(str(id(claim)), ""): claim for claim in claims}

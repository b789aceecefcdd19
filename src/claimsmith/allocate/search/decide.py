"""The decision for one pod: upstream's answer, or why there is none.

`allocate` answers one problem. `allocate_on_nodes` answers for many nodes of a cluster that is prepared once and
follows the snapshots, `allocate_first` for the first of them that fits.

Source: Allocate in structured/internal/{incubating,experimental}, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from claimsmith.allocate.explain.nodes import explain_node
from claimsmith.allocate.prepared.groups import NodeGroup
from claimsmith.allocate.prepared.index import NodeView, PreparedCluster
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan, refuse_limit
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.prepared.screening import Screened
from claimsmith.allocate.search.attempt import Attempt, Fatal
from claimsmith.allocate.search.engine import Engine, Insight, Outcome, SearchLimits
from claimsmith.allocate.search.lookahead import Lookahead
from claimsmith.allocate.search.results import build_result, find_unusable_selector
from claimsmith.allocate.search.symmetry import Symmetry
from claimsmith.model.claim import ALLOCATION_RESULTS_MAX, ResourceClaim
from claimsmith.model.decision import (
    Allocation,
    Decision,
    DecisionWarning,
    Pending,
    Refused,
    RefusedKind,
    Undecided,
)
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.node import Node

__all__ = ["NodeSearch", "allocate", "allocate_first", "allocate_on_nodes"]


def allocate(
    problem: AllocationProblem,
    *,
    share_ids: Callable[[], str],
    budget_steps: int | None = None,
    should_stop: Callable[[], bool] | None = None,
    deviations: frozenset[Deviation] = OURS,
) -> Decision:
    """Return devices for all claims of the problem on its node, or why there are none, with the reasons in full.

    Args:
        share_ids: Gives a new uid for each share of a device that allows several allocations.
        budget_steps: Most steps of the search; None for no limit.
        should_stop: Asked now and then; True ends the search as undecided.
        deviations: What to answer otherwise than upstream; LIKE_UPSTREAM for nothing.
    """
    cluster = PreparedCluster.from_problem(problem, deviations=deviations)
    plan = cluster.plan(problem.claims)
    limits = SearchLimits(budget_steps=budget_steps, should_stop=should_stop)
    decision = NodeSearch(cluster, plan, problem.node, limits).decide(share_ids)
    if not isinstance(decision, Pending):
        return decision
    return replace(decision, reasons=explain_node(cluster, plan, problem.node))


def allocate_on_nodes(
    cluster: PreparedCluster,
    claims: Iterable[ResourceClaim],
    *,
    nodes: Iterable[Node],
    share_ids: Callable[[], str],
    limits: SearchLimits | None = None,
) -> Iterator[Decision]:
    """Give one decision for each node, in order, each when it is asked for.

    A `Refused` that is not `node_only` holds for every node. `Pending` comes without reasons: ask
    `claimsmith.allocate.explain` for them when no node has served.

    Args:
        claims: The pod's claims without allocation, in the order of its `spec.resourceClaims`.
        limits: For each node on its own.
    """
    plan, bounds = cluster.plan(claims), limits or SearchLimits()
    for place in cluster.group_nodes(plan).scan(nodes):
        yield _decide(cluster, plan, place, limits=bounds, share_ids=share_ids)


def allocate_first(
    cluster: PreparedCluster,
    claims: Iterable[ResourceClaim],
    *,
    nodes: Iterable[Node],
    share_ids: Callable[[], str],
    limits: SearchLimits | None = None,
) -> Decision:
    """Return the decision for the first node, in order, on which the claims fit.

    Nodes that are alike are searched once. `Pending` names no node and comes without reasons and warnings; its steps
    are those of the searches that it took. `Undecided` says that no node fits, but some search gave up.

    Args:
        claims: The pod's claims without allocation, in the order of its `spec.resourceClaims`.
        limits: For each node on its own.
    """
    plan, bounds = cluster.plan(claims), limits or SearchLimits()
    steps, gave_up = 0, False
    for node, group in cluster.group_nodes(plan).scan_open(nodes):
        decision = NodeSearch(cluster, plan, node, bounds).decide(share_ids)
        group.note(decision)
        if isinstance(decision, Allocation) or (isinstance(decision, Refused) and not decision.node_only):
            return decision
        steps += decision.steps
        gave_up = gave_up or isinstance(decision, Undecided)
    return Undecided(steps=steps) if gave_up else Pending(steps=steps)


def _decide(
    cluster: PreparedCluster,
    plan: PodPlan,
    place: tuple[Node, NodeGroup],
    *,
    limits: SearchLimits,
    share_ids: Callable[[], str],
) -> Decision:
    """The decision for a node, searched for unless a node of its group has shown already that the claims don't fit."""
    node, group = place
    if group.pending is not None and not group.warns:
        return Pending(node=node.name, steps=group.pending.steps)
    decision = NodeSearch(cluster, plan, node, limits).decide(share_ids)
    group.note(decision)
    return decision


@dataclass(slots=True, eq=False)
class NodeSearch:
    """The search for one pod on one node.

    Args:
        prefer: Gives the devices that a request may choose from in the order in which to try them; None for
            upstream's order. It must always give the same order for the same request.
    """

    cluster: PreparedCluster
    plan: PodPlan
    node: Node
    limits: SearchLimits
    prefer: Callable[[RequestPlan, Screened], Screened] | None = None
    view: NodeView = field(init=False)
    _all: dict[RequestPlan, Screened] = field(default_factory=dict)
    _free: dict[RequestPlan, Screened] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.view = self.cluster.view_node(self.node)

    def decide(self, share_ids: Callable[[], str]) -> Decision:
        """Return the decision for the node."""
        refused = self.check()
        if refused is not None:
            return replace(refused, node=self.node.name)
        attempt = Attempt(
            self.plan,
            self.cluster.features,
            selectors=self.cluster.selectors,
            find_counters=self.cluster.find_counters,
            deviations=self.cluster.deviations,
        )
        engine = self._build_engine(attempt)
        return self._conclude(engine, engine.run(), share_ids)

    def _build_engine(self, attempt: Attempt) -> Engine:
        return Engine(
            plan=self.plan,
            attempt=attempt,
            find_candidates=self.find_candidates,
            find_all=self.find_all,
            limits=self.limits,
            deviations=self.cluster.deviations,
            prepare_insight=lambda: self._prepare_insight(attempt),
        )

    def _prepare_insight(self, attempt: Attempt) -> Insight:
        counters, candidates = self.cluster.find_counters, self.find_candidates
        symmetry = Symmetry(
            self.plan, attempt, find_candidates=candidates, find_all=self.find_all, find_counters=counters
        )
        if self._may_abort():
            return Insight(None if self._aborts_all() else symmetry, None)
        return Insight(
            symmetry,
            Lookahead(self.plan, attempt, symmetry, find_candidates=candidates, find_counters=counters),
        )

    def _may_abort(self) -> bool:
        """Whether the search may come upon something that aborts it, so that no part of it may be left out."""
        if self._aborts_all():
            return True
        return Deviation.SELECTOR_ERROR not in self.cluster.deviations and any(
            bool(plan.derived) or self.find_candidates(plan).poisoned for plan in self.plan.requests
        )

    def _aborts_all(self) -> bool:
        """Whether a constraint binds a request for all devices: the first of them that is free may abort the search."""
        if Deviation.ALL_WITH_CONSTRAINT in self.cluster.deviations:
            return False
        return any(plan.takes_all and bool(plan.constraints) for plan in self.plan.requests)

    def check(self) -> Refused | None:
        """Return why no search is possible; what depends on the node is found in upstream's order."""
        if self.view.bad_selectors and Deviation.NODE_SELECTOR not in self.cluster.deviations:
            bad = self.view.bad_selectors[0]
            return Refused(kind="node-selector", text=f"slice {bad.slice}: node selector: {bad.text}")
        if not self.plan.takes_all:
            return self.plan.refusal
        for claim in self.plan.claims:
            total = 0
            for group in claim.groups:
                counts = []
                for plan in group.alternatives:
                    refused = self._check_all(plan, claim.claim) if plan.takes_all else None
                    if refused is not None:
                        return refused
                    counts.append(self.count(plan))
                total += min(counts, default=0)
                if total > ALLOCATION_RESULTS_MAX:
                    limit = refuse_limit(claim.claim, group.request.name, total)
                    return replace(limit, node_only=Deviation.ALL_OVER_LIMIT in self.cluster.deviations)
            for plan in claim.before_refusal:
                refused = self._check_all(plan, claim.claim) if plan.takes_all else None
                if refused is not None:
                    return refused
        return self.plan.refusal

    def count(self, plan: RequestPlan) -> int:
        """Return how many devices the request wants on this node."""
        return len(self.find_all(plan).candidates) if plan.takes_all else plan.count

    def find_candidates(self, plan: RequestPlan) -> Screened:
        """Return the devices that the request may choose from."""
        found = self._free.get(plan)
        if found is None:
            found = self.cluster.screen_node(self.view, plan.shape)
            found = self._free[plan] = found if self.prefer is None else self.prefer(plan, found)
        return found

    def find_all(self, plan: RequestPlan) -> Screened:
        """Return the devices that the request for all devices stands for."""
        found = self._all.get(plan)
        if found is None:
            screen = self.cluster.screen
            parts = [screen.screen_all(pool, plan.shape, self.node) for pool in self.view.pools]
            found = self._all[plan] = Screened.join(parts)
        return found

    def _check_all(self, plan: RequestPlan, claim: ResourceClaim) -> Refused | None:
        """Refuse a request for all devices while a pool of the node is not in order."""
        node_only = Deviation.ALL_WHILE_INCOMPLETE in self.cluster.deviations
        screen = self.cluster.screen
        for pool in self.view.pools:
            where = f"claim {claim.ref}, request {plan.label}: asks for all devices, but pool {pool.id}"
            generation = f"generation {pool.generation}"
            if pool.incomplete:
                text = f"{where} {generation}: {pool.found} of {pool.expected} slices"
                return self._refuse("all-incomplete-pool", text, plan, node_only=node_only)
            if pool.invalid:
                return self._refuse(
                    "all-invalid-pool", f"{where} is invalid: {pool.invalid}", plan, node_only=node_only
                )
            for candidate in screen.screen_all(pool, plan.shape, self.node).candidates:
                if candidate.poison is not None:
                    return self._refuse(candidate.poison.kind, candidate.poison.text, plan, node_only=False)
        return None

    def _refuse(self, kind: RefusedKind, text: str, plan: RequestPlan, *, node_only: bool) -> Refused:
        claim = self.plan.claims[plan.claim].claim
        return Refused(kind=kind, text=text, node_only=node_only, claim=claim.ref, request=plan.label)

    def _conclude(self, engine: Engine, outcome: Outcome, share_ids: Callable[[], str]) -> Decision:
        node = self.node.name
        if outcome is Outcome.STOPPED:
            return Undecided(node=node, steps=engine.steps)
        if outcome is Outcome.FATAL and engine.fatal is not None:
            return self._abort(engine.fatal, engine.steps)
        if outcome is Outcome.FOUND:
            return self._build(engine, share_ids)
        invalid = next((pool for pool in self.view.pools if pool.invalid), None)
        if invalid is not None and Deviation.INVALID_POOL not in self.cluster.deviations:
            text = f"pool {invalid.id} is invalid: {invalid.invalid}"
            return Refused(kind="invalid-pool", text=text, node=node, node_only=True, steps=engine.steps)
        return Pending(node=node, steps=engine.steps, warnings=self._warnings(engine))

    def _build(self, engine: Engine, share_ids: Callable[[], str]) -> Decision:
        features, name, taken = self.cluster.features, self.node.name, engine.attempt.results
        unusable = next((text for items in taken if (text := find_unusable_selector(items, features))), None)
        if unusable is not None:
            return Refused(kind="node-selector", text=unusable, node=name, steps=engine.steps)
        results = tuple(
            build_result(
                claim,
                taken[place],
                chosen=lambda request, place=place: engine.chosen.get((place, request), 0),  # type: ignore[misc]
                node_name=name,
                features=features,
                share_ids=share_ids,
            )
            for place, claim in enumerate(self.plan.claims)
        )
        return Allocation(node=name, results=results, steps=engine.steps, warnings=self._warnings(engine))

    def _abort(self, fatal: Fatal, steps: int) -> Refused:
        refused = self._refuse(fatal.kind, fatal.text, fatal.plan, node_only=False)
        return replace(refused, node=self.node.name, devices=(fatal.candidate.record.id,), steps=steps)

    def _warnings(self, engine: Engine) -> tuple[DecisionWarning, ...]:
        """What the answer had to step around, each device and selector once."""
        screened = [*self._free.values(), *self._all.values()]
        found = [warning for part in screened for warning in part.warnings]
        found += engine.attempt.warnings
        found += [
            DecisionWarning(kind="node-selector", text=f"slice {bad.slice}: node selector: {bad.text}")
            for bad in self.view.bad_selectors
        ]
        return tuple(dict.fromkeys(found)) if found else ()

"""Where a pod goes: the best node for its claims by a policy, and on it the best devices.

The policy only ranks nodes and devices; the exact search decides on each node in turn until one fits. A node is left
out without a search only if some request finds too few devices there, whatever else is chosen. Hence a pod that fits
anywhere is never refused, and each allocation is one that upstream could have made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from claimsmith.allocate.policy.demand import DemandCounter, DemandProfile
from claimsmith.allocate.policy.nodestates import NodeState, NodeStates, Place
from claimsmith.allocate.policy.objective import Policy
from claimsmith.allocate.policy.partitions import PartitionSizes, PartitionTotals
from claimsmith.allocate.policy.potential import Potential
from claimsmith.allocate.policy.rating import Rater, Rating
from claimsmith.allocate.prepared.eligibility import RequestShape
from claimsmith.allocate.prepared.index import NodeView, PreparedCluster
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.screening import Candidate, Screened
from claimsmith.allocate.prepared.usage import PoolKey
from claimsmith.allocate.search.decide import NodeSearch
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending, Refused, Undecided
from claimsmith.model.names import DeviceId
from claimsmith.model.node import Node

__all__ = ["Outlook", "Placer", "place_claims"]

LEARNED_FIRST: Final = 20
"""Pods after which a learned demand is used for the first time."""
LEARNED_GROWTH_PERCENT: Final = 130
"""A learned demand is looked at again when so many pods have been seen, of what had been seen then."""
JOURNAL_MAX: Final = 65_536
"""Changes of nodes that are kept; beyond that all nodes are rated anew."""
TABLES_MAX: Final = 1_024
"""Kinds of pods whose ratings of all nodes are kept."""
RATED_MAX: Final = 16_384
"""Kinds of pods for which states are rated; beyond that all ratings are forgotten."""


def place_claims(
    cluster: PreparedCluster,
    claims: Iterable[ResourceClaim],
    *,
    nodes: Iterable[Node],
    policy: Policy,
    share_ids: Callable[[], str],
    limits: SearchLimits | None = None,
) -> Decision:
    """Return the best node and devices for one pod's claims, without any demand in mind.

    A scheduler keeps a `Placer` instead, which learns the demand and remembers its ratings.
    """
    return Placer(cluster, policy).place(claims, nodes=nodes, share_ids=share_ids, limits=limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What would come of placing some pods.

    Args:
        placed: Whether each of them finds a node.
        value, fragments: By how much the worth of the nodes, and what lies in fragments, would change, in thousandths
            of a device.
    """

    placed: tuple[bool, ...]
    value: int
    fragments: int


class _Table:
    """The ratings of all nodes for one kind of pod.

    Attributes:
        ratings: By the node's place; None where a request finds too few devices.
        seen: How much of the journal of changed nodes is in.
    """

    __slots__ = ("_heap", "ratings", "seen")

    def __init__(self, ratings: list[Rating | None]) -> None:
        self.ratings = ratings
        self.seen = 0
        self._heap = _list_costs(ratings)
        heapify(self._heap)

    def change(self, place: int, rating: Rating | None) -> None:
        """Take in a new rating of a node."""
        self.ratings[place] = rating
        if rating is not None:
            heappush(self._heap, (rating.cost, place))
        if len(self._heap) > 4 * len(self.ratings):
            self._heap = _list_costs(self.ratings)
            heapify(self._heap)

    def find_best(self) -> int | None:
        """Return the place of the best node, the first of equal ones; None when none may serve."""
        while self._heap:
            cost, place = self._heap[0]
            rating = self.ratings[place]
            if rating is not None and rating.cost == cost:
                return place
            heappop(self._heap)
        return None


@dataclass(slots=True, eq=False)
class _Ranking:
    """Nodes that were asked for together, and what is known of them.

    Args:
        states: Each node's state as it was last seen.
        rows: Numbers of the nodes that see a pool.
        number: The cluster's change up to which the states are true.
        journal: Rows that have changed, in order.
    """

    nodes: tuple[Node, ...]
    version: int
    number: int
    states: list[NodeState] = field(default_factory=list)
    rows: dict[PoolKey, list[int]] = field(default_factory=dict)
    journal: list[int] = field(default_factory=list)
    tables: OrderedDict[int, _Table] = field(default_factory=OrderedDict)

    def change(self, place: int, state: NodeState) -> None:
        """Note a node's new state; an old one leaves its ratings as they are."""
        if state is not self.states[place]:
            self.states[place] = state
            self.journal.append(place)

    def forget(self) -> None:
        """Drop all ratings."""
        self.tables.clear()
        self.journal.clear()


class Placer:
    """Places pods one after the other by one policy.

    Args:
        cluster: What it finds there at each call counts; claims that got devices must be counted in it by the caller.
        profile: The demand; None to learn it from the pods that are observed.
    """

    def __init__(self, cluster: PreparedCluster, policy: Policy, *, profile: DemandProfile | None = None) -> None:
        self.cluster = cluster
        self.policy = policy
        self._states = NodeStates(cluster)
        self._partitions = PartitionTotals(PartitionSizes())
        self._counter = DemandCounter()
        self._learns = profile is None
        self._profile = profile or DemandProfile()
        self._next_look = LEARNED_FIRST
        self._rater: Rater | None = None
        self._kinds_rated = 0
        self._ranking: _Ranking | None = None
        self._learn(self._list_typical())

    def observe(self, claims: Iterable[ResourceClaim]) -> None:
        """Count a pod for the demand; to be called once for each pod that arrives, placed or not."""
        if not self._learns:
            return
        plan = self.cluster.plan(claims)
        self._learn(_list_shapes(plan))
        self._counter.add(plan)
        if self._counter.total >= self._next_look:
            self._next_look = max(self._next_look + 1, self._counter.total * LEARNED_GROWTH_PERCENT // 100)
            self._profile = self._counter.profile()
            self._rater = None
            self._learn(self._list_typical())

    def place(
        self,
        claims: Iterable[ResourceClaim],
        *,
        nodes: Iterable[Node],
        share_ids: Callable[[], str],
        limits: SearchLimits | None = None,
        fits: Callable[[Allocation], bool] | None = None,
    ) -> Decision:
        """Return the best node and devices for one pod's claims.

        Args:
            claims: The pod's claims without allocation, in the order of its `spec.resourceClaims`.
            nodes: Equal ones are taken in this order. The same tuple again is ranked faster.
            share_ids: Gives a new uid for each share of a device that allows several allocations.
            limits: For each node on its own.
            fits: Tells whether the node has room for what the devices take of it besides; None: it has.

        Returns:
            An Allocation; Pending without reasons when it fits on no node; Undecided when some search gave up and no
            other node serves; Refused when no search is possible.
        """
        plan = self.cluster.plan(claims)
        self._learn(_list_shapes(plan))
        steps, undecided, last = 0, False, None
        for node, rating in self._order(plan, nodes if isinstance(nodes, tuple) else tuple(nodes)):
            decision = self.decide_on(node, plan, rating=rating, share_ids=share_ids, limits=limits)
            if isinstance(decision, Allocation) and (fits is None or fits(decision)):
                return decision
            if isinstance(decision, Refused) and not decision.node_only:
                return decision
            undecided = undecided or isinstance(decision, Undecided)
            steps, last = steps + decision.steps, decision
        if undecided:
            return Undecided(steps=steps)
        return last if isinstance(last, Refused) else Pending(steps=steps)

    def foresee(self, plans: Sequence[PodPlan], *, nodes: tuple[Node, ...]) -> Outlook:
        """Return what would come of placing pods one after the other, going by the ratings alone; nothing changes."""
        self._learn(shape for plan in plans for shape in _list_shapes(plan))
        ranking, potential = self._follow(nodes), self.rater.potential
        before: dict[int, NodeState] = {}
        placed = tuple([self._foresee_one(plan, ranking, before) for plan in plans])
        value, fragments = 0, 0
        for place, state in before.items():
            after = ranking.states[place]
            value += potential.value(after) - potential.value(state)
            fragments += potential.fragments(after) - potential.fragments(state)
            ranking.change(place, state)
        return Outlook(placed=placed, value=value, fragments=fragments)

    def _foresee_one(self, plan: PodPlan, ranking: _Ranking, before: dict[int, NodeState]) -> bool:
        """Put a pod where it would go; note the state of the node as it was first."""
        table = self._rate_all(plan, ranking)
        place = table.find_best()
        rating = None if place is None else table.ratings[place]
        if place is None or rating is None or rating.after is None:
            return False
        before.setdefault(place, ranking.states[place])
        ranking.change(place, rating.after)
        return True

    def rate(self, claims: Iterable[ResourceClaim], node: Node) -> Rating | None:
        """Return how good a node is for a pod's claims; None when some request finds too few devices there."""
        plan, view = self.cluster.plan(claims), self.cluster.view_node(node)
        self._learn(_list_shapes(plan))
        state, rater = self._states.find(view), self.rater
        return rater.rate(plan, state, rater.number_plan(plan))

    def survey(self, plans: Sequence[PodPlan], nodes: tuple[Node, ...]) -> list[Sequence[Rating | None]]:
        """Return the ratings of all nodes for each plan, without what losing partitions costs; None: it can't fit."""
        self._learn(shape for plan in plans for shape in _list_shapes(plan))
        ranking = self._follow(nodes)
        return [self._rate_all(plan, ranking).ratings for plan in plans]

    def decide_on(
        self,
        node: Node,
        plan: PodPlan,
        *,
        rating: Rating | None,
        share_ids: Callable[[], str],
        limits: SearchLimits | None = None,
    ) -> Decision:
        """Return the search's decision for one node; the devices that a rating chose are tried first."""
        prefer = None if rating is None else self._prefer(node, rating)
        return NodeSearch(self.cluster, plan, node, limits or SearchLimits(), prefer).decide(share_ids)

    def find_state(self, node: Node) -> NodeState:
        """Return the state that the node is in."""
        return self._states.find(self.cluster.view_node(node))

    def find_place(self, node: Node, device: DeviceId) -> Place | None:
        """Return where a device stands in the state of a node; None when it is not to be seen from there."""
        for number, pool in enumerate(self.cluster.view_node(node).pools):
            if pool.id == device.pool_id:
                found = next((record for record in pool.devices if record.id == device), None)
                return None if found is None else self._find_place(number, found)
        return None

    def value(self, node: Node) -> int:
        """Return what the node is worth to the demand, in thousandths of a device."""
        state = self.find_state(node)
        return self.rater.potential.value(state)

    def fragments(self, node: Node) -> int:
        """Return what of the node a typical pod can't use on average, in thousandths of a device."""
        state = self.find_state(node)
        return self.rater.potential.fragments(state)

    def _learn(self, shapes: Iterable[RequestShape]) -> None:
        """Tell apart what the shapes read; when that is more than before, everything is looked at anew."""
        given = tuple(shapes)
        is_new = self._states.learn(given)
        if self._states.is_crowd:
            self._states.start_anew((*self._list_typical(), *given))
            is_new = True
        if is_new:
            self._ranking = self._rater = None

    def _list_typical(self) -> list[RequestShape]:
        """The shapes of the demand."""
        return [need.shape for pod, _ in self._profile.pods for need in pod]

    def _order(self, plan: PodPlan, nodes: tuple[Node, ...]) -> Iterator[tuple[Node, Rating | None]]:
        """Nodes that may serve, the best first; without a rating where devices are tried in upstream's order."""
        if plan.refusal is not None or plan.takes_all:
            yield from ((node, None) for node in nodes)
            return
        table = self._rate_all(plan, self._follow(nodes))
        ratings = self._settle(table.ratings)
        settled = ratings is not table.ratings
        best = min(_list_costs(ratings), default=((), None))[1] if settled else table.find_best()
        if best is None:
            return
        yield nodes[best], ratings[best]
        for _, place in sorted(_list_costs(ratings)):
            if place != best:
                yield nodes[place], ratings[place]

    def _settle(self, ratings: list[Rating | None]) -> list[Rating | None]:
        """The ratings with what losing partitions costs now; equal ones are looked at once."""
        if not self._partitions.numbers:
            return ratings
        rater, settled = self.rater, dict[int, Rating]()
        for rating in ratings:
            if rating is not None and id(rating) not in settled:
                settled[id(rating)] = rater.settle(rating)
        return [None if rating is None else settled[id(rating)] for rating in ratings]

    def _rate_all(self, plan: PodPlan, ranking: _Ranking) -> _Table:
        """The rating of each node; only those that have changed since such a pod came are rated again."""
        rater = self.rater
        number = rater.number_plan(plan)
        table = ranking.tables.get(number)
        if table is None:
            table = _Table([rater.rate(plan, state, number) for state in ranking.states])
            ranking.tables[number] = table
            if len(ranking.tables) > TABLES_MAX:
                ranking.tables.popitem(last=False)
        else:
            ranking.tables.move_to_end(number)
            for place in dict.fromkeys(ranking.journal[table.seen :]):
                table.change(place, rater.rate(plan, ranking.states[place], number))
        table.seen = len(ranking.journal)
        return table

    def _follow(self, nodes: tuple[Node, ...]) -> _Ranking:
        """What is known of the nodes, as they are now."""
        ranking, version = self._ranking, self.cluster.layout_version
        if ranking is None or ranking.version != version or ranking.nodes is not nodes:
            if ranking is None or ranking.version != version:
                self._rater = None
            return self._read_all(nodes)
        changes = self.cluster.changes.find_since(ranking.number)
        if changes is None:
            return self._read_all(nodes)
        for place in {place for change in changes for pool in change.pools for place in ranking.rows.get(pool, ())}:
            view = self.cluster.view_node(nodes[place])
            ranking.change(place, self._states.find(view))
            self._count_partitions(view, ranking.states[place])
        ranking.number = self.cluster.changes.number
        if len(ranking.journal) > JOURNAL_MAX:
            ranking.forget()
        return ranking

    def _read_all(self, nodes: tuple[Node, ...]) -> _Ranking:
        ranking = self._ranking = _Ranking(nodes, self.cluster.layout_version, self.cluster.changes.number)
        self._partitions.clear()
        for place, node in enumerate(nodes):
            view = self.cluster.view_node(node)
            ranking.states.append(self._states.find(view))
            self._count_partitions(view, ranking.states[place])
            for pool in view.pools:
                ranking.rows.setdefault(pool.id, []).append(place)
        return ranking

    def _count_partitions(self, view: NodeView, state: NodeState) -> None:
        self._partitions.follow((pool.id, found) for pool, found in zip(view.pools, state.pools, strict=True))

    @property
    def rater(self) -> Rater:
        """What rates states of nodes, for the demand and the kinds of devices as they are known now."""
        count = self._states.kind_count
        if self._rater is None or count != self._kinds_rated or self._rater.plan_count > RATED_MAX:
            self._states.forget_ratings()
            if self._ranking is not None:
                self._ranking.forget()
            self._kinds_rated = count
            counts_rare = "gradient" in self.policy.terms
            potential = Potential(self._states, self._profile, counts_rare=counts_rare)
            self._rater = Rater(self.policy, self._states, potential, self._partitions)
        return self._rater

    def _prefer(self, node: Node, rating: Rating) -> Callable[[RequestPlan, Screened], Screened]:
        """Bring the devices that the rating chose to the front, one for each; the others follow in their order."""
        numbers = {pool: number for number, pool in enumerate(self.cluster.view_node(node).pools)}

        def prefer(plan: RequestPlan, screened: Screened) -> Screened:
            picks = rating.picks.get((plan.claim, plan.request, plan.alternative))
            if not picks:
                return screened
            places = [self._place(numbers, candidate) for candidate in screened.candidates]
            chosen: list[int] = []
            for pick in picks:
                found = next((i for i, place in enumerate(places) if place == pick and i not in chosen), None)
                if found is not None:
                    chosen.append(found)
            rest = [i for i in range(len(places)) if i not in chosen]
            candidates = tuple(screened.candidates[i] for i in (*chosen, *rest))
            return Screened(candidates=candidates, poisoned=screened.poisoned, warnings=screened.warnings)

        return prefer

    def _place(self, numbers: Mapping[PoolView, int], candidate: Candidate) -> Place:
        return self._find_place(numbers[candidate.view], candidate.record)

    def _find_place(self, number: int, record: DeviceRecord) -> Place:
        return Place(number, self._states.find_kind(record), self._states.find_use(record))


def _list_costs(ratings: Iterable[Rating | None]) -> list[tuple[tuple[int, ...], int]]:
    return [(rating.cost, place) for place, rating in enumerate(ratings) if rating is not None]


def _list_shapes(plan: PodPlan) -> list[RequestShape]:
    return [item.shape for item in plan.requests]

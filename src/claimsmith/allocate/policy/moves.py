"""One holder moved so that a claim fits: what has to move where, when nothing is free for a pod's claims.

Each holder is looked at as if it were gone: may the pod have its place, and is there another place for the holder? Of
all such moves the one is planned that costs least by the policy: what both take, less what the holder gives back. Every
step is confirmed by the exact search, so that the claims can hold what the plan says and nobody else has to move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from claimsmith.allocate.policy.nodestates import DeviceKind, NodeState, Place
from claimsmith.allocate.policy.partitions import Losses
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.policy.rating import Rating
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.node import Node

__all__ = ["Holder", "Move", "plan_move"]

TRIES_MAX: Final = 16
"""Moves that the search is asked to confirm, the cheapest first."""

_Held = tuple[tuple[Place, tuple[int, ...]], ...]
"""What a holder has: where each device stands in the state of its node, and what it takes of its capacities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Somebody who may be moved.

    Args:
        claim: The allocated claim; what it holds is counted in the cluster.
        node: The node whose devices it holds.
        nodes: Names of the nodes that it may be moved to; None for all.
    """

    claim: ResourceClaim
    node: str
    nodes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A holder that gives up its devices for others, and what becomes possible by it.

    Args:
        moved: What the holder gets instead.
        placed: What the claims get then.
    """

    holder: Holder
    moved: Allocation
    placed: Allocation


def plan_move(
    placer: Placer,
    claims: Iterable[ResourceClaim],
    *,
    holders: Iterable[Holder],
    nodes: tuple[Node, ...],
    share_ids: Callable[[], str],
    limits: SearchLimits | None = None,
) -> Move | None:
    """Return the cheapest move of one holder that lets a pod's claims fit; None when none is found.

    A holder may also be moved to other devices of its own node. The cluster is the same afterwards. Holders and pods
    that ask for all devices are left alone.

    Args:
        placer: Whose policy says what is cheap, and whose cluster is looked at.
        claims: The pod's claims without allocation, which fit nowhere as things are.
        holders: Who may be moved.
        nodes: Where the pod and the holders may go; the same tuple as for `Placer.place` is ranked faster.
        share_ids: Gives a new uid for each share of a device that allows several allocations.
        limits: For each search on a node.
    """
    planner = _Planner(placer, nodes, placer.cluster.plan(claims))
    drafts = sorted(planner.draft(holders), key=lambda draft: draft.cost)
    for draft in drafts[:TRIES_MAX]:
        move = planner.confirm(draft, share_ids, limits or SearchLimits())
        if move is not None:
            return move
    return None


@dataclass(frozen=True, slots=True)
class _Draft:
    """A move that looks possible: how the pod would be served in the holder's place, and the holder on its target."""

    cost: tuple[int, ...]
    holder: Holder
    wanted: Rating
    target: Node
    again: Rating


@dataclass(slots=True, eq=False)
class _Planner:
    """Looks for moves for one pod.

    Args:
        wanted: The pod's plan.
    """

    placer: Placer
    nodes: tuple[Node, ...]
    wanted: PodPlan
    _plans: dict[int, PodPlan] = field(default_factory=dict)
    _targets: dict[int, list[tuple[tuple[int, ...], Rating, list[Node]]]] = field(default_factory=dict)

    def draft(self, holders: Iterable[Holder]) -> Iterator[_Draft]:
        """Yield moves that look possible; of holders that are alike in kind and place, the first is looked at."""
        if self.wanted.refusal is not None or self.wanted.takes_all:
            return
        everyone = tuple(holders)
        self.placer.survey([self.wanted, *(self._plan(holder.claim) for holder in everyone)], self.nodes)
        by_name = {node.name: node for node in self.nodes}
        seen: set[object] = set()
        for holder in everyone:
            node, plan = by_name.get(holder.node), self._plan(holder.claim)
            if node is None or plan.refusal is not None or plan.takes_all:
                continue
            state = self.placer.find_state(node)
            held = self._find_held(holder.claim, node)
            key = (state, self.placer.rater.number_plan(plan), held, holder.nodes)
            if held and key not in seen:
                seen.add(key)
                yield from self._draft_one(holder, node, state, held=held)

    def confirm(self, draft: _Draft, share_ids: Callable[[], str], limits: SearchLimits) -> Move | None:
        """Let the search decide both steps; None when one of them does not work out."""
        cluster, holder = self.placer.cluster, draft.holder
        origin = next(node for node in self.nodes if node.name == holder.node)
        cluster.release(holder.claim)
        try:
            placed = self.placer.decide_on(origin, self.wanted, rating=draft.wanted, share_ids=share_ids, limits=limits)
            if not isinstance(placed, Allocation):
                return None
            got = [
                replace(claim.claim, allocation=result)
                for claim, result in zip(self.wanted.claims, placed.results, strict=True)
            ]
            for claim in got:
                cluster.hold(claim)
            plan = cluster.plan((replace(holder.claim, allocation=None),))
            moved = self.placer.decide_on(draft.target, plan, rating=draft.again, share_ids=share_ids, limits=limits)
            for claim in got:
                cluster.release(claim)
        finally:
            cluster.hold(holder.claim)
        return Move(holder=holder, moved=moved, placed=placed) if isinstance(moved, Allocation) else None

    def _draft_one(self, holder: Holder, node: Node, state: NodeState, *, held: _Held) -> Iterator[_Draft]:
        """Yield the best move of a holder for each way to serve the pod in its place."""
        rater, plan = self.placer.rater, self._plan(holder.claim)
        number = rater.number_plan(plan)
        left = self._find_state_without(holder, node, state, held=held)
        wanted = rater.rate(self.wanted, left, rater.number_plan(self.wanted))
        if wanted is None:
            return
        before = rater.rate_change(left, state, _list_taken(plan, holder.claim, held))
        for choice in wanted.choices:
            if choice.after is None:
                continue
            options: list[tuple[Rating, Node]] = []
            if holder.nodes is None or node.name in holder.nodes:
                again = rater.rate(plan, choice.after, number)
                options += [(other, node) for other in again.choices] if again is not None else []
            elsewhere = next(self._find_elsewhere(plan, number, holder), None)
            options += [] if elsewhere is None else [elsewhere]
            costs = [
                (rater.charge(*_add_up(choice, other, before)), place)
                for place, (other, _) in enumerate(options)
                if other.after is not None
            ]
            if costs:
                cost, place = min(costs)
                yield _Draft(cost, holder, choice, options[place][1], options[place][0])

    def _find_elsewhere(self, plan: PodPlan, number: int, holder: Holder) -> Iterator[tuple[Rating, Node]]:
        """Yield other nodes for the holder, the best first."""
        for _, rating, nodes in self._list_targets(plan, number):
            for node in nodes:
                if node.name != holder.node and (holder.nodes is None or node.name in holder.nodes):
                    yield rating, node

    def _list_targets(self, plan: PodPlan, number: int) -> list[tuple[tuple[int, ...], Rating, list[Node]]]:
        """The ways to place the holder as things are, the best first, each with the nodes on which it is possible."""
        known = self._targets.get(number)
        if known is None:
            rater, places = self.placer.rater, dict[int, tuple[Rating, list[Node]]]()
            for node, rating in zip(self.nodes, self.placer.survey((plan,), self.nodes)[0], strict=True):
                if rating is not None:
                    places.setdefault(id(rating), (rating, []))[1].append(node)
            known = [
                (rater.charge(choice.cost, choice.losses), choice, nodes)
                for rating, nodes in places.values()
                for choice in rating.choices
                if choice.after is not None
            ]
            known.sort(key=lambda entry: entry[0])
            self._targets[number] = known
        return known

    def _find_state_without(self, holder: Holder, node: Node, state: NodeState, *, held: _Held) -> NodeState:
        """The state that the node would be in without the holder."""
        key = ("without", held)
        known = state.rated.get(key)
        if not isinstance(known, NodeState):
            self.placer.cluster.release(holder.claim)
            known = state.rated[key] = self.placer.find_state(node)
            self.placer.cluster.hold(holder.claim)
        return known

    def _find_held(self, claim: ResourceClaim, node: Node) -> _Held:
        """What the claim holds; nothing when some device is not to be seen from the node or serves no request."""
        allocation, labels = claim.allocation, _list_requests(self._plan(claim))
        found: list[tuple[Place, tuple[int, ...]]] = []
        for result in allocation.results if allocation is not None else ():
            place = self.placer.find_place(node, result.device_id)
            if place is None or result.admin_access or result.request not in labels:
                return ()
            consumed = result.consumed_capacity or {}
            found.append((place, tuple(consumed[name].nanos if name in consumed else 0 for name in place.kind.names)))
        return tuple(found)

    def _plan(self, claim: ResourceClaim) -> PodPlan:
        """What a holder's claim asks for; claims that ask for the same have one plan."""
        known = self._plans.get(id(claim.spec))
        if known is None:
            known = self._plans[id(claim.spec)] = self.placer.cluster.plan((replace(claim, allocation=None),))
        return known


def _list_taken(plan: PodPlan, claim: ResourceClaim, held: _Held) -> list[tuple[DeviceKind, RequestPlan]]:
    """The kinds of the holder's devices with the requests that they serve."""
    requests = _list_requests(plan)
    results = claim.allocation.results if claim.allocation is not None else ()
    return [(place.kind, requests[result.request]) for (place, _), result in zip(held, results, strict=True)]


def _list_requests(plan: PodPlan) -> Mapping[str, RequestPlan]:
    """The requests of a claim and their alternatives, as results name them."""
    return {item.label: item for item in plan.requests}


def _add_up(wanted: Rating, again: Rating, before: Rating) -> tuple[tuple[int, ...], Losses]:
    """What the pod and the holder cost in their new places, less what the holder cost in its old one."""
    cost = tuple([a + b - c for a, b, c in zip(wanted.cost, again.cost, before.cost, strict=True)])
    lost: dict[int, int] = {}
    for losses, sign in ((wanted.losses, 1), (again.losses, 1), (before.losses, -1)):
        for size, number in losses:
            lost[size] = lost.get(size, 0) + sign * number
    return cost, tuple([(size, number) for size, number in lost.items() if number])

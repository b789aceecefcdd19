"""The decision for one pod: a node and devices, or why there are none and what may help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.explain.context import ExplainContext
from claimsmith.allocate.explain.pending import ExplainLimits
from claimsmith.allocate.explain.values import Explanation
from claimsmith.allocate.policy.objective import Policy
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.claim_origins import find_origins
from claimsmith.daemons.scheduler_bypolicy import PolicyPlacer
from claimsmith.daemons.scheduler_claims import ClaimFinder, PodClaims, Unplaced, find_stale_claims
from claimsmith.daemons.scheduler_reasons import IN_SHORT, explain_attempt, write_note
from claimsmith.daemons.scheduler_room import RoomCheck
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending, Reason, Refused, Undecided
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import ExtendedResourceMapping, NodeAllocatableClaim, Pod
from claimsmith.schedule.candidates import CandidateIndex, Candidates, PodNeeds
from claimsmith.schedule.claims import make_share_id
from claimsmith.schedule.extended import ExtendedPlan, find_extended_names, plan_class_names
from claimsmith.schedule.fruitless import FruitlessNodes, get_claims_key
from claimsmith.schedule.score import Placement, get_rank, has_alternatives
from claimsmith.schedule.usage import UsageIndex

__all__ = ["Attempt", "Decider", "Placed", "Unplaced", "wanted_on"]

_BUDGET_STEPS: Final = 100_000
_RANKED_NODES_MAX: Final = 32
_DEVICE_CHANGES: Final = frozenset({"claim-freed", "slice", "class", "taint-rule", "node"})
_ROOM_CHANGES: Final = frozenset({"pod-freed", "node", "class"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A node for a pod, and devices for its claims.

    Args:
        allocated: Claims to allocate, each with what it gets; one without a name has to be created first.
        reserved: Claims that are allocated already and only have to be reserved for the pod.
        mappings: Which request of the created claim serves which extended resource.
        node_allocatable: What the devices of the pod's claims take of the node's resources.
        group: The pod's group; None when it is in none. Claims that the pods of a group share are reserved for it.
    """

    node: str
    allocated: tuple[tuple[ResourceClaim, AllocationResult], ...] = ()
    reserved: tuple[ResourceClaim, ...] = ()
    mappings: tuple[ExtendedResourceMapping, ...] = ()
    node_allocatable: tuple[NodeAllocatableClaim, ...] = ()
    group: PodGroup | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Attempt:
    """One pod that is being decided: what it needs, where it may go, and what was found out on the way.

    Args:
        within: Names of the only nodes to look at; None: all.
        ours: Claims in flight that belong to the same decision.
        full: Nodes on which devices were found, but no room for what they take besides.
        lacks_devices: Whether some node has not the devices.
    """

    pod: Pod
    claims: PodClaims
    candidates: Candidates
    within: Collection[str] | None = None
    ours: frozenset[ClaimRef] = frozenset()
    decisions: list[Decision] = field(default_factory=list)
    full: dict[str, tuple[Reason, ...]] = field(default_factory=dict)
    lacks_devices: bool = False

    def groups(self) -> Iterator[tuple[ExtendedPlan, Iterable[Node]]]:
        """Yield the nodes to look at, best first, with what the pod's extended resources mean there."""
        for plan, nodes in self.candidates.groups:
            within = self.within
            yield plan, nodes if within is None else (node for node in nodes if node.name in within)


class Decider:
    """Decides for pods on what a cache shows.

    Args:
        cache: The cluster, with earlier decisions counted.
        cluster: The allocator's view, which follows the cache.
        placement: Which nodes are preferred.
        policy: What makes one node, and one device, better than another for a pod with claims; None: the first node in
            order of preference that has any, and on it the first devices.
        node_allocatable: Whether devices may take of a node's cpu, memory and the like (DRANodeAllocatableResources).
        find_problem: Tells why the devices of an allocated claim will never be ready; empty when they may.
    """

    def __init__(
        self,
        cache: ClusterCache,
        cluster: PreparedCluster,
        *,
        placement: Placement = "spread",
        policy: Policy | None = None,
        node_allocatable: bool = False,
        find_problem: Callable[[ResourceClaim], str] = lambda _: "",
    ) -> None:
        self._cache, self._cluster = cache, cluster
        self.usage = UsageIndex()
        """What pods take of nodes besides devices."""
        self._room = RoomCheck(cache, self.usage, enabled=node_allocatable)
        self._claims = ClaimFinder(cache, self._room, find_failure=find_problem)
        self._nodes = CandidateIndex(cache.nodes, self.usage, matches=matches_node, placement=placement)
        cache.subscribe_pods(self.usage.see_pod)
        cache.subscribe_pods(self._touch_node_of)
        cache.subscribe_nodes(self._touch_node)
        self._fruitless = FruitlessNodes()
        cache.subscribe_claims(self._fruitless.see_claim)
        cache.subscribe_slices(self._fruitless.see_slice)
        cache.subscribe_rules(self._fruitless.forget_all)
        self._placer = None if policy is None else PolicyPlacer(cluster, policy)
        self.searches = 0
        """How often devices were searched for on a node."""
        self.limits: ExplainLimits = IN_SHORT
        """How much an explanation may cost, and whether it tells what would help."""

    def decide(self, pod: Pod, *, explain: bool = True) -> Placed | Unplaced:
        """Return the decision for a pod; nothing is counted or written yet.

        Args:
            pod: The pod.
            explain: Say why there is no node, which costs more than finding that out; else the message is empty.
        """
        attempt = self.look(pod)
        return attempt if isinstance(attempt, Unplaced) else self.choose(attempt, explain=explain)

    def look(
        self, pod: Pod, *, ours: frozenset[ClaimRef] = frozenset(), within: Collection[str] | None = None
    ) -> Attempt | Unplaced:
        """Return what a pod needs and which nodes can take it, devices left aside, or why it can't be tried.

        Args:
            pod: The pod.
            ours: Claims in flight that count as allocated, since they belong to the same decision.
            within: Names of the only nodes to look at; None: all.
        """
        claims = self._claims.find(pod, ours=ours)
        if isinstance(claims, Unplaced):
            return claims
        candidates = self._find_candidates(pod, claims)
        return Attempt(pod=pod, claims=claims, candidates=candidates, within=within, ours=ours)

    def choose(self, attempt: Attempt, *, explain: bool = True) -> Placed | Unplaced:
        """Return the decision for a pod that was looked at, while nothing has changed since."""
        if not attempt.candidates.groups:
            return self._refuse(attempt, explain=explain)
        self._cluster.update(self._cache.snapshot())
        for plan, nodes in attempt.groups():
            placed = self._try_nodes(attempt, plan, nodes)
            if placed is not None:
                return placed
            last = attempt.decisions[-1] if attempt.decisions else None
            if isinstance(last, Refused) and not last.node_only:
                break
        return self._refuse(attempt, explain=explain)

    def _find_candidates(self, pod: Pod, claims: PodClaims) -> Candidates:
        names = find_extended_names(pod)
        classes = plan_class_names(self._cache.classes.values()) if names else {}
        return self._nodes.find(
            PodNeeds(
                pod=pod,
                allocated=claims.allocated,
                special=claims.extended,
                class_names={name: classes.get(name) for name in names},
            )
        )

    def _touch_node(self, old: Node | None, new: Node | None) -> None:
        for name in {node.name for node in (old, new) if node is not None}:
            self._nodes.touch(name)
            self._fruitless.forget_node(name)

    def _touch_node_of(self, old: Pod | None, new: Pod | None) -> None:
        for name in {pod.node_name for pod in (old, new) if pod is not None and pod.node_name}:
            self._nodes.touch(name)

    def _try_nodes(self, attempt: Attempt, plan: ExtendedPlan, nodes: Iterable[Node]) -> Placed | None:
        """Return the best of the nodes on which all claims fit; what the others lack is noted in the attempt."""
        wanted = wanted_on(attempt.claims, plan)
        if not wanted:
            placed = (self.place(attempt, plan, node, ()) for node in nodes)
            return next((item for item in placed if item is not None), None)
        if self._placer is not None:
            return self._place_by_policy(attempt, plan, nodes, wanted)
        best: tuple[int, Placed] | None = None
        ranked, seen = has_alternatives(wanted), 0
        for decision in self._search(attempt, wanted, nodes):
            if not isinstance(decision, Allocation):
                attempt.decisions.append(decision)
                if isinstance(decision, Refused) and not decision.node_only:
                    break
                continue
            got = tuple(zip(wanted, decision.results, strict=True))
            placed_here = self.place(attempt, plan, self._cache.nodes[decision.node], got)
            if placed_here is None:
                continue
            rank, seen = get_rank(wanted, decision.results), seen + 1
            if best is None or rank > best[0]:
                best = (rank, placed_here)
            if not ranked or seen >= _RANKED_NODES_MAX:
                break
        return None if best is None else best[1]

    def _place_by_policy(
        self, attempt: Attempt, plan: ExtendedPlan, nodes: Iterable[Node], wanted: tuple[ResourceClaim, ...]
    ) -> Placed | None:
        """Return the best of the nodes by the policy; claims that fit on none of them are remembered."""
        assert self._placer is not None
        key = get_claims_key(wanted)
        fruitless = self._fruitless.find(key)
        attempt.lacks_devices = attempt.lacks_devices or bool(fruitless)
        hopeful = {node.name: node for node in nodes if node.name not in fruitless}
        placed: list[Placed] = []

        def fits(found: Allocation) -> bool:
            got = tuple(zip(wanted, found.results, strict=True))
            here = self.place(attempt, plan, hopeful[found.node], got)
            placed.extend([here] if here is not None else [])
            return here is not None

        self.searches += 1
        decision = self._placer.place(attempt.pod, wanted, nodes=hopeful, all_nodes=self._cache.nodes, fits=fits)
        if isinstance(decision, Allocation):
            return placed[-1]
        attempt.decisions.append(decision)
        if isinstance(decision, Pending):
            for name in hopeful.keys() - attempt.full.keys():
                self._fruitless.add(key, name)
        return None

    def place(
        self,
        attempt: Attempt,
        plan: ExtendedPlan,
        node: Node,
        got: tuple[tuple[ResourceClaim, AllocationResult], ...],
    ) -> Placed | None:
        """Return the decision for a node; None when it has no room for what the devices take of it besides.

        Args:
            attempt: The pod that was looked at.
            plan: What its extended resources mean on the node.
            node: The node.
            got: What the claims to allocate get there.
        """
        reserved = attempt.claims.allocated
        present = tuple((claim, claim.allocation) for claim in reserved if claim.allocation is not None)
        room = self._room.check(attempt.pod, node, claims=(*present, *got), mappings=plan.mappings)
        if room.reasons:
            attempt.full[node.name] = room.reasons
            return None
        return Placed(
            node=node.name,
            allocated=got,
            reserved=reserved,
            mappings=plan.mappings,
            node_allocatable=room.taken,
            group=attempt.claims.group,
        )

    def _search(self, attempt: Attempt, claims: tuple[ResourceClaim, ...], nodes: Iterable[Node]) -> Iterator[Decision]:
        """Search for devices on nodes, but for those where claims like these have found none, and nothing changed."""
        key = get_claims_key(claims)
        fruitless = self._fruitless.find(key)
        hopeful = (node for node in nodes if node.name not in fruitless)
        attempt.lacks_devices = attempt.lacks_devices or bool(fruitless)
        limits = SearchLimits(budget_steps=_BUDGET_STEPS)
        for decision in allocate_on_nodes(self._cluster, claims, nodes=hopeful, share_ids=make_share_id, limits=limits):
            self.searches += 1
            if isinstance(decision, Pending):
                self._fruitless.add(key, decision.node)
            yield decision

    def _refuse(self, attempt: Attempt, *, explain: bool) -> Unplaced:
        claims, decisions = attempt.claims, attempt.decisions
        failed = any(
            isinstance(item, Undecided) or (isinstance(item, Refused) and not item.node_only) for item in decisions
        )
        kinds = {"node"}
        if attempt.lacks_devices or any(isinstance(item, Pending | Refused | Undecided) for item in decisions):
            kinds |= _DEVICE_CHANGES
        if attempt.candidates.is_short or attempt.full:
            kinds |= _ROOM_CHANGES
        special = () if claims.extended is None else (claims.extended,)
        refs = frozenset(str(claim.ref) for claim in (*claims.allocated, *claims.wanted, *special))
        message, explanation = self._explain(attempt) if explain else ("", None)
        return Unplaced(
            reason="SchedulerError" if failed else "Unschedulable",
            message=message,
            reasons=() if explanation is None else explanation.reasons,
            explanation=explanation,
            helps=lambda change: change.kind in kinds or change.key in refs,
            stale=special or find_stale_claims(claims.allocated, self._users_of(attempt))[:1],
        )

    def _users_of(self, attempt: Attempt) -> frozenset[str]:
        """The uids under which claims are reserved that nobody but the pod needs.

        Its own, and that of its group if no pod of the group has a node.
        """
        pod, group = attempt.pod, attempt.claims.group
        if group is None or not group.spec.claims:
            return frozenset({pod.uid})
        others = (item for item in self._cache.pods.values() if item.pod_group == pod.pod_group and item.node_name)
        is_used = any(item.ref.namespace == pod.ref.namespace and not item.finished for item in others)
        return frozenset({pod.uid} if is_used else {pod.uid, group.uid})

    def _explain(self, attempt: Attempt) -> tuple[str, Explanation]:
        """Why there is no node: what the nodes lack, and what keeps their devices from the claims."""
        nodes = self._cache.nodes
        if attempt.within is not None:
            nodes = {name: node for name, node in nodes.items() if name in attempt.within}
        refused = {**attempt.candidates.find_refused(), **attempt.full}
        refused = {name: found for name, found in refused.items() if name in nodes}
        self._cluster.update(self._cache.snapshot())
        tried = [(wanted_on(attempt.claims, plan), found) for plan, found in attempt.groups()]
        tried = tried or [(attempt.claims.wanted, ())]
        stored = {claim.ref for claim in attempt.claims.wanted if claim.uid}
        context = ExplainContext(beside=attempt.ours, origins=find_origins(attempt.pod, stored))
        explanation = explain_attempt(
            self._cluster, tried, nodes=nodes, refused=refused, limits=self.limits, context=context
        )
        undecided = sum(isinstance(item, Undecided) for item in attempt.decisions)
        return write_note(explanation, refused, undecided=undecided), explanation


def wanted_on(claims: PodClaims, plan: ExtendedPlan) -> tuple[ResourceClaim, ...]:
    """Return the claims to allocate on a node: the pod's own, then the special one for extended resources."""
    if plan.claim is None or (claims.extended is not None and claims.extended.allocation is not None):
        return claims.wanted
    return (*claims.wanted, claims.extended or plan.claim)

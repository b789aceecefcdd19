"""The decision for one pod: a node and devices, or why there are none and what may help.

Deviates: full-claim, claim-in-allocation, freed-claim.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from claimsmith.allocate.engine import SearchLimits
from claimsmith.allocate.explain import explain_nodes
from claimsmith.allocate.explain.text import format_event
from claimsmith.allocate.index import PreparedCluster
from claimsmith.allocate.node_selector import matches_node
from claimsmith.allocate.search import allocate_on_nodes
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_room import RoomCheck
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending, Reason, Refused, Undecided
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.workload import ExtendedResourceMapping, NodeAllocatableClaim, Pod
from claimsmith.schedule.candidates import CandidateIndex, Candidates, PodNeeds
from claimsmith.schedule.claims import RESERVED_MAX, is_reserved_for
from claimsmith.schedule.extended import (
    ExtendedPlan,
    SpecialClaims,
    find_extended_names,
    plan_class_names,
)
from claimsmith.schedule.fruitless import FruitlessNodes, get_claims_key
from claimsmith.schedule.message import render_refusal
from claimsmith.schedule.queue import Change
from claimsmith.schedule.score import Placement, get_rank, has_alternatives
from claimsmith.schedule.usage import UsageIndex

__all__ = ["Decider", "Placed", "Unplaced"]

_BUDGET_STEPS: Final = 100_000
_RANKED_NODES_MAX: Final = 32
_EXPLAINED_NODES_MAX: Final = 200
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
    """

    node: str
    allocated: tuple[tuple[ResourceClaim, AllocationResult], ...] = ()
    reserved: tuple[ResourceClaim, ...] = ()
    mappings: tuple[ExtendedResourceMapping, ...] = ()
    node_allocatable: tuple[NodeAllocatableClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """No node now.

    Args:
        reason: `Unschedulable`, or `SchedulerError` when no search was possible.
        message: Why, for people; empty when no explanation was asked for.
        helps: Tells whether a change in the cluster may help.
        reasons: Why, for machines.
        tried: False when the pod was not tried, since something of it is not there yet.
        quiet: True when that is no news for people, since it lasts but a moment.
        stale: A claim that is allocated where the pod does not fit, and that nobody else uses: it should be freed.
            The special claim of an earlier attempt should be deleted.
    """

    message: str
    helps: Callable[[Change], bool]
    reasons: tuple[Reason, ...] = ()
    reason: str = "Unschedulable"
    tried: bool = True
    quiet: bool = False
    stale: ResourceClaim | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claims:
    """The claims of a pod as they stand."""

    allocated: tuple[ResourceClaim, ...] = ()
    wanted: tuple[ResourceClaim, ...] = ()
    extended: ResourceClaim | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class _Attempt:
    """One pod that is being decided: what it needs, where it may go, and what was found out on the way.

    Args:
        full: Nodes on which devices were found, but no room for what they take besides.
        lacks_devices: Whether some node has not the devices.
    """

    pod: Pod
    claims: _Claims
    candidates: Candidates
    decisions: list[Decision] = field(default_factory=list)
    full: dict[str, tuple[Reason, ...]] = field(default_factory=dict)
    lacks_devices: bool = False


class Decider:
    """Decides for pods on what a cache shows.

    Args:
        cache: The cluster, with earlier decisions counted.
        cluster: The allocator's view, which follows the cache.
        placement: Which nodes are preferred.
        node_allocatable: Whether devices may take of a node's cpu, memory and the like (DRANodeAllocatableResources).
        find_problem: Tells why the devices of an allocated claim will never be ready; empty when they may.
    """

    def __init__(
        self,
        cache: ClusterCache,
        cluster: PreparedCluster,
        *,
        placement: Placement = "spread",
        node_allocatable: bool = False,
        find_problem: Callable[[ResourceClaim], str] = lambda _: "",
    ) -> None:
        self._cache, self._cluster, self._find_failure = cache, cluster, find_problem
        self._usage = UsageIndex()
        self._room = RoomCheck(cache, self._usage, enabled=node_allocatable)
        self._special = SpecialClaims()
        self._nodes = CandidateIndex(cache.nodes, self._usage, matches=matches_node, placement=placement)
        cache.subscribe_pods(self._usage.see_pod)
        cache.subscribe_pods(self._touch_node_of)
        cache.subscribe_nodes(self._touch_node)
        self._fruitless = FruitlessNodes()
        cache.subscribe_claims(self._fruitless.see_claim)
        cache.subscribe_slices(self._fruitless.see_slice)
        cache.subscribe_rules(self._fruitless.forget_all)
        self.searches = 0
        """How often devices were searched for on a node."""
        cache.subscribe_claims(self._special.see_claim)

    def decide(self, pod: Pod, *, explain: bool = True) -> Placed | Unplaced:
        """Return the decision for a pod; nothing is counted or written yet.

        Args:
            pod: The pod.
            explain: Say why there is no node, which costs more than finding that out; else the message is empty.
        """
        claims = self._find_claims(pod)
        if isinstance(claims, Unplaced):
            return claims
        attempt = _Attempt(pod=pod, claims=claims, candidates=self._find_candidates(pod, claims))
        if not attempt.candidates.groups:
            return self._refuse(attempt, explain=explain)
        self._cluster.update(self._cache.snapshot())
        for plan, nodes in attempt.candidates.groups:
            placed = self._try_nodes(attempt, plan, nodes)
            if placed is not None:
                return placed
            last = attempt.decisions[-1] if attempt.decisions else None
            if isinstance(last, Refused) and not last.node_only:
                break
        return self._refuse(attempt, explain=explain)

    def _find_claims(self, pod: Pod) -> _Claims | Unplaced:
        allocated: list[ResourceClaim] = []
        wanted: list[ResourceClaim] = []
        for entry in pod.claims:
            name = entry.claim_name or pod.claim_names.get(entry.name, "")
            if name is None:
                continue
            ref = ClaimRef(pod.metadata.namespace, name)
            claim = self._cache.claims.find(ref) if name else None
            if claim is None and not name:
                return _wait(ref, f"claim {entry.name!r} of the pod is not made yet", quiet=True)
            if claim is None:
                return _wait(ref, f"claim {ref} does not exist; create it")
            problem = self._find_problem(pod, claim, is_owned=entry.claim_name is None) or self._find_failed(pod, claim)
            if problem is not None:
                return problem
            into = wanted if claim.allocation is None else allocated
            if claim not in into:
                into.append(claim)
        shared = self._room.find_sharing_problem(pod, allocated)
        if shared is not None:
            return replace(_wait(shared[0].ref, shared[1]), tried=True)
        extended = self._special.find(pod) if find_extended_names(pod) else None
        if extended is not None:
            problem = self._find_problem(pod, extended, is_owned=True)
            if problem is not None:
                return problem
            if extended.allocation is not None:
                allocated.append(extended)
        return _Claims(allocated=tuple(allocated), wanted=tuple(wanted), extended=extended)

    def _find_problem(self, pod: Pod, claim: ResourceClaim, *, is_owned: bool) -> Unplaced | None:
        """Why the pod can't use the claim now."""
        ref = claim.ref
        if is_owned and not any(owner.uid == pod.uid for owner in claim.metadata.owner_references):
            return _wait(ref, f"claim {ref} was not made for this pod")
        if claim.metadata.deletion_timestamp is not None:
            return _wait(ref, f"claim {ref} is being deleted")
        if self._cache.claims.is_in_flight(ref):
            return _wait(ref, f"claim {ref} is being allocated for another pod", quiet=True)
        if (
            claim.allocation is not None
            and not is_reserved_for(claim, pod.uid)
            and len(claim.reserved_for) >= RESERVED_MAX
        ):
            text = f"claim {ref} is used by {len(claim.reserved_for)} pods, the maximum; wait until one of them ends"
            return replace(_wait(ref, text), tried=True)
        return None

    def _find_failed(self, pod: Pod, claim: ResourceClaim) -> Unplaced | None:
        """Why the claim's devices will never be ready; a claim that nobody else uses is given other ones."""
        text = self._find_failure(claim) if claim.allocation is not None else ""
        if not text:
            return None
        is_ours = all(item.uid == pod.uid for item in claim.reserved_for)
        unplaced = _wait(claim.ref, f"claim {claim.ref} can't be used: {text}")
        return replace(unplaced, tried=True, stale=claim if is_ours else None)

    def _find_candidates(self, pod: Pod, claims: _Claims) -> Candidates:
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

    def _try_nodes(self, attempt: _Attempt, plan: ExtendedPlan, nodes: Iterable[Node]) -> Placed | None:
        """Return the best of the nodes on which all claims fit; what the others lack is noted in the attempt."""
        wanted = _wanted_on(attempt.claims, plan)
        if not wanted:
            placed = (self._place(attempt, plan, node, ()) for node in nodes)
            return next((item for item in placed if item is not None), None)
        best: tuple[int, Placed] | None = None
        ranked, seen = has_alternatives(wanted), 0
        for decision in self._search(attempt, wanted, nodes):
            if not isinstance(decision, Allocation):
                attempt.decisions.append(decision)
                if isinstance(decision, Refused) and not decision.node_only:
                    break
                continue
            got = tuple(zip(wanted, decision.results, strict=True))
            placed_here = self._place(attempt, plan, self._cache.nodes[decision.node], got)
            if placed_here is None:
                continue
            rank, seen = get_rank(wanted, decision.results), seen + 1
            if best is None or rank > best[0]:
                best = (rank, placed_here)
            if not ranked or seen >= _RANKED_NODES_MAX:
                break
        return None if best is None else best[1]

    def _place(
        self,
        attempt: _Attempt,
        plan: ExtendedPlan,
        node: Node,
        got: tuple[tuple[ResourceClaim, AllocationResult], ...],
    ) -> Placed | None:
        """Return the decision for a node, if it has room for what the devices take of it besides."""
        reserved = attempt.claims.allocated
        present = tuple((claim, claim.allocation) for claim in reserved if claim.allocation is not None)
        room = self._room.check(attempt.pod, node, claims=(*present, *got), mappings=plan.mappings)
        if room.reasons:
            attempt.full[node.name] = room.reasons
            return None
        return Placed(
            node=node.name, allocated=got, reserved=reserved, mappings=plan.mappings, node_allocatable=room.taken
        )

    def _search(
        self, attempt: _Attempt, claims: tuple[ResourceClaim, ...], nodes: Iterable[Node]
    ) -> Iterator[Decision]:
        """Search for devices on nodes, but for those where claims like these have found none, and nothing changed."""
        key = get_claims_key(claims)
        fruitless = self._fruitless.find(key)
        hopeful = (node for node in nodes if node.name not in fruitless)
        attempt.lacks_devices = attempt.lacks_devices or bool(fruitless)
        limits = SearchLimits(budget_steps=_BUDGET_STEPS)
        for decision in allocate_on_nodes(self._cluster, claims, nodes=hopeful, share_ids=_new_id, limits=limits):
            self.searches += 1
            if isinstance(decision, Pending):
                self._fruitless.add(key, decision.node)
            yield decision

    def _refuse(self, attempt: _Attempt, *, explain: bool) -> Unplaced:
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
        message, reasons = self._explain(attempt) if explain else ("", ())
        return Unplaced(
            reason="SchedulerError" if failed else "Unschedulable",
            message=message,
            reasons=reasons,
            helps=lambda change: change.kind in kinds or change.key in refs,
            stale=claims.extended or _find_stale(attempt.pod, claims.allocated),
        )

    def _explain(self, attempt: _Attempt) -> tuple[str, tuple[Reason, ...]]:
        """Why there is no node: what the nodes lack, and what keeps their devices from the claims."""
        refused = {**attempt.candidates.find_refused(), **attempt.full}
        reasons = [reason for found in refused.values() for reason in found]
        if len(refused) == len(self._cache.nodes):
            return render_refusal(refused), tuple(reasons)
        undecided = sum(isinstance(item, Undecided) for item in attempt.decisions)
        for plan, nodes in attempt.candidates.groups:
            wanted = _wanted_on(attempt.claims, plan)
            left = (node for node in nodes if node.name not in refused)
            reasons.extend(explain_nodes(self._cluster, wanted, nodes=tuple(islice(left, _EXPLAINED_NODES_MAX))))
        text = format_event(reasons, nodes=len(self._cache.nodes))
        return f"the search gave up on {undecided} nodes; {text}" if undecided else text, tuple(reasons)


def _new_id() -> str:
    return str(uuid.uuid4())


def _wait(ref: ClaimRef, message: str, *, quiet: bool = False) -> Unplaced:
    """A pod that can't be tried before something happens to one claim, or to the pod itself."""
    key = str(ref)
    return Unplaced(message=message, helps=lambda change: change.key == key, tried=False, quiet=quiet)


def _find_stale(pod: Pod, allocated: Iterable[ResourceClaim]) -> ResourceClaim | None:
    """The first claim that ties the pod to nodes without need: nobody but the pod itself uses it.

    Source: PostFilter in kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources, which takes a random one.
    """
    for claim in allocated:
        got = claim.allocation
        tied = got is not None and (
            got.node_selector is not None or any(result.skip_node_operations for result in got.results)
        )
        if tied and all(item.uid == pod.uid for item in claim.reserved_for):
            return claim
    return None


def _wanted_on(claims: _Claims, plan: ExtendedPlan) -> tuple[ResourceClaim, ...]:
    """The claims to allocate on a node: the pod's own, then the special one for extended resources."""
    if plan.claim is None or (claims.extended is not None and claims.extended.allocation is not None):
        return claims.wanted
    return (*claims.wanted, claims.extended or plan.claim)

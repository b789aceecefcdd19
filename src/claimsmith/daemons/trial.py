"""The scheduler's own decisions on any snapshot, one after another: what `allocate.whatif.trial` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.whatif.trial import NoPlace, Placement, PodDecision, find_pod_claims
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.made_claims import find_missing_template, name_special_claim, plan_made_claims
from claimsmith.daemons.scheduler_claims import Unplaced
from claimsmith.daemons.scheduler_decide import Decider, Placed
from claimsmith.daemons.scheduler_gang import GangDecider
from claimsmith.daemons.scheduler_joint import JointDecider
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.record import Namespace
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import GangDirectory
from claimsmith.schedule.groupclaims import reserve_claim

__all__ = ["SchedulerTrial"]

_EMPTY = ClusterSnapshot()


class SchedulerTrial:
    """Places pods on snapshots as our scheduler would.

    A snapshot that differs little from the one before is taken over at little cost.

    Args:
        deviations: What to answer otherwise than upstream.
    """

    def __init__(self, *, deviations: frozenset[Deviation] = OURS) -> None:
        self._cache = ClusterCache()
        cluster = PreparedCluster(deviations=deviations)
        self._decider = Decider(self._cache, cluster)
        joint = JointDecider(self._cache, cluster, self._decider) if deviations == OURS else None
        self._gangs = GangDecider(self._cache, self._decider, joint=joint)
        self._directory = GangDirectory(self._cache.groups, waits=lambda _: False)  # those that wait are handed in
        self._cache.subscribe_pods(self._directory.see_pod)
        self._seen = _EMPTY
        self.decisions = 0
        """How often a pod, or a gang, was tried."""

    def __call__(self, snapshot: ClusterSnapshot, pod: Pod, *, explain: bool = True) -> PodDecision:
        """Return where the pod goes, or why nowhere (see `PlacePod`)."""
        self.decisions += 1
        ref = PodGroupRef(pod.ref.namespace, pod.pod_group)
        with self._show(snapshot, (pod,), snapshot.pod_groups.get(ref)) as complete:
            missing = find_missing_template(pod, snapshot.templates)
            if missing:
                return NoPlace(pod=_identify(pod), message=missing)
            outcome = self._decider.decide(complete[0], explain=explain)
            return _settle(complete[0], outcome) if isinstance(outcome, Placed) else _refuse(_identify(pod), outcome)

    def place_gang(
        self, snapshot: ClusterSnapshot, gang: PodGroup, pods: Sequence[Pod], *, explain: bool = True
    ) -> tuple[PodDecision, ...]:
        """Return where pods of a gang go, decided jointly (see `PlacePod`)."""
        self.decisions += 1
        with self._show(snapshot, pods, gang) as complete:
            missing = next((text for pod in pods if (text := find_missing_template(pod, snapshot.templates))), "")
            if missing:
                return tuple(NoPlace(pod=_identify(pod), message=missing) for pod in pods)
            asked = replace(self._directory.find(gang.ref), group=gang, waiting=complete)
            found = self._gangs.decide(asked, explain=explain)
            if isinstance(found, Unplaced):
                return tuple(_refuse(_identify(pod), found) for pod in pods)
            got = {pod.uid: _settle(pod, outcome) for pod, outcome in found.placed}
            left = {pod.uid: problem for pod, problem in found.left}
            own = [_identify(pod) for pod in pods]
            return tuple(got.get(pod.uid) or _refuse(pod, left.get(pod.uid)) for pod in own)

    @contextmanager
    def _show(
        self, snapshot: ClusterSnapshot, pods: Sequence[Pod], group: PodGroup | None
    ) -> Iterator[tuple[Pod, ...]]:
        """Make the cache show a snapshot, and in it some pods with the claims that are made for them."""
        self._follow(snapshot)
        claims: dict[ClaimRef, ResourceClaim] = {}
        complete = []
        for pod in map(_identify, pods):
            pod, made = plan_made_claims(
                pod,
                group,
                templates=snapshot.templates,
                find_claim=lambda ref: claims.get(ref) or snapshot.claims.get(ref),
            )
            claims.update((claim.ref, claim) for claim in made)
            complete.append(pod)
        for claim in claims.values():
            self._cache.see_claim(None, claim)
        shown = complete if len(complete) > 1 else []  # a single pod is decided without its being counted
        for pod in shown:
            self._cache.see_pod(snapshot.pods.get(pod.ref), pod)
        try:
            yield tuple(complete)
        finally:
            for pod in shown:
                self._cache.see_pod(pod, snapshot.pods.get(pod.ref))
            for claim in claims.values():
                self._cache.see_claim(claim, None)

    def _follow(self, snapshot: ClusterSnapshot) -> None:
        """Make the cache show what of a snapshot counts for the scheduler's decisions."""
        cache, seen = self._cache, self._seen
        if snapshot is seen:
            return
        _follow_map(seen.nodes, snapshot.nodes, cache.see_node)
        _follow_map(seen.classes, snapshot.classes, cache.see_class)
        _follow_map(seen.templates, snapshot.templates, cache.see_template)
        _follow_map(seen.pod_groups, snapshot.pod_groups, cache.see_group)
        _follow_map(seen.claims, snapshot.claims, cache.see_claim)
        _follow_map(seen.pods, snapshot.pods, cache.see_pod)
        if seen.namespace_labels is not snapshot.namespace_labels:
            _follow_map(_spaces(seen), _spaces(snapshot), cache.see_namespace)
        if seen.slices is not snapshot.slices:
            _follow_map(_by_name(seen.slices), _by_name(snapshot.slices), cache.see_slice)
        if seen.taint_rules != snapshot.taint_rules:
            _follow_map(_by_name(seen.taint_rules), _by_name(snapshot.taint_rules), cache.see_taint_rule)
        self._seen = snapshot


def _by_name(items: tuple[Any, ...]) -> dict[tuple[str, str], Any]:
    return {(item.metadata.namespace, item.metadata.name): item for item in items}


def _spaces(snapshot: ClusterSnapshot) -> dict[str, Namespace]:
    return {
        name: Namespace(metadata=Metadata(name=name, labels=labels))
        for name, labels in snapshot.namespace_labels.items()
    }


def _follow_map(old: Mapping[Any, Any], new: Mapping[Any, Any], see: Callable[[Any, Any], None]) -> None:
    """Tell what has gone and come; a change is told as both, since objects of another cluster may have the same uid."""
    if old is new:
        return
    for key, value in old.items():
        if new.get(key) is not value:
            see(value, None)
    for key, value in new.items():
        if old.get(key) is not value:
            see(None, value)


def _identify(pod: Pod) -> Pod:
    return pod if pod.uid else replace(pod, metadata=replace(pod.metadata, uid=f"pod/{pod.ref}"))


def _refuse(pod: Pod, unplaced: Unplaced | None) -> NoPlace:
    if unplaced is None:
        return NoPlace(pod=pod)
    is_error = unplaced.reason == "SchedulerError"
    return NoPlace(pod=pod, message=unplaced.message, reasons=unplaced.reasons, is_error=is_error)


def _settle(pod: Pod, outcome: Placed) -> Placement:
    """Return the pod and its claims as they are once a decision is carried out."""
    allocated = [
        replace(name_special_claim(reserve_claim(claim, pod, outcome.group), pod), allocation=result)
        for claim, result in outcome.allocated
    ]
    shared = [reserve_claim(claim, pod, outcome.group) for claim in outcome.reserved]
    placed = replace(pod, node_name=outcome.node, node_allocatable=outcome.node_allocatable)
    special = next((claim.ref.name for claim in allocated if claim.ref not in find_pod_claims(pod)), "")
    if special:
        placed = replace(placed, extended_claim_name=special, extended_mappings=outcome.mappings)
    return Placement(pod=placed, claims=(*allocated, *shared))

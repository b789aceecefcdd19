"""The scheduler's own decisions on any snapshot, one after another: what `allocate.trial` asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from claimsmith.allocate.index import PreparedCluster
from claimsmith.allocate.trial import NoPlace, Placement, PodDecision, find_pod_claims
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.made_claims import find_missing_template, name_special_claim, plan_made_claims
from claimsmith.daemons.scheduler_decide import Decider, Placed
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.metadata import Metadata
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.record import Namespace
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.schedule.groupclaims import find_claim_consumer

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
        self._decider = Decider(self._cache, PreparedCluster(deviations=deviations))
        self._seen = _EMPTY
        self.decisions = 0
        """How often a pod was tried."""

    def __call__(self, snapshot: ClusterSnapshot, pod: Pod, *, explain: bool = True) -> PodDecision:
        """Return where the pod goes, or why nowhere (see `PlacePod`)."""
        self.decisions += 1
        pod = pod if pod.uid else replace(pod, metadata=replace(pod.metadata, uid=f"pod/{pod.ref}"))
        missing = find_missing_template(pod, snapshot.templates)
        if missing:
            return NoPlace(pod=pod, message=missing)
        self._follow(snapshot)
        group = snapshot.pod_groups.get(PodGroupRef(pod.ref.namespace, pod.pod_group)) if pod.pod_group else None
        complete, made = plan_made_claims(pod, group, templates=snapshot.templates, find_claim=snapshot.claims.get)
        for claim in made:
            self._cache.see_claim(None, claim)
        try:
            decision = self._decide(complete, explain=explain)
            return replace(decision, pod=pod) if isinstance(decision, NoPlace) else decision
        finally:
            for claim in made:
                self._cache.see_claim(claim, None)

    def _decide(self, pod: Pod, *, explain: bool) -> PodDecision:
        outcome = self._decider.decide(pod, explain=explain)
        if not isinstance(outcome, Placed):
            is_error = outcome.reason == "SchedulerError"
            return NoPlace(pod=pod, message=outcome.message, reasons=outcome.reasons, is_error=is_error)
        allocated = [
            replace(_reserve(name_special_claim(claim, pod), pod, outcome.group), allocation=result)
            for claim, result in outcome.allocated
        ]
        shared = [_reserve(claim, pod, outcome.group) for claim in outcome.reserved]
        placed = replace(pod, node_name=outcome.node, node_allocatable=outcome.node_allocatable)
        special = next((claim.ref.name for claim in allocated if claim.ref not in find_pod_claims(pod)), "")
        if special:
            placed = replace(placed, extended_claim_name=special, extended_mappings=outcome.mappings)
        return Placement(pod=placed, claims=(*allocated, *shared))

    def _follow(self, snapshot: ClusterSnapshot) -> None:
        """Make the cache show a snapshot."""
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
        if seen.quotas != snapshot.quotas:
            _follow_map(_by_name(seen.quotas), _by_name(snapshot.quotas), cache.see_quota)
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


def _reserve(claim: ResourceClaim, pod: Pod, group: PodGroup | None) -> ResourceClaim:
    """Return the claim reserved for a pod, or for its group when the pods of that share it."""
    consumer = find_claim_consumer(pod, claim.ref, group)
    if any(user.uid == consumer.uid for user in claim.reserved_for):
        return claim
    return replace(claim, reserved_for=(*claim.reserved_for, consumer))

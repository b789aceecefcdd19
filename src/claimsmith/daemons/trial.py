"""The scheduler's own decisions on any snapshot, one after another: what `allocate.trial` asks for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from claimsmith.allocate.index import PreparedCluster
from claimsmith.allocate.trial import NoPlace, Placement, PodDecision
from claimsmith.api.resource import parse_resource_claim
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_decide import Decider, Placed
from claimsmith.embedded.controllers.claim_plans import build_template_claim
from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.names import ClaimRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

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
        missing = _find_missing_template(snapshot, pod)
        if missing:
            return NoPlace(pod=pod, message=missing)
        self._follow(snapshot)
        complete, made = _make_claims(snapshot, pod)
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
            replace(_name_special(claim, pod), allocation=result, reserved_for=_reserve(claim, pod))
            for claim, result in outcome.allocated
        ]
        shared = [replace(claim, reserved_for=_reserve(claim, pod)) for claim in outcome.reserved]
        placed = replace(pod, node_name=outcome.node, node_allocatable=outcome.node_allocatable)
        special = next((claim.ref.name for claim in allocated if claim.ref not in _named_claims(pod)), "")
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
        if seen.slices is not snapshot.slices:
            _follow_map(_by_name(seen.slices), _by_name(snapshot.slices), cache.see_slice)
        if seen.taint_rules != snapshot.taint_rules:
            _follow_map(_by_name(seen.taint_rules), _by_name(snapshot.taint_rules), cache.see_taint_rule)
        self._seen = snapshot


def _by_name(items: tuple[Any, ...]) -> dict[str, Any]:
    return {item.metadata.name: item for item in items}


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


def _find_missing_template(snapshot: ClusterSnapshot, pod: Pod) -> str:
    for entry in pod.claims:
        ref = ClaimRef(pod.ref.namespace, entry.template_name or "")
        if entry.template_name and entry.name not in pod.claim_names and ref not in snapshot.templates:
            return f"claim {entry.name!r} of the pod: claim template {ref} does not exist; create it"
    return ""


def _make_claims(snapshot: ClusterSnapshot, pod: Pod) -> tuple[Pod, list[ResourceClaim]]:
    """Make the claims that the pod wants from templates, as the claim controller does."""
    names, made = dict(pod.claim_names), []
    for entry in pod.claims:
        template = snapshot.templates.get(ClaimRef(pod.ref.namespace, entry.template_name or ""))
        if template is None or entry.name in names:
            continue
        obj = build_template_claim(pod, entry, template)
        start = obj["metadata"].pop("generateName")
        number = next(n for n in range(len(snapshot.claims) + 1) if _ref(pod, f"{start}{n}") not in snapshot.claims)
        obj["metadata"]["name"] = names[entry.name] = f"{start}{number}"
        made.append(parse_resource_claim(obj))
    return (replace(pod, claim_names=names), made) if made else (pod, made)


def _ref(pod: Pod, name: str) -> ClaimRef:
    return ClaimRef(pod.ref.namespace, name)


def _named_claims(pod: Pod) -> set[ClaimRef]:
    names = (entry.claim_name or pod.claim_names.get(entry.name) for entry in pod.claims)
    return {_ref(pod, name) for name in names if name}


def _reserve(claim: ResourceClaim, pod: Pod) -> tuple[ConsumerReference, ...]:
    if any(user.uid == pod.uid for user in claim.reserved_for):
        return claim.reserved_for
    return (*claim.reserved_for, ConsumerReference(resource="pods", name=pod.ref.name, uid=pod.uid))


def _name_special(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """Return the claim with a name that could be stored; the one for extended resources has none before it is."""
    if not claim.metadata.name.startswith("<"):
        return claim
    name = f"{pod.ref.name}-extended-resources-{uuid.uuid5(uuid.NAMESPACE_OID, pod.uid).hex[:5]}"
    return replace(claim, metadata=replace(claim.metadata, name=name, namespace=pod.ref.namespace))

"""Decisions tried on snapshots: a pod placed, pods taken away, and what the cluster is then.

How a pod is placed is not said here: whoever asks hands in a `PlacePod`, so that the answers are those of the scheduler
that is asked about.

Source: pkg/controller/resourceclaim/controller.go of kubernetes v1.37.2 (what becomes of claims when pods go).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = [
    "ClaimUsers",
    "NoPlace",
    "PlacePod",
    "Placement",
    "PodDecision",
    "find_pod_claims",
    "index_users",
    "place_all",
    "put_pod",
    "put_pods",
    "renew_pod",
    "sort_queue",
    "split_queue",
    "take_pods",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A node and devices for a pod.

    Args:
        pod: The pod as it is then, on its node.
        claims: Its claims as they are then, each allocated and reserved for the pod; those made from templates too.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...] = ()

    @property
    def node(self) -> str:
        """Name of the node."""
        return self.pod.node_name


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlace:
    """No node for a pod.

    Args:
        message: Why, for people; empty when no explanation was asked for.
        reasons: Why, for machines.
        is_error: Whether no search was possible, as for a claim that breaks a rule.
    """

    pod: Pod
    message: str = ""
    reasons: tuple[Reason, ...] = ()
    is_error: bool = False


PodDecision = Placement | NoPlace


class PlacePod(Protocol):
    """Decides for one pod on a snapshot, as a scheduler would."""

    def __call__(self, snapshot: ClusterSnapshot, pod: Pod, *, explain: bool = True) -> PodDecision:
        """Return where the pod goes, or why nowhere; claims that it wants from templates are made.

        Args:
            snapshot: The cluster.
            pod: The pod, without a node; it need not be in the snapshot.
            explain: Say why there is no node.
        """
        ...

    def place_gang(
        self, snapshot: ClusterSnapshot, gang: PodGroup, pods: Sequence[Pod], *, explain: bool = True
    ) -> tuple[PodDecision, ...]:
        """Return where waiting pods of a gang go, decided together; nobody goes anywhere when too few fit.

        Args:
            snapshot: The cluster; pods of the gang that have a node in it count.
            gang: The gang.
            pods: The pods; they need not be in the snapshot.
            explain: Say why there are no nodes.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUsers:
    """Who uses a claim.

    Args:
        pods: Pods on nodes that use it, or that it is reserved for.
        strangers: Consumers that are no known pods, as `resource/name`: nobody knows when they end.
    """

    pods: frozenset[PodRef] = frozenset()
    strangers: tuple[str, ...] = ()


def find_pod_claims(pod: Pod) -> tuple[ClaimRef, ...]:
    """Return the claims that a pod uses, as far as they have names."""
    names = [entry.claim_name or pod.claim_names.get(entry.name) for entry in pod.claims]
    return tuple(ClaimRef(pod.metadata.namespace, name) for name in (*names, pod.extended_claim_name) if name)


def index_users(snapshot: ClusterSnapshot) -> Mapping[ClaimRef, ClaimUsers]:
    """Return who uses each claim: a shared claim has all its pods."""
    by_uid = {pod.uid: ref for ref, pod in snapshot.pods.items() if pod.uid}
    pods: defaultdict[ClaimRef, set[PodRef]] = defaultdict(set)
    for ref, pod in snapshot.pods.items():
        if pod.node_name and not pod.finished:
            for used in find_pod_claims(pod):
                pods[used].add(ref)
    strangers: defaultdict[ClaimRef, list[str]] = defaultdict(list)
    for claim_ref, claim in snapshot.claims.items():
        for user in claim.reserved_for:
            if user.is_pod_group:
                pods[claim_ref].update(_find_members(snapshot, claim_ref.namespace, user.name))
                continue
            known = by_uid.get(user.uid) if user.resource == "pods" and not user.api_group else None
            if known is None:
                strangers[claim_ref].append(f"{user.resource}/{user.name}")
            elif not snapshot.pods[known].finished:
                pods[claim_ref].add(known)
    return {ref: ClaimUsers(pods=frozenset(pods[ref]), strangers=tuple(strangers[ref])) for ref in {*pods, *strangers}}


def put_pod(snapshot: ClusterSnapshot, placement: Placement) -> ClusterSnapshot:
    """Return the cluster with a decision carried out."""
    return put_pods(snapshot, (placement,))


def put_pods(snapshot: ClusterSnapshot, placements: Iterable[Placement]) -> ClusterSnapshot:
    """Return the cluster with several decisions carried out."""
    pods, claims = dict(snapshot.pods), dict(snapshot.claims)
    for placement in placements:
        pods[placement.pod.ref] = placement.pod
        claims.update((claim.ref, claim) for claim in placement.claims)
    return replace(snapshot, pods=pods, claims=claims)


def take_pods(snapshot: ClusterSnapshot, pods: Collection[PodRef]) -> ClusterSnapshot:
    """Return the cluster without some pods, after its controllers have tidied up behind them.

    Claims that were made for such a pod go; others are given back when the last of their users goes.
    """
    gone = {snapshot.pods[ref].uid: ref for ref in pods if ref in snapshot.pods}
    if not gone:
        return snapshot
    used = {claim for ref in gone.values() for claim in find_pod_claims(snapshot.pods[ref])}
    claims = dict(snapshot.claims)
    for ref, claim in snapshot.claims.items():
        if any(owner.uid in gone for owner in claim.metadata.owner_references):
            del claims[ref]
        elif ref in used or any(user.uid in gone for user in claim.reserved_for):
            claims[ref] = _release(claim, snapshot, gone)
    left = {ref: pod for ref, pod in snapshot.pods.items() if pod.uid not in gone}
    return replace(snapshot, pods=left, claims=claims)


def _release(claim: ResourceClaim, snapshot: ClusterSnapshot, gone: Mapping[str, PodRef]) -> ResourceClaim:
    """Return a claim without users that are gone; without its devices when nobody is left."""
    kept = tuple(user for user in claim.reserved_for if user.uid not in gone and _is_left(user, claim, snapshot, gone))
    others = kept or any(
        claim.ref in find_pod_claims(pod)
        for ref, pod in snapshot.pods.items()
        if pod.node_name and not pod.finished and pod.uid not in gone and ref.namespace == claim.ref.namespace
    )
    if others:
        return replace(claim, reserved_for=kept)
    return replace(claim, reserved_for=(), allocation=None, devices=())


def _is_left(
    user: ConsumerReference, claim: ResourceClaim, snapshot: ClusterSnapshot, gone: Mapping[str, PodRef]
) -> bool:
    """Tell whether a user of a claim is still there; a group is while one of its pods has a node."""
    if not user.is_pod_group:
        return True
    members = _find_members(snapshot, claim.ref.namespace, user.name)
    return not members <= frozenset(gone.values())


def _find_members(snapshot: ClusterSnapshot, namespace: str, group: str) -> frozenset[PodRef]:
    """Return the pods of a group that have a node."""
    return frozenset(
        ref
        for ref, pod in snapshot.pods.items()
        if pod.pod_group == group and ref.namespace == namespace and pod.node_name and not pod.finished
    )


def renew_pod(pod: Pod) -> Pod:
    """Return a pod as its controller makes it again: of the same name here, but without node, claims and status."""
    metadata = replace(pod.metadata, deletion_timestamp=None)
    return replace(
        pod,
        metadata=metadata,
        node_name="",
        phase="Pending",
        claim_names={},
        extended_claim_name="",
        extended_mappings=(),
        node_allocatable=(),
    )


def sort_queue(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Return waiting pods in the order in which a scheduler takes them: by priority, then by age, then as given.

    Source: PrioritySort of kube-scheduler v1.37.2.
    """
    return tuple(sorted(pods, key=lambda pod: (-pod.priority, pod.metadata.creation_timestamp or "9")))


def split_queue(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> tuple[tuple[Pod, ...], ...]:
    """Return pods one by one, in their order; those of one gang together, where the first of them stands."""
    units: dict[object, list[Pod]] = {}
    for pod in pods:
        gang = _find_gang(snapshot, pod)
        units.setdefault(pod.ref if gang is None else gang.ref, []).append(pod)
    return tuple(tuple(members) for members in units.values())


def place_all(
    snapshot: ClusterSnapshot, pods: Iterable[Pod], *, place: PlacePod, explain: bool = True
) -> tuple[ClusterSnapshot, tuple[PodDecision, ...]]:
    """Place pods one after another; each decision counts for the next.

    The pods of a gang are placed together where the first of them stands.

    Returns:
        The cluster after all of them, and a decision for each.
    """
    decisions: list[PodDecision] = []
    for unit in split_queue(snapshot, pods):
        gang = _find_gang(snapshot, unit[0])
        if gang is None:
            made: tuple[PodDecision, ...] = (place(snapshot, unit[0], explain=explain),)
        else:
            made = place.place_gang(snapshot, gang, unit, explain=explain)
        snapshot = put_pods(snapshot, [item for item in made if isinstance(item, Placement)])
        decisions += made
    return snapshot, tuple(decisions)


def _find_gang(snapshot: ClusterSnapshot, pod: Pod) -> PodGroup | None:
    """Return the group of a pod if its pods are placed together."""
    group = snapshot.pod_groups.get(PodGroupRef(pod.metadata.namespace, pod.pod_group)) if pod.pod_group else None
    return group if group is not None and (group.spec.is_gang or group.spec.topology_keys) else None

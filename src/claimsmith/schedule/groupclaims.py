"""Claims that the pods of a group share: whose they are, and under which reference they are reserved. Pure.

A pod's claim is its group's when both name the same claim or template under the same name. Then the group stands in
`reservedFor`, once for all its pods.

Source: BindTo and IsForPod in k8s.io/dynamic-resource-allocation v0.37.2 resourceclaim/resourceclaim.go (KEP-5729).
"""

from __future__ import annotations

from dataclasses import replace

from claimsmith.api.kinds import POD_GROUP
from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.schedule.claims import consumer_of, is_reserved_for

__all__ = [
    "consumer_of_group",
    "find_claim_consumer",
    "is_group_claim",
    "is_made_for",
    "is_owned_by_group_of",
    "is_used_by",
    "reserve_claim",
]


def is_group_claim(entry: PodClaim, group: PodGroup | None) -> bool:
    """Tell whether a pod's claim is the one that its group shares."""
    return group is not None and entry in group.spec.claims


def consumer_of_group(group: PodGroup) -> ConsumerReference:
    """Return the reference under which a group stands in `reservedFor`."""
    return ConsumerReference(
        api_group=POD_GROUP.group, resource=POD_GROUP.plural, name=group.metadata.name, uid=group.uid
    )


def find_claim_consumer(pod: Pod, ref: ClaimRef, group: PodGroup | None) -> ConsumerReference:
    """Return for whom a claim of a pod is reserved: for the pod's group if it shares the claim, else for the pod."""
    for entry in pod.claims:
        name = entry.claim_name or pod.claim_names.get(entry.name)
        if group is not None and name == ref.name and is_group_claim(entry, group):
            return consumer_of_group(group)
    return consumer_of(pod)


def reserve_claim(claim: ResourceClaim, pod: Pod, group: PodGroup | None) -> ResourceClaim:
    """Return the claim reserved for a pod, or for its group if it shares the claim; as it is when it is so already."""
    consumer = find_claim_consumer(pod, claim.ref, group)
    if is_reserved_for(claim, consumer.uid):
        return claim
    return replace(claim, reserved_for=(*claim.reserved_for, consumer))


def is_used_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Tell whether a claim is reserved for a pod, or for the group that it belongs to, which it knows by name alone.

    Source: IsReservedForPod with acceptPodGroupReservation.
    """
    return any(
        item.uid == pod.uid or (bool(pod.pod_group) and item.is_pod_group and item.name == pod.pod_group)
        for item in claim.reserved_for
    )


def is_owned_by_group_of(claim: ResourceClaim, pod: Pod) -> bool:
    """Tell whether a claim was made for the group that a pod belongs to. Source: isForPodGroupByPod."""
    return bool(pod.pod_group) and any(
        owner.controller
        and owner.kind == POD_GROUP.kind
        and owner.name == pod.pod_group
        and owner.api_version.startswith(f"{POD_GROUP.group}/")
        for owner in claim.metadata.owner_references
    )


def is_made_for(claim: ResourceClaim, pod: Pod, group: PodGroup | None) -> bool:
    """Tell whether a claim was made from a template for a pod, or for its group."""
    uids = {pod.uid} if group is None else {pod.uid, group.uid}
    return any(owner.uid in uids for owner in claim.metadata.owner_references)

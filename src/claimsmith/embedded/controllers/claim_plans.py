"""What has to be done about claims: pure.

Source: pkg/controller/resourceclaim/controller.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.api.kinds import POD, POD_GROUP, RESOURCE_CLAIM, Kind
from claimsmith.api.resource import encode_resource_claim_spec
from claimsmith.model.claim import FINALIZER, ConsumerReference, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import Pod, PodClaim

__all__ = [
    "POD_CLAIM_ANNOTATION",
    "ClaimUpkeep",
    "build_group_claim",
    "build_template_claim",
    "find_made_claim",
    "find_owning_pod",
    "find_pod_claims",
    "get_generate_name",
    "is_pod",
    "is_pod_done",
    "plan_claim_statuses",
    "plan_upkeep",
]

POD_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
"""Which entry of a pod's `spec.resourceClaims` a claim was made for."""

_BASE_MAX: Final = 57

IsGone = Callable[[ConsumerReference], bool]
"""Tells whether a pod that uses a claim will never run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimUpkeep:
    """What one claim needs.

    Args:
        release: uids of consumers to take off.
        deallocate: Nobody uses the claim any more and its devices must come free, or its finalizer go.
        delete: The claim was made for a pod that does not need it any more.
    """

    release: frozenset[str] = frozenset()
    deallocate: bool = False
    delete: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.release) or self.deallocate or self.delete


def plan_upkeep(claim: ResourceClaim, is_gone: IsGone, owner: Pod | None) -> ClaimUpkeep:
    """Return what a claim needs.

    A claim is deallocated when its last consumer goes, or when it is being deleted and nobody uses it; a claim that is
    allocated ahead and not used yet is left alone.

    Args:
        claim: The claim.
        is_gone: Tells whether a pod that uses the claim will never run again.
        owner: The pod of the name that the claim was made for; None when there is none, or it was made for none.
    """
    gone = frozenset(item.uid for item in claim.reserved_for if is_pod(item) and is_gone(item))
    is_unused = len(gone) == len(claim.reserved_for)
    is_deleted = claim.metadata.deletion_timestamp is not None
    has_finalizer = FINALIZER in claim.metadata.finalizers
    frees = bool(gone) and is_unused and (claim.allocation is not None or has_finalizer)
    clears = is_deleted and is_unused and has_finalizer
    owned_uid = find_owning_pod(claim)[1]
    obsolete = owner is not None and bool(owned_uid) and (owner.uid != owned_uid or is_pod_done(owner))
    return ClaimUpkeep(release=gone, deallocate=frees or clears, delete=is_unused and obsolete and not is_deleted)


def find_owning_pod(claim: ResourceClaim) -> tuple[PodRef | None, str]:
    """Return name and uid of the pod that a claim was made for; (None, "") for other claims."""
    for owner in claim.metadata.owner_references:
        if owner.controller and owner.api_version == "v1" and owner.kind == "Pod":
            return PodRef(claim.metadata.namespace, owner.name), owner.uid
    return None, ""


def find_pod_claims(pod: Pod) -> Iterator[tuple[ClaimRef, bool]]:
    """Yield the claims of a pod, each with whether the claim must be owned by the pod."""
    namespace = pod.metadata.namespace
    for entry in pod.claims:
        name = entry.claim_name or pod.claim_names.get(entry.name)
        if name:
            yield ClaimRef(namespace, name), entry.claim_name is None
    if pod.extended_claim_name:
        yield ClaimRef(namespace, pod.extended_claim_name), True


def is_pod(consumer: ConsumerReference) -> bool:
    """Tell whether a consumer is a pod; another group may have a kind of that name."""
    return consumer.resource == "pods" and not consumer.api_group


def is_pod_done(pod: Pod) -> bool:
    """Tell whether no container of the pod runs or will run. Source: isPodDone in controller.go."""
    return pod.finished or (pod.metadata.deletion_timestamp is not None and not pod.node_name)


def build_template_claim(pod: Pod, entry: PodClaim, template: ResourceClaimTemplate) -> dict[str, Any]:
    """Return the claim to create for a pod from a template."""
    return _build_claim(pod.metadata, entry, template, kind=POD)


def build_group_claim(group: PodGroup, entry: PodClaim, template: ResourceClaimTemplate) -> dict[str, Any]:
    """Return the claim to create from a template for all pods of a group.

    Source: handlePodGroupClaim in controller.go.
    """
    return _build_claim(group.metadata, entry, template, kind=POD_GROUP)


def plan_claim_statuses(uid: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Return the strategic patch that records in the status of a pod or group which claims were made for it.

    Args:
        uid: uid of the pod or group, so that no other one of its name is changed.
        names: The claim for each entry of its spec.
    """
    statuses = [{"name": entry, "resourceClaimName": claim} for entry, claim in sorted(names.items())]
    return {"metadata": {"uid": uid}, "status": {"resourceClaimStatuses": statuses}}


def _build_claim(owner: Metadata, entry: PodClaim, template: ResourceClaimTemplate, *, kind: Kind) -> dict[str, Any]:
    reference = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
    metadata: dict[str, Any] = {
        "generateName": get_generate_name(owner.name, entry.name),
        "namespace": owner.namespace,
        "annotations": {**template.annotations, POD_CLAIM_ANNOTATION: entry.name},
        "ownerReferences": [reference],
    }
    if template.labels:
        metadata["labels"] = dict(template.labels)
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.kind,
        "metadata": metadata,
        "spec": encode_resource_claim_spec(template.spec),
    }


def get_generate_name(pod: str, claim: str) -> str:
    """Return the beginning of a generated claim's name; of long names as much as fits, in proportion.

    Source: handleClaim in controller.go.
    """
    name = f"{pod}-{claim}-"
    if len(name) <= _BASE_MAX:
        return name
    return f"{pod[: len(pod) * _BASE_MAX // len(name)]}-{claim[: len(claim) * _BASE_MAX // len(name)]}"


def find_made_claim(pod: Pod, entry: PodClaim, claims: tuple[ResourceClaim, ...]) -> ClaimRef | None:
    """Return the claim that was made for an entry of a pod but is not recorded there yet; None for none."""
    for claim in claims:
        owner, uid = find_owning_pod(claim)
        named = claim.metadata.annotations.get(POD_CLAIM_ANNOTATION)
        if owner is not None and uid == pod.uid and named == entry.name:
            return claim.ref
    return None

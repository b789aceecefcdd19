"""The claims that controllers make for a pod, made where there are no controllers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from claimsmith.api.resource import parse_resource_claim
from claimsmith.embedded.controllers.claim_plans import build_group_claim, build_template_claim
from claimsmith.model.claim import ResourceClaim, ResourceClaimTemplate
from claimsmith.model.names import ClaimRef
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import Pod
from claimsmith.schedule.groupclaims import is_group_claim

__all__ = ["find_missing_template", "name_special_claim", "plan_made_claims"]

Templates = Mapping[ClaimRef, ResourceClaimTemplate]


def plan_made_claims(
    pod: Pod, group: PodGroup | None, *, templates: Templates, find_claim: Callable[[ClaimRef], ResourceClaim | None]
) -> tuple[Pod, tuple[ResourceClaim, ...]]:
    """Return a pod that knows its claims, and those of them that have to be made from templates.

    Args:
        pod: The pod.
        group: Its group, whose claims its pods share; None for none.
        templates: All templates.
        find_claim: Returns a claim that is there.
    """
    names, made = dict(pod.claim_names), []
    for entry in pod.claims:
        template = templates.get(ClaimRef(pod.ref.namespace, entry.template_name or ""))
        if template is None or entry.name in names:
            continue
        if group is not None and is_group_claim(entry, group):
            obj, owner = build_group_claim(group, entry, template), group.uid
        else:
            obj, owner = build_template_claim(pod, entry, template), pod.uid
        start, number = obj["metadata"].pop("generateName"), 0
        while _is_others(known := find_claim(ClaimRef(pod.ref.namespace, f"{start}{number}")), owner):
            number += 1
        obj["metadata"]["name"] = names[entry.name] = f"{start}{number}"
        if known is None:
            made.append(parse_resource_claim(obj))
    return replace(pod, claim_names=names), tuple(made)


def _is_others(claim: ResourceClaim | None, owner: str) -> bool:
    return claim is not None and all(reference.uid != owner for reference in claim.metadata.owner_references)


def find_missing_template(pod: Pod, templates: Templates) -> str:
    """Return what to say of a claim that can't be made for want of its template; empty when all can be made."""
    for entry in pod.claims:
        ref = ClaimRef(pod.ref.namespace, entry.template_name or "")
        if entry.template_name and entry.name not in pod.claim_names and ref not in templates:
            return f"claim {entry.name!r} of the pod: claim template {ref} does not exist; create it"
    return ""


def name_special_claim(claim: ResourceClaim, pod: Pod) -> ResourceClaim:
    """Return the claim with a name that could be stored; the one for extended resources has none before it is."""
    if not claim.metadata.name.startswith("<"):
        return claim
    name = f"{pod.ref.name}-extended-resources-0"
    return replace(claim, metadata=replace(claim.metadata, name=name, namespace=pod.ref.namespace))

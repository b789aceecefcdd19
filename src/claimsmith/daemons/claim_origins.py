"""The templates that the claims of a pod were made from. Pure."""

from __future__ import annotations

from collections.abc import Collection

from claimsmith.allocate.explain.context import Origin
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import find_group_ref

__all__ = ["find_origins"]


def find_origins(pod: Pod, stored: Collection[ClaimRef]) -> dict[ClaimRef, Origin]:
    """Return where the pod's claims come from that were made from templates, by claim.

    Args:
        stored: Claims that are in the cluster, rather than made in thought.
    """
    group = find_group_ref(pod)
    owner = f"pod {pod.ref.name}" if group is None else f"the pods of pod group {group.name}"
    found: dict[ClaimRef, Origin] = {}
    for entry in pod.claims:
        name = pod.claim_names.get(entry.name)
        if entry.template_name and name:
            ref, template = ClaimRef(pod.ref.namespace, name), ClaimRef(pod.ref.namespace, entry.template_name)
            found[ref] = Origin(template=template, owner=owner, is_made=ref in stored)
    return found

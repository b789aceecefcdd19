"""The templates that the claims of a pod were made from. Pure."""

from __future__ import annotations

from claimsmith.allocate.explain.context import Origin
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import find_group_ref

__all__ = ["find_origins"]


def find_origins(pod: Pod) -> dict[ClaimRef, Origin]:
    """Return where the pod's claims come from that were made from templates, by claim."""
    group = find_group_ref(pod)
    owner = f"pod {pod.ref.name}" if group is None else f"the pods of pod group {group.name}"
    return {
        ClaimRef(pod.ref.namespace, name): Origin(
            template=ClaimRef(pod.ref.namespace, entry.template_name), owner=owner
        )
        for entry in pod.claims
        if entry.template_name and (name := pod.claim_names.get(entry.name))
    }

"""After a driver's return: which waiting pods to touch, so that their kubelet calls for their claims at once.

Source: SyncPod in pkg/kubelet/kuberuntime and podsDifferSemantically in pkg/kubelet/config of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from claimsmith.api.kinds import POD, Kind
from claimsmith.errors import ConflictError, NotFoundError
from claimsmith.kube.client import KubeObject
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.driverreturn import DriverReturn
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.workload import Pod

__all__ = ["RETURN_ANNOTATION", "PodPatcher", "PodTouch", "apply_touches", "find_claim_refs", "plan_touches"]

RETURN_ANNOTATION: Final = "claimsmith.dev/driver-returned"
"""Annotation of a pod whose kubelet was made to look at it: when the driver returned, and the uid of the Event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTouch:
    """A pod that gets an annotation."""

    pod: PodRef
    uid: str
    value: str


class PodPatcher(Protocol):
    """What is needed of a client."""

    async def patch(self, kind: Kind, name: str, patch: Mapping[str, Any], *, namespace: str = "") -> KubeObject:
        """Change parts of an object."""
        ...


def find_claim_refs(pod: Pod) -> tuple[ClaimRef, ...]:
    """Return the claims that a pod uses, as far as they are made."""
    names = [entry.claim_name or pod.claim_names.get(entry.name) for entry in pod.claims]
    names.append(pod.extended_claim_name)
    return tuple(ClaimRef(pod.metadata.namespace, name) for name in names if name)


def plan_touches(
    returned: DriverReturn, pods: Iterable[Pod], claims: Mapping[ClaimRef, ResourceClaim]
) -> tuple[PodTouch, ...]:
    """Return the pods to touch: those that wait on the node for the driver since before its return.

    They wait to start, or to end: devices are given back before a pod goes.

    A pod that was touched for this return, or for a later one, is left alone.

    Args:
        returned: Which driver returned where.
        pods: Pods of the node.
        claims: Their claims, as far as they exist.
    """
    value = f"{returned.at}/{returned.event_uid}"
    return tuple(
        PodTouch(pod=pod.ref, uid=pod.uid, value=value)
        for pod in pods
        if _waits(pod, returned) and _is_due(pod, returned, value) and _needs(pod, returned.driver, claims)
    )


async def apply_touches(client: PodPatcher, touches: Iterable[PodTouch]) -> int:
    """Touch pods; return how many were. One that is gone, or was made again, is left out.

    Raises:
        ApiError: The server refuses, or can't be reached; touching again is harmless.
    """
    done = 0
    for touch in touches:
        patch = {"metadata": {"uid": touch.uid, "annotations": {RETURN_ANNOTATION: touch.value}}}
        try:
            await client.patch(POD, touch.pod.name, patch, namespace=touch.pod.namespace)
        except (NotFoundError, ConflictError):
            continue
        done += 1
    return done


def _waits(pod: Pod, returned: DriverReturn) -> bool:
    """Tell whether a pod of the node has not started yet, or is being deleted."""
    return pod.node_name == returned.node and (pod.phase == "Pending" or pod.metadata.deletion_timestamp is not None)


def _is_due(pod: Pod, returned: DriverReturn, value: str) -> bool:
    """Tell whether a pod is older than the return, and was not touched for it. Texts of equal form compare as times."""
    if (pod.metadata.creation_timestamp or "") > returned.at:
        return False
    before = pod.metadata.annotations.get(RETURN_ANNOTATION, "")
    return before != value and before.partition("/")[0] <= returned.at


def _needs(pod: Pod, driver: str, claims: Mapping[ClaimRef, ResourceClaim]) -> bool:
    found = (claims[ref] for ref in find_claim_refs(pod) if ref in claims)
    allocations = (claim.allocation for claim in found if claim.allocation is not None)
    return any(result.driver == driver for allocation in allocations for result in allocation.results)

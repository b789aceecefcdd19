"""Writes to pods: the binding, the reason why there is none, and which claim serves extended resources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from claimsmith.api.core_pods import encode_node_allocatable
from claimsmith.api.kinds import POD, Kind
from claimsmith.kube.client import KubeObject, PatchesObjects, PatchType
from claimsmith.model.names import PodRef
from claimsmith.model.workload import ExtendedResourceMapping, NodeAllocatableClaim, Pod

__all__ = ["PodClient", "PodWriter", "is_schedulable"]


class PodClient(PatchesObjects, Protocol):
    """What pod writes need of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        """Return one object."""

    async def bind(self, pod: PodRef, node: str, *, uid: str = "") -> None:
        """Bind a pod to a node."""


class PodWriter:
    """Writes pods.

    Args:
        client: Access to pods.
        now: The time of day, for the time stamps of conditions.
    """

    def __init__(self, client: PodClient, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client, self._now = client, now

    async def bind(self, pod: Pod, node: str) -> None:
        """Bind this very pod to a node.

        Raises:
            ConflictError: It is bound already, or was deleted and made anew.
            NotFoundError: It is gone.
            ApiError: The server refused or could not be reached.
        """
        await self._client.bind(pod.ref, node, uid=pod.uid)

    async def mark_unscheduled(self, pod: Pod, reason: str, message: str) -> None:
        """Set the condition PodScheduled to False.

        Args:
            pod: The pod.
            reason: `Unschedulable` when no place was found, `SchedulerError` when none could be looked for.
            message: Why, for people.
        """
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        await self._patch_status(pod, {"conditions": [condition]}, "strategic")

    async def set_extended_claim(self, pod: Pod, claim: str, mappings: Sequence[ExtendedResourceMapping]) -> None:
        """Record which claim serves the pod's extended resources. Source: PodExtendedResourceClaimStatus of core/v1."""
        entries = [
            {"containerName": item.container, "resourceName": item.resource, "requestName": item.request}
            for item in mappings
        ]
        status = {"extendedResourceClaimStatus": {"resourceClaimName": claim, "requestMappings": entries}}
        await self._patch_status(pod, status, "merge")

    async def set_node_allocatable(self, pod: Pod, claims: Sequence[NodeAllocatableClaim]) -> None:
        """Record what the devices of the pod's claims take of its node; none take nothing.

        Source: NodeAllocatableResourceClaimStatus of core/v1.
        """
        entries = [encode_node_allocatable(claim) for claim in claims]
        await self._patch_status(pod, {"nodeAllocatableResourceClaimStatuses": entries}, "merge")

    async def find_node(self, pod: Pod) -> str | None:
        """Return the node on which the server has this very pod, empty when on none; None when the pod is gone.

        Raises:
            NotFoundError: No pod of that name is there.
            ApiError: The server could not be reached.
        """
        found = await self._client.get(POD, pod.metadata.name, namespace=pod.metadata.namespace)
        if found["metadata"].get("uid") != pod.uid:
            return None
        return str((found.get("spec") or {}).get("nodeName") or "")

    async def _patch_status(self, pod: Pod, status: dict[str, Any], patch_type: PatchType) -> None:
        await self._client.patch(
            POD,
            pod.metadata.name,
            {"metadata": {"uid": pod.uid}, "status": status},
            namespace=pod.metadata.namespace,
            patch_type=patch_type,
            subresource="status",
        )


def is_schedulable(pod: Pod, scheduler_names: frozenset[str]) -> bool:
    """Tell whether a pod waits for one of these schedulers, with no scheduling gate in its way."""
    return (
        pod.scheduler_name in scheduler_names
        and not pod.node_name
        and not pod.scheduling_gates
        and not pod.finished
        and pod.metadata.deletion_timestamp is None
    )

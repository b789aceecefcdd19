"""Whether a node has room for a pod together with what its devices take of the node's cpu, memory and the like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from claimsmith.cluster.cache import ClusterCache
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.node import Node
from claimsmith.model.workload import ExtendedResourceMapping, NodeAllocatableClaim, Pod
from claimsmith.schedule.extended import is_extended_claim
from claimsmith.schedule.node_allocatable import (
    MappingDevices,
    find_containers,
    find_shortages,
    is_mapped,
    plan_node_allocatable,
)
from claimsmith.schedule.usage import UsageIndex

__all__ = ["Room", "RoomCheck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The answer for one node.

    Args:
        taken: What the devices of each claim take.
        reasons: Why there is no room; empty when there is.
    """

    taken: tuple[NodeAllocatableClaim, ...] = ()
    reasons: tuple[Reason, ...] = ()


class RoomCheck:
    """Checks nodes after devices were chosen on them.

    Args:
        cache: The cluster.
        usage: What pods take from nodes.
        enabled: Whether devices may take of a node's resources at all; else every node has room.
    """

    def __init__(self, cache: ClusterCache, usage: UsageIndex, *, enabled: bool) -> None:
        self._cache, self._usage, self._enabled = cache, usage, enabled
        self._devices = MappingDevices()

    def find_sharing_problem(self, pod: Pod, claims: Iterable[ResourceClaim]) -> tuple[ResourceClaim, str] | None:
        """Return a claim that another pod uses and that pods can't share, and why; None when there is none."""
        if not self._enabled:
            return None
        self._devices.update(self._cache.snapshot().slices)
        for claim in claims:
            others = claim.reserved_for and not any(item.uid == pod.uid for item in claim.reserved_for)
            taken = others or self._cache.is_promised(claim.ref, besides=pod)
            if taken and claim.allocation is not None and is_mapped(claim.allocation, self._devices.find):
                return claim, f"claim {claim.ref} stands for resources of a node, so that pods can't share it"
        return None

    def check(
        self,
        pod: Pod,
        node: Node,
        *,
        claims: Iterable[tuple[ResourceClaim, AllocationResult]],
        mappings: tuple[ExtendedResourceMapping, ...] = (),
    ) -> Room:
        """Return what the claims' devices take of a node, or why there is no room.

        Args:
            claims: All claims of the pod, each with what it has or would get on the node.
            mappings: Which containers use the special claim.
        """
        if not self._enabled:
            return Room()
        self._devices.update(self._cache.snapshot().slices)
        special = tuple(dict.fromkeys(item.container for item in mappings))
        plan = plan_node_allocatable(
            pod,
            claims,
            self._devices.find,
            containers_of=lambda claim: special if is_extended_claim(claim, pod) else find_containers(pod, claim),
        )
        reasons = find_shortages(pod, plan, self._usage.find(node), node=node.name)
        return Room(reasons=reasons) if reasons else Room(taken=plan.claims)

"""The cluster's device state at one moment: all that an allocation depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.model.claim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.policy import BudgetRef, DisruptionBudget, PriorityClass, ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.workload import Pod

__all__ = ["ClusterSnapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Nodes, slices, classes, claims, pods and their groups that belong together.

    Args:
        slices: In the order in which the server lists them (by name).
        claims: All claims, allocated or not. What an allocated one holds is in use.
        resource_version: Of the newest object seen; empty for files.
    """

    nodes: Mapping[str, Node] = field(default_factory=dict)
    slices: tuple[ResourceSlice, ...] = ()
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    claims: Mapping[ClaimRef, ResourceClaim] = field(default_factory=dict)
    templates: Mapping[ClaimRef, ResourceClaimTemplate] = field(default_factory=dict)
    pods: Mapping[PodRef, Pod] = field(default_factory=dict)
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    namespace_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    pod_groups: Mapping[PodGroupRef, PodGroup] = field(default_factory=dict)
    budgets: Mapping[BudgetRef, DisruptionBudget] = field(default_factory=dict)
    quotas: tuple[ResourceQuota, ...] = ()
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    resource_version: str = ""

    def allocated_claims(self) -> tuple[ResourceClaim, ...]:
        """Return the claims that hold devices."""
        return tuple(claim for claim in self.claims.values() if claim.allocation is not None)

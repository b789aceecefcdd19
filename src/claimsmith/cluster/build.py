"""A snapshot of the cluster out of its objects: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from claimsmith.model.claim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup, Workload
from claimsmith.model.policy import DisruptionBudget, PriorityClass, ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.record import Namespace
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["ClusterObject", "build_snapshot", "sort_quotas", "sort_rules", "sort_slices"]

T = TypeVar("T")

ClusterObject = (
    Node
    | ResourceSlice
    | DeviceClass
    | ResourceClaim
    | ResourceClaimTemplate
    | Pod
    | PodGroup
    | DeviceTaintRule
    | Namespace
    | DisruptionBudget
    | ResourceQuota
    | PriorityClass
)
"""Whatever an allocation depends on."""


def build_snapshot(objects: Iterable[ClusterObject | Workload], *, resource_version: str = "") -> ClusterSnapshot:
    """Return the snapshot of objects in any order; of two with the same name the later one counts.

    Slices are as published: the taints of DeviceTaintRules are merged in when a problem is built of the snapshot.

    Args:
        objects: The objects, of any kinds of `ClusterObject`; Workloads, which place nothing, are passed over.
        resource_version: Of the newest object; empty for files.
    """
    everything = tuple(objects)
    templates = _of_kind(everything, ResourceClaimTemplate)
    slices = {item.name: item for item in _of_kind(everything, ResourceSlice)}
    rules = {item.metadata.name: item for item in _of_kind(everything, DeviceTaintRule)}
    quotas = {item.ref: item for item in _of_kind(everything, ResourceQuota)}
    return ClusterSnapshot(
        nodes={item.name: item for item in _of_kind(everything, Node)},
        slices=sort_slices(slices.values()),
        classes={item.name: item for item in _of_kind(everything, DeviceClass)},
        claims={item.ref: item for item in _of_kind(everything, ResourceClaim)},
        templates={ClaimRef(item.metadata.namespace, item.metadata.name): item for item in templates},
        pods={item.ref: item for item in _of_kind(everything, Pod)},
        taint_rules=sort_rules(rules.values()),
        namespace_labels={item.name: item.labels for item in _of_kind(everything, Namespace)},
        pod_groups={item.ref: item for item in _of_kind(everything, PodGroup)},
        budgets={item.ref: item for item in _of_kind(everything, DisruptionBudget)},
        quotas=sort_quotas(quotas.values()),
        priority_classes={item.name: item for item in _of_kind(everything, PriorityClass)},
        resource_version=resource_version,
    )


def sort_slices(slices: Iterable[ResourceSlice]) -> tuple[ResourceSlice, ...]:
    """Return slices in the order in which the API server lists them: by the bytes of their names."""
    return tuple(sorted(slices, key=lambda item: item.name.encode()))


def sort_rules(rules: Iterable[DeviceTaintRule]) -> tuple[DeviceTaintRule, ...]:
    """Return taint rules in the order in which the API server lists them: by the bytes of their names."""
    return tuple(sorted(rules, key=lambda item: item.metadata.name.encode()))


def sort_quotas(quotas: Iterable[ResourceQuota]) -> tuple[ResourceQuota, ...]:
    """Return quotas by namespace and name."""
    return tuple(sorted(quotas, key=lambda item: item.ref))


def _of_kind(objects: tuple[ClusterObject | Workload, ...], kind: type[T]) -> tuple[T, ...]:
    return tuple(item for item in objects if isinstance(item, kind))

"""Pods that are placed together. Source: PodGroup and Workload of scheduling.k8s.io/v1beta1 (Kubernetes 1.37)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from claimsmith.model.metadata import Metadata
from claimsmith.model.workload import PodClaim

__all__ = [
    "CompositeTemplate",
    "PodGroup",
    "PodGroupRef",
    "PodGroupSpec",
    "PodGroupTemplate",
    "Workload",
    "WorkloadOwner",
    "WorkloadTemplateRef",
]


class PodGroupRef(NamedTuple):
    """A PodGroup by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class WorkloadTemplateRef(NamedTuple):
    """The template that a PodGroup was made from: a Workload of its namespace, and a name in it."""

    workload: str
    template: str

    def __str__(self) -> str:
        return f"{self.workload}/{self.template}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupSpec:
    """How the pods of a group are placed, and the claims that they share.

    Args:
        min_count: Least number of pods that must fit together; None when each pod is placed for itself.
        topology_keys: Node labels; all pods go to nodes with one value of each.
        claims: Claims of the group. A pod claim with the name and the source of one of them is the group's own,
            shared by its pods.
        disruption_mode: `single` or `all`: whether a pod may be evicted alone; empty when a template leaves it open.
        priority: None when the field is absent.
        preemption_policy: `Never` or `PreemptLowerPriority`; empty when the field is absent.
    """

    min_count: int | None = None
    topology_keys: tuple[str, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    disruption_mode: str = ""
    priority_class: str = ""
    priority: int | None = None
    preemption_policy: str = ""

    @property
    def is_gang(self) -> bool:
        """Whether several pods start together or not at all."""
        return self.min_count is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A group of pods; pods join it by `spec.schedulingGroup.podGroupName`.

    Args:
        template: What it was made from; None for a group that stands for itself.
        parent: Name of the CompositePodGroup that it is a part of; empty for none.
        claim_names: `status.resourceClaimStatuses`: claim made for each claim from a template; None: not needed.
        conditions: As in meta/v1.
    """

    metadata: Metadata
    spec: PodGroupSpec
    template: WorkloadTemplateRef | None = None
    parent: str = ""
    claim_names: Mapping[str, str | None] = field(default_factory=dict)
    conditions: tuple[Mapping[str, object], ...] = ()

    @property
    def ref(self) -> PodGroupRef:
        """Namespace and name."""
        return PodGroupRef(self.metadata.namespace, self.metadata.name)

    @property
    def uid(self) -> str:
        """The server's uid; empty for groups that are not stored."""
        return self.metadata.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupTemplate:
    """From which a workload controller makes a PodGroup."""

    name: str
    spec: PodGroupSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeTemplate:
    """From which a workload controller makes a group of groups.

    Args:
        min_group_count: Least number of groups that must fit together; None when each is placed for itself.
        topology_keys, disruption_mode, priority, preemption_policy: As in `PodGroupSpec`.
    """

    name: str
    min_group_count: int | None = None
    topology_keys: tuple[str, ...] = ()
    groups: tuple[PodGroupTemplate, ...] = ()
    composites: tuple[CompositeTemplate, ...] = ()
    disruption_mode: str = ""
    priority_class: str = ""
    priority: int | None = None
    preemption_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOwner:
    """The object that a Workload describes, such as a Job of its namespace."""

    kind: str
    name: str
    api_group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Templates of the groups that an application consists of; it places nothing by itself."""

    metadata: Metadata
    owner: WorkloadOwner | None = None
    groups: tuple[PodGroupTemplate, ...] = ()
    composites: tuple[CompositeTemplate, ...] = ()

"""Pods, as far as devices need them. Source: Pod of core/v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.model.metadata import Metadata
from claimsmith.model.names import PodRef
from claimsmith.model.quantity import Quantity
from claimsmith.model.taint import Toleration
from claimsmith.model.topology import NodeSelector

__all__ = [
    "Container",
    "ContainerClaim",
    "ExtendedResourceMapping",
    "NodeAllocatableClaim",
    "NodeAllocatableOverhead",
    "Pod",
    "PodClaim",
    "PodToleration",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """A claim that a pod uses: an existing one, or one made from a template; exactly one of the two is set."""

    name: str
    claim_name: str | None = None
    template_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerClaim:
    """Which pod claim, and which request of it (empty: all), a container uses."""

    name: str
    request: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container's resources.

    Args:
        restart_policy: `Always` makes an init container a sidecar.
    """

    name: str
    image: str = ""
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    limits: Mapping[str, Quantity] = field(default_factory=dict)
    claims: tuple[ContainerClaim, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    restart_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodToleration(Toleration):
    """Which node taints a pod accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedResourceMapping:
    """Which request of the pod's special claim serves an extended resource of a container."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocatableOverhead:
    """What the devices of a claim cost besides: once per pod, and once per container that uses the claim."""

    per_pod: Quantity | None = None
    per_container: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocatableClaim:
    """What the devices of one claim take of a node's cpu, memory and the like. Source: KEP-5517.

    Args:
        claim: Name of the claim.
        containers: Containers that use it.
        mapping: Amounts that the devices stand for, by resource name.
        overhead: Amounts besides, by resource name.
    """

    claim: str
    containers: tuple[str, ...] = ()
    mapping: Mapping[str, Quantity] = field(default_factory=dict)
    overhead: Mapping[str, NodeAllocatableOverhead] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod with the facts that scheduling and the node need.

    Args:
        claim_names: `status.resourceClaimStatuses`: claim made for each pod claim from a template; None: not needed.
        requests, limits: For the pod as a whole (`spec.resources`), where they replace those of its containers.
        extended_claim_name: `status.extendedResourceClaimStatus.resourceClaimName`; empty when there is none.
        node_allocatable: `status.nodeAllocatableResourceClaimStatuses`.
        preemption_policy: `Never` or `PreemptLowerPriority`; empty when the field is absent.
        phase: Pending, Running, Succeeded, Failed or Unknown.
    """

    metadata: Metadata
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: NodeSelector | None = None
    tolerations: tuple[PodToleration, ...] = ()
    priority: int = 0
    priority_class: str = ""
    preemption_policy: str = ""
    overhead: Mapping[str, Quantity] = field(default_factory=dict)
    requests: Mapping[str, Quantity] = field(default_factory=dict)
    limits: Mapping[str, Quantity] = field(default_factory=dict)
    restart_policy: str = "Always"
    phase: str = "Pending"
    claim_names: Mapping[str, str | None] = field(default_factory=dict)
    extended_claim_name: str = ""
    extended_mappings: tuple[ExtendedResourceMapping, ...] = ()
    node_allocatable: tuple[NodeAllocatableClaim, ...] = ()
    pod_group: str = ""

    @property
    def ref(self) -> PodRef:
        """Namespace and name."""
        return PodRef(self.metadata.namespace, self.metadata.name)

    @property
    def uid(self) -> str:
        """The server's uid; empty for pods that are not stored."""
        return self.metadata.uid

    @property
    def finished(self) -> bool:
        """Whether no container will run again."""
        return self.phase in ("Succeeded", "Failed")

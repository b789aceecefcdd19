"""What administrators allow: pods that may be missing at a time, amounts that a namespace may use, priorities.

Source: PodDisruptionBudget of policy/v1, ResourceQuota of core/v1, PriorityClass of scheduling.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from claimsmith.model.metadata import Metadata
from claimsmith.model.quantity import Quantity

__all__ = [
    "SYSTEM_PRIORITIES",
    "BudgetRef",
    "DisruptionBudget",
    "LabelRequirement",
    "LabelSelector",
    "PriorityClass",
    "QuotaRef",
    "QuotaScope",
    "ResourceQuota",
]


SYSTEM_PRIORITIES: Final[Mapping[str, int]] = MappingProxyType(
    {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
)
"""Priority classes that every cluster has. Source: pkg/apis/scheduling/types.go in k8s.io/kubernetes v1.37.2."""


class BudgetRef(NamedTuple):
    """A PodDisruptionBudget by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class QuotaRef(NamedTuple):
    """A ResourceQuota by namespace and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One condition on a label; `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels fulfil the condition; an unknown operator matches nothing."""
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values if found is not None else False
            case "NotIn":
                return found is None or found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case _:
                return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSelector:
    """Conditions on labels that must all hold; without any it matches everything.

    Source: LabelSelector of meta/v1.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[LabelRequirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether all conditions hold for labels."""
        return all(labels.get(key) == value for key, value in self.labels.items()) and all(
            requirement.matches(labels) for requirement in self.requirements
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """How many of the pods that it selects may be missing at a time.

    Args:
        selector: Which pods of its namespace; None selects none.
        min_available, max_unavailable: A count, or a percentage such as `50%`; None when not set.
        disruptions_allowed: `status.disruptionsAllowed`: how many pods may go now; None when the status was never set.
        disrupted_pods: Names of pods that are counted as gone already.
    """

    metadata: Metadata
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    disruptions_allowed: int | None = None
    disrupted_pods: frozenset[str] = frozenset()

    @property
    def ref(self) -> BudgetRef:
        """Namespace and name."""
        return BudgetRef(self.metadata.namespace, self.metadata.name)

    def selects(self, pod: Metadata) -> bool:
        """Tell whether the budget is about a pod."""
        return (
            pod.namespace == self.metadata.namespace and self.selector is not None and self.selector.matches(pod.labels)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaScope:
    """A condition on the objects that a quota counts; `operator` is In, NotIn, Exists or DoesNotExist."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    """How much the objects of a namespace may use together.

    Args:
        hard: Most amounts by resource name, such as `gpu.example.com.deviceclass.resource.k8s.io/devices`.
        used: `status.used`; empty when nothing was counted yet.
        scopes: Which objects are counted; empty for all.
    """

    metadata: Metadata
    hard: Mapping[str, Quantity] = field(default_factory=dict)
    used: Mapping[str, Quantity] = field(default_factory=dict)
    scopes: tuple[QuotaScope, ...] = ()

    @property
    def ref(self) -> QuotaRef:
        """Namespace and name."""
        return QuotaRef(self.metadata.namespace, self.metadata.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A name for a priority of pods.

    Args:
        value: The priority; higher goes first.
        global_default: Whether pods without a class get this one.
        preemption_policy: `PreemptLowerPriority` or `Never`.
    """

    metadata: Metadata
    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.metadata.name

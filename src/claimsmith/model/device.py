"""A device as its driver publishes it. Source: Device of resource.k8s.io/v1 (Kubernetes 1.37)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from claimsmith.model.quantity import Quantity
from claimsmith.model.taint import Taint, Toleration
from claimsmith.model.topology import NodeSelector

__all__ = [
    "EMPTY_MAP",
    "AttributeKind",
    "Capacity",
    "CapacityRange",
    "CapacityRequestPolicy",
    "CounterConsumption",
    "Device",
    "DeviceAttribute",
    "DeviceTaint",
    "DeviceToleration",
    "NodeAllocatableResource",
]

EMPTY_MAP: Final[Mapping[str, object]] = MappingProxyType({})

AttributeKind = Literal["int", "bool", "string", "version", "ints", "bools", "strings", "versions", "unknown"]


@dataclass(frozen=True, slots=True)
class DeviceAttribute:
    """One attribute value with its type.

    Args:
        kind: Which field of the API's union is set; `unknown` when none that this version knows.
        value: int, bool or str for scalars (a version is its text), a tuple of them for lists, None for unknown.
    """

    kind: AttributeKind
    value: int | bool | str | tuple[int, ...] | tuple[bool, ...] | tuple[str, ...] | None

    @classmethod
    def of(cls, value: int | bool | str | tuple[int, ...] | tuple[str, ...]) -> DeviceAttribute:
        """Return the attribute for a Python value; text becomes a string (use `version` for versions)."""
        if isinstance(value, tuple):
            return cls("ints" if value and isinstance(value[0], int) else "strings", value)
        return cls("bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string", value)

    @classmethod
    def version(cls, text: str) -> DeviceAttribute:
        """Return a version attribute (semantic versioning 2.0.0)."""
        return cls("version", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRange:
    """Allowed amounts of one allocation: from `minimum`, in steps, up to `maximum`. Source: KEP-5075."""

    minimum: Quantity
    maximum: Quantity | None = None
    step: Quantity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityRequestPolicy:
    """How much of a capacity one allocation may take; at most one of `valid_values` and `valid_range` is set."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] = ()
    valid_range: CapacityRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """One capacity of a device: its amount, and the policy for shares of it."""

    value: Quantity
    policy: CapacityRequestPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterConsumption:
    """What a device takes from one counter set of its pool while it is allocated."""

    counter_set: str
    counters: Mapping[str, Quantity]
    compatibility_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTaint(Taint):
    """Why a device should not be used.

    Args:
        effect: None, NoSchedule or NoExecute; other texts are kept and have no effect.
        time_added: RFC 3339 text; None when not set.
    """

    time_added: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceToleration(Toleration):
    """Which taints of devices a request accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocatableResource:
    """What an allocated device takes from, or adds to, the node's cpu, memory and the like. Source: KEP-5517."""

    capacity_key: str | None = None
    capacity_multiplier: Quantity | None = None
    device_multiplier: Quantity | None = None
    overhead_per_pod: Quantity | None = None
    overhead_per_container: Quantity | None = None

    @property
    def is_mapping(self) -> bool:
        """Whether the device stands for an amount of the resource, instead of costing some besides."""
        return bool(self.capacity_key) or self.device_multiplier is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device of a slice.

    Args:
        attributes: By qualified name; a name without a domain belongs to the driver's domain.
        capacity: By qualified name, like attributes.
        node_name, node_selector, all_nodes: Only with a slice's per-device node selection.
        binding_conditions: Condition types that must be True in the claim's device status before the pod is bound.
    """

    name: str
    attributes: Mapping[str, DeviceAttribute] = field(default_factory=dict)
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False
    node_allocatable_resources: Mapping[str, NodeAllocatableResource] = field(default_factory=dict)

"""The feature gates that change what the allocator may do, as one value.

Source: structured.Features in k8s.io/dynamic-resource-allocation v0.37.2; stages in kubernetes v1.37.2
pkg/features/kube_features.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from claimsmith.errors import FieldError

__all__ = ["Features", "find_release_features"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Which optional parts of Dynamic Resource Allocation are on. The default is a stock 1.37 scheduler's."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_binding_and_status: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = False
    list_type_attributes: bool = False
    optional_node_operations: bool = False
    derived_attributes: bool = False
    compatibility_groups: bool = False

    @classmethod
    def all(cls) -> Features:
        """Every gate on."""
        return cls(**{field.name: True for field in fields(cls)})

    @classmethod
    def none(cls) -> Features:
        """Every gate off: the plain core of DRA."""
        return cls(**{field.name: False for field in fields(cls)})

    @classmethod
    def parse(cls, gates: Mapping[str, bool], *, base: Features | None = None) -> Features:
        """Return `base` (default: none) with gates set by upstream's names, e.g. `{"ConsumableCapacity": True}`.

        Both `ConsumableCapacity` and the component gate `DRAConsumableCapacity` are understood.

        Raises:
            FieldError: A gate is not known.
        """
        values = {field.name: getattr(base or cls.none(), field.name) for field in fields(cls)}
        for gate, on in gates.items():
            values[_field_name(gate)] = on
        return cls(**values)

    def gates(self) -> dict[str, bool]:
        """Return the gates by upstream's names."""
        return {gate: getattr(self, name) for gate, name in _GATES.items()}


_GATES = {
    "AdminAccess": "admin_access",
    "PrioritizedList": "prioritized_list",
    "PartitionableDevices": "partitionable_devices",
    "DeviceTaints": "device_taints",
    "DeviceBindingAndStatus": "device_binding_and_status",
    "ConsumableCapacity": "consumable_capacity",
    "FractionalCapacityRange": "fractional_capacity_range",
    "ListTypeAttributes": "list_type_attributes",
    "OptionalNodeOperations": "optional_node_operations",
    "DerivedAttributes": "derived_attributes",
    "CompatibilityGroups": "compatibility_groups",
}
_COMPONENT_NAMES = {
    "DeviceBindingConditions": "DeviceBindingAndStatus",
    "DeviceCompatibilityGroups": "CompatibilityGroups",
}


def _field_name(gate: str) -> str:
    short = gate.removeprefix("DRA")
    name = _GATES.get(_COMPONENT_NAMES.get(short, short))
    if name is None:
        raise FieldError("features", gate, allowed=", ".join(_GATES), hint="correct the name of the gate")
    return name


_RELEASES = {
    "1.34": Features(
        partitionable_devices=False,
        device_taints=False,
        device_binding_and_status=False,
        consumable_capacity=False,
    ),
    "1.35": Features(
        partitionable_devices=False,
        device_taints=False,
        device_binding_and_status=False,
        consumable_capacity=False,
    ),
    "1.36": Features(),
    "1.37": Features(),
}


def find_release_features(release: str) -> Features | None:
    """Return the default gates of a Kubernetes release such as `1.37`; None when the release is not known."""
    return _RELEASES.get(release)

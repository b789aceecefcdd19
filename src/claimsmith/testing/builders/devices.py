"""Builders of devices, slices and taints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypedDict, Unpack

from claimsmith.model.device import (
    Capacity,
    CapacityRange,
    CapacityRequestPolicy,
    CounterConsumption,
    Device,
    DeviceAttribute,
    DeviceTaint,
    DeviceToleration,
)
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import CounterSet, DeviceTaintRule, ResourceSlice
from claimsmith.model.quantity import Quantity, parse_quantity
from claimsmith.model.semver import Semver
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

__all__ = [
    "DRIVER",
    "NODE",
    "Amount",
    "Attribute",
    "capacity",
    "consumes",
    "counter_set",
    "device",
    "device_id",
    "gpu",
    "on_nodes",
    "quantities",
    "quantity",
    "slice_",
    "taint",
    "taint_rule",
    "toleration",
]

DRIVER: Final = "gpu.example.test"
"""Driver of all builders."""
NODE: Final = "node-a"
"""Node of all builders; its name is the default pool's too."""

Amount = Quantity | str | int
"""An amount: `"10Gi"`, a whole number, or a quantity."""
Attribute = DeviceAttribute | Semver | int | bool | str | tuple[int, ...] | tuple[str, ...]
"""An attribute's value; a `Semver` becomes a version."""


class DeviceFields(TypedDict, total=False):
    """Rare fields of a device that `device` takes by name."""

    node_name: str | None
    node_selector: NodeSelector | None
    all_nodes: bool
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]
    allow_multiple_allocations: bool


class SliceFields(TypedDict, total=False):
    """Rare fields of a slice that `slice_` takes by name."""

    metadata: Metadata
    node_selector: NodeSelector | None
    all_nodes: bool
    per_device_node_selection: bool
    shared_counters: tuple[CounterSet, ...]
    partition_type_attribute: str | None
    skip_node_operations: tuple[str, ...]
    generation: int
    slice_count: int


def quantity(amount: Amount) -> Quantity:
    """Return the quantity of an amount."""
    return amount if isinstance(amount, Quantity) else parse_quantity(str(amount))


def quantities(amounts: Mapping[str, Amount]) -> dict[str, Quantity]:
    """Return the quantities of named amounts."""
    return {name: quantity(amount) for name, amount in amounts.items()}


def _attribute(value: Attribute) -> DeviceAttribute:
    if isinstance(value, DeviceAttribute):
        return value
    return DeviceAttribute.version(str(value)) if isinstance(value, Semver) else DeviceAttribute.of(value)


def capacity(
    value: Amount,
    *,
    default: Amount | None = None,
    minimum: Amount | None = None,
    maximum: Amount | None = None,
    step: Amount | None = None,
    valid_values: Iterable[Amount] = (),
) -> Capacity:
    """Return a capacity; with a request policy when any of its parts is given."""
    limits = None
    if minimum is not None:
        limits = CapacityRange(minimum=quantity(minimum), maximum=_optional(maximum), step=_optional(step))
    policy = CapacityRequestPolicy(
        default=_optional(default), valid_values=tuple(map(quantity, valid_values)), valid_range=limits
    )
    return Capacity(value=quantity(value), policy=None if policy == CapacityRequestPolicy() else policy)


def _optional(amount: Amount | None) -> Quantity | None:
    return None if amount is None else quantity(amount)


def consumes(counter_set: str, counters: Mapping[str, Amount], *, groups: tuple[str, ...] = ()) -> CounterConsumption:
    """Return what a device takes from a counter set."""
    return CounterConsumption(
        counter_set=counter_set, counters=quantities(counters), compatibility_groups=tuple(groups)
    )


def counter_set(name: str, counters: Mapping[str, Amount]) -> CounterSet:
    """Return counters that devices share."""
    return CounterSet(name=name, counters=quantities(counters))


def taint(key: str = "example.test/broken", effect: str = "NoSchedule", *, value: str = "") -> DeviceTaint:
    """Return a device taint."""
    return DeviceTaint(key=key, effect=effect, value=value)


def toleration(key: str = "", *, operator: str = "Exists", value: str = "", effect: str = "") -> DeviceToleration:
    """Return a toleration of a request; the default accepts every taint."""
    return DeviceToleration(key=key, operator=operator, value=value, effect=effect)


def device(
    name: str = "gpu-0",
    *,
    attributes: Mapping[str, Attribute] | None = None,
    capacity: Mapping[str, Amount | Capacity] | None = None,
    counters: Iterable[CounterConsumption] = (),
    taints: Iterable[DeviceTaint] = (),
    **fields: Unpack[DeviceFields],
) -> Device:
    """Return a device; plain values become attributes and capacities."""
    amounts = (capacity or {}).items()
    return Device(
        name=name,
        attributes={key: _attribute(value) for key, value in (attributes or {}).items()},
        capacity={
            key: value if isinstance(value, Capacity) else Capacity(value=quantity(value)) for key, value in amounts
        },
        consumes_counters=tuple(counters),
        taints=tuple(taints),
        **fields,
    )


def gpu(
    name: str = "gpu-0",
    *,
    memory: Amount = "80Gi",
    model: str = "A100-SXM4-80GB",
    attributes: Mapping[str, Attribute] | None = None,
    taints: Iterable[DeviceTaint] = (),
) -> Device:
    """Return a GPU with a model, a uuid, a compute capability and memory; `attributes` adds or replaces."""
    known: dict[str, Attribute] = {
        "type": "gpu",
        "model": model,
        "uuid": f"GPU-{name}",
        "computeCapability": DeviceAttribute.version("8.0.0"),
    }
    return device(name, attributes={**known, **(attributes or {})}, capacity={"memory": memory}, taints=taints)


def device_id(device: str, *, pool: str = NODE, driver: str = DRIVER) -> DeviceId:
    """Return the identity of a device."""
    return DeviceId(driver, pool, device)


def on_nodes(**labels: str) -> NodeSelector:
    """Return a node selector for nodes with these labels; `_` in a name stands for `-`."""
    tests = (
        NodeSelectorRequirement(key=key.replace("_", "-"), operator="In", values=(value,))
        for key, value in labels.items()
    )
    return NodeSelector(terms=(NodeSelectorTerm(match_expressions=tuple(tests)),))


def slice_(
    *devices: Device,
    name: str = "slice-0",
    driver: str = DRIVER,
    node: str | None = NODE,
    pool: str | None = None,
    **fields: Unpack[SliceFields],
) -> ResourceSlice:
    """Return a slice of a pool of one slice; the pool is named after the node unless `pool` says otherwise."""
    fields.setdefault("metadata", Metadata(name=name, uid=f"uid-{name}"))
    fields.setdefault("generation", 1)
    fields.setdefault("slice_count", 1)
    return ResourceSlice(driver=driver, node_name=node, pool=pool or node or "pool", devices=devices, **fields)


def taint_rule(
    name: str = "rule", *, taint: DeviceTaint, driver: str | None = None, pool: str | None = None,
    device: str | None = None,
) -> DeviceTaintRule:  # fmt: skip
    """Return an administrator's taint on all devices, or on those of a driver, a pool, a name."""
    return DeviceTaintRule(
        metadata=Metadata(name=name, uid=f"uid-{name}"), taint=taint, selects=True, driver=driver, pool=pool,
        device=device,
    )  # fmt: skip

"""resource.k8s.io/v1 on the wire and in the model: slices with their devices, taint rules."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from claimsmith.api.metadata import (
    encode_conditions,
    encode_metadata,
    encode_node_selector,
    encode_quantities,
    parse_conditions,
    parse_metadata,
    parse_node_selector,
    read_quantity,
)
from claimsmith.api.wire import resource_class as rule_wire
from claimsmith.api.wire import resource_slice as wire
from claimsmith.model.device import (
    AttributeKind,
    Capacity,
    CapacityRange,
    CapacityRequestPolicy,
    CounterConsumption,
    Device,
    DeviceAttribute,
    DeviceTaint,
    NodeAllocatableResource,
)
from claimsmith.model.pool import CounterSet, DeviceTaintRule, ResourceSlice
from claimsmith.model.quantity import Quantity

__all__ = [
    "API_VERSION",
    "build_counter_set",
    "build_device",
    "build_slice",
    "build_taint_rule",
    "encode_attribute",
    "encode_counter_set",
    "encode_device",
    "encode_slice",
    "encode_taint_rule",
]

API_VERSION = "resource.k8s.io/v1"
_SCALARS: tuple[tuple[str, AttributeKind], ...] = (
    ("int_", "int"),
    ("bool_", "bool"),
    ("string", "string"),
    ("version", "version"),
)
_LISTS: tuple[tuple[str, AttributeKind], ...] = (
    ("ints", "ints"),
    ("bools", "bools"),
    ("strings", "strings"),
    ("versions", "versions"),
)


def build_slice(source: wire.ResourceSlice) -> ResourceSlice:
    """Return a slice of the model.

    Raises:
        QuantityFormatError: An amount is no quantity.
    """
    spec = source.spec
    return ResourceSlice(
        metadata=parse_metadata(source.metadata),
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        node_name=spec.node_name or None,
        node_selector=parse_node_selector(spec.node_selector) if spec.node_selector is not None else None,
        all_nodes=bool(spec.all_nodes),
        per_device_node_selection=bool(spec.per_device_node_selection),
        devices=tuple([build_device(device) for device in spec.devices or ()]),
        shared_counters=tuple(build_counter_set(counters) for counters in spec.shared_counters or ()),
        partition_type_attribute=spec.partition_type_attribute,
        skip_node_operations=tuple(spec.skip_node_operations or ()),
    )


def build_device(source: wire.Device) -> Device:
    """Return a device of the model.

    Raises:
        QuantityFormatError: An amount is no quantity.
    """
    resources = source.node_allocatable_resources
    return Device(
        name=source.name,
        attributes={name: _build_attribute(entry) for name, entry in (source.attributes or {}).items()},
        capacity=_build_capacities(source.capacity or {}),
        consumes_counters=tuple(_build_consumption(entry) for entry in source.consumes_counters or ()),
        node_name=source.node_name or None,
        node_selector=parse_node_selector(source.node_selector) if source.node_selector is not None else None,
        all_nodes=bool(source.all_nodes),
        taints=tuple(build_taint(taint) for taint in source.taints or ()),
        binds_to_node=bool(source.binds_to_node),
        binding_conditions=tuple(source.binding_conditions or ()),
        binding_failure_conditions=tuple(source.binding_failure_conditions or ()),
        allow_multiple_allocations=bool(source.allow_multiple_allocations),
        node_allocatable_resources={name: _build_allocatable(entry) for name, entry in (resources or {}).items()},
    )


def _build_attribute(source: wire.DeviceAttribute) -> DeviceAttribute:
    if source.string is not None:
        return _share_attribute("string", source.string)
    if source.int_ is not None:
        return _share_attribute("int", source.int_)
    if source.version is not None:
        return _share_attribute("version", source.version)
    if source.bool_ is not None:
        return _share_attribute("bool", source.bool_)
    for attribute, kind in _LISTS:
        values = getattr(source, attribute)
        if values is not None:
            return DeviceAttribute(kind, tuple(values))
    return DeviceAttribute("unknown", None)


@lru_cache(maxsize=65_536)
def _share_attribute(kind: AttributeKind, value: Any) -> DeviceAttribute:
    """Return one object for equal attributes: the same few values stand in thousands of devices."""
    return DeviceAttribute(kind, value)


def _build_capacities(source: Mapping[str, wire.DeviceCapacity]) -> Mapping[str, Capacity]:
    has_policy = [entry.request_policy is not None for entry in source.values()]
    if any(has_policy):
        return {name: _build_capacity(entry) for name, entry in source.items()}
    return _share_capacities(tuple([(name, entry.value) for name, entry in source.items()]))


@lru_cache(maxsize=16_384)
def _share_capacities(source: tuple[tuple[str, str | int | float], ...]) -> Mapping[str, Capacity]:
    """Return one object for equal plain capacities of a device: the same few stand in thousands of devices."""
    return {name: _share_capacity(value) for name, value in source}


def _build_capacity(source: wire.DeviceCapacity) -> Capacity:
    if source.request_policy is None:
        return _share_capacity(source.value)
    return Capacity(value=read_quantity(source.value), policy=_build_policy(source.request_policy))


@lru_cache(maxsize=16_384)
def _share_capacity(value: str | int | float) -> Capacity:
    """Return one object for equal plain capacities."""
    return Capacity(value=read_quantity(value))


def _build_policy(source: wire.CapacityRequestPolicy) -> CapacityRequestPolicy:
    allowed = source.valid_range
    return CapacityRequestPolicy(
        default=_read_optional(source.default),
        valid_values=tuple(read_quantity(value) for value in source.valid_values or ()),
        valid_range=None
        if allowed is None
        else CapacityRange(
            minimum=read_quantity("0" if allowed.min is None else allowed.min),
            maximum=_read_optional(allowed.max),
            step=_read_optional(allowed.step),
        ),
    )


def _read_optional(source: str | int | float | None) -> Quantity | None:
    return None if source is None else read_quantity(source)


def _build_consumption(source: wire.DeviceCounterConsumption) -> CounterConsumption:
    return CounterConsumption(
        counter_set=source.counter_set,
        counters={name: read_quantity(counter.value) for name, counter in source.counters.items()},
        compatibility_groups=tuple(source.compatibility_groups or ()),
    )


def build_counter_set(source: wire.CounterSet) -> CounterSet:
    """Return a counter set of the model."""
    counters = {name: read_quantity(counter.value) for name, counter in source.counters.items()}
    return CounterSet(name=source.name, counters=counters)


def build_taint(source: wire.DeviceTaint) -> DeviceTaint:
    """Return a taint of the model."""
    return DeviceTaint(key=source.key, effect=source.effect, value=source.value or "", time_added=source.time_added)


def _build_allocatable(source: wire.NodeAllocatableResource) -> NodeAllocatableResource:
    mapping = source.mapping or wire.NodeAllocatableMapping()
    overhead = source.overhead or wire.NodeAllocatableOverhead()
    return NodeAllocatableResource(
        capacity_key=mapping.capacity_key,
        capacity_multiplier=_read_optional(mapping.capacity_multiplier),
        device_multiplier=_read_optional(mapping.device_multiplier),
        overhead_per_pod=_read_optional(overhead.per_pod),
        overhead_per_container=_read_optional(overhead.per_container),
    )


def build_taint_rule(source: rule_wire.DeviceTaintRule) -> DeviceTaintRule:
    """Return a taint rule of the model."""
    selector = source.spec.device_selector
    conditions = source.status.conditions if source.status is not None else None
    return DeviceTaintRule(
        metadata=parse_metadata(source.metadata),
        taint=build_taint(source.spec.taint),
        selects=selector is not None,
        driver=selector.driver if selector is not None else None,
        pool=selector.pool if selector is not None else None,
        device=selector.device if selector is not None else None,
        conditions=parse_conditions(conditions),
    )


def encode_slice(value: ResourceSlice) -> wire.ResourceSlice:
    """Return the wire form of a slice."""
    pool = wire.ResourcePool(name=value.pool, generation=value.generation, resource_slice_count=value.slice_count)
    spec = wire.ResourceSliceSpec(
        driver=value.driver,
        pool=pool,
        node_name=value.node_name,
        node_selector=encode_node_selector(value.node_selector) if value.node_selector is not None else None,
        all_nodes=value.all_nodes or None,
        per_device_node_selection=value.per_device_node_selection or None,
        devices=[encode_device(device) for device in value.devices] or None,
        shared_counters=[encode_counter_set(counters) for counters in value.shared_counters] or None,
        partition_type_attribute=value.partition_type_attribute,
        skip_node_operations=list(value.skip_node_operations) or None,
    )
    return wire.ResourceSlice(
        api_version=API_VERSION, kind="ResourceSlice", metadata=encode_metadata(value.metadata), spec=spec
    )


def encode_device(value: Device) -> wire.Device:
    """Return the wire form of a device."""
    allocatable = value.node_allocatable_resources
    return wire.Device(
        name=value.name,
        attributes={name: encode_attribute(entry) for name, entry in value.attributes.items()} or None,
        capacity={name: _encode_capacity(entry) for name, entry in value.capacity.items()} or None,
        consumes_counters=[_encode_consumption(entry) for entry in value.consumes_counters] or None,
        node_name=value.node_name,
        node_selector=encode_node_selector(value.node_selector) if value.node_selector is not None else None,
        all_nodes=value.all_nodes or None,
        taints=[encode_taint(taint) for taint in value.taints] or None,
        binds_to_node=value.binds_to_node or None,
        binding_conditions=list(value.binding_conditions) or None,
        binding_failure_conditions=list(value.binding_failure_conditions) or None,
        allow_multiple_allocations=value.allow_multiple_allocations or None,
        node_allocatable_resources={name: _encode_allocatable(entry) for name, entry in allocatable.items()} or None,
    )


def encode_attribute(value: DeviceAttribute) -> wire.DeviceAttribute:
    """Return an attribute for the wire; of an unknown kind nothing is left."""
    result = wire.DeviceAttribute()
    for attribute, kind in _SCALARS:
        if kind == value.kind:
            setattr(result, attribute, value.value)
    for attribute, kind in _LISTS:
        if kind == value.kind and isinstance(value.value, tuple):
            setattr(result, attribute, list(value.value))
    return result


def _encode_capacity(value: Capacity) -> wire.DeviceCapacity:
    policy = value.policy
    if policy is None:
        return wire.DeviceCapacity(value=str(value.value))
    allowed = policy.valid_range
    encoded = wire.CapacityRequestPolicy(
        default=_encode_optional(policy.default),
        valid_values=[str(entry) for entry in policy.valid_values] or None,
        valid_range=None
        if allowed is None
        else wire.CapacityRequestPolicyRange(
            min=str(allowed.minimum), max=_encode_optional(allowed.maximum), step=_encode_optional(allowed.step)
        ),
    )
    return wire.DeviceCapacity(value=str(value.value), request_policy=encoded)


def _encode_optional(value: Quantity | None) -> str | None:
    return None if value is None else str(value)


def _encode_consumption(value: CounterConsumption) -> wire.DeviceCounterConsumption:
    return wire.DeviceCounterConsumption(
        counter_set=value.counter_set,
        counters=_encode_counters(value.counters),
        compatibility_groups=list(value.compatibility_groups) or None,
    )


def encode_counter_set(value: CounterSet) -> wire.CounterSet:
    """Return the wire form of a counter set."""
    return wire.CounterSet(name=value.name, counters=_encode_counters(value.counters))


def _encode_counters(values: Any) -> dict[str, wire.Counter]:
    return {name: wire.Counter(value=amount) for name, amount in encode_quantities(values).items()}


def encode_taint(value: DeviceTaint) -> wire.DeviceTaint:
    """Return the wire form of a taint."""
    return wire.DeviceTaint(key=value.key, effect=value.effect, value=value.value or None, time_added=value.time_added)


def _encode_allocatable(value: NodeAllocatableResource) -> wire.NodeAllocatableResource:
    mapping = wire.NodeAllocatableMapping(
        capacity_key=value.capacity_key,
        capacity_multiplier=_encode_optional(value.capacity_multiplier),
        device_multiplier=_encode_optional(value.device_multiplier),
    )
    overhead = wire.NodeAllocatableOverhead(
        per_pod=_encode_optional(value.overhead_per_pod), per_container=_encode_optional(value.overhead_per_container)
    )
    return wire.NodeAllocatableResource(
        mapping=mapping if mapping != wire.NodeAllocatableMapping() else None,
        overhead=overhead if overhead != wire.NodeAllocatableOverhead() else None,
    )


def encode_taint_rule(value: DeviceTaintRule) -> rule_wire.DeviceTaintRule:
    """Return the wire form of a taint rule."""
    selector = rule_wire.DeviceTaintSelector(driver=value.driver, pool=value.pool, device=value.device)
    return rule_wire.DeviceTaintRule(
        api_version=API_VERSION,
        kind="DeviceTaintRule",
        metadata=encode_metadata(value.metadata),
        spec=rule_wire.DeviceTaintRuleSpec(
            device_selector=selector if value.selects else None, taint=encode_taint(value.taint)
        ),
        status=rule_wire.DeviceTaintRuleStatus(conditions=encode_conditions(value.conditions))
        if value.conditions
        else None,
    )

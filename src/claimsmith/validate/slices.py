"""Rules of ResourceSlice: node selection, devices, attributes, counters.

Source: validateResourceSliceSpec and below in k8s.io/kubernetes v1.37.2 pkg/apis/resource/validation/validation.go.

Deviates: gated-fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from claimsmith.api.metadata import read_quantity
from claimsmith.api.wire.base import Quantity as WireQuantity
from claimsmith.api.wire.core_selection import NodeSelector
from claimsmith.api.wire.resource_slice import (
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceCounterConsumption,
    NodeAllocatableMapping,
    NodeAllocatableOverhead,
    NodeAllocatableResource,
    ResourcePool,
    ResourceSliceSpec,
)
from claimsmith.model.semver import find_semver
from claimsmith.validate.capacity import check_capacity
from claimsmith.validate.issues import (
    FieldIssue,
    find_duplicates,
    immutable,
    invalid,
    required,
    too_long,
    too_many,
)
from claimsmith.validate.names import (
    check_attribute_name,
    check_dns_label,
    check_driver_name,
    check_fully_qualified_name,
    check_pool_name,
    check_subdomain,
)
from claimsmith.validate.selection import (
    check_binding_conditions,
    check_node_selector,
    check_skip_node_operations,
    check_taint,
)

__all__ = ["check_slice_spec"]

DEVICES_MAX: Final = 128
"""Most devices in a slice of plain devices."""
DEVICES_MAX_ADVANCED: Final = 64
"""Most devices in a slice in which one has taints, consumes counters or has a list attribute."""
_COUNTER_SETS_MAX: Final = 8
_COUNTERS_MAX: Final = 32
_CONSUMED_SETS_MAX: Final = 2
_GROUPS_MAX: Final = 2
_NAMES_MAX: Final = 32
_VALUES_MAX: Final = 48
_VALUE_BYTES_MAX: Final = 64
_TAINTS_MAX: Final = 16
_LISTS: Final = ("bools", "ints", "strings", "versions")


def check_slice_spec(spec: ResourceSliceSpec, old: ResourceSliceSpec | None, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a slice.

    Args:
        spec: The spec.
        old: The spec before the change; None for a new slice.
        path: Field path of the spec.
    """
    yield from check_driver_name(spec.driver, f"{path}.driver")
    yield from _check_pool(spec.pool, f"{path}.pool")
    if old is not None:
        for name, before, after in (
            ("pool.name", old.pool.name, spec.pool.name),
            ("driver", old.driver, spec.driver),
            ("nodeName", old.node_name, spec.node_name),
        ):
            if before != after:
                yield immutable(f"{path}.{name}", after)
    yield from _check_nodes(spec, path)
    if spec.shared_counters is not None and spec.devices is not None:
        yield invalid(path, "", "only one of `sharedCounters` or `devices` is allowed")
    yield from _check_devices(spec, old, f"{path}.devices")
    yield from _check_counter_sets(spec.shared_counters or [], f"{path}.sharedCounters")
    if spec.partition_type_attribute is not None:
        yield from _check_partition_type(spec, spec.partition_type_attribute, path)
    yield from check_skip_node_operations(spec.skip_node_operations, f"{path}.skipNodeOperations")


def _check_pool(pool: ResourcePool, path: str) -> Iterator[FieldIssue]:
    yield from check_pool_name(pool.name, f"{path}.name")
    if pool.resource_slice_count <= 0:
        yield invalid(f"{path}.resourceSliceCount", pool.resource_slice_count, "must be greater than zero")
    if pool.generation < 0:
        yield invalid(f"{path}.generation", pool.generation, "must be greater than or equal to zero")


def _check_nodes(spec: ResourceSliceSpec, path: str) -> Iterator[FieldIssue]:
    """Check that the slice says in exactly one way which nodes can reach it."""
    chosen = []
    if spec.node_name is not None:
        if spec.node_name:
            chosen.append("`nodeName`")
            yield from check_subdomain(spec.node_name, f"{path}.nodeName")
        else:
            yield invalid(f"{path}.nodeName", "", "must be either unset or set to a non-empty string")
    if spec.node_selector is not None:
        chosen.append("`nodeSelector`")
        yield from _check_single_term(spec.node_selector, f"{path}.nodeSelector")
    for name, value in (("allNodes", spec.all_nodes), ("perDeviceNodeSelection", spec.per_device_node_selection)):
        if value:
            chosen.append(f"`{name}`")
        elif value is not None:
            yield invalid(f"{path}.{name}", value, "must be either unset or set to true")
    rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not chosen:
        yield required(path, rule)
    elif len(chosen) > 1:
        yield invalid(path, f"{{{', '.join(chosen)}}}", f"{rule}, but multiple fields are set")


def _check_single_term(selector: NodeSelector, path: str) -> Iterator[FieldIssue]:
    yield from check_node_selector(selector, path)
    if len(selector.node_selector_terms) != 1:
        found = len(selector.node_selector_terms)
        yield invalid(f"{path}.nodeSelectorTerms", found, "must have exactly one node selector term")


def _check_devices(spec: ResourceSliceSpec, old: ResourceSliceSpec | None, path: str) -> Iterator[FieldIssue]:
    devices = spec.devices or []
    limit = DEVICES_MAX_ADVANCED if any(map(_is_advanced, devices)) else DEVICES_MAX
    if len(devices) > limit:
        yield too_many(path, len(devices), limit)
        return
    before = {device.name: device for device in (old.devices if old is not None else None) or ()}
    by_device = bool(spec.per_device_node_selection)
    for i, device in enumerate(devices):
        yield from _check_device(device, before.get(device.name), f"{path}[{i}]")
        yield from _check_device_nodes(device, f"{path}[{i}]", by_device)
        if old is None or old.devices != spec.devices:
            yield from _check_multipliers(device, f"{path}[{i}].nodeAllocatableResources")
    yield from find_duplicates((device.name for device in devices), path)


def _is_advanced(device: Device) -> bool:
    """Tell whether a device has taints, consumes counters or has a list attribute."""
    if device.taints or device.consumes_counters:
        return True
    return any(
        getattr(attribute, name) is not None for attribute in (device.attributes or {}).values() for name in _LISTS
    )


def _check_device(device: Device, old: Device | None, path: str) -> Iterator[FieldIssue]:
    yield from check_dns_label(device.name, f"{path}.name")
    attributes, capacity = device.attributes or {}, device.capacity or {}
    count = len(attributes) + len(capacity)
    if count > _NAMES_MAX:
        why = f"the total number of attributes and capacities must not exceed {_NAMES_MAX}"
        yield invalid(path, count, why)
    values = sum(map(_count_values, attributes.values()))
    if values > _VALUES_MAX:
        yield invalid(path, values, f"the total number of attribute values must not exceed {_VALUES_MAX}")
    for name, attribute in attributes.items():
        yield from check_attribute_name(name, f"{path}.attributes")
        yield from _check_attribute(attribute, f"{path}.attributes[{name[:96]}]")
    if old is None or old.capacity != device.capacity:
        yield from _check_capacities(device, capacity, f"{path}.capacity")
    taints = device.taints or []
    if old is None or old.taints != device.taints:
        if len(taints) > _TAINTS_MAX:
            yield too_many(f"{path}.taints", len(taints), _TAINTS_MAX)
            taints = []
        for i, taint in enumerate(taints):
            yield from check_taint(taint, f"{path}.taints[{i}]")
    yield from _check_consumption(device.consumes_counters or [], f"{path}.consumesCounters")
    yield from check_binding_conditions(device.binding_conditions, device.binding_failure_conditions, path)
    resources = device.node_allocatable_resources or {}
    for name, resource in resources.items():
        yield from _check_allocatable(name, resource, capacity, f"{path}.nodeAllocatableResources[{name}]")


def _check_capacities(device: Device, capacity: Mapping[str, DeviceCapacity], path: str) -> Iterator[FieldIssue]:
    shareable = bool(device.allow_multiple_allocations)
    for name, entry in capacity.items():
        yield from check_attribute_name(name, path)
        yield from check_capacity(entry, f"{path}[{name[:96]}]", shareable=shareable)


def _count_values(attribute: DeviceAttribute) -> int:
    return sum(len(getattr(attribute, name) or ()) for name in _LISTS) or 1


def _check_attribute(attribute: DeviceAttribute, path: str) -> Iterator[FieldIssue]:
    scalars = (attribute.bool_, attribute.int_, attribute.string, attribute.version)
    lists = {name: getattr(attribute, name) for name in _LISTS}
    if attribute.string is not None:
        yield from _check_text(attribute.string, f"{path}.string")
    if attribute.version is not None:
        yield from _check_version(attribute.version, f"{path}.version")
    for name, values in lists.items():
        if values is not None and not values:
            yield invalid(f"{path}.{name}", [], "must not be empty if specified")
    for i, text in enumerate(attribute.strings or ()):
        yield from _check_text(text, f"{path}.strings[{i}]")
    for i, text in enumerate(attribute.versions or ()):
        yield from _check_version(text, f"{path}.versions[{i}]")
    values = (*scalars, *lists.values())
    if sum(value is not None for value in values) != 1 or all(value in (None, []) for value in values):
        yield invalid(path, "", "exactly one value must be specified")


def _check_text(text: str, path: str) -> Iterator[FieldIssue]:
    if len(text.encode()) > _VALUE_BYTES_MAX:
        yield too_long(path, _VALUE_BYTES_MAX)


def _check_version(text: str, path: str) -> Iterator[FieldIssue]:
    if find_semver(text) is None:
        yield invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from _check_text(text, path)


def _check_device_nodes(device: Device, path: str, by_device: bool) -> Iterator[FieldIssue]:
    """Check that a device names its nodes exactly when its slice leaves that to the devices."""
    rule = "is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    if not by_device:
        if (device.node_name, device.node_selector, device.all_nodes) != (None, None, None):
            why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true"
            yield invalid(path, None, f"{why} in the ResourceSlice spec")
        return
    chosen = []
    if device.node_name is not None:
        if device.node_name:
            chosen.append("`nodeName`")
            yield from check_subdomain(device.node_name, f"{path}.nodeName")
        else:
            yield invalid(f"{path}.nodeName", "", "must not be empty")
    if device.node_selector is not None:
        chosen.append("`nodeSelector`")
        yield from check_node_selector(device.node_selector, f"{path}.nodeSelector")
    if device.all_nodes:
        chosen.append("`allNodes`")
    elif device.all_nodes is not None:
        yield invalid(f"{path}.allNodes", False, "must be either unset or set to true")
    if not chosen:
        yield required(path, f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` {rule}")
    elif len(chosen) > 1:
        found = f"{{{', '.join(chosen)}}}"
        yield invalid(path, found, f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` {rule}")


def _check_consumption(entries: list[DeviceCounterConsumption], path: str) -> Iterator[FieldIssue]:
    if len(entries) > _CONSUMED_SETS_MAX:
        yield too_many(path, len(entries), _CONSUMED_SETS_MAX)
        return
    for i, entry in enumerate(entries):
        yield from _check_required_label(entry.counter_set, f"{path}[{i}].counterSet")
        yield from _check_counters(entry.counters, f"{path}[{i}].counters")
        groups = entry.compatibility_groups or []
        if len(groups) > _GROUPS_MAX:
            yield too_many(f"{path}[{i}].compatibilityGroups", len(groups), _GROUPS_MAX)
            groups = []
        for j, group in enumerate(groups):
            yield from check_dns_label(group, f"{path}[{i}].compatibilityGroups[{j}]")
        yield from find_duplicates(groups, f"{path}[{i}].compatibilityGroups")
    yield from find_duplicates((entry.counter_set for entry in entries), path)


def _check_counter_sets(entries: list[CounterSet], path: str) -> Iterator[FieldIssue]:
    if len(entries) > _COUNTER_SETS_MAX:
        yield too_many(path, len(entries), _COUNTER_SETS_MAX)
        return
    for i, entry in enumerate(entries):
        yield from _check_required_label(entry.name, f"{path}[{i}].name")
        yield from _check_counters(entry.counters, f"{path}[{i}].counters")
    yield from find_duplicates((entry.name for entry in entries), path)


def _check_required_label(text: str, path: str) -> Iterator[FieldIssue]:
    if text:
        yield from check_dns_label(text, path)
    else:
        yield required(path)


def _check_counters(counters: Mapping[str, Counter], path: str) -> Iterator[FieldIssue]:
    if not counters:
        yield required(path)
    elif len(counters) > _COUNTERS_MAX:
        yield too_many(path, len(counters), _COUNTERS_MAX)
    else:
        for name in counters:
            yield from check_dns_label(name, path)


def _check_partition_type(spec: ResourceSliceSpec, name: str, path: str) -> Iterator[FieldIssue]:
    """Check that every device that consumes counters has the attribute that names its type, as a string."""
    devices = spec.devices or []
    if not any(device.consumes_counters for device in devices):
        why = "may only be set on a slice which declares devices that consume counters"
        yield invalid(f"{path}.partitionTypeAttribute", name, why)
        return
    faults = list(check_fully_qualified_name(name, f"{path}.partitionTypeAttribute"))
    yield from faults
    bare = name.removeprefix(f"{spec.driver}/")
    for i, device in enumerate(devices if not faults else ()):
        if not device.consumes_counters:
            continue
        attributes = device.attributes or {}
        where = f"{path}.devices[{i}].attributes[{name}]"
        attribute = attributes.get(name) or attributes.get(bare)
        if attribute is None:
            why = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            yield required(where, why)
        elif attribute.string is None:
            why = "must be a string value because `partitionTypeAttribute` names this attribute"
            yield invalid(where, "", why)


def _check_allocatable(
    name: str, resource: NodeAllocatableResource, capacity: Mapping[str, DeviceCapacity], path: str
) -> Iterator[FieldIssue]:
    if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
        yield invalid(path, name, "must be a node allocatable resource name")
    if resource.mapping is None and resource.overhead is None:
        yield required(path, "at least one of mapping or overhead must be set")
    if resource.mapping is not None:
        yield from _check_mapping(resource.mapping, capacity, f"{path}.mapping")
    if resource.overhead is not None:
        yield from _check_overhead(resource.overhead, f"{path}.overhead")


def _check_mapping(
    mapping: NodeAllocatableMapping, capacity: Mapping[str, DeviceCapacity], path: str
) -> Iterator[FieldIssue]:
    key, multiplier = mapping.capacity_key, mapping.capacity_multiplier
    if key == "":
        yield invalid(f"{path}.capacityKey", "", "capacityKey must not be an empty string")
    elif key is not None and key not in capacity:
        yield FieldIssue(type="NotFound", path=f"{path}.capacityKey", value=key)
    if key is not None and multiplier is None:
        yield required(f"{path}.capacityMultiplier", "capacityMultiplier is required when capacityKey is set")
    if key is None and multiplier is not None:
        yield required(f"{path}.capacityKey", "capacityKey is required when capacityMultiplier is set")
    checked = {
        "capacityMultiplier": multiplier if key is not None else None,
        "deviceMultiplier": mapping.device_multiplier,
    }
    for name, amount in checked.items():
        if amount is not None and _sign(amount) <= 0:
            yield invalid(f"{path}.{name}", str(amount), "must be positive")


def _check_multipliers(device: Device, path: str) -> Iterator[FieldIssue]:
    """Check that amounts come from a capacity or are the same for each device; devices that stay may stay."""
    for name, resource in (device.node_allocatable_resources or {}).items():
        mapping = resource.mapping
        if mapping is not None and (mapping.capacity_key is None) == (mapping.device_multiplier is None):
            found = "{}" if mapping.capacity_key is None else "{capacityKey, deviceMultiplier}"
            why = "must specify exactly one of: `capacityKey`, `deviceMultiplier`"
            yield invalid(f"{path}[{name}].mapping", found, why)


def _check_overhead(overhead: NodeAllocatableOverhead, path: str) -> Iterator[FieldIssue]:
    if overhead.per_pod is None and overhead.per_container is None:
        yield invalid(path, "", "at least one of perPod or perContainer must be set")
    for name, amount in (("perPod", overhead.per_pod), ("perContainer", overhead.per_container)):
        if amount is not None and _sign(amount) < 0:
            yield invalid(f"{path}.{name}", str(amount), "must be non-negative")


def _sign(amount: WireQuantity) -> int:
    return read_quantity(amount).sign

"""What the API server allows in a device and in a counter set, asked of model values before they are published.

Source: validateDevice, validateCounterSet in k8s.io/kubernetes v1.37.2 pkg/apis/resource/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from claimsmith.model.device import (
    Capacity,
    CapacityRange,
    CapacityRequestPolicy,
    CounterConsumption,
    Device,
    DeviceAttribute,
    DeviceTaint,
)
from claimsmith.model.pool import CounterSet
from claimsmith.model.quantity import Quantity
from claimsmith.model.semver import find_semver

__all__ = ["find_counter_set_fault", "find_device_fault", "is_dns_label", "is_dns_subdomain"]

_NAMES_MAX: Final = 32
_VALUES_MAX: Final = 48
_VALUE_BYTES_MAX: Final = 64
_ID_MAX: Final = 32
_DOMAIN_MAX: Final = 63
_LABEL_MAX: Final = 63
_TAINTS_MAX: Final = 16
_COUNTERS_MAX: Final = 32
_CONSUMED_SETS_MAX: Final = 2
_GROUPS_MAX: Final = 2
_CONDITIONS_MAX: Final = 4
_VALID_VALUES_MAX: Final = 10
_INT64_MAX: Final = 2**63 - 1
_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_C_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def is_dns_label(text: str) -> bool:
    """Tell whether a text is a DNS label: at most 63 of a-z, 0-9 and -, not - at either end."""
    return len(text) <= _LABEL_MAX and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str, *, longest: int = 253) -> bool:
    """Tell whether a text is DNS labels joined by dots, of at most `longest` characters."""
    return len(text) <= longest and _DNS_SUBDOMAIN.fullmatch(text) is not None


def find_device_fault(device: Device, *, per_device_nodes: bool = False) -> str | None:
    """Return what the API server would refuse in a device: the field, what was found, what is allowed, what to do.

    Args:
        device: The device.
        per_device_nodes: Whether its slice leaves the node selection to the devices.
    """
    return next(_device_faults(device, per_device_nodes), None)


def find_counter_set_fault(counter_set: CounterSet) -> str | None:
    """Return what the API server would refuse in a counter set."""
    if not is_dns_label(counter_set.name):
        return _fault("name", counter_set.name, "a DNS label of at most 63 characters", "rename the counter set")
    return next(_counter_faults("counters", counter_set.counters), None)


def _fault(path: str, found: object, allowed: str, hint: str) -> str:
    return f"{path}: found {found!r}, allowed {allowed}; {hint}"


def _device_faults(device: Device, per_device_nodes: bool) -> Iterator[str]:
    if not is_dns_label(device.name):
        yield _fault("name", device.name, "a DNS label of at most 63 characters", "rename the device")
    if (count := len(device.attributes) + len(device.capacity)) > _NAMES_MAX:
        found = f"{count} attributes and capacities"
        yield _fault("attributes", found, f"{_NAMES_MAX} together", "publish fewer")
    if (values := sum(map(_count_values, device.attributes.values()))) > _VALUES_MAX:
        yield _fault("attributes", f"{values} values", f"{_VALUES_MAX} in all", "shorten the lists")
    for name, attribute in device.attributes.items():
        yield from _name_faults("attributes", name)
        yield from _attribute_faults(f"attributes[{name}]", attribute)
    for name, capacity in device.capacity.items():
        yield from _name_faults("capacity", name)
        yield from _capacity_faults(f"capacity[{name}]", capacity, shared=device.allow_multiple_allocations)
    yield from _taint_faults(device.taints)
    yield from _consumption_faults(device.consumes_counters)
    yield from _condition_faults(device)
    yield from _node_faults(device, per_device_nodes)


def _count_values(attribute: DeviceAttribute) -> int:
    return len(attribute.value) if isinstance(attribute.value, tuple) else 1


def _name_faults(path: str, name: str) -> Iterator[str]:
    """Check a qualified name: `domain/id` or `id`."""
    domain, slash, ident = name.rpartition("/")
    if slash and not is_dns_subdomain(domain, longest=_DOMAIN_MAX):
        yield _fault(path, name, "a DNS subdomain of at most 63 characters before the slash", "correct the domain")
    if len(ident) > _ID_MAX or not _C_IDENTIFIER.fullmatch(ident):
        allowed = f"at most {_ID_MAX} letters, digits and _, no digit first"
        yield _fault(path, name, allowed, "rename it, for example in camel case")


def _attribute_faults(path: str, attribute: DeviceAttribute) -> Iterator[str]:
    value = attribute.value
    if value is None or attribute.kind == "unknown":
        yield _fault(path, value, "an int, bool, string or version", "give it a value")
    elif isinstance(value, tuple) and not value:
        yield _fault(path, [], "at least one value", "leave the attribute out")
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, str) and len(item.encode()) > _VALUE_BYTES_MAX:
            yield _fault(path, item, f"at most {_VALUE_BYTES_MAX} bytes", "shorten the value")
        if attribute.kind in ("version", "versions") and (not isinstance(item, str) or find_semver(item) is None):
            yield _fault(
                path, item, "a semantic version such as 1.2.3", "write major.minor.patch without leading zeros"
            )
        if type(item) is int and not -_INT64_MAX - 1 <= item <= _INT64_MAX:
            yield _fault(path, item, "a 64-bit number", "publish it as a capacity or a string")


def _capacity_faults(path: str, capacity: Capacity, *, shared: bool) -> Iterator[str]:
    policy = capacity.policy
    if policy is None:
        return
    where = f"{path}.requestPolicy"
    if not shared:
        yield _fault(where, "a policy", "none on a device that is not shared", "set allow_multiple_allocations")
    if policy.valid_values and policy.valid_range is not None:
        yield _fault(where, "validValues and validRange", "one of the two", "remove one")
    elif policy.default is None and (policy.valid_values or policy.valid_range is not None):
        yield _fault(f"{where}.default", None, "an amount that the policy allows", "set it")
    elif policy.default is not None:
        yield from _policy_faults(where, capacity.value, policy, policy.default)


def _policy_faults(path: str, value: Quantity, policy: CapacityRequestPolicy, default: Quantity) -> Iterator[str]:
    options = policy.valid_values
    if len(options) > _VALID_VALUES_MAX:
        yield _fault(f"{path}.validValues", f"{len(options)} values", f"at most {_VALID_VALUES_MAX}", "use validRange")
    if any(low >= high for low, high in pairwise(options)):
        yield _fault(f"{path}.validValues", list(map(str, options)), "ascending, each once", "sort them")
    if options and default not in options:
        yield _fault(f"{path}.default", str(default), "one of validValues", "add it or choose another")
    if options and options[-1] > value:
        yield _fault(f"{path}.validValues", str(options[-1]), f"at most the capacity {value}", "remove it")
    if policy.valid_range is not None:
        yield from _range_faults(f"{path}.validRange", value, policy.valid_range, default)


def _range_faults(path: str, value: Quantity, limits: CapacityRange, default: Quantity) -> Iterator[str]:
    highest = value if limits.maximum is None else limits.maximum
    if not limits.minimum <= default <= highest <= value:
        found = f"min {limits.minimum}, default {default}, max {highest}, capacity {value}"
        yield _fault(path, found, "min <= default <= max <= capacity", "correct the amounts")
    step = limits.step
    if step is None:
        return
    if step.sign <= 0 or limits.minimum + step > value:
        yield _fault(f"{path}.step", str(step), "above 0, and min + step at most the capacity", "correct it")
    elif any(
        (amount.value() - limits.minimum.value()) % step.value() for amount in (default, limits.maximum or default)
    ):
        yield _fault(f"{path}.step", str(step), "one that default - min and max - min are multiples of", "correct it")


def _taint_faults(taints: Sequence[DeviceTaint]) -> Iterator[str]:
    if len(taints) > _TAINTS_MAX:
        yield _fault("taints", f"{len(taints)} taints", f"at most {_TAINTS_MAX}", "publish fewer")
    for index, taint in enumerate(taints):
        path = f"taints[{index}]"
        if not _is_label_name(taint.key):
            yield _fault(f"{path}.key", taint.key, "a label name such as example.com/broken", "correct it")
        if len(taint.value) > _LABEL_MAX or not _LABEL_VALUE.fullmatch(taint.value):
            yield _fault(f"{path}.value", taint.value, "a label value of at most 63 characters", "correct it")
        if taint.effect not in _EFFECTS:
            yield _fault(f"{path}.effect", taint.effect, ", ".join(_EFFECTS), "correct it")


def _is_label_name(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return bool(name) and len(name) <= _LABEL_MAX and _LABEL_VALUE.fullmatch(name) is not None


def _consumption_faults(consumptions: Sequence[CounterConsumption]) -> Iterator[str]:
    if len(consumptions) > _CONSUMED_SETS_MAX:
        allowed = f"at most {_CONSUMED_SETS_MAX}"
        yield _fault("consumesCounters", f"{len(consumptions)} counter sets", allowed, "merge counter sets")
    if len({item.counter_set for item in consumptions}) < len(consumptions):
        names = [item.counter_set for item in consumptions]
        yield _fault("consumesCounters", names, "each counter set once", "merge the entries")
    for index, item in enumerate(consumptions):
        path = f"consumesCounters[{index}]"
        yield from _counter_faults(f"{path}.counters", item.counters)
        if len(item.compatibility_groups) > _GROUPS_MAX:
            found = f"{len(item.compatibility_groups)} groups"
            yield _fault(f"{path}.compatibilityGroups", found, f"at most {_GROUPS_MAX}", "name fewer")


def _counter_faults(path: str, counters: Mapping[str, Quantity]) -> Iterator[str]:
    if not 0 < len(counters) <= _COUNTERS_MAX:
        yield _fault(path, f"{len(counters)} counters", f"1 to {_COUNTERS_MAX}", "correct their number")
    for name in counters:
        if not is_dns_label(name):
            yield _fault(path, name, "a DNS label of at most 63 characters", "rename the counter")


def _condition_faults(device: Device) -> Iterator[str]:
    wanted, failing = device.binding_conditions, device.binding_failure_conditions
    if bool(wanted) != bool(failing) or max(len(wanted), len(failing)) > _CONDITIONS_MAX:
        found = f"{len(wanted)} conditions and {len(failing)} failure conditions"
        yield _fault("bindingConditions", found, f"1 to {_CONDITIONS_MAX} of both, or none", "correct their number")
    names: Iterable[str] = (*wanted, *failing)
    if len(set(names)) < len(wanted) + len(failing):
        yield _fault("bindingConditions", sorted(names), "each condition once", "remove the second")


def _node_faults(device: Device, per_device_nodes: bool) -> Iterator[str]:
    chosen = (device.node_name is not None) + (device.node_selector is not None) + device.all_nodes
    if per_device_nodes and chosen != 1:
        found = f"{chosen} of nodeName, nodeSelector, allNodes"
        yield _fault("nodeName", found, "exactly one in a pool whose devices choose their nodes", "set one")

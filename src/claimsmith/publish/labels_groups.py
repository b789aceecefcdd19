"""The devices of a node by kind and model, with what is true of all of a group. Pure, and blind to any order."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.publish.labels_text import as_label_value, fact_key

__all__ = ["DeviceGroup", "LabelSource", "count_kinds", "find_attribute", "group_devices"]

_MEBIBYTE: Final = 2**20
_TYPE: Final = ("type",)
_MODEL: Final = ("productName", "model", "product")
_PROFILE: Final = ("profile",)
_CAPABILITY: Final = ("cudaComputeCapability", "computeCapability")
_NOT_FOR_USE: Final = ("displayOnly",)
_TYPE_MAX: Final = 15
_DIGITS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSource:
    """What labels are made from: the devices of one driver.

    Args:
        driver: Name of the driver; attributes may have its domain.
        inventory: What it found.
        node: Name of the node; devices that name another one are left out.
        marked: Attributes that the driver wants to be told, by name with or without domain.
        replicas: How many containers a device is offered to, by device name, as the device plugin really does it;
            devices that are not named are offered once.
    """

    driver: str
    inventory: Inventory
    node: str = ""
    marked: tuple[str, ...] = ()
    replicas: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Devices of one kind and model.

    Args:
        kind: What the driver calls them: `gpu`, `mig`, `nic`; `device` when it says nothing.
        name: Model, or profile of partitions; empty when the driver tells none.
        models: The cards' models; more than one only for partitions.
        is_partition: Whether they are parts of cards.
        count: How many of them there can be at one time.
        memory_mib: Memory of each, smallest first; none when that of one of them is not known.
        facts: What is true of all of them, by the end of a label key.
        replicas: How many containers each is offered to; None when they differ.
        offered: How many containers all of them together are offered to; None when nothing is known of replicas.
    """

    kind: str
    name: str
    models: tuple[str, ...]
    is_partition: bool
    count: int
    memory_mib: tuple[int, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    replicas: int | None = None
    offered: int | None = None


@dataclass(frozen=True, slots=True)
class _Member:
    """A device where it was found."""

    source: LabelSource
    pool: Pool
    device: Device

    def text(self, names: tuple[str, ...]) -> str:
        return find_attribute(self.device, self.source.driver, names)

    @property
    def key(self) -> tuple[str, str]:
        name = self.text(_PROFILE) or self.text(_MODEL)
        kind = as_label_value(self.text(_TYPE).lower(), length_max=_TYPE_MAX).replace(".", "-")
        return (kind or "device", name)

    @property
    def order(self) -> tuple[object, ...]:
        """Where it stands whatever order the driver lists devices in: gpu-2 before gpu-10."""
        parts = [int(part) if part.isdigit() else part for part in _DIGITS.split(self.device.name)]
        return (self.source.driver, self.pool.name, parts)


def group_devices(sources: Iterable[LabelSource], attributes: Iterable[str] = ()) -> tuple[DeviceGroup, ...]:
    """Return the devices of a node in groups, sorted by kind and name.

    Devices that other nodes reach as well are not of this node; devices that only drive a display are not counted.

    Args:
        sources: The devices by driver.
        attributes: Further attributes to be told of, by name with or without domain.
    """
    groups: dict[tuple[str, str], list[_Member]] = defaultdict(list)
    for member in _iter_members(sources):
        groups[member.key].append(member)
    wanted = tuple(attributes)
    return tuple(
        _build(kind, name, sorted(groups[kind, name], key=lambda member: member.order), wanted)
        for kind, name in sorted(groups)
    )


def count_kinds(sources: Iterable[LabelSource]) -> Mapping[str, int]:
    """Return how many devices of each kind there can be at one time, taking the smallest first.

    This is less than the sum over models where partitions of different sizes exclude each other.
    """
    kinds: dict[str, list[_Member]] = defaultdict(list)
    for member in _iter_members(sources):
        kinds[member.key[0]].append(member)
    return {
        kind: _count(sorted(members, key=lambda member: (_memory_mib(member) or 0, member.order)))
        for kind, members in kinds.items()
    }


def find_attribute(device: Device, driver: str, names: Iterable[str]) -> str:
    """Return the first of some attributes as text; empty when the device has none of them.

    Args:
        device: The device.
        driver: Name of the driver, whose domain may stand before the name.
        names: Names in order of preference.
    """
    for name in names:
        for full in (name, f"{driver}/{name}"):
            attribute = device.attributes.get(full)
            if attribute is not None and isinstance(attribute.value, (str, int)):
                return str(attribute.value).lower() if isinstance(attribute.value, bool) else str(attribute.value)
    return ""


def _iter_members(sources: Iterable[LabelSource]) -> Iterator[_Member]:
    for source in sources:
        for pool in source.inventory.pools:
            if pool.all_nodes or pool.node_selector is not None:
                continue
            for device in pool.devices:
                is_elsewhere = device.all_nodes or device.node_selector is not None
                is_elsewhere = is_elsewhere or device.node_name not in (None, "", source.node)
                if not is_elsewhere and find_attribute(device, source.driver, _NOT_FOR_USE) != "true":
                    yield _Member(source, pool, device)


def _build(kind: str, name: str, members: list[_Member], attributes: tuple[str, ...]) -> DeviceGroup:
    replicas = [member.source.replicas.get(member.device.name, 1) for member in members]
    is_offered = any(member.source.replicas for member in members)
    return DeviceGroup(
        kind=kind,
        name=name,
        models=tuple(sorted({model for member in members if (model := member.text(_MODEL))})),
        is_partition=any(member.text(_PROFILE) for member in members),
        count=_count(members),
        memory_mib=_list_memory(members),
        facts=dict(_iter_facts(members, attributes)),
        replicas=replicas[0] if len(set(replicas)) == 1 else None,
        offered=sum(replicas) if is_offered else None,
    )


def _list_memory(members: list[_Member]) -> tuple[int, ...]:
    found = [_memory_mib(member) for member in members]
    known = [mib for mib in found if mib is not None]
    return tuple(sorted(known)) if len(known) == len(found) else ()


def _memory_mib(member: _Member) -> int | None:
    """Return the memory of a device in whole MiB; None when it tells none."""
    driver = member.source.driver
    found = member.device.capacity.get("memory") or member.device.capacity.get(f"{driver}/memory")
    return None if found is None else found.value.nanos // 10**9 // _MEBIBYTE


def _iter_facts(members: list[_Member], attributes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield what all devices of a group have in common."""
    names: dict[str, str] = {}
    for name in (*attributes, *(name for member in members for name in member.source.marked)):
        names.setdefault(fact_key(name), name)
    texts = {key: {member.text((name,)) for member in members} for key, name in names.items()}
    texts["compute-capability"] = {_read_capability(member) for member in members}
    for key, values in sorted(texts.items()):
        text = as_label_value(values.pop()) if len(values) == 1 else ""
        if text:
            yield key, text


def _read_capability(member: _Member) -> str:
    """Return major and minor of the compute capability."""
    return ".".join(member.text(_CAPABILITY).split(".")[:2])


def _count(members: list[_Member]) -> int:
    """Return how many devices can be in use at one time: partitions of one card may exclude each other.

    They are taken one after the other as long as the counters of their cards suffice, which is the most there can be
    for partitions of one profile.
    """
    left: Counter[tuple[str, str, str, str]] = Counter()
    for member in members:
        for counters in member.pool.counter_sets:
            for name, amount in counters.counters.items():
                left[member.source.driver, member.pool.name, counters.name, name] = amount.nanos
    count = 0
    for member in members:
        taken = {
            (member.source.driver, member.pool.name, entry.counter_set, name): amount.nanos
            for entry in member.device.consumes_counters
            for name, amount in entry.counters.items()
        }
        if all(left[key] >= amount for key, amount in taken.items()):
            left.subtract(taken)
            count += 1
    return count

"""What about a node's devices and pools can be relaxed: uses, taints, counters, pools that are not in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from claimsmith.allocate.explain.case import NodeCase
from claimsmith.allocate.explain.draft import Draft
from claimsmith.allocate.explain.profiles import ProfileBook, is_plain
from claimsmith.allocate.explain.relaxations import Relax, Relaxation, Source
from claimsmith.allocate.prepared.pools import node_reaches
from claimsmith.allocate.prepared.screening import NODE_OPERATIONS_FEATURE
from claimsmith.model.device import Device
from claimsmith.model.names import CounterId

__all__ = ["BLOCKING_EFFECTS", "SUPPLY_SOURCES", "find_uses"]

BLOCKING_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""Effects of taints that keep requests away."""


def find_uses(case: NodeCase, profiles: ProfileBook) -> Iterator[Relaxation]:
    """Give the uses of devices; equal devices held as a whole, and equal shares, are pieces of one relaxation."""
    places = {pool.id: number for number, pool in enumerate(case.view.pools)}
    bundles: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, part in enumerate(case.uses):
        record, pool = case.records.get(part.device), places.get(part.device.pool_id, -1)
        if record is None:
            bundles["vanished", pool, part.device, number].append(number)
        elif is_plain(record.use):
            values = tuple(repr(record.find_attribute(name)) for name in profiles.attributes)
            here = record.slice.name in case.targeting.get(part.device.pool_id, ())
            reached = here and (not record.slice.per_device_node_selection or node_reaches(record.device, case.node))
            bundles["whole", pool, reached, profiles.find_profile(record.slice, record.device), values].append(number)
        else:
            amounts = tuple(sorted(part.use.consumed.items()))
            bundles["part", pool, part.device, part.use.dedicated, part.use.shares, amounts].append(number)
    for key, numbers in bundles.items():
        yield Relaxation(part="use", levels=len(numbers), uses=tuple(numbers), relax=_free(numbers), key=key)


def _free(numbers: list[int]) -> Relax:
    def relax(draft: Draft, keep: int) -> None:
        draft.freed.update(numbers[keep:])

    return relax


def _list_devices(case: NodeCase) -> Iterator[Device]:
    """Give the devices of slices that target the node."""
    names = {(pool, name) for pool, found in case.targeting.items() for name in found}
    for slice in case.slices:
        if (slice.pool_id, slice.name) in names:
            yield from slice.devices


def _relax_slices(name: str, value: object) -> Relax:
    """Return what adds a value to one of the sets of edits, or sets a flag, when nothing is kept."""

    def relax(draft: Draft, keep: int) -> None:
        if keep:
            return
        found = getattr(draft.slices, name)
        if isinstance(found, set):
            found.add(value)
        else:
            setattr(draft.slices, name, value)

    return relax


def _find_taints(case: NodeCase) -> Iterator[Relaxation]:
    if not case.features.device_taints:
        return
    found: dict[tuple[str, str, str], str] = {}
    for device in _list_devices(case):
        for taint in device.taints:
            if taint.effect in BLOCKING_EFFECTS:
                found[taint.identity] = str(taint)
    for identity, text in sorted(found.items()):
        yield Relaxation(part="taint", name=text, subject=identity, relax=_relax_slices("taints", identity))


def _find_counters(case: NodeCase) -> Iterator[Relaxation]:
    """The counters that devices take from, and the sets whose devices must be compatible."""
    if not case.features.partitionable_devices:
        if any(device.consumes_counters for device in _list_devices(case)):
            yield Relaxation(part="partitions", relax=_relax_slices("uncounted", True))
        return
    counters, groups = dict[tuple[object, CounterId], None](), dict[tuple[object, str], None]()
    pools = set(case.targeting)
    for slice in case.slices:
        for device in slice.devices if slice.pool_id in pools else ():
            for item in device.consumes_counters:
                found = ((slice.pool_id, CounterId(item.counter_set, name)) for name in item.counters)
                counters.update((key, None) for key in found)
                if item.compatibility_groups and case.features.compatibility_groups:
                    groups[slice.pool_id, item.counter_set] = None
    for pool, set_name in groups:
        key = (pool, set_name)
        yield Relaxation(part="group", name=set_name, subject=key, relax=_relax_slices("groups", key), key=key)
    for pool, counter in counters:
        place = (pool, counter)
        yield Relaxation(
            part="counter", name=str(counter), subject=place, relax=_relax_slices("counters", place), key=place
        )


def _find_pools(case: NodeCase) -> Iterator[Relaxation]:
    """Pools that give no devices: slices are missing, contradict each other, or are outdated."""
    for view in case.view.pools:
        if not view.usable:
            relax = _relax_slices("pools", view.id)
            yield Relaxation(part="pool", name=str(view.id), subject=view, relax=relax)
    for pool in case.view.obsolete:
        yield Relaxation(part="pool", name=str(pool), subject=pool, relax=_relax_slices("pools", pool))


def _find_gates(case: NodeCase) -> Iterator[Relaxation]:
    """Devices that need a gate, or a node, which can do more."""
    devices = list(_list_devices(case))
    if not case.features.device_binding_and_status and any(device.binding_conditions for device in devices):
        yield Relaxation(part="binding", relax=_relax_slices("unbound", True))
    able = case.features.optional_node_operations and NODE_OPERATIONS_FEATURE in case.node.declared_features
    if not able and any(slice.skip_node_operations for slice in case.slices):
        yield Relaxation(part="operations", relax=_relax_slices("operated", True))


SUPPLY_SOURCES: Final[tuple[Source, ...]] = (_find_taints, _find_counters, _find_pools, _find_gates)
"""What the node's devices and pools are short of; uses of devices take profiles besides (`find_uses`)."""

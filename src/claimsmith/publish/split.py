"""Cutting the devices and counter sets of a pool into slices that the API server accepts.

The order of the devices is kept: it is the order of preference of the allocator. Cuts stay where they are as long as
that costs no further slice, so that a device more or less changes one slice and not all that follow.

Source: limits of ResourceSlice, k8s.io/api v0.37.2 resource/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from claimsmith.model.device import Device
from claimsmith.model.pool import CounterSet

__all__ = [
    "ADVANCED_DEVICES_MAX",
    "COUNTER_SETS_MAX",
    "DEVICES_MAX",
    "split_counter_sets",
    "split_devices",
    "uses_advanced_features",
]

DEVICES_MAX: Final = 128
"""Most devices in one slice."""
ADVANCED_DEVICES_MAX: Final = 64
"""Most devices in one slice when any of them has a taint, consumes counters or has a list attribute."""
COUNTER_SETS_MAX: Final = 8
"""Most counter sets in one slice."""

_LIST_KINDS: Final = frozenset({"ints", "bools", "strings", "versions"})

Chunks = tuple[tuple[Device, ...], ...]
"""Devices, slice by slice."""


def uses_advanced_features(device: Device) -> bool:
    """Tell whether a device lowers the limit of its slice to `ADVANCED_DEVICES_MAX`."""
    if device.taints or device.consumes_counters:
        return True
    return any(attribute.kind in _LIST_KINDS for attribute in device.attributes.values())


def split_devices(devices: Sequence[Device], *, previous: Sequence[Sequence[str]] = ()) -> Chunks:
    """Return the devices in order, cut into as few slices as a walk from the front gives; one empty one for none.

    Args:
        devices: In order of preference.
        previous: Device names of the slices that are published now; their cuts are kept when the limits and the
            number of slices allow it.
    """
    shortest = _cut_greedily(devices)
    kept = _cut_as_before(devices, previous)
    return kept if kept is not None and len(kept) <= len(shortest) else shortest


def _cut_greedily(devices: Sequence[Device]) -> Chunks:
    """Fill one slice after the other."""
    chunks: list[tuple[Device, ...]] = []
    current: list[Device] = []
    limit = DEVICES_MAX
    for device in devices:
        wanted = min(limit, ADVANCED_DEVICES_MAX) if uses_advanced_features(device) else limit
        if len(current) >= wanted:
            chunks.append(tuple(current))
            current, limit = [], DEVICES_MAX
            wanted = ADVANCED_DEVICES_MAX if uses_advanced_features(device) else DEVICES_MAX
        current.append(device)
        limit = wanted
    return (*chunks, tuple(current)) if current or not chunks else tuple(chunks)


def _cut_as_before(devices: Sequence[Device], previous: Sequence[Sequence[str]]) -> Chunks | None:
    """Leave each device in the slice that it is in now; None when order or limits forbid it."""
    home = {name: index for index, names in enumerate(previous) for name in names}
    chunks: list[list[Device]] = []
    last = -1
    for device in devices:
        here = home.get(device.name, max(last, 0))
        if here < last:
            return None
        if here > last:
            chunks.append([])
        chunks[-1].append(device)
        last = here
    return tuple(map(tuple, chunks)) if chunks and all(map(_fits, chunks)) else None


def _fits(chunk: Sequence[Device]) -> bool:
    limit = ADVANCED_DEVICES_MAX if any(map(uses_advanced_features, chunk)) else DEVICES_MAX
    return len(chunk) <= limit


def split_counter_sets(counter_sets: Sequence[CounterSet]) -> tuple[tuple[CounterSet, ...], ...]:
    """Return the counter sets in order, at most `COUNTER_SETS_MAX` in each slice; nothing for none."""
    starts = range(0, len(counter_sets), COUNTER_SETS_MAX)
    return tuple(tuple(counter_sets[start : start + COUNTER_SETS_MAX]) for start in starts)

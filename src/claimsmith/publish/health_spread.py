"""Which devices are parts of one card, and to which of them a failure extends. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.names import DeviceId
from claimsmith.publish.health_policy import Spread

__all__ = ["find_parents", "spread_failures"]

_UUIDS: Final = ("uuid", "UUID")
_PARENTS: Final = ("parentUUID", "parentUuid", "parent")

T = TypeVar("T")


def find_parents(driver: str, inventory: Inventory, *, node: str) -> Mapping[DeviceId, DeviceId]:
    """Return for each partition the whole card that it is a part of.

    A partition names its card by the attribute `parentUUID` (the card's `uuid`) or `parent` (the card's name).
    Otherwise the card is the one device that takes every counter of the set that the partition takes some of. A
    partition whose card is no device itself gets an identity that stands for the card, so that its siblings are known.

    Args:
        driver: Name of the driver.
        inventory: What it found.
        node: Name of the node; the name of a pool that has none.
    """
    return dict(_iter_parents(driver, inventory, node))


def _iter_parents(driver: str, inventory: Inventory, node: str) -> Iterator[tuple[DeviceId, DeviceId]]:
    for pool in inventory.pools:
        name = pool.name or node
        names = {
            **{text: device.name for device in pool.devices if (text := _find_text(device, driver, _UUIDS))},
            **{device.name: device.name for device in pool.devices},
        }
        wholes = _find_wholes(pool)
        for device in pool.devices:
            named = _find_text(device, driver, _PARENTS)
            parent = names.get(named, f"({named})") if named else _find_whole(device, wholes)
            if parent and parent != device.name:
                yield DeviceId(driver, name, device.name), DeviceId(driver, name, parent)


def spread_failures(
    own: Mapping[DeviceId, tuple[T, ...]],
    parents: Mapping[DeviceId, DeviceId],
    spread: Spread,
    *,
    copy: Callable[[T, DeviceId], T],
) -> Mapping[DeviceId, tuple[T, ...]]:
    """Return failures with those of devices that fail along; what has spread does not spread again.

    Args:
        own: The devices' own failures.
        parents: Card of each partition.
        spread: How far failures extend.
        copy: Makes a failure into one of another device.
    """
    found = {device: list(failures) for device, failures in own.items()}
    parts: dict[DeviceId, list[DeviceId]] = {}
    for part, whole in parents.items():
        parts.setdefault(whole, []).append(part)
    for device, failures in own.items():
        for other in dict.fromkeys(_list_others(device, parents, parts, spread)):
            found.setdefault(other, []).extend(copy(failure, other) for failure in failures)
    return {device: tuple(failures) for device, failures in found.items()}


def _list_others(
    device: DeviceId, parents: Mapping[DeviceId, DeviceId], parts: Mapping[DeviceId, list[DeviceId]], spread: Spread
) -> Iterator[DeviceId]:
    """Yield the devices that fail along with one; identities that only stand for a card are left out."""
    if spread.to_parts:
        yield from parts.get(device, ())
    whole = parents.get(device)
    if whole is None:
        return
    if spread.to_whole and not whole.device.startswith("("):
        yield whole
    if spread.to_siblings:
        yield from (part for part in parts[whole] if part != device)


def _find_text(device: Device, driver: str, names: tuple[str, ...]) -> str:
    """Return the text of the first of some attributes, with the driver's domain or without; empty when it has none."""
    for name in (*names, *(f"{driver}/{name}" for name in names)):
        attribute = device.attributes.get(name)
        if attribute is not None and attribute.kind == "string" and attribute.value:
            return str(attribute.value)
    return ""


def _find_wholes(pool: Pool) -> Mapping[str, str]:
    """Return for each counter set the one device that takes all of it."""
    totals = {item.name: item.counters for item in pool.counter_sets}
    found: dict[str, list[str]] = {}
    for device in pool.devices:
        for entry in device.consumes_counters:
            total = totals.get(entry.counter_set)
            if total and all(entry.counters.get(name) == amount for name, amount in total.items()):
                found.setdefault(entry.counter_set, []).append(device.name)
    return {name: devices[0] for name, devices in found.items() if len(devices) == 1}


def _find_whole(device: Device, wholes: Mapping[str, str]) -> str:
    return next((wholes[entry.counter_set] for entry in device.consumes_counters if entry.counter_set in wholes), "")

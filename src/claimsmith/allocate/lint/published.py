"""What drivers publish, as selectors see it: attributes and capacities by name, with their types and values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.allocate.prepared.problem import merge_taint_rules
from claimsmith.cel import CelDevice, prepare_device
from claimsmith.errors import CelDeviceError
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId, PoolId
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["Field", "Name", "Published", "PublishedDevice"]

Field = Literal["attributes", "capacity"]

_CLOSE: Final = 0.6
_SHOWN_VALUES: Final = 5


class Name(NamedTuple):
    """An attribute or a capacity by its parts, printed as expressions write it: ids are identifiers of C."""

    field: Field
    domain: str
    id: str

    def __str__(self) -> str:
        return f'device.{self.field}["{self.domain}"].{self.id}'

    @property
    def qualified(self) -> str:
        """Domain and id, as constraints write it."""
        return f"{self.domain}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublishedDevice:
    """One device of a slice of its pool's newest generation.

    Args:
        device: With the taints of taint rules.
        cel: As expressions read it.
    """

    id: DeviceId
    slice: ResourceSlice
    device: Device
    cel: CelDevice

    def reaches(self, node: Node) -> bool:
        """Tell whether a pod on the node could use the device."""
        place = self.device if self.slice.per_device_node_selection else self.slice
        if place.all_nodes or place.node_name == node.name:
            return True
        return place.node_selector is not None and matches_node(place.node_selector, node)


class Published:
    """All devices of a cluster.

    Args:
        snapshot: The cluster.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.devices: tuple[PublishedDevice, ...] = tuple(_list_devices(snapshot))
        self.nodes: tuple[Node, ...] = tuple(snapshot.nodes.values())
        self._kinds: dict[Name, set[str]] = {}
        self._values: dict[Name, dict[str, object]] = {}
        for item in self.devices:
            self._note(item)

    def __bool__(self) -> bool:
        return bool(self.devices)

    def kinds(self, name: Name) -> frozenset[str]:
        """Return the types that devices publish under a name: `int`, `version`, …, `quantity`; none when none does."""
        return frozenset(self._kinds.get(name, ()))

    def values(self, name: Name, devices: Iterable[PublishedDevice] | None = None) -> Mapping[str, object]:
        """Return the values that devices have under a name, by their text.

        Args:
            name: The attribute or capacity.
            devices: Only of these; None: of all.
        """
        if devices is None:
            return self._values.get(name, {})
        found: dict[str, object] = {}
        for item in devices:
            value = getattr(item.cel, name.field).get(name.domain, {}).get(name.id)
            if value is not None:
                found[str(value)] = value
        return found

    def describe_values(self, name: Name, devices: Iterable[PublishedDevice]) -> str:
        """Return the first few values that devices have under a name, for people."""
        found = sorted(self.values(name, devices))
        more = f" and {len(found) - _SHOWN_VALUES} more" if len(found) > _SHOWN_VALUES else ""
        return ", ".join(found[:_SHOWN_VALUES]) + more

    def suggest(self, name: Name) -> Name | None:
        """Return the published name that was probably meant; None when none is near.

        The same id under another domain or field comes first, then a similar id of the domain, then a similar whole.
        """
        known = sorted(self._kinds)
        same = [item for item in known if item.id == name.id]
        if same:
            return max(same, key=lambda item: (item.field == name.field, _likeness(item.domain, name.domain)))
        own = [item for item in known if item.domain == name.domain]
        for pool in (own, known):
            best = max(pool, key=lambda item: _likeness(item.qualified, name.qualified), default=None)
            if best is not None and _likeness(best.id, name.id) >= _CLOSE:
                return best
        return None

    def owners(self, name: Name) -> frozenset[str]:
        """Return the drivers of the devices that publish a name."""
        return frozenset(item.id.driver for item in self.devices if self.has(item, name))

    def has(self, item: PublishedDevice, name: Name) -> bool:
        """Tell whether a device publishes a name."""
        return name.id in getattr(item.cel, name.field).get(name.domain, {})

    def _note(self, item: PublishedDevice) -> None:
        driver = item.id.driver
        for text, attribute in item.device.attributes.items():
            self._add(_name("attributes", text, driver), attribute.kind, item)
        for text in item.device.capacity:
            self._add(_name("capacity", text, driver), "quantity", item)

    def _add(self, name: Name, kind: str, item: PublishedDevice) -> None:
        self._kinds.setdefault(name, set()).add(kind)
        value = getattr(item.cel, name.field).get(name.domain, {}).get(name.id)
        self._values.setdefault(name, {})[str(value)] = value


def _list_devices(snapshot: ClusterSnapshot) -> Iterator[PublishedDevice]:
    newest: dict[PoolId, int] = {}
    for slice in snapshot.slices:
        newest[slice.pool_id] = max(newest.get(slice.pool_id, 0), slice.generation)
    for slice in merge_taint_rules(snapshot.slices, snapshot.taint_rules):
        if slice.generation < newest[slice.pool_id]:
            continue
        for device in slice.devices:
            try:
                cel = prepare_device(slice.driver, device)
            except CelDeviceError:
                continue  # An attribute that no expression can hold; publishing it is the driver's fault.
            yield PublishedDevice(
                id=DeviceId(slice.driver, slice.pool, device.name), slice=slice, device=device, cel=cel
            )


def _name(field: Field, text: str, driver: str) -> Name:
    domain, slash, id = text.partition("/")
    return Name(field, domain, id) if slash else Name(field, driver, text)


def _likeness(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left.lower(), right.lower()).ratio()

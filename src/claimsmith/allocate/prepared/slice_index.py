"""All slices of a cluster: by node, by pool, and by what a node must have to be targeted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from claimsmith.allocate.prepared.node_selector import NAME_ANCHOR, Anchor, find_anchors
from claimsmith.allocate.prepared.pools import node_reaches
from claimsmith.allocate.prepared.records import DeviceRecord, SliceRecord
from claimsmith.allocate.prepared.usage import PoolKey
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId, PoolId
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice

__all__ = ["SliceIndex"]


@dataclass(slots=True, eq=False, kw_only=True)
class SliceIndex:
    """Slices by node, by pool and by what a node must have to match them.

    Args:
        like_stable: As upstream's stable implementation: counter slices are for every node, and a node's own slices
            don't come before the others.
    """

    like_stable: bool
    by_node: dict[str, list[SliceRecord]] = field(default_factory=lambda: defaultdict(list))
    by_pool: dict[PoolKey, list[SliceRecord]] = field(default_factory=lambda: defaultdict(list))
    anchored: dict[Anchor, list[SliceRecord]] = field(default_factory=lambda: defaultdict(list))
    anchor_keys: set[str] = field(default_factory=set)
    rest: list[SliceRecord] = field(default_factory=list)
    _plain: dict[str, list[SliceRecord] | None] = field(default_factory=dict)
    """What `find_plain` has found for nodes that see no slices but those that name them."""

    def add(self, record: SliceRecord) -> None:
        """Take in the next slice in list order."""
        self._plain.clear()
        self.by_pool[record.pool].append(record)
        everywhere = self.like_stable and record.slice.shared_counters
        if record.slice.node_name and not everywhere:
            self.by_node[record.slice.node_name].append(record)
            return
        anchors = None if everywhere else _find_anchors(record)
        if anchors is None:
            self.rest.append(record)
            return
        for anchor in anchors:
            self.anchored[anchor].append(record)
            self.anchor_keys.add(anchor[0])

    def swap(self, old: SliceRecord, new: SliceRecord) -> None:
        """Put a slice in the place of one for the same node and of the same pool."""
        for records in (self.by_pool[old.pool], self.by_node[old.slice.node_name or ""]):
            records[records.index(old)] = new
        self._plain.pop(old.slice.node_name or "", None)

    def find_slices(self, pool: PoolId) -> Sequence[SliceRecord]:
        """Return all slices of a pool, in list order."""
        return self.by_pool.get(pool, ())

    def find_device(self, device: DeviceId) -> DeviceRecord | None:
        """Return a device as the slice of the highest generation has it that names it; None when none does."""
        records = self.by_pool.get((device.driver, device.pool), ())
        for record in sorted(records, key=lambda record: -record.slice.generation):
            found = record.find_device(device.device)
            if found is not None:
                return found
        return None

    def find_plain(self, node: Node) -> list[SliceRecord] | None:
        """Return the slices for a node, in order of preference, if each is a plain pool; None when there is more."""
        if self.rest or self.like_stable:
            return None
        name = node.metadata.name
        if self.anchored:
            return self._sort_plain([*self.by_node.get(name, ()), *self._find_anchored(node)], node)
        if name not in self._plain:
            self._plain[name] = self._sort_plain(self.by_node.get(name, []), node)
        return self._plain[name]

    def _sort_plain(self, near: list[SliceRecord], node: Node) -> list[SliceRecord] | None:
        """Those of the slices that target the node, in order of preference, if each is a plain pool."""
        by_pool = self.by_pool
        for record in near:
            if not record.is_plain or len(by_pool[record.pool]) > 1:
                return None
        if self.anchored:
            near = [record for record in near if record.slice.node_name or node_reaches(record.slice, node)]
        return near if len(near) < 2 else sorted(near, key=lambda record: (record.has_binding, record.pool))

    def find_visible(self, node: Node) -> list[SliceRecord]:
        """Return the slices that may target a node: its own, then the others, each in list order."""
        shared = list(self.rest)
        if self.anchored:
            shared.extend(self._find_anchored(node))
            shared.sort(key=lambda record: record.position)
        visible = [*self.by_node.get(node.name, ()), *shared]
        return sorted(visible, key=lambda record: record.position) if self.like_stable else visible

    def _find_anchored(self, node: Node) -> Iterable[SliceRecord]:
        """Slices of which the node has an anchor."""
        found: dict[int, SliceRecord] = {}
        for key in self.anchor_keys:
            value = node.name if key == NAME_ANCHOR else node.labels.get(key)
            for record in self.anchored.get((key, value), ()) if value is not None else ():
                found[record.position] = record
        return found.values()


def _find_anchors(record: SliceRecord) -> set[Anchor] | None:
    """What a node must have at least one of to be targeted by the slice; None when that can't be told."""
    slice = record.slice
    if slice.all_nodes or record.selector_error:
        return None
    targets: Iterable[ResourceSlice | Device]
    targets = slice.devices if slice.per_device_node_selection and slice.node_selector is None else (slice,)
    anchors: set[Anchor] = set()
    for target in targets:
        if target.node_name:
            anchors.add((NAME_ANCHOR, target.node_name))
            continue
        found = find_anchors(target.node_selector) if target.node_selector and not target.all_nodes else None
        if found is None:
            return None
        anchors.update(found)
    return anchors

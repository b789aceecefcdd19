"""What a node's devices and their use look like to a policy: equal states are one object, so that they are rated once.

A state leaves out which of several equal devices is used. It is built from the same records, and judged by the same
screening, as the search uses; it only serves to choose a node and an order of devices, search decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.prepared.eligibility import MATCH, RequestShape
from claimsmith.allocate.prepared.index import NodeView, PreparedCluster
from claimsmith.allocate.prepared.pools import PoolView, node_reaches
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.names import CounterId

__all__ = [
    "CLOSE_ATTRIBUTES",
    "DEDICATED",
    "FREE",
    "DeviceKind",
    "NodeState",
    "NodeStates",
    "Place",
    "PoolState",
    "Use",
]

Use = tuple[int, ...]
"""How a device is used: empty for a free one; of a shared one what is consumed of each capacity, in nano units."""
FREE: Final[Use] = ()
DEDICATED: Final[Use] = (-1,)
"""Somebody has the device for itself."""

CLOSE_ATTRIBUTES: Final = ("numaNode", "pcieRoot")
"""Attributes that say where a device is, whatever their domain."""
KNOWN_STATES_MAX: Final = 100_000
"""States, and kinds of devices, that are kept; beyond that all are forgotten."""
KNOWN_SHAPES_MAX: Final = 16_384
"""Shapes of requests that are kept besides those which count; beyond that the others are forgotten."""
ASKERS_MAX: Final = 4
"""For how many, placers or times that one has learned something new, a pool keeps what was found out about it."""


class DeviceKind:
    """Devices that are equal in all that the requests which were learned read. Compared by identity.

    Not the kinds of `prepared.kinds`: those are told apart by the answers of one pod's selectors, so that each shape of
    pods has its own; these by values, so that what is found out about a state holds for pods that are still to come.

    Attributes:
        index: Order in which kinds were met.
        record: One device of the kind.
        names, totals: The capacities, and how much there is of each, in nano units.
        count: How many devices of the kind have been met.
        amounts: What a shape takes of each capacity; None when it can't have the device.
    """

    __slots__ = ("amounts", "count", "index", "names", "record", "shareable", "totals")

    def __init__(self, index: int, record: DeviceRecord, *, shareable: bool) -> None:
        self.index = index
        self.record = record
        self.shareable = shareable
        self.names = tuple(record.device.capacity)
        self.totals = tuple(capacity.value.nanos for capacity in record.device.capacity.values())
        self.count = 0
        self.amounts: dict[RequestShape, tuple[int, ...] | None] = {}

    def __repr__(self) -> str:
        return f"DeviceKind({self.index}, {self.record.id})"

    def __lt__(self, other: DeviceKind) -> bool:
        return self.index < other.index


Item = tuple[DeviceKind, Use]


class PoolState:
    """Devices of a pool with their use, sorted, and what is left of its counters. Compared by identity.

    Attributes:
        partitions: How many of each size can still be had, once `policy.partitions` has counted them.
    """

    __slots__ = ("_room", "items", "left", "partitions")

    def __init__(self, items: tuple[Item, ...], left: tuple[tuple[CounterId, int], ...]) -> None:
        self.items = items
        self.left = left
        self.partitions: tuple[tuple[int, int], ...] | None = None
        self._room = dict(left)

    def has_counters(self, kind: DeviceKind) -> bool:
        """Tell whether enough is left of all counters that a free device of the kind takes."""
        room = self._room
        return all(nanos <= room.get(counter, -1) for counter, nanos in kind.record.consumption)


@dataclass(frozen=True, slots=True)
class Place:
    """One device in a node's state: the pool's place, and the kind and use that it has there."""

    pool: int
    kind: DeviceKind
    use: Use


@dataclass(slots=True, eq=False)
class NodeState:
    """The pools of a node. Compared by identity.

    Args:
        rated: What policies have found out, by what they ask.
    """

    pools: tuple[PoolState, ...]
    rated: dict[object, object] = field(default_factory=dict)


class NodeStates:
    """The states of a cluster's nodes, as they are and as they would be.

    Attributes that no request reads make no kinds of their own: cards that differ in their uuid alone are equal.
    """

    __slots__ = ("_cluster", "_kinds", "_names", "_needed", "_nodes", "_pools", "_reads_all", "_round", "_shapes")

    def __init__(self, cluster: PreparedCluster) -> None:
        self._cluster = cluster
        self._shapes: set[RequestShape] = set()
        self._needed = 0
        self._names: set[str] = set()
        self._reads_all = False
        self._round: object = object()
        self._kinds: dict[object, DeviceKind] = {}
        self._pools: dict[object, PoolState] = {}
        self._nodes: dict[tuple[PoolState, ...], NodeState] = {}

    @property
    def kinds(self) -> tuple[DeviceKind, ...]:
        """All kinds of devices that were met, in order."""
        return tuple(self._kinds.values())

    @property
    def kind_count(self) -> int:
        """Number of kinds that were met."""
        return len(self._kinds)

    def learn(self, shapes: Iterable[RequestShape]) -> bool:
        """Take in what requests of the shapes read; True when all states that were found before are outdated.

        To be called for a shape before anything is asked about it.
        """
        new = [shape for shape in shapes if shape not in self._shapes]
        if not new:
            return False
        self._shapes.update(new)
        before = (self._reads_all, len(self._names))
        for text in {text for shape in new for text in (*shape.class_selectors, *shape.selectors)}:
            names = self._cluster.selectors.find_attributes(text)
            self._reads_all = self._reads_all or names is None
            self._names.update(names or ())
        if before == (self._reads_all, len(self._names)):
            return False
        self._drop_all()
        return True

    def find(self, view: NodeView) -> NodeState:
        """Return the state that the node is in."""
        pools = tuple([self.find_pool(view, pool) for pool in view.pools])
        return self._nodes.get(pools) or self.join(pools)

    def find_pool(self, view: NodeView, pool: PoolView) -> PoolState:
        """Return the state of a pool as a node sees it."""
        states = _find_kept(pool.live, "states", self._round)
        place = view.node.name if pool.differs_by_node else ""
        known = states.get(place)
        if not isinstance(known, PoolState):
            known = states[place] = self._read(view, pool)
        return known

    def join(self, pools: tuple[PoolState, ...]) -> NodeState:
        """Return the state of a node with these pools."""
        known = self._nodes.get(pools)
        if known is None:
            known = self._nodes[pools] = NodeState(pools)
        return known

    def forget_ratings(self) -> None:
        """Drop what was found out about states."""
        for state in self._nodes.values():
            state.rated.clear()

    @property
    def is_crowd(self) -> bool:
        """Whether there is too much of what was found, so that `start_anew` has to be called."""
        found = max(len(self._pools), len(self._nodes), len(self._kinds))
        return found > KNOWN_STATES_MAX or len(self._shapes) > KNOWN_SHAPES_MAX + self._needed

    def start_anew(self, shapes: Iterable[RequestShape]) -> None:
        """Forget all but these shapes; all states that were found before are outdated."""
        self._shapes.clear()
        self._names.clear()
        self._reads_all = False
        self._drop_all()
        self.learn(shapes)
        self._needed = len(self._shapes)

    def _drop_all(self) -> None:
        self._round = object()
        self._kinds.clear()
        self._pools.clear()
        self._nodes.clear()

    def find_amounts(self, kind: DeviceKind, shape: RequestShape) -> tuple[int, ...] | None:
        """Return what the shape takes of each capacity of a free device; None when it can't have one."""
        try:
            return kind.amounts[shape]
        except KeyError:
            amounts = kind.amounts[shape] = self._find_amounts(kind, shape)
            return amounts

    def find_use(self, record: DeviceRecord) -> Use:
        """Return how the device is used."""
        use, screen = record.use, self._cluster.screen
        if use.dedicated:
            return DEDICATED
        if not screen.shareable(record) or not use.shares:
            return FREE
        return tuple([use.consumed.get(name, 0) for name in record.device.capacity])

    def fits(self, pool: PoolState, item: Item, shape: RequestShape) -> bool:
        """Tell whether a request of the shape could have the device, as far as it alone is concerned."""
        kind, use = item
        amounts = self.find_amounts(kind, shape)
        if amounts is None or (use is DEDICATED and not shape.admin):
            return False
        if use and use is not DEDICATED:
            return all(a + b <= total for a, b, total in zip(use, amounts, kind.totals, strict=True))
        return not kind.record.consumption or pool.has_counters(kind)

    def take(self, pool: PoolState, item: Item, shape: RequestShape) -> PoolState:
        """Return the pool's state after a request of the shape got the device."""
        if shape.admin:
            return pool
        kind, use = item
        amounts = self.find_amounts(kind, shape) or ()
        if not kind.shareable:
            after: Use = DEDICATED
        else:
            after = tuple([a + b for a, b in zip(use, amounts, strict=True)]) if use else amounts
        items = list(pool.items)
        items[items.index(item)] = (kind, after)
        items.sort()
        left = pool.left
        if kind.record.consumption and not use:
            spent = dict(kind.record.consumption)
            left = tuple([(counter, nanos - spent.get(counter, 0)) for counter, nanos in left])
        return self._intern(tuple(items), left)

    def _read(self, view: NodeView, pool: PoolView) -> PoolState:
        if not pool.usable:
            return self._intern((), ())
        screen = self._cluster.screen
        items = [
            (kind, self.find_use(kind_record))
            for kind, kind_record in zip(self._find_kinds(pool), pool.devices, strict=True)
            if (not kind_record.slice.per_device_node_selection or node_reaches(kind_record.device, view.node))
            and screen.node_operates(kind_record, view.node)
        ]
        items.sort()
        left = tuple(self._cluster.find_counters(pool).left.items()) if pool.counter_sets else ()
        return self._intern(tuple(items), left)

    def _intern(self, items: tuple[Item, ...], left: tuple[tuple[CounterId, int], ...]) -> PoolState:
        key = (items, left)
        known = self._pools.get(key)
        if known is None:
            known = self._pools[key] = PoolState(items, left)
        return known

    def _find_kinds(self, pool: PoolView) -> tuple[DeviceKind, ...]:
        kept = _find_kept(pool.cache, "kinds", self._round)
        known = kept.get("")
        if not isinstance(known, tuple):
            known = kept[""] = tuple([self.find_kind(record) for record in pool.devices])
            for kind in known:
                kind.count += 1
        return known

    def find_kind(self, record: DeviceRecord) -> DeviceKind:
        """Return the kind of a device."""
        device = record.device
        key = (
            record.id.driver,
            self._read_attributes(record),
            tuple(device.capacity.items()),
            frozenset(record.consumption),
            device.taints,
            device.allow_multiple_allocations,
            device.binding_conditions,
            record.slice.skip_node_operations,
        )
        known = self._kinds.get(key)
        if known is None:
            shareable = self._cluster.screen.shareable(record)
            known = self._kinds[key] = DeviceKind(len(self._kinds), record, shareable=shareable)
        return known

    def _read_attributes(self, record: DeviceRecord) -> frozenset[tuple[str, DeviceAttribute]]:
        """The attributes that requests read, and those that say where the device is."""
        driver = record.id.driver
        return frozenset(
            [
                item
                for item in record.device.attributes.items()
                if self._reads_all
                or item[0].rpartition("/")[2] in CLOSE_ATTRIBUTES
                or (item[0] if "/" in item[0] else f"{driver}/{item[0]}") in self._names
            ]
        )

    def _find_amounts(self, kind: DeviceKind, shape: RequestShape) -> tuple[int, ...] | None:
        screen, record = self._cluster.screen, kind.record
        if screen.selectors.find_verdict(shape, record) is not MATCH or not screen.tolerates(record, shape):
            return None
        plan = screen.plan(record, shape)
        if plan is None:
            return tuple([0] * len(kind.names))
        if plan.kind != "fits":
            return None
        taken = {name: nanos for name, nanos, _ in plan.nanos}
        return tuple([taken.get(name, 0) for name in kind.names])


def _find_kept(memo: dict[object, object], name: str, asker: object) -> dict[str, object]:
    """What a pool's memo keeps for an asker; those that have not been there before push out the oldest."""
    kept = memo.get(name)
    if not isinstance(kept, dict):
        kept = memo[name] = {}
    found: dict[str, object] | None = kept.get(asker)
    if found is None:
        if len(kept) >= ASKERS_MAX:
            del kept[next(iter(kept))]
        found = kept[asker] = {}
    return found

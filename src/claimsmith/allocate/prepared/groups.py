"""Nodes that pods of one shape can't tell apart: an answer for one of them holds for all.

`PreparedCluster.group_nodes(plan)` gives the `NodeGroups` of a pod's shape; it is kept and follows the cluster. What is
asked once for a node costs a look-up from then on, until a claim or a slice of one of its pools changes.

    groups = cluster.group_nodes(plan)
    for node, group in groups.scan(nodes):     # as many groups as there are states of nodes that differ for this pod
        if group.pending is None:              # nothing is known yet, or the claims fit
            group.note(decide(node))           # holds for the others, too, if it says that they don't fit

Two nodes are in one group when the search sees the same on both, in the same order: the kinds of the devices that it
may take, their use, what their counters have left, and which values of attributes that constraints compare are equal.
Names, and what no request of the pod can have, don't count. So the claims fit on both or on none. Who needs to tell
nodes apart by more than that plans further requests, of a claim that nobody has, and asks for the groups of that plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from claimsmith.allocate.prepared.changes import Change, ChangeLog
from claimsmith.allocate.prepared.constraints import AttributeValue, read_value
from claimsmith.allocate.prepared.counters import PoolCounters
from claimsmith.allocate.prepared.forms import SliceForms
from claimsmith.allocate.prepared.kinds import ShapeKind, ShapeKinds
from claimsmith.allocate.prepared.plan import PodPlan
from claimsmith.allocate.prepared.pools import PoolView, node_reaches
from claimsmith.allocate.prepared.records import SliceRecord, find_attribute
from claimsmith.allocate.prepared.screening import NODE_OPERATIONS_FEATURE
from claimsmith.allocate.prepared.usage import DeviceUse, PoolKey, UsageLedger
from claimsmith.model.decision import Decision, Pending
from claimsmith.model.device import Device
from claimsmith.model.node import Node

__all__ = ["GroupSource", "NodeGroup", "NodeGroups", "find_shape_key"]

KNOWN_STATES_MAX: Final = 16_384
"""States of pools and nodes that are remembered by number; beyond that all groups are made anew."""

_Row = tuple[object, ...]
_Pool = PoolView | SliceRecord
"""A pool; a plain one is its only slice."""


class _View(Protocol):
    """What a node can reach."""

    @property
    def pools(self) -> Sequence[PoolView]: ...
    @property
    def bad_selectors(self) -> Sequence[object]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSource:
    """What groups are made from.

    Args:
        find_plain: The slices of a node, in order, if each of them is a pool without counters, and none is shared.
        aborts_on_invalid: An invalid pool makes the node an error instead of being passed over.
        aborts_on_selector: A node selector that can't be read aborts the allocation.
        lists: The gate ListTypeAttributes.
    """

    view_node: Callable[[Node], _View]
    find_plain: Callable[[Node], Sequence[SliceRecord] | None]
    find_counters: Callable[[PoolView], PoolCounters]
    ledger: UsageLedger
    forms: SliceForms
    changes: ChangeLog
    aborts_on_invalid: bool
    aborts_on_selector: bool
    lists: bool


@dataclass(slots=True, eq=False, kw_only=True)
class NodeGroup:
    """Nodes that are alike for pods of one shape. Compared by identity.

    Args:
        is_alone: A node that has to be looked at for itself: nothing is known of others from it.
        warns: The answer for each node has warnings of its own, which name its devices.
        pending: The answer, when claims of the shape don't fit; None when they do, or it isn't known.
    """

    is_alone: bool = False
    warns: bool = False
    pending: Pending | None = None

    def note(self, decision: Decision) -> None:
        """Remember the decision for one of the nodes, if it holds for all."""
        if isinstance(decision, Pending) and not self.is_alone:
            self.pending = decision


@dataclass(slots=True, eq=False, kw_only=True)
class _Face:
    """What pods of one shape see of a pool, while nobody uses it.

    Args:
        names, kinds: Devices that some request may have, in order of preference.
        local: For each device: the device, when it selects its nodes by itself.
        rows: For each device its values of the attributes that constraints compare.
        numbers: The kinds' numbers.
        is_local: Some device selects its nodes by itself.
        skips: A driver skips node operations.
        free: Number of the pool's state while nobody uses it; None when it has to be found out for each node.
    """

    names: tuple[str, ...]
    kinds: tuple[ShapeKind, ...]
    local: tuple[Device | None, ...]
    rows: tuple[_Row, ...]
    numbers: tuple[object, ...]
    counts: bool
    warns: bool
    is_local: bool
    skips: bool
    free: int | None = None


@dataclass(slots=True, eq=False)
class _Looks:
    """What was found out about pools that read alike.

    Args:
        face: None when no request can have any device.
        values: What was read; kept, so that no other object takes its identity.
        is_shared: Other pools have the same.
    """

    face: _Face | None
    values: list[object] = field(default_factory=list)
    is_shared: bool = False


_ODD: Final = _Face(
    names=(), kinds=(), local=(), rows=(), numbers=(), counts=False, warns=False, is_local=False, skips=False
)
"""Stands for a pool with a device that has to be looked at in full."""
_NOTHING: Final = (False,)
"""What the search sees where no request can have any device."""


def find_shape_key(plan: PodPlan) -> object:
    """Return what is equal for pods that get the same verdicts; None for pods whose verdicts can't be shared."""
    if plan.refusal is not None:
        return None
    claims = []
    for claim in plan.claims:
        groups = []
        for group in claim.groups:
            if any(request.derived for request in group.alternatives):
                return None
            groups.append(
                (
                    group.prioritized,
                    *[(r.shape, r.takes_all, 0 if r.takes_all else r.count, r.constraints) for r in group.alternatives],
                )
            )
        claims.append((tuple(groups), tuple([(c.kind, c.attribute) for c in claim.constraints])))
    return tuple(claims)


class NodeGroups:
    """The groups of nodes for pods of one shape.

    Args:
        kinds: The kinds of devices for the shape; None when pods have to be asked node by node.
    """

    __slots__ = (
        "_alike",
        "_attributes",
        "_groups",
        "_is_partial",
        "_keeps",
        "_kinds",
        "_looks",
        "_of",
        "_reads",
        "_seen",
        "_shared",
        "_source",
        "_states",
        "_takes_all",
        "_users",
    )

    def __init__(self, plan: PodPlan, *, kinds: ShapeKinds | None, source: GroupSource) -> None:
        requests = plan.requests
        self._kinds, self._source = kinds, source
        self._takes_all = any(request.takes_all for request in requests)
        self._keeps = self._takes_all or any(request.shape.admin for request in requests)
        self._attributes = tuple(dict.fromkeys(c.attribute for claim in plan.claims for c in claim.constraints))
        self._seen = source.changes.number
        self._is_partial = False
        self._reads: dict[str, tuple[str, ...] | None] = {}
        self._alike: dict[object, _Looks] = {}
        self._looks: dict[_Pool, _Looks] = {}
        self._states: dict[object, int] = {}
        self._shared: dict[PoolView, int] = {}
        self._groups: dict[tuple[object, ...], NodeGroup] = {}
        self._of: dict[str, tuple[Node, NodeGroup]] = {}
        self._users: dict[PoolKey, str | dict[str, None]] = {}

    def scan(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, NodeGroup]]:
        """Give each node with its group, in order."""
        for node in nodes:
            if self._seen != self._source.changes.number:
                self._catch_up()
            known = self._of.get(node.metadata.name)
            yield known if known is not None and known[0] is node else self._place(node)

    def scan_open(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, NodeGroup]]:
        """As `scan`, without the nodes that are known not to fit; what gives the nodes must not change the cluster."""
        changes, of = self._source.changes, self._of
        if self._seen != changes.number:
            self._catch_up()
        for node in nodes:
            known = of.get(node.metadata.name)
            if known is None or known[0] is not node:
                known = self._place(node)
            if known[1].pending is None:
                yield known
                if self._seen != changes.number:
                    self._catch_up()

    def _place(self, node: Node) -> tuple[Node, NodeGroup]:
        """Find the group of a node that is not known, or no longer."""
        if len(self._states) > KNOWN_STATES_MAX or len(self._groups) > KNOWN_STATES_MAX:
            self._forget()
        place = self._of[node.metadata.name] = (node, self._find_group(self._find_key(node)))
        return place

    def _find_group(self, key: tuple[object, ...] | None) -> NodeGroup:
        if key is None:
            return NodeGroup(is_alone=True)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = NodeGroup(warns=bool(key[-1]))
        return group

    def _find_key(self, node: Node) -> tuple[object, ...] | None:
        """What the search sees on the node; None when it has to be asked."""
        if self._kinds is None:
            return None
        plain = self._source.find_plain(node)
        if plain is None:
            return self._find_general_key(node)
        seen: list[tuple[_Pool, _Face]] = []
        is_alone = False
        for record in plain:
            face = self._find_looks(record).face
            if face is not None:
                self._note_user(record.pool, node.metadata.name)
                seen.append((record, face))
                is_alone = is_alone or face is _ODD
        if not seen:
            return _NOTHING
        return None if is_alone else self._join(seen, node, warns=False)

    def _find_general_key(self, node: Node) -> tuple[object, ...] | None:
        view, source = self._source.view_node(node), self._source
        is_alone = bool(view.bad_selectors) and source.aborts_on_selector
        seen: list[tuple[_Pool, _Face]] = []
        for pool in view.pools:
            face = self._find_looks(pool).face
            if face is not None or not pool.usable:
                self._note_user(pool.id, node.metadata.name)
            if not pool.usable:
                is_alone = is_alone or self._takes_all or (bool(pool.invalid) and source.aborts_on_invalid)
            elif face is _ODD:
                is_alone = True
            elif face is not None:
                seen.append((pool, face))
        return None if is_alone else self._join(seen, node, warns=bool(view.bad_selectors))

    def _join(self, seen: list[tuple[_Pool, _Face]], node: Node, *, warns: bool) -> tuple[object, ...]:
        """The states of a node's pools as one; the last part tells whether its answers have warnings."""
        if len(seen) == 1 and not self._is_partial:
            pool, face = seen[0]
            return (self._find_number(pool, face, node), warns or face.warns)
        parts: list[object] = []
        if any(face.skips for _, face in seen):
            parts.append(NODE_OPERATIONS_FEATURE in node.declared_features)
        if len(seen) > 1 and self._attributes:
            states = [self._find_state(pool, face, node) for pool, face in seen]
            rows = [row for _, rows in states for row in rows]
            parts.extend((tuple([state for state, _ in states]), _rename(rows)))
        else:
            parts.extend([self._find_number(pool, face, node) for pool, face in seen])
        return (*parts, warns or any(face.warns for _, face in seen))

    def find_looks(self, record: SliceRecord) -> object | None:
        """Return an object that slices have in common which are alike for the shape; None: it has to be looked at."""
        looks = self._looks.get(record) or self._find_looks(record)
        return None if not looks.is_shared or looks.face is _ODD else looks

    def _find_looks(self, pool: _Pool) -> _Looks:
        """What the shape sees of a pool."""
        try:
            return self._looks[pool]
        except KeyError:
            looks = self._looks[pool] = self._look(pool)
            return looks

    def _look(self, pool: _Pool) -> _Looks:
        if not isinstance(pool, SliceRecord):
            return _Looks(self._make_face(pool.slices) if pool.usable else None)
        form = self._source.forms.find(pool)
        reads = self._find_reads(form.driver)
        if reads is None:
            return _Looks(self._make_face((pool,)))
        values: list[object] = (
            [device.attributes.get(name) for device in pool.slice.devices for name in reads] if reads else []
        )
        key = (form, *map(id, values))
        known = self._alike.get(key)
        if known is None:
            if len(self._alike) >= KNOWN_STATES_MAX:
                self._alike.clear()
            known = self._alike[key] = _Looks(self._make_face((pool,)), values, is_shared=True)
        return known

    def _find_reads(self, driver: str) -> tuple[str, ...] | None:
        """All names of attributes that decide about a driver's devices; None: everything does."""
        if driver not in self._reads:
            names = self._kinds.find_names(driver) if self._kinds is not None else None
            compared = [
                form
                for name in self._attributes
                for form in (name, *([name.partition("/")[2]] if name.startswith(f"{driver}/") else []))
            ]
            self._reads[driver] = None if names is None else tuple(dict.fromkeys((*names, *compared)))
        return self._reads[driver]

    def _make_face(self, slices: Sequence[SliceRecord]) -> _Face | None:
        found: list[tuple[ShapeKind, Device, SliceRecord]] = []
        skips = False
        if len({device.name for record in slices for device in record.slice.devices}) < sum(
            len(record.slice.devices) for record in slices
        ):
            return _ODD
        for record in slices:
            kinds = self._kinds.find(record, self._source.forms.find(record).bases) if self._kinds is not None else None
            if kinds is None:
                return _ODD
            if kinds.count(None) == len(kinds):
                continue
            skips = skips or bool(record.slice.skip_node_operations)
            for kind, device in zip(kinds, record.slice.devices, strict=True):
                if kind is not None:
                    found.append((kind, device, record))
        if not found:
            return None
        self._is_partial = self._is_partial or skips
        face = _Face(
            names=tuple([device.name for _, device, _ in found]),
            kinds=tuple([kind for kind, _, _ in found]),
            local=tuple([device if record.slice.per_device_node_selection else None for _, device, record in found]),
            rows=tuple([self._read_row(record, device) for _, device, record in found]) if self._attributes else (),
            numbers=tuple([kind.number for kind, _, _ in found]),
            counts=any(kind.counts for kind, _, _ in found),
            warns=any(kind.warns for kind, _, _ in found),
            is_local=any(record.slice.per_device_node_selection for _, _, record in found),
            skips=skips,
        )
        if not face.is_local and not face.counts:
            face.free = self._number((face.numbers, None, _rename(face.rows)))
        return face

    def _read_row(self, record: SliceRecord, device: Device) -> _Row:
        """A device's values of the attributes that constraints compare."""
        driver, lists = record.slice.driver, self._source.lists
        return tuple([read_value(find_attribute(device, driver, name), lists=lists) for name in self._attributes])

    def _find_number(self, pool: _Pool, face: _Face, node: Node) -> int:
        """The number of a pool's state on a node; pools of several nodes are looked at once."""
        if face.free is not None and self._source.ledger.is_free(_get_key(pool)):
            return face.free
        if isinstance(pool, SliceRecord) or face.is_local or not isinstance(self._users.get(pool.id), dict):
            state, rows = self._find_state(pool, face, node)
            return self._number((*state, _rename(rows)))
        known = self._shared.get(pool)
        if known is None:
            state, rows = self._find_state(pool, face, node)
            known = self._shared[pool] = self._number((*state, _rename(rows)))
        return known

    def _find_state(self, pool: _Pool, face: _Face, node: Node) -> tuple[tuple[object, ...], Sequence[_Row]]:
        """The devices that may be had and the counters, and the values that constraints compare."""
        whole = self._source.ledger.find_whole(_get_key(pool))
        counters = None
        if face.counts and isinstance(pool, PoolView):
            counters = _describe_counters(self._source.find_counters(pool))
        if whole == () and not face.is_local:
            return (face.numbers, counters), face.rows
        if whole is not None and not face.is_local and not self._keeps:
            names = face.names
            states = tuple([number for number, name in zip(face.numbers, names, strict=True) if name not in whole])
            if not face.rows:
                return (states, counters), ()
            return (states, counters), [row for row, name in zip(face.rows, names, strict=True) if name not in whole]
        kept, found = self._list_states(pool, face, node)
        return (tuple(found), counters), [face.rows[place] for place in kept] if face.rows else ()

    def _list_states(self, pool: _Pool, face: _Face, node: Node) -> tuple[list[int], list[object]]:
        """The places of the devices that may be had, and the state of each."""
        uses = self._source.ledger.find_pool_uses(_get_key(pool))
        kept: list[int] = []
        states: list[object] = []
        for place, (name, kind) in enumerate(zip(face.names, face.kinds, strict=True)):
            local = face.local[place]
            reaches = local is None or node_reaches(local, node)
            if not reaches and not kind.warns:
                continue
            use = uses.get(name)
            state = kind.number if use is None else self._describe_use(kind, use)
            if state is not None:
                kept.append(place)
                states.append((state, reaches) if kind.warns else state)
        return kept, states

    def _describe_use(self, kind: ShapeKind, use: DeviceUse) -> object:
        """What of a device's use decides; None when no request can have it."""
        if not self._keeps:
            if use.dedicated:
                return None
            fits = kind.find_fits(use.consumed)
            if kind.is_single:
                return (kind.number, use.shares > 0, fits) if any(fits) else None
        return (kind.number, use.dedicated, use.shares > 0, tuple(sorted(use.consumed.items())))

    def _number(self, state: object) -> int:
        return self._states.setdefault(state, len(self._states))

    def _note_user(self, pool: PoolKey, name: str) -> None:
        """Remember that what becomes of the pool concerns a node."""
        users = self._users.get(pool)
        if users is None:
            self._users[pool] = name
        elif isinstance(users, dict):
            users[name] = None
        elif users != name:
            self._users[pool] = {users: None, name: None}

    def _catch_up(self) -> None:
        """Drop what has changed since the last look."""
        changes = self._source.changes.find_since(self._seen)
        self._seen = self._source.changes.number
        if changes is None:
            self._forget()
            return
        touched: set[PoolKey] = set()
        remade: set[PoolKey] = set()
        for change in changes:
            self._apply(change)
            touched |= change.pools
            if change.is_slices:
                remade |= change.pools
        if self._shared:
            self._shared = {view: number for view, number in self._shared.items() if view.id not in touched}
        if remade:
            self._looks = {pool: looks for pool, looks in self._looks.items() if _get_key(pool) not in remade}

    def _apply(self, change: Change) -> None:
        for pool in change.pools:
            users = self._users.get(pool, ())
            for name in (users,) if isinstance(users, str) else users:
                self._of.pop(name, None)
        for name in change.nodes:
            self._of.pop(name, None)

    def _forget(self) -> None:
        """Begin anew."""
        for known in (
            self._alike,
            self._looks,
            self._states,
            self._shared,
            self._groups,
            self._of,
            self._users,
        ):
            known.clear()


def _get_key(pool: _Pool) -> PoolKey:
    return pool.pool if isinstance(pool, SliceRecord) else pool.id


def _rename(rows: Sequence[_Row]) -> object:
    """Which of the devices have equal values: each value stands for the place where it is first seen.

    Lists may overlap without being equal, so that they, and all beside them, keep their values.
    """
    if not rows:
        return ()
    if any(isinstance(value, AttributeValue) and len(value.values) != 1 for row in rows for value in row):
        return tuple(rows)
    first: dict[object, int] = {None: -1}
    return tuple([tuple([first.setdefault(value, len(first)) for value in row]) for row in rows])


def _describe_counters(counters: PoolCounters) -> object:
    return (tuple(counters.left.items()), tuple(counters.groups.items()))

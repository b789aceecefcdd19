"""A cluster prepared for many allocations: slices by node, devices in use, answers of selectors, counters.

It follows the snapshots: only what has changed between two of them is computed again. Nothing in it depends on the
pod, and nothing of a snapshot is changed.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from operator import is_, is_not
from typing import Final

from claimsmith.allocate.prepared.changes import ChangeLog
from claimsmith.allocate.prepared.counters import PoolCounters, count_pool
from claimsmith.allocate.prepared.eligibility import RequestShape, Selectors, is_stable
from claimsmith.allocate.prepared.forms import SliceForms
from claimsmith.allocate.prepared.groups import GroupSource, NodeGroups, find_shape_key
from claimsmith.allocate.prepared.kinds import SelectorAnswers, ShapeKinds
from claimsmith.allocate.prepared.plan import PodPlan, plan_claims
from claimsmith.allocate.prepared.pools import (
    BadSelector,
    GatheredPools,
    PoolParts,
    PoolView,
    build_plain_pool,
    build_pool,
    gather_pools,
    node_reaches,
)
from claimsmith.allocate.prepared.problem import AllocationProblem, merge_taints
from claimsmith.allocate.prepared.records import DeviceRecord, SliceRecord
from claimsmith.allocate.prepared.screening import Screen, Screened
from claimsmith.allocate.prepared.slice_index import SliceIndex
from claimsmith.allocate.prepared.usage import FREE, DeviceUse, PoolKey, UsageLedger
from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.features import Features
from claimsmith.model.names import ClaimRef, DeviceId, PoolId
from claimsmith.model.node import Node
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["NodeView", "PreparedCluster"]

KNOWN_TEXTS_MAX: Final = 2048
"""Selector texts whose answers are kept; beyond that all answers are dropped and found out again."""
SWAPPED_MAX: Final = 256
"""Slices that may change at once without making the index of all slices anew."""
KNOWN_GROUPS_MAX: Final = 64
"""Shapes of pods for which groups of nodes are kept, those that were asked about last."""
KNOWN_SHAPES_MAX: Final = 1024
"""Request shapes whose candidates are kept."""


@dataclass(slots=True, eq=False, kw_only=True)
class NodeView:
    """What a node can reach: its pools in upstream's order.

    Args:
        obsolete: Pools whose slices for the node are outdated.
        bad_selectors: Slices whose node selector can't be read.
        joined: Candidates of all pools by shape, with the parts they were made from.
    """

    node: Node
    pools: tuple[PoolView, ...]
    obsolete: tuple[PoolId, ...] = ()
    bad_selectors: tuple[BadSelector, ...] = ()
    joined: dict[RequestShape, tuple[list[Screened], Screened]] = field(default_factory=dict)


class PreparedCluster:
    """Slices, classes and devices in use, ready for `claimsmith.allocate.search.decide`.

    Args:
        features: The gates; they can't change later.
        deviations: What to answer otherwise than upstream.
        history: Slices that are no longer published; they tell what devices in use consume that have vanished.
    """

    def __init__(
        self,
        features: Features | None = None,
        *,
        deviations: frozenset[Deviation] = OURS,
        history: Iterable[ResourceSlice] = (),
    ) -> None:
        self.features = features or Features()
        self.deviations = deviations
        self.classes: Mapping[str, DeviceClass] = {}
        self.layout_version = 0
        """Grows when slices or taint rules change, so that views of nodes must be asked for again."""
        self.selectors = Selectors(self.features)
        self.screen = Screen(self.features, self.selectors, find_counters=self.find_counters, deviations=deviations)
        self._like_stable = Deviation.STABLE_POOLS not in deviations and is_stable(self.features)
        self._ledger = UsageLedger(consumable_capacity=self.features.consumable_capacity)
        self._history = SliceIndex(like_stable=False)
        for slice in history:
            self._history.add(SliceRecord(slice, position=0))
        self._rules: tuple[DeviceTaintRule, ...] = ()
        self._slices: Sequence[ResourceSlice] = ()
        self._claims: dict[ClaimRef, ResourceClaim] = {}
        self._given_claims: Mapping[ClaimRef, ResourceClaim] | None = None
        self._records: dict[int, tuple[ResourceSlice, SliceRecord]] = {}
        self._index = SliceIndex(like_stable=self._like_stable)
        self._views: dict[PoolKey, dict[PoolParts, PoolView]] = {}
        self._views_of: dict[PoolKey, list[PoolView]] = defaultdict(list)
        self._nodes: dict[str, NodeView] = {}
        self._shapes: dict[RequestShape, RequestShape] = {}
        self._changes, self._forms, self._answers = ChangeLog(), SliceForms(), SelectorAnswers(self.selectors)
        self._groups: OrderedDict[object, NodeGroups] = OrderedDict()

    @classmethod
    def from_problem(cls, problem: AllocationProblem, *, deviations: frozenset[Deviation] = OURS) -> PreparedCluster:
        """Return the cluster of one problem."""
        cluster = cls(problem.features, deviations=deviations, history=problem.history)
        cluster.classes = problem.classes
        cluster.replace_slices(problem.slices)
        cluster._ledger.preset(problem.state)
        for claim in problem.allocated:
            cluster._ledger.add(claim)
        cluster._note_uses()
        return cluster

    @classmethod
    def from_snapshot(
        cls, snapshot: ClusterSnapshot, features: Features | None = None, *, deviations: frozenset[Deviation] = OURS
    ) -> PreparedCluster:
        """Return the cluster of a snapshot."""
        cluster = cls(features, deviations=deviations)
        cluster.update(snapshot)
        return cluster

    def update(self, snapshot: ClusterSnapshot) -> None:
        """Follow a newer snapshot; objects that are the same as before cost a comparison of identities."""
        self.classes = snapshot.classes
        self.replace_slices(snapshot.slices, snapshot.taint_rules)
        self.replace_claims(snapshot.claims)

    def replace_slices(self, slices: Sequence[ResourceSlice], rules: tuple[DeviceTaintRule, ...] = ()) -> None:
        """Take over all slices of the cluster, in list order, and the rules that taint their devices."""
        if slices is self._slices and rules == self._rules:
            return
        self.layout_version += 1
        if rules == self._rules and self._swap(slices):
            return
        if rules != self._rules:
            self._records.clear()
        records: dict[int, tuple[ResourceSlice, SliceRecord]] = {}
        added = []
        for position, slice in enumerate(slices):
            known = self._records.get(id(slice))
            if known is None:
                known = (slice, self._make_record(slice, rules, position))
                added.append(known[1])
            known[1].position = position
            records[id(slice)] = known
        removed = [record for key, (_, record) in self._records.items() if key not in records]
        reordered = [id(slice) for slice in slices if id(slice) in self._records] != [
            key for key in self._records if key in records
        ]
        full = rules != self._rules or reordered
        self._rules, self._slices, self._records = rules, slices, records
        self._index = SliceIndex(like_stable=self._like_stable)
        for _, record in records.values():
            self._index.add(record)
        self._drop_nodes(None if full else [*added, *removed])

    def _make_record(self, slice: ResourceSlice, rules: tuple[DeviceTaintRule, ...], position: int) -> SliceRecord:
        find_uses = self._ledger.find_pool_uses
        return SliceRecord(merge_taints(slice, rules) if rules else slice, position=position, find_uses=find_uses)

    def _swap(self, slices: Sequence[ResourceSlice]) -> bool:
        """Take over slices of which a few are otherwise than before, in the same places; False: that is not so."""
        known, records = self._slices, list(self._records.values())
        if self._like_stable or not len(known) == len(slices) == len(records):
            return False
        places = list(compress(range(len(slices)), map(is_not, known, slices)))
        if len(places) > SWAPPED_MAX or not all(_stays(known[place], slices[place]) for place in places):
            return False
        changed: list[SliceRecord] = []
        for place in places:
            old, new = records[place][1], self._make_record(slices[place], self._rules, place)
            records[place] = (slices[place], new)
            self._index.swap(old, new)
            changed += [old, new]
        self._slices, self._records = slices, {id(slice): (slice, record) for slice, record in records}
        self._drop_nodes(changed)
        return True

    def replace_claims(self, claims: Mapping[ClaimRef, ResourceClaim]) -> None:
        """Take over all claims of the cluster; what the allocated ones hold is in use."""
        if claims is self._given_claims:
            return
        removed, added = _find_changed(self._claims, claims)
        for old in removed:
            self._ledger.remove(old)
        for new in added:
            self._ledger.add(new)
        self._given_claims, self._claims = claims, dict(claims)
        self._note_uses()

    def see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Take over the change of one claim; None: absent. It costs the same in a cluster of any size."""
        ref = new.ref if new is not None else old.ref if old is not None else None
        if ref is None:
            return
        known = self._claims.pop(ref, None) if new is None else self._claims.get(ref)
        if new is not None:
            self._claims[ref] = new
        self._given_claims = None
        if known is not None and known is not new:
            self._ledger.remove(known)
        if new is not None and known is not new:
            self._ledger.add(new)
        self._note_uses()

    def hold(self, claim: ResourceClaim) -> None:
        """Count what an allocated claim holds that is not among the cluster's; to be released before an update."""
        self._ledger.add(claim)
        self._note_uses()

    def release(self, claim: ResourceClaim) -> None:
        """Forget what was counted by `hold` for the same claim with the same allocation."""
        self._ledger.remove(claim)
        self._note_uses()

    @property
    def changes(self) -> ChangeLog:
        """What has changed lately."""
        return self._changes

    def plan(self, claims: Iterable[ResourceClaim]) -> PodPlan:
        """Return the claims ready for the search on any node, until the next update."""
        return plan_claims(claims, self.classes, features=self.features, intern=self.intern)

    def group_nodes(self, plan: PodPlan) -> NodeGroups:
        """Return which nodes are alike for the plan's pod, and for all pods of its shape; it follows the cluster."""
        key = find_shape_key(plan)
        found = self._groups.get(key) if key is not None else None
        if found is None:
            found = self._make_groups(plan, is_grouped=key is not None)
            if key is not None:
                self._groups[key] = found
                if len(self._groups) > KNOWN_GROUPS_MAX:
                    self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(key)
        return found

    def intern(self, shape: RequestShape) -> RequestShape:
        """Return the one instance of a shape that all pods share."""
        if len(self._shapes) >= KNOWN_SHAPES_MAX or self.selectors.known_texts >= KNOWN_TEXTS_MAX:
            self._forget_answers()
        return self._shapes.setdefault(shape, shape)

    def find_visible(self, node: Node) -> list[SliceRecord]:
        """Return the slices that may target a node: its own, then the others, each in list order."""
        return self._index.find_visible(node)

    def find_slices(self, pool: PoolId) -> Sequence[SliceRecord]:
        """Return all slices of a pool, of any generation and for any node, in list order."""
        return self._index.find_slices(pool)

    def view_node(self, node: Node) -> NodeView:
        """Return what the node can reach."""
        known = self._nodes.get(node.name)
        if known is not None and (known.node is node or known.node == node):
            return known
        plain, others = self._split(node)
        gathered = gather_pools(
            node,
            others,
            find_slices=self._index.find_slices,
            features=self.features,
            counters_everywhere=self._like_stable,
        )
        view = self._nodes[node.name] = self._arrange(node, plain, gathered)
        return view

    def _split(self, node: Node) -> tuple[list[PoolView], list[SliceRecord]]:
        """The plain pools that target the node, and the visible slices of the other pools."""
        by_pool, plain, others = self._index.by_pool, list[PoolView](), list[SliceRecord]()
        for record in self.find_visible(node):
            if record.is_plain and len(by_pool[record.pool]) == 1 and node_reaches(record.slice, node):
                plain.append(self._find_plain_view(record))
            else:
                others.append(record)
        return plain, others

    def find_plain(self, node: Node) -> Sequence[SliceRecord] | None:
        """Return the slices of a node, in order, if each is a pool without counters; None when there is more to it."""
        return self._index.find_plain(node)

    def find_whole(self, pool: PoolKey) -> Container[str] | None:
        """Return the names of a pool's devices in use, if each is held as a whole; None when there are shares."""
        return self._ledger.find_whole(pool)

    def _find_plain_view(self, record: SliceRecord) -> PoolView:
        view = record.view
        if not isinstance(view, PoolView):
            view = record.view = build_plain_pool(record)
            self._views_of[view.id].append(view)
        return view

    def find_counters(self, view: PoolView) -> PoolCounters:
        """Return what is left of a pool's counters."""
        counters = view.live.get("counters")
        if not isinstance(counters, PoolCounters):
            counters = view.live["counters"] = count_pool(
                view,
                used=self._ledger.find_pool_uses(view.id),
                missing=self._find_missing(view),
                find_old=self._find_old,
            )
        return counters

    def find_use(self, device: DeviceId) -> DeviceUse:
        """Return how a device is used, published or not."""
        return self._ledger.find_use(device)

    @property
    def uses(self) -> Mapping[DeviceId, DeviceUse]:
        """How devices are used, published or not; those that are free are absent."""
        return self._ledger.uses

    @property
    def history(self) -> tuple[ResourceSlice, ...]:
        """Slices that are no longer published."""
        return tuple(record.slice for records in self._history.by_pool.values() for record in records)

    def find_node_slices(self, node: Node) -> tuple[ResourceSlice, ...]:
        """Return the slices that may decide what a node can use, with taint rules merged in, in list order."""
        visible = self.find_visible(node)
        pools = dict.fromkeys(record.slice.pool_id for record in visible)
        records = {record.position: record for pool in pools for record in self._index.find_slices(pool)}
        records.update((record.position, record) for record in visible)
        return tuple(records[position].slice for position in sorted(records))

    def find_uses(self, device: DeviceId) -> tuple[DeviceUse, ...]:
        """Return the use of a device by each of the claims that hold it, in the order in which they came."""
        return self._ledger.find_entries(device)

    def find_old(self, device: DeviceId) -> DeviceRecord | None:
        """Return a device that is not published now, as an outdated slice or the history has it."""
        return self._find_old(device)

    def screen_node(self, view: NodeView, shape: RequestShape) -> Screened:
        """Return the devices of the node that a request of the shape may choose from."""
        pools, node, screen = view.pools, view.node, self.screen
        if len(pools) == 1:
            return screen.screen_pool(pools[0], shape, node)
        parts = [screen.screen_pool(pool, shape, node) for pool in pools]
        known = view.joined.get(shape)
        if (
            known is not None
            and len(known[0]) == len(parts)
            and all(a is b for a, b in zip(known[0], parts, strict=True))
        ):
            return known[1]
        joined = Screened.join(parts)
        view.joined[shape] = (parts, joined)
        return joined

    def _make_groups(self, plan: PodPlan, *, is_grouped: bool) -> NodeGroups:
        kinds = ShapeKinds(plan.requests, selectors=self.selectors, screen=self.screen, answers=self._answers)
        source = GroupSource(
            view_node=self.view_node,
            find_plain=self.find_plain,
            find_counters=self.find_counters,
            ledger=self._ledger,
            forms=self._forms,
            changes=self._changes,
            aborts_on_invalid=Deviation.INVALID_POOL not in self.deviations,
            aborts_on_selector=Deviation.NODE_SELECTOR not in self.deviations,
            lists=self.features.list_type_attributes,
        )
        return NodeGroups(plan, kinds=kinds if is_grouped else None, source=source)

    def _arrange(self, node: Node, plain: list[PoolView], gathered: GatheredPools) -> NodeView:
        """Order the pools: by driver and name, those with binding conditions last."""
        views = [*plain, *[self._find_view(parts) for parts in gathered.pools]]
        if len(views) > 1:
            views.sort(key=lambda view: (view.has_binding, view.id))
        return NodeView(node=node, pools=tuple(views), obsolete=gathered.obsolete, bad_selectors=gathered.bad_selectors)

    def _find_view(self, parts: PoolParts) -> PoolView:
        views = self._views.setdefault(parts.id, {})
        view = views.get(parts)
        if view is None:
            view = views[parts] = build_pool(parts, self.features, in_list_order=self._like_stable)
            self._views_of[parts.id].append(view)
        return view

    def _find_missing(self, view: PoolView) -> list[tuple[DeviceId, DeviceUse]]:
        """Devices of the pool in use that the view doesn't publish; upstream forgets them."""
        used = self._ledger.find_pool_uses(view.id)
        if Deviation.VANISHED_DEVICE not in self.deviations or not used:
            return []
        published = {device.name for record in (*view.slices, *view.other_slices) for device in record.slice.devices}
        return [(DeviceId(*view.id, name), used[name]) for name in sorted(used) if name not in published]

    def _find_old(self, device: DeviceId) -> DeviceRecord | None:
        """The device as an outdated slice, or the history, has it."""
        return self._index.find_device(device) or self._history.find_device(device)

    def _note_uses(self) -> None:
        """Tell the devices' records how they are used now, and drop what was computed from it."""
        changed = self._ledger.pop_changed()
        if changed:
            self._changes.add_uses(changed)
        for pool in changed:
            uses: Mapping[str, DeviceUse] | None = None
            for record in self._index.by_pool.get(pool, ()):
                for device in record.made:
                    if uses is None:
                        uses = self._ledger.find_pool_uses(pool)
                    device.use = uses.get(device.id.device, FREE)
            for view in self._views_of.get(pool, ()):
                view.live.clear()

    def _drop_nodes(self, changed: list[SliceRecord] | None) -> None:
        """Drop the views that a change of slices makes invalid; None: all."""
        pools = {record.slice.pool_id for record in changed or ()}
        names = {record.slice.node_name for record in changed or () if record.slice.node_name}
        if changed is None or self._like_stable or any(not record.slice.node_name for record in changed):
            self._nodes.clear()
            self._changes.add_all()
        for name in self._find_viewers(pools, names):
            del self._nodes[name]
            names.add(name)
        self._changes.add_slices(pools, names)
        for pool in list(self._views_of) if changed is None else pools:
            self._views_of.pop(pool, None)
            self._views.pop(pool, None)
            for record in self._index.by_pool.get(pool, ()):
                record.view = None

    def _find_viewers(self, pools: set[PoolId], names: set[str]) -> list[str]:
        """Nodes with a view that see one of the pools, besides those of these names."""
        slices = [record.slice for pool in pools for record in self._index.by_pool.get(pool, ())]
        if all(slice.node_name for slice in slices):
            near = {*names, *(slice.node_name for slice in slices if slice.node_name)}
            return [name for name in near if name in self._nodes]
        return [
            name
            for name, view in self._nodes.items()
            if name in names or any(pool.id in pools for pool in view.pools) or pools.intersection(view.obsolete)
        ]

    def _forget_answers(self) -> None:
        """Drop every answer of selectors and everything computed from them."""
        self._shapes.clear()
        self._groups.clear()
        self._answers.forget()
        self.selectors.forget(device for _, record in self._records.values() for device in record.made)
        for views in self._views_of.values():
            for view in views:
                view.cache.clear()
                view.live.clear()
        for node in self._nodes.values():
            node.joined.clear()


def _stays(old: ResourceSlice, new: ResourceSlice) -> bool:
    """Whether a slice is still for the same node, and part of the same pool."""
    return bool(old.node_name) and (old.node_name, old.driver, old.pool) == (new.node_name, new.driver, new.pool)


def _find_changed(
    known: Mapping[ClaimRef, ResourceClaim], claims: Mapping[ClaimRef, ResourceClaim]
) -> tuple[list[ResourceClaim], list[ResourceClaim]]:
    """The claims that are gone, or were otherwise, and those that are new, or are otherwise now.

    Mappings that follow each other mostly have the same keys in the same order, and new ones behind.
    """
    if all(map(is_, known, claims)):
        removed = list(compress(known.values(), map(is_not, known.values(), claims.values())))
        added = list(compress(claims.values(), map(is_not, claims.values(), known.values())))
        return [*removed, *islice(known.values(), len(claims), None)], [
            *added,
            *islice(claims.values(), len(known), None),
        ]
    return (
        [old for ref, old in known.items() if claims.get(ref) is not old],
        [new for ref, new in claims.items() if known.get(ref) is not new],
    )

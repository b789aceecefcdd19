"""Why claims fit on none of many nodes, told once for all of them: each rule, with how many devices fell to it.

Every node counts. What is found out about a pool holds for all pools that look alike, so that thousands of nodes cost
little more than those that differ. `claimsmith.allocate.explain` tells more about fewer nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.explain import explain_refusal
from claimsmith.allocate.explain.devices import DeviceSorter
from claimsmith.allocate.explain.pool_gaps import describe_obsolete, find_pool_gap
from claimsmith.allocate.prepared.groups import NodeGroups
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord, SliceRecord
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason, ReasonKind
from claimsmith.model.node import Node

__all__ = ["tally_reasons"]

_IN_USE: Final = "in use"
_BEFORE_USE: Final = frozenset({"class-selector", "selector", "selector-error", "binding-conditions", "node", "taint"})
"""Kinds of findings that say more about a device than that somebody holds it."""
_Rule = tuple[int, ReasonKind, str]
"""Place of the request among all requests and alternatives, and the rule."""
_Obstacles = list[tuple[ReasonKind, str] | None]
"""For each request what speaks against a device that nobody uses: kind and rule; None for nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class _PoolTally:
    """What a pool comes to: devices that fell to each rule, and those that each request may have.

    Args:
        gap: Why the pool gives no devices at all; None when it does.
    """

    rules: tuple[tuple[_Rule, int], ...]
    usable: tuple[int, ...]
    gap: tuple[ReasonKind, str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Looked:
    """What was found out about slices that are alike.

    Args:
        obstacles: For each device, while nobody uses it; None when each slice has to be looked at for itself.
        always: What each of them comes to, if that doesn't depend on who uses the devices.
    """

    obstacles: list[_Obstacles] | None = None
    always: _PoolTally | None = None


def tally_reasons(
    cluster: PreparedCluster, claims: Iterable[ResourceClaim], *, nodes: Iterable[Node]
) -> tuple[Reason, ...]:
    """Return each rule that keeps the claims from the nodes, with the numbers of devices and nodes in its data.

    Args:
        nodes: The nodes on which the claims don't fit.
    """
    plan = cluster.plan(claims)
    if plan.refusal is not None:
        return (explain_refusal(plan.refusal),)
    return tuple(_Tally(cluster, plan).run(nodes))


@dataclass(slots=True, eq=False)
class _Tally:
    """One count over all nodes."""

    cluster: PreparedCluster
    plan: PodPlan
    requests: tuple[RequestPlan, ...] = field(init=False)
    groups: NodeGroups = field(init=False)
    pools: dict[PoolView, _PoolTally] = field(default_factory=dict)
    looks: dict[object, _Looked] = field(default_factory=dict)
    alike: dict[tuple[object, tuple[int, ...]], _PoolTally] = field(default_factory=dict)
    tallies: dict[object, _PoolTally] = field(default_factory=dict)
    gaps: Counter[tuple[ReasonKind, str]] = field(default_factory=Counter)
    lines: Counter[tuple[ReasonKind, str, int]] = field(default_factory=Counter)
    devices: Counter[_Rule] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.groups = self.cluster.group_nodes(self.plan)
        self.requests = self.plan.requests

    def run(self, nodes: Iterable[Node]) -> Iterator[Reason]:
        """Count the nodes by what their pools come to, then tell each rule once."""
        states: Counter[tuple[_PoolTally, ...]] = Counter()
        find_plain, count_slice = self.cluster.find_plain, self.count_slice
        for node in nodes:
            plain = find_plain(node)
            found = self.count_pools(node) if plain is None else [count_slice(record, node) for record in plain]
            states[tuple(found)] += 1
        for state, count in states.items():
            self.add_state(state, count)
        for (kind, rule), count in self.gaps.items():
            yield _make(kind, rule, nodes=count)
        for (kind, rule, place), count in self.lines.items():
            yield self.describe(kind, rule, place, nodes=count)

    def add_state(self, state: tuple[_PoolTally, ...], nodes: int) -> None:
        """Add so many nodes whose pools come to the same."""
        rules: Counter[_Rule] = Counter()
        usable = [0] * len(self.requests)
        gaps = {tally.gap: None for tally in state if tally.gap is not None}
        for gap in gaps:
            self.gaps[gap] += nodes
        for tally in state:
            rules.update(dict(tally.rules))
            usable = [one + more for one, more in zip(usable, tally.usable, strict=True)]
        for (place, kind, text), devices in rules.items():
            self.lines[kind, text, place] += nodes
            self.devices[place, kind, text] += devices * nodes
        short = [place for place, request in enumerate(self.requests) if usable[place] < _wanted(request)]
        for place in short:
            if usable[place]:
                self.lines[
                    "count", f"{_wanted(self.requests[place])} devices needed, {usable[place]} can be had", place
                ] += nodes
            elif not gaps and not any(rule[0] == place for rule in rules):
                self.lines["count", "no devices", place] += nodes
        if self.is_served(short):
            self.lines["count", "each request can be served on its own, but not all of them together", -1] += nodes

    def is_served(self, short: list[int]) -> bool:
        """Tell whether each request has an alternative for which there are devices enough."""
        places = iter(range(len(self.requests)))
        groups = [[next(places) for _ in group.alternatives] for claim in self.plan.claims for group in claim.groups]
        return all(any(place not in short for place in group) for group in groups)

    def count_slice(self, record: SliceRecord, node: Node) -> _PoolTally:
        """Return what a plain pool comes to; those that read alike, with the same devices in use, are counted once."""
        looks = self.groups.find_looks(record)
        known = self.looks.get(looks)
        if known is None:
            known = self.looks[looks] = self.look(record, node) if looks is not None else _Looked()
        if known.always is not None:
            return known.always
        held = self.cluster.find_whole(record.pool)
        if known.obstacles is None or held is None:
            return self.count_pool(self.find_pool(record, node), node)
        places = tuple([place for place, device in enumerate(record.slice.devices) if device.name in held])
        tally = self.alike.get((looks, places))
        if tally is None:
            tally = self.alike[looks, places] = self.sum_up(known.obstacles, frozenset(places))
        return tally

    def find_pool(self, record: SliceRecord, node: Node) -> PoolView:
        """Return the pool that a slice is all of."""
        return next(pool for pool in self.cluster.view_node(node).pools if pool.id == record.pool)

    def look(self, record: SliceRecord, node: Node) -> _Looked:
        """What speaks against each device of a slice, for each request, while nobody uses it."""
        if record.slice.skip_node_operations:
            return _Looked()
        sorter, pool = DeviceSorter(self.cluster, node), self.find_pool(record, node)
        found: list[_Obstacles] = []
        for device in record.slice.devices:
            free = DeviceRecord(record.slice, device)
            obstacles = [sorter.find_obstacle(pool, free, request.shape) for request in self.requests]
            found.append([None if item is None else (item.kind, item.rule) for item in obstacles])
        return _Looked(found, None if any(map(_depends_on_use, found)) else self.sum_up(found, frozenset()))

    def sum_up(self, looks: list[_Obstacles], held: frozenset[int]) -> _PoolTally:
        """Return what devices come to of which some are held as a whole."""
        rules: Counter[_Rule] = Counter()
        usable = [0] * len(self.requests)
        for number, obstacles in enumerate(looks):
            for place, obstacle in enumerate(obstacles):
                is_free = number not in held or self.requests[place].shape.admin
                if is_free and obstacle is None:
                    usable[place] += 1
                elif is_free or (obstacle is not None and obstacle[0] in _BEFORE_USE):
                    kind, rule = obstacle or ("in-use", _IN_USE)
                    rules[place, kind, rule] += 1
                else:
                    rules[place, "in-use", _IN_USE] += 1
        return self.intern(rules, usable)

    def count_pools(self, node: Node) -> list[_PoolTally]:
        """Return what the pools of a node come to."""
        view = self.cluster.view_node(node)
        found = [self.count_pool(pool, node) for pool in view.pools]
        for pool in view.obsolete:
            found.append(self.intern(Counter(), gap=("pool-obsolete", describe_obsolete(pool))))
        return found

    def intern(
        self, rules: Counter[_Rule], usable: Sequence[int] = (), *, gap: tuple[ReasonKind, str] | None = None
    ) -> _PoolTally:
        """Return one object for pools that come to the same."""
        tally = _PoolTally(tuple(rules.items()), tuple(usable) or (0,) * len(self.requests), gap)
        return self.tallies.setdefault((tally.rules, tally.usable, gap), tally)

    def count_pool(self, pool: PoolView, node: Node) -> _PoolTally:
        """Return what a pool comes to, looked at device by device; for all its nodes, if those don't matter."""
        gap = find_pool_gap(pool)
        if gap is not None:
            return self.intern(Counter(), gap=gap)
        known = None if pool.differs_by_node else self.pools.get(pool)
        if known is None:
            sorter, rules, usable = DeviceSorter(self.cluster, node), Counter[_Rule](), [0] * len(self.requests)
            for place, request in enumerate(self.requests):
                for record in pool.devices:
                    finding = sorter.find_obstacle(pool, record, request.shape)
                    if finding is None:
                        usable[place] += 1
                    else:
                        rules[place, finding.kind, finding.rule] += 1
            known = self.pools[pool] = self.intern(rules, usable)
        return known

    def describe(self, kind: ReasonKind, rule: str, place: int, *, nodes: int) -> Reason:
        """Return one rule as a reason."""
        devices = self.devices.get((place, kind, rule), 0)
        if place < 0:
            return _make(kind, rule, nodes=nodes)
        request = self.requests[place]
        claim = self.plan.claims[request.claim].claim
        found = _make(kind, rule, nodes=nodes, devices=devices)
        return Reason(kind=kind, text=found.text, claim=claim.ref, request=request.label, data=found.data)


def _depends_on_use(obstacles: _Obstacles) -> bool:
    """Whether it matters to some request who holds the device."""
    return any(obstacle is None or obstacle[0] not in _BEFORE_USE for obstacle in obstacles)


def _wanted(request: RequestPlan) -> int:
    return 1 if request.takes_all else request.count


def _make(kind: ReasonKind, rule: str, *, nodes: int, devices: int = 0) -> Reason:
    where = f"{nodes} node{'s' if nodes != 1 else ''}"
    if devices:
        where = f"{devices} device{'s' if devices != 1 else ''} on {where}"
    data = {"rule": rule, "nodes": str(nodes)} | ({"devices": str(devices)} if devices else {})
    return Reason(kind=kind, text=f"{where}: {rule}", data=data)

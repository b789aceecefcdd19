"""Equal devices as kinds: what the members of a batch can't tell apart is counted instead of named."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.prepared.constraints import AttributeValue
from claimsmith.allocate.prepared.eligibility import RequestShape
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.screening import Candidate
from claimsmith.allocate.search.attempt import Attempt
from claimsmith.allocate.search.decide import NodeSearch
from claimsmith.allocate.search.engine import SearchLimits

__all__ = ["BatchKind", "Patterns", "Traits", "find_patterns"]

Asked = tuple[str, RequestShape, bool]
"""A node, what a request wants, and whether it wants all devices."""
ValueKey = tuple[str, str]
"""An attribute, and the expression that derives it; empty when the device has it."""
Traits = Callable[[DeviceRecord], Hashable]
"""Tells devices apart that are worth different amounts to an objective."""


@dataclass(slots=True, eq=False, kw_only=True)
class BatchKind:
    """Devices that no member of the batch can tell apart; one that takes shares, or that administrators look at, alone.

    Args:
        node: The node whose own devices they are; empty for devices that several nodes may reach.
        answers: What a node's requests of a shape make of the first of them.
        values: Attributes that constraints read.
        admin_seen: A request with admin access may have it.
        profile: Equal for kinds that differ in nothing but the node they are on.
    """

    number: int
    records: tuple[DeviceRecord, ...]
    view: PoolView
    node: str
    shareable: bool
    admin_seen: bool
    profile: Hashable
    answers: Mapping[Asked, Candidate]
    values: Mapping[ValueKey, AttributeValue | None]

    @property
    def size(self) -> int:
        """Number of the devices."""
        return len(self.records)

    @property
    def first(self) -> DeviceRecord:
        """The first of the devices, which stands for all of them."""
        return self.records[0]


@dataclass(slots=True, eq=False, kw_only=True)
class Patterns:
    """The kinds of devices, and which of them a request may have where.

    Args:
        offered: Numbers of the kinds that a request may have, in order of preference.
        closed: Nodes on which a part can't be placed whatever is free, by the number of the part.
        obstacles: Why the model can't decide about a part, by its number.
    """

    kinds: tuple[BatchKind, ...]
    offered: Mapping[Asked, tuple[int, ...]]
    closed: Mapping[int, frozenset[str]]
    obstacles: Mapping[int, str]


@dataclass(slots=True, eq=False)
class _Seen:
    """A device that some request may have."""

    candidate: Candidate
    answers: dict[Asked, Candidate] = field(default_factory=dict)
    admin: bool = False


def find_patterns(layout: Layout, parts: Iterable[Part], *, traits: Traits) -> Patterns:
    """Return the kinds of all devices that the parts may have, each on its nodes."""
    collector = _Collector(layout)
    for part in parts:
        collector.add(part)
    return collector.sort(traits)


class _Collector:
    """Asks for the devices of each node and shape once."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._seen: dict[DeviceRecord, _Seen] = {}
        self._lists: dict[Asked, tuple[Candidate, ...]] = {}
        self._readers: dict[ValueKey, tuple[Attempt, RequestPlan, str]] = {}
        self._closed: dict[int, set[str]] = {}
        self._obstacles: dict[int, str] = {}

    def add(self, part: Part) -> None:
        """Ask for the devices that a part may have on its nodes."""
        cluster, closed = self._layout.cluster, self._closed.setdefault(part.number, set())
        self._add_readers(part.plan)
        for name in part.nodes:
            search = NodeSearch(cluster, part.plan, self._layout.nodes[name], SearchLimits())
            if search.check() is not None:
                closed.add(name)
                continue
            for request in part.plan.requests:
                self._ask(part, search, request)

    def sort(self, traits: Traits) -> Patterns:
        """Return the devices by kind."""
        groups: dict[Hashable, list[_Seen]] = {}
        profiles: dict[Hashable, Hashable] = {}
        for record, seen in self._seen.items():
            profile = self._describe(record, seen, traits)
            alone = seen.candidate.shareable or seen.admin
            nodes = frozenset(node for node, _, _ in seen.answers)
            key = record if alone else (_find_node(record), seen.candidate.view.id, nodes, profile)
            groups.setdefault(key, []).append(seen)
            profiles[key] = profile
        kinds = tuple(self._build(number, group, profiles[key]) for number, (key, group) in enumerate(groups.items()))
        kind_of = {record: kind.number for kind in kinds for record in kind.records}
        offered = {
            asked: tuple(dict.fromkeys(kind_of[candidate.record] for candidate in candidates))
            for asked, candidates in self._lists.items()
        }
        closed = {number: frozenset(names) for number, names in self._closed.items()}
        return Patterns(kinds=kinds, offered=offered, closed=closed, obstacles=self._obstacles)

    def _ask(self, part: Part, search: NodeSearch, request: RequestPlan) -> None:
        asked = (search.node.name, request.shape, request.takes_all)
        if asked in self._lists:
            return
        screened = search.find_all(request) if request.takes_all else search.find_candidates(request)
        if screened.poisoned:
            self._obstacles[part.number] = f"a selector that aborts the allocation on node {search.node.name}"
        self._lists[asked] = screened.candidates
        for candidate in screened.candidates:
            seen = self._seen.get(candidate.record)
            if seen is None:
                seen = self._seen[candidate.record] = _Seen(candidate)
            seen.answers[asked] = candidate
            seen.admin = seen.admin or request.shape.admin

    def _add_readers(self, plan: PodPlan) -> None:
        """Note how to read each attribute that a constraint compares."""
        cluster = self._layout.cluster
        attempt = Attempt(
            plan,
            cluster.features,
            selectors=cluster.selectors,
            find_counters=cluster.find_counters,
            deviations=cluster.deviations,
        )
        for request in plan.requests:
            for position in request.constraints:
                attribute = plan.claims[request.claim].constraints[position].attribute
                key = (attribute, request.derived.get(attribute, ""))
                self._readers.setdefault(key, (attempt, request, attribute))

    def _read(self, record: DeviceRecord) -> dict[ValueKey, AttributeValue | None]:
        found = {}
        for key, (attempt, request, attribute) in self._readers.items():
            value = attempt.find_value(record, request, attribute)
            found[key] = value if isinstance(value, AttributeValue) else None
        return found

    def _describe(self, record: DeviceRecord, seen: _Seen, traits: Traits) -> Hashable:
        """All that anybody can tell a device by, but for the node and the pool."""
        local = _find_node(record)
        answers = frozenset(
            (shape, takes_all, candidate.charges, candidate.blocked, candidate.full, "" if local else node)
            for (node, shape, takes_all), candidate in seen.answers.items()
        )
        use = record.use
        held = (use.dedicated, use.shares, tuple(sorted(use.consumed.items())))
        groups = tuple(item.compatibility_groups for item in record.device.consumes_counters)
        sizes = tuple((name, amount.value.nanos) for name, amount in record.device.capacity.items())
        shape = (seen.candidate.shareable, record.device.binds_to_node, sizes if seen.candidate.shareable else ())
        values = tuple(self._read(record).items())
        return (answers, shape, held, record.consumption, groups, values, traits(record))

    def _build(self, number: int, group: list[_Seen], profile: Hashable) -> BatchKind:
        first = group[0]
        return BatchKind(
            number=number,
            records=tuple(seen.candidate.record for seen in group),
            view=first.candidate.view,
            node=_find_node(first.candidate.record),
            shareable=first.candidate.shareable,
            admin_seen=first.admin,
            profile=(profile, len(group)),
            answers=first.answers,
            values=self._read(first.candidate.record),
        )


def _find_node(record: DeviceRecord) -> str:
    """The node to which alone the device belongs; empty when several may reach it."""
    return record.slice.node_name or record.device.node_name or ""

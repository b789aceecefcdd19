"""What makes one answer for a batch better than another: members placed, then the terms of the policy, measured.

Everything here looks at allocations as they are, not at any model of them, so that search and solver are judged alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.policy.objective import DeviceScale, Policy
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.usage import FREE
from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.names import CounterId, DeviceId, PoolId, RequestName

__all__ = ["CLOSE_ATTRIBUTES", "Objective", "find_places", "is_local"]

TERMS: Final = ("rank", "waste", "fragmentation", "pack", "tightness", "spread", "closeness")
"""Terms of policies that mean something for a batch; others are left out."""
CLOSE_ATTRIBUTES: Final = ("numaNode", "pcieRoot")
"""Attributes, of whatever domain, in which devices of one claim should agree."""
Level = tuple[str, tuple[tuple[str, int], ...]]
"""Name of a level, and its terms with their weights."""


@dataclass(slots=True, eq=False, kw_only=True)
class Objective:
    """The levels of an objective, and the facts about the cluster that they read.

    Args:
        priorities: Priorities of the members, the highest first; each is a level of its own.
    """

    layout: Layout
    policy: Policy
    priorities: tuple[int, ...]
    levels: tuple[Level, ...]
    _views: dict[str, Mapping[DeviceId, tuple[DeviceRecord, PoolView]]] = field(default_factory=dict)
    _partitions: dict[PoolId, tuple[DeviceRecord, ...]] = field(default_factory=dict)
    _scale: DeviceScale | None = None

    @classmethod
    def of(cls, layout: Layout, policy: Policy) -> Objective:
        """Return the objective of a policy for a batch."""
        priorities = tuple(sorted({member.priority for member in layout.members}, reverse=True)) or (0,)
        placed = [(_name_placed(priority, priorities), ()) for priority in priorities]
        known = (tuple(part for part in level if part[0] in TERMS) for level in policy.levels())
        levels = [("+".join(term for term, _ in level), level) for level in known if level]
        return cls(layout=layout, policy=policy, priorities=priorities, levels=(*placed, *levels))

    def measure(self, solution: Solution) -> tuple[int, ...]:
        """Return the cost of an answer by level, less being better: members without a node, then the policy."""
        terms = self.measure_terms(solution)
        costs = [self._count_unplaced(solution, priority) for priority in self.priorities]
        costs += [
            sum(terms[term] * weight for term, weight in parts) for _, parts in self.levels[len(self.priorities) :]
        ]
        return tuple(costs)

    def describe(self, costs: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
        """Return costs, or the first of them, by the names of their levels, with members placed instead of missing."""
        found = []
        for place, ((name, _), cost) in enumerate(zip(self.levels, costs, strict=False)):
            if place < len(self.priorities):
                priority = self.priorities[place]
                cost = sum(member.priority == priority for member in self.layout.members) - cost
            found.append((name, cost))
        return tuple(found)

    def measure_terms(self, solution: Solution) -> dict[str, int]:
        """Return the value of each term of the policy."""
        measures = {
            "rank": self._measure_rank,
            "waste": self._measure_waste,
            "fragmentation": self._measure_fragmentation,
            "pack": self._measure_pack,
            "tightness": self._measure_tightness,
            "spread": self._measure_spread,
            "closeness": self._measure_closeness,
        }
        return {term: measures[term](solution) for _, parts in self.levels for term, _ in parts}

    def find_device(self, node: str, device: DeviceId) -> tuple[DeviceRecord, PoolView]:
        """Return a device as a node sees it; raises KeyError when it doesn't."""
        return self.list_devices(node)[device]

    def list_devices(self, node: str) -> Mapping[DeviceId, tuple[DeviceRecord, PoolView]]:
        """Return the devices that a node can reach."""
        known = self._views.get(node)
        if known is None:
            view = self.layout.cluster.view_node(self.layout.nodes[node])
            known = {record.id: (record, pool) for pool in view.pools for record in pool.devices}
            self._views[node] = known
        return known

    def list_partitions(self, view: PoolView) -> tuple[DeviceRecord, ...]:
        """Return the devices of a pool that draw from its counters and could be had before the batch."""
        known = self._partitions.get(view.id)
        if known is None:
            found = {r: None for r in (*view.devices, *view.elsewhere) if r.consumption and r.use is FREE}
            known = tuple(record for record in found if self._fits(record, view, {}))
            self._partitions[view.id] = known
        return known

    def price(self, record: DeviceRecord) -> int:
        """Return the price of a whole device."""
        if self._scale is None:
            nodes = self.layout.nodes
            found = {record.id: record for node in nodes for record, _ in self.list_devices(node).values()}
            self._scale = DeviceScale.of(found.values())
        return self.policy.price_device(record, self._scale)

    def price_share(self, record: DeviceRecord, nanos: Mapping[str, int]) -> int:
        """Return the price of a share: that of the device in proportion to the capacity of which it takes most."""
        totals = ((nanos.get(name, 0), capacity.value.nanos) for name, capacity in record.device.capacity.items())
        price = self.price(record)
        return max((price * taken // total for taken, total in totals if total > 0), default=price)

    def sum_room(self, node: str) -> int:
        """Return the price of the node's own devices that nobody uses before the batch."""
        devices = self.list_devices(node).values()
        return sum(self.price(record) for record, _ in devices if record.use is FREE and is_local(record, node))

    def is_idle(self, node: str) -> bool:
        """Tell whether no device of the node itself is in use."""
        return not self.count_used(node)

    def count_used(self, node: str) -> int:
        """Return how many of the node's own devices are in use before the batch."""
        return sum(record.use is not FREE for record, _ in self.list_devices(node).values() if is_local(record, node))

    def _count_unplaced(self, solution: Solution, priority: int) -> int:
        members = self.layout.members
        return sum(p is None and members[place].priority == priority for place, p in enumerate(solution.placed))

    def _measure_rank(self, solution: Solution) -> int:
        return sum(_find_rank(claim) for _, claim in solution.fresh())

    def _measure_waste(self, solution: Solution) -> int:
        return sum(self._price_result(node, result) for node, _, result in _iterate_results(solution))

    def _price_result(self, node: str, result: DeviceResult) -> int:
        record, _ = self.find_device(node, result.device_id)
        if result.admin_access:
            return 0
        if result.share_id is None:
            return self.price(record)
        return self.price_share(record, {n: amount.nanos for n, amount in (result.consumed_capacity or {}).items()})

    def _measure_fragmentation(self, solution: Solution) -> int:
        """The price of the free partitions that can't be had any more."""
        spent: dict[PoolView, Counter[CounterId]] = defaultdict(Counter)
        first: dict[PoolId, PoolView] = {}
        taken: set[DeviceRecord] = set()
        for node, _, result in _iterate_results(solution):
            record, view = self.find_device(node, result.device_id)
            if not (result.admin_access or record in taken or not record.consumption or record.use.shares):
                taken.add(record)
                spent[first.setdefault(view.id, view)].update(dict(record.consumption))
        return sum(
            self.price(record)
            for view, drawn in spent.items()
            for record in self.list_partitions(view)
            if record in taken or not self._fits(record, view, drawn)
        )

    def _fits(self, record: DeviceRecord, view: PoolView, spent: Mapping[CounterId, int]) -> bool:
        left = self.layout.cluster.find_counters(view).left
        return all(spent.get(counter, 0) + nanos <= left[counter] for counter, nanos in record.consumption)

    def _measure_pack(self, solution: Solution) -> int:
        return sum(self.is_idle(node) for node in self._list_opened(solution))

    def _measure_tightness(self, solution: Solution) -> int:
        """The price of what was free on the nodes that are used: little where room is filled up that is small."""
        return sum(self.sum_room(node) for node in self._list_opened(solution))

    def _list_opened(self, solution: Solution) -> set[str]:
        """The nodes of which devices are taken."""
        return {
            node
            for node, _, result in _iterate_results(solution)
            if is_local(self.find_device(node, result.device_id)[0], node)
        }

    def _measure_spread(self, solution: Solution) -> int:
        """How much more the squares of the numbers of devices in use on the nodes come to."""
        added = Counter(
            node
            for node, _, result in _iterate_results(solution)
            if not result.admin_access and is_local(self.find_device(node, result.device_id)[0], node)
        )
        return sum(count * (count + 2 * self.count_used(node)) for node, count in added.items())

    def _measure_closeness(self, solution: Solution) -> int:
        return sum(self._measure_claim(node, claim) for node, claim in solution.fresh()) + sum(
            self._measure_gang(solution, name) for name in self.layout.gangs
        )

    def _measure_claim(self, node: str, claim: ResourceClaim) -> int:
        results = claim.allocation.results if claim.allocation is not None else ()
        records = [self.find_device(node, result.device_id)[0] for result in results]
        places = [find_places(record) for record in records]
        values = (set().union(*(place[number] for place in places)) for number in range(len(CLOSE_ATTRIBUTES)))
        return sum(max(0, len(found) - 1) for found in values)

    def _measure_gang(self, solution: Solution, name: str) -> int:
        gang, places = self.layout.gangs[name]
        if not gang.close_by:
            return 0
        nodes = {placed.node for place in places if (placed := solution.placed[place]) is not None}
        return max(0, len({self.layout.nodes[node].labels.get(gang.close_by) for node in nodes}) - 1)


def is_local(record: DeviceRecord, node: str) -> bool:
    """Tell whether a device belongs to the node alone."""
    return node in (record.slice.node_name, record.device.node_name)


def find_places(record: DeviceRecord) -> tuple[frozenset[str], ...]:
    """Return the values that a device has of each attribute that says where it is."""
    attributes = record.device.attributes.items()
    return tuple(
        frozenset(repr(value.value) for key, value in attributes if key.rpartition("/")[2] == name)
        for name in CLOSE_ATTRIBUTES
    )


def _name_placed(priority: int, priorities: tuple[int, ...]) -> str:
    return "placed" if len(priorities) == 1 else f"placed at priority {priority}"


def _iterate_results(solution: Solution) -> Iterator[tuple[str, ResourceClaim, DeviceResult]]:
    for node, claim in solution.fresh():
        for result in claim.allocation.results if claim.allocation is not None else ():
            yield node, claim, result


def _find_rank(claim: ResourceClaim) -> int:
    """The sum of the places of the alternatives that the claim's requests got."""
    got = {RequestName.parse(result.request) for result in (claim.allocation.results if claim.allocation else ())}
    total = 0
    for request in claim.spec.requests:
        names = [alternative.name for alternative in request.first_available]
        total += sum(names.index(name.subrequest) for name in got if name.request == request.name and name.subrequest)
    return total

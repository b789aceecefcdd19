"""The slow twin of the joint allocation: tries every choice of every member on every node, and measures each answer.

It knows what the twin of the search knows. What it shares with the product beyond that is the price of a device.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from claimsmith.allocate.batch import Batch
from claimsmith.allocate.policy.objective import DeviceScale, Policy
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.model.device import Device
from claimsmith.model.pool import ResourceSlice
from tests.property.allocation_twin import Chosen, choose, find_amount, list_held

__all__ = ["find_best"]

Plan = tuple[str | None, ...]
"""The node of each member."""
Taken = Mapping[str, tuple[Chosen, ...]]
"""What is chosen on each node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointProblem:
    """A batch on nodes that share nothing.

    Args:
        nodes: By name the problem of each node; its claims are those of all members, one after the other.
    """

    batch: Batch
    nodes: Mapping[str, AllocationProblem]


def find_best(asked: JointProblem, policy: Policy) -> tuple[int, ...]:
    """Return the least cost: members without a node, then the levels of the policy."""
    judge = _Judge(asked, policy)
    return min(judge.measure(plan, taken) for plan, taken in _list_answers(asked) if judge.allows(plan))


def _list_answers(asked: JointProblem) -> Iterator[tuple[Plan, Taken]]:
    empty: Taken = dict.fromkeys(asked.nodes, ())
    yield from _extend(asked, (), empty)


def _extend(asked: JointProblem, plan: Plan, taken: Taken) -> Iterator[tuple[Plan, Taken]]:
    if len(plan) == len(asked.batch.members):
        yield plan, taken
        return
    yield from _extend(asked, (*plan, None), taken)
    member, start = asked.batch.members[len(plan)], sum(len(m.claims) for m in asked.batch.members[: len(plan)])
    steps = [(start + place, request) for place, claim in enumerate(member.claims) for request in claim.spec.requests]
    for name, problem in asked.nodes.items():
        if member.nodes is None or name in member.nodes:
            for chosen in choose(problem, steps, taken[name]):
                yield from _extend(asked, (*plan, name), {**taken, name: tuple(chosen)})


class _Judge:
    def __init__(self, asked: JointProblem, policy: Policy) -> None:
        self._asked, self._policy = asked, policy
        self._records = {
            (name, device.name): DeviceRecord(item, device)
            for name, problem in asked.nodes.items()
            for item in problem.slices
            for device in item.devices
        }
        self._scale = DeviceScale.of(self._records.values())

    def allows(self, plan: Plan) -> bool:
        """Tell whether each gang has enough members, or none."""
        placed = Counter(m.gang for m, node in zip(self._asked.batch.members, plan, strict=True) if node is not None)
        return all(placed[gang.name] == 0 or placed[gang.name] >= gang.min_count for gang in self._asked.batch.gangs)

    def measure(self, plan: Plan, taken: Taken) -> tuple[int, ...]:
        """Return the cost of an answer."""
        members = self._asked.batch.members
        priorities = sorted({member.priority for member in members}, reverse=True)
        missing = Counter(m.priority for m, node in zip(members, plan, strict=True) if node is None)
        terms = {
            "rank": sum(self._rank(chosen) for chosen in taken.values()),
            "waste": sum(self._price(name, item) for name, chosen in taken.items() for item in chosen),
            "fragmentation": sum(self._lose(name, chosen) for name, chosen in taken.items()),
            "pack": sum(bool(chosen) and not self._used(name) for name, chosen in taken.items()),
            "tightness": sum(self._room(name) for name, chosen in taken.items() if chosen),
            "spread": sum(len(c) * (len(c) + 2 * len(self._used(name))) for name, c in taken.items()),
            "closeness": sum(_scatter(chosen) for chosen in taken.values()),
        }
        levels = (sum(terms[term] * weight for term, weight in level) for level in self._policy.levels())
        return (*(missing[priority] for priority in priorities), *levels)

    def _rank(self, chosen: Sequence[Chosen]) -> int:
        claims = [claim for member in self._asked.batch.members for claim in member.claims]
        picked = {(item.claim, item.request, item.alternative) for item in chosen}
        total = 0
        for number, name, alternative in picked:
            request = next(request for request in claims[number].spec.requests if request.name == name)
            total += [spec.name for spec in request.alternatives].index(alternative)
        return total

    def _price(self, node: str, item: Chosen) -> int:
        price = self._scale.price(self._records[node, item.device.name])
        if not item.device.allow_multiple_allocations:
            return price
        parts = [
            price * find_amount(capacity, name, item.spec) // capacity.value.nanos
            for name, capacity in item.device.capacity.items()
        ]
        return max(parts, default=price)

    def _used(self, node: str) -> set[str]:
        return {name for name, _, _ in list_held(self._asked.nodes[node])}

    def _room(self, node: str) -> int:
        used = self._used(node)
        return sum(self._scale.price(r) for (n, name), r in self._records.items() if n == node and name not in used)

    def _lose(self, node: str, chosen: Sequence[Chosen]) -> int:
        """The price of the partitions that could be had before and can't be had after."""
        slices, used = self._asked.nodes[node].slices, self._used(node)
        before = _list_free(slices, used)
        taken = {item.device.name for item in chosen}
        after = _list_free(slices, used | taken)
        lost = before - after
        return sum(self._scale.price(self._records[node, name]) for name in lost)


def _list_free(slices: Sequence[ResourceSlice], used: set[str]) -> set[str]:
    """The partitions that nobody holds and for which the counters suffice."""
    left: Counter[tuple[str, str]] = Counter()
    for item in slices:
        for found in item.shared_counters:
            left.update({(found.name, counter): amount.nanos for counter, amount in found.counters.items()})
    devices = [device for item in slices for device in item.devices]
    for device in devices:
        if device.name in used:
            left.subtract(_list_draws(device))
    return {
        device.name
        for device in devices
        if device.consumes_counters
        and device.name not in used
        and all(left[key] >= nanos for key, nanos in _list_draws(device).items())
    }


def _list_draws(device: Device) -> Counter[tuple[str, str]]:
    draws: Counter[tuple[str, str]] = Counter()
    for part in device.consumes_counters:
        draws.update({(part.counter_set, counter): amount.nanos for counter, amount in part.counters.items()})
    return draws


def _scatter(chosen: Sequence[Chosen]) -> int:
    """How many values of the attribute that says where devices are each claim has beyond the first."""
    by_claim: dict[int, set[object]] = defaultdict(set)
    for item in chosen:
        value = item.device.attributes.get("numaNode")
        if value is not None:
            by_claim[item.claim].add((value.value,))
    return sum(len(values) - 1 for values in by_claim.values())

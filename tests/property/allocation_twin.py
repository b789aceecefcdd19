"""The slow twin of the search: tries every choice in upstream's order, and checks each complete one from scratch.

It reads selectors of one form only, `true` or `device.attributes["gpu.example.test"].kind == "x"`, and knows no gates:
all are on. What it shares with the search is the model alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import DeviceConstraint, DeviceRequest, ResourceClaim, SubRequest
from claimsmith.model.device import Capacity, Device, DeviceAttribute

__all__ = ["Chosen", "choose", "find_amount", "find_first", "list_held"]

DRIVER = "gpu.example.test"


@dataclass(frozen=True, slots=True)
class Chosen:
    """One device, or share of it, for one request of one claim."""

    claim: int
    request: str
    alternative: str
    device: Device
    spec: SubRequest


def find_first(problem: AllocationProblem) -> list[Chosen] | None:
    """Return the first complete choice that breaks no rule; None when there is none.

    What breaks a rule goes on breaking it when more is chosen, so that it is left at once.
    """
    return next(choose(problem, _list_requests(problem), ()), None)


def _list_requests(problem: AllocationProblem) -> list[tuple[int, DeviceRequest]]:
    return [(number, request) for number, claim in enumerate(problem.claims) for request in claim.spec.requests]


def choose(
    problem: AllocationProblem, steps: list[tuple[int, DeviceRequest]], before: tuple[Chosen, ...]
) -> Iterator[list[Chosen]]:
    """Give every complete valid choice, in upstream's order."""
    if not steps:
        yield list(before)
        return
    (number, request), *rest = steps
    for spec in request.alternatives:
        matching = [device for device in _devices(problem) if _matches(device, spec)]
        for devices in _pick(matching, spec):
            chosen = (*before, *(Chosen(number, request.name, spec.name, device, spec) for device in devices))
            if _is_valid(problem, chosen):
                yield from choose(problem, rest, chosen)


def _pick(matching: list[Device], spec: SubRequest) -> Iterator[tuple[Device, ...]]:
    if spec.allocation_mode == "All":
        fitting = [device for device in matching if _fits_alone(device, spec)]
        if fitting:
            yield tuple(fitting)
        return
    yield from combinations(matching, spec.count)


def _devices(problem: AllocationProblem) -> list[Device]:
    ordered = sorted(problem.slices, key=lambda item: (item.pool, item.name))
    return [device for item in ordered for device in item.devices]


def _matches(device: Device, spec: SubRequest) -> bool:
    kind = device.attributes.get("kind")
    for selector in spec.selectors:
        wanted = (selector.expression or "").rpartition("== ")[2].strip('"')
        if kind is None or kind.value != wanted:
            return False
    return True


def _is_valid(problem: AllocationProblem, chosen: Sequence[Chosen]) -> bool:
    return (
        _fits_limit(chosen)
        and all(_tolerated(item) for item in chosen)
        and _is_free(problem, chosen)
        and _fits_counters(problem, chosen)
        and _fits_capacity(problem, chosen)
        and all(_satisfies(claim, number, chosen) for number, claim in enumerate(problem.claims))
    )


def _fits_limit(chosen: Sequence[Chosen]) -> bool:
    return all(count <= 32 for count in Counter(item.claim for item in chosen).values())


def _tolerated(item: Chosen) -> bool:
    return all(
        taint.effect == "None" or any(accepted.tolerates(taint) for accepted in item.spec.tolerations)
        for taint in item.device.taints
    )


def list_held(problem: AllocationProblem) -> list[tuple[str, bool, dict[str, int]]]:
    """Return what earlier claims hold: name of the device, whether it is a share, and how much of each capacity."""
    return [
        (
            result.device,
            result.share_id is not None,
            {name: amount.nanos for name, amount in (result.consumed_capacity or {}).items()},
        )
        for claim in problem.allocated
        if claim.allocation is not None
        for result in claim.allocation.results
    ]


def _is_free(problem: AllocationProblem, chosen: Sequence[Chosen]) -> bool:
    """Whether no device is had twice; administrators mind only what their own claim has."""
    dedicated = {name for name, share, _ in list_held(problem) if not share}
    used: set[str] = set()
    used_by_claim: set[tuple[int, str]] = set()
    for item in chosen:
        name = item.device.name
        if item.spec.admin_access:
            if (item.claim, name) in used_by_claim:
                return False
        elif name in dedicated or name in used:
            return False
        if not item.device.allow_multiple_allocations:
            used.add(name)
            used_by_claim.add((item.claim, name))
    return True


def _fits_counters(problem: AllocationProblem, chosen: Sequence[Chosen]) -> bool:
    """Whether the counters suffice: a share takes them once, a device that two claims look at takes them twice."""
    left = {
        (found.name, counter): amount.nanos
        for item in problem.slices
        for found in item.shared_counters
        for counter, amount in found.counters.items()
    }
    held = {name for name, _, _ in list_held(problem)}
    charged = [device for device in _devices(problem) if device.name in held]
    shared = {device.name for device in charged if device.allow_multiple_allocations}
    new = []
    for item in chosen:
        if item.device.name not in shared:
            new.append(item.device)
        if item.device.allow_multiple_allocations:
            shared.add(item.device.name)
    for device in (*charged, *new):
        for consumption in device.consumes_counters:
            for counter, amount in consumption.counters.items():
                left[consumption.counter_set, counter] -= amount.nanos
    return not any(device.consumes_counters for device in new) or all(amount >= 0 for amount in left.values())


def find_amount(capacity: Capacity, name: str, spec: SubRequest) -> int:
    """Return what a request takes of a capacity, in nano units."""
    asked = (spec.capacity or {}).get(name)
    if asked is not None:
        return asked.nanos
    default = capacity.policy.default if capacity.policy else None
    return (default or capacity.value).nanos


def _fits_alone(device: Device, spec: SubRequest) -> bool:
    if any(name not in device.capacity for name in spec.capacity or ()):
        return False
    return all(find_amount(capacity, name, spec) <= capacity.value.nanos for name, capacity in device.capacity.items())


def _fits_capacity(problem: AllocationProblem, chosen: Sequence[Chosen]) -> bool:
    used: Counter[tuple[str, str]] = Counter()
    for name, _, consumed in list_held(problem):
        used.update({(name, capacity): nanos for capacity, nanos in consumed.items()})
    for item in chosen:
        if not _fits_alone(item.device, item.spec):
            return False
        for name, capacity in item.device.capacity.items() if item.device.allow_multiple_allocations else ():
            used[item.device.name, name] += find_amount(capacity, name, item.spec)
    totals = {
        (device.name, name): capacity.value.nanos
        for device in _devices(problem)
        for name, capacity in device.capacity.items()
    }
    taken = {item.device.name for item in chosen}
    return all(nanos <= totals[key] for key, nanos in used.items() if key in totals and key[0] in taken)


def _satisfies(claim: ResourceClaim, number: int, chosen: Sequence[Chosen]) -> bool:
    mine = [item for item in chosen if item.claim == number]
    return all(_holds(constraint, mine) for constraint in claim.spec.constraints)


def _holds(constraint: DeviceConstraint, chosen: Sequence[Chosen]) -> bool:
    bound = [
        item
        for item in chosen
        if not constraint.requests
        or item.request in constraint.requests
        or f"{item.request}/{item.alternative}" in constraint.requests
    ]
    name = (constraint.match_attribute or constraint.distinct_attribute or "").rpartition("/")[2]
    values = [_elements(item.device.attributes.get(name)) for item in bound]
    if any(not value for value in values):
        return False
    if constraint.match_attribute is not None:
        return not values or bool(set.intersection(*values))
    return all(first.isdisjoint(second) for first, second in combinations(values, 2))


def _elements(attribute: DeviceAttribute | None) -> set[tuple[str, object]]:
    if attribute is None or attribute.value is None:
        return set()
    kind = attribute.kind.removesuffix("s")
    return {(kind, value) for value in (attribute.value if isinstance(attribute.value, tuple) else (attribute.value,))}

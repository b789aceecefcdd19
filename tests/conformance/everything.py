"""The brute-force twin for problems with few devices: tries every choice, and lets the independent checker judge it.

It takes all features of the recorded problems. What it shares with the search is the model and the selector language.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.allocate.verify.amounts import find_consumption
from claimsmith.allocate.verify.case import is_stable
from claimsmith.allocate.verify.claims import find_all
from claimsmith.allocate.verify.pools import SeenPool, find_pools
from claimsmith.allocate.verify.selecting import why_unselectable
from claimsmith.model.claim import AllocationResult, DeviceRequest, DeviceResult, ResourceClaim, SubRequest
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId, PoolId
from claimsmith.model.quantity import Quantity

__all__ = ["count_devices", "fits_somehow"]

_WRITTEN: Final = frozenset({"fields", "config", "node-selector", "share"})
"""Rules about how an allocation is written down, not about whether there is one."""


@dataclass(frozen=True, slots=True)
class _Want:
    """One request of one claim."""

    claim: int
    request: DeviceRequest


def count_devices(problem: AllocationProblem) -> int:
    """Return how many devices the node can use."""
    return sum(len(pool.devices) for pool in find_pools(_case(problem)).values() if pool.state == "usable")


def fits_somehow(problem: AllocationProblem) -> bool:
    """Tell whether any choice of devices breaks no rule."""
    if any(_is_refused(problem, claim) for claim in problem.claims):
        return False
    case = _case(problem)
    pools = find_pools(case)
    wants = [_Want(number, request) for number, claim in enumerate(problem.claims) for request in claim.spec.requests]
    return next(_choose(case, pools, wants, ()), None) is not None


def _case(problem: AllocationProblem) -> VerifyCase:
    return VerifyCase(
        node=problem.node,
        claims=problem.claims,
        slices=problem.slices,
        classes=problem.classes,
        allocated=problem.allocated,
        features=problem.features,
        history=problem.history,
    )


def _is_refused(problem: AllocationProblem, claim: ResourceClaim) -> bool:
    """Whether the claim uses what is off or unknown, so that nothing can be allocated for it."""
    features = problem.features
    for request in claim.spec.requests:
        if request.first_available and not features.prioritized_list:
            return True
        for spec in request.alternatives:
            off = (spec.capacity is not None and not features.consumable_capacity and not is_stable(features)) or (
                bool(spec.derived_attributes) and not features.derived_attributes
            )
            unknown = spec.allocation_mode not in ("ExactCount", "All") or spec.device_class not in problem.classes
            blind = any(selector.expression is None for selector in spec.selectors)
            if off or unknown or blind or (spec.admin_access is not None and not features.admin_access):
                return True
    constraints = claim.spec.constraints
    distinct = [item for item in constraints if item.match_attribute is None]
    return any(item.distinct_attribute is None for item in distinct) or (bool(distinct) and is_stable(features))


def _choose(
    case: VerifyCase, pools: dict[PoolId, SeenPool], wants: list[_Want], before: tuple[tuple[int, DeviceResult], ...]
) -> Iterator[bool]:
    """Give a sign for every complete choice that breaks no rule."""
    if not wants:
        yield True
        return
    want, *rest = wants
    for spec in want.request.alternatives:
        label = f"{want.request.name}/{spec.name}" if want.request.first_available else want.request.name
        for devices in _pick(case, pools, want, (spec, label), before):
            yield from _choose(case, pools, rest, (*before, *((want.claim, item) for item in devices)))


def _pick(
    case: VerifyCase,
    pools: dict[PoolId, SeenPool],
    want: _Want,
    named: tuple[SubRequest, str],
    before: tuple[tuple[int, DeviceResult], ...],
) -> Iterator[tuple[DeviceResult, ...]]:
    """Give every set of devices for one alternative that breaks no rule beside what was chosen before."""
    spec, label = named
    if spec.allocation_mode == "All":
        found = find_all(case, pools, spec)
        chosen = tuple(_result(case, spec, label, (id, place[1])) for id, place in found.items())
        if chosen and not _is_broken(case, want, (*before, *((want.claim, item) for item in chosen)), done=True):
            yield chosen
        return
    places = [
        (DeviceId(*pool.id, name), device)
        for pool in pools.values()
        if pool.state == "usable"
        for name, (slice, device) in pool.devices.items()
        if not why_unselectable(case, spec, slice, device)
    ]
    yield from _extend(case, want, (spec, label), before, places)


def _extend(
    case: VerifyCase,
    want: _Want,
    named: tuple[SubRequest, str],
    before: tuple[tuple[int, DeviceResult], ...],
    places: list[tuple[DeviceId, Device]],
    taken: tuple[DeviceResult, ...] = (),
) -> Iterator[tuple[DeviceResult, ...]]:
    """Take one device more, each later in the list than the last, until the count is reached."""
    spec, label = named
    if len(taken) == spec.count:
        yield taken
        return
    for number, place in enumerate(places):
        chosen = (*taken, _result(case, spec, label, place))
        done = len(chosen) == spec.count
        if not _is_broken(case, want, (*before, *((want.claim, item) for item in chosen)), done=done):
            yield from _extend(case, want, named, before, places[number + 1 :], chosen)


def _result(case: VerifyCase, spec: SubRequest, label: str, place: tuple[DeviceId, Device]) -> DeviceResult:
    id, device = place
    shared = device.allow_multiple_allocations and case.features.consumable_capacity
    taken = find_consumption(device, spec.capacity or {}, fractional=case.features.fractional_capacity_range)
    amounts = {} if isinstance(taken, str) else {name: Quantity(nanos=int(n * 10**9)) for name, n in taken.items()}
    return DeviceResult(
        request=label,
        driver=id.driver,
        pool=id.pool,
        device=id.device,
        share_id="share" if shared else None,
        consumed_capacity=amounts if shared and amounts else None,
        admin_access=spec.admin_access or None,
    )


def _is_broken(case: VerifyCase, want: _Want, chosen: tuple[tuple[int, DeviceResult], ...], *, done: bool) -> bool:
    """Whether what is chosen so far breaks a rule; what is not chosen yet is left out of the claims."""
    claims = []
    for number, claim in enumerate(case.claims[: want.claim + 1]):
        requests = claim.spec.requests
        if number == want.claim:
            requests = requests[: requests.index(want.request) + 1]
        claims.append(replace(claim, spec=replace(claim.spec, requests=requests)))
    results = [
        AllocationResult(results=tuple(item for owner, item in chosen if owner == number))
        for number in range(len(claims))
    ]
    broken = verify_allocation(replace(case, claims=tuple(claims)), results)
    ignored = _WRITTEN if done else _WRITTEN | {"count"}
    return any(violation.rule not in ignored for violation in broken)

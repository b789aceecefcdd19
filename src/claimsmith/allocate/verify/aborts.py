"""What ends every try on the node, so that nobody can have allocated anything there.

Some of it ends upstream's alone: docs/deviations.md tells what is meant to be otherwise here. What upstream comes upon
depends on its order of search; named is what it comes upon in any order.

Source: Allocate in structured/internal/experimental, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from claimsmith.allocate.verify.case import VerifyCase, Violation
from claimsmith.allocate.verify.claims import find_all, is_violated
from claimsmith.allocate.verify.nodes import is_readable
from claimsmith.allocate.verify.pools import SeenPool, list_known, may_target
from claimsmith.allocate.verify.selecting import fails, find_attribute
from claimsmith.model.claim import (
    ALLOCATION_RESULTS_MAX,
    AllocationResult,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
    SubRequest,
)
from claimsmith.model.deviations import Deviation
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId, PoolId, RequestName
from claimsmith.model.pool import ResourceSlice

__all__ = ["find_aborts"]

Pools = dict[PoolId, SeenPool]
Place = tuple[ResourceSlice, Device]


def find_aborts(case: VerifyCase, pools: Pools, results: Sequence[AllocationResult]) -> Iterator[Violation]:
    """Yield what would have kept the answer from being found, whatever it allocates."""
    for claim, allocation in zip(case.claims, results, strict=True):
        for pool in _find_broken(pools, claim):
            text = f"all devices are asked for, pool {pool.id} is {pool.state}"
            yield Violation(rule="all", text=text, claim=claim.ref)
        texts = [*_find_selectors(case), *_find_failing(case, pools, claim)]
        if Deviation.ALL_WITH_CONSTRAINT not in case.deviations:
            texts += _find_constraints(case, pools, claim, allocation=allocation, results=results)
        for text in texts:
            yield Violation(rule="abort", text=text, claim=claim.ref)


def _list_for_all(claim: ResourceClaim) -> list[SubRequest]:
    """Return the alternatives that ask for all devices; these are counted before the search, chosen or not."""
    alternatives = (item for request in claim.spec.requests for item in request.alternatives)
    return [alternative for alternative in alternatives if alternative.allocation_mode != "ExactCount"]


def _find_broken(pools: Pools, claim: ResourceClaim) -> list[SeenPool]:
    """Return the pools that are not in order, if the claim asks for all devices."""
    return [pool for pool in pools.values() if pool.state != "usable"] if _list_for_all(claim) else []


def _find_selectors(case: VerifyCase) -> Iterator[str]:
    """A slice whose node selector can't be read ends upstream's search."""
    if Deviation.NODE_SELECTOR in case.deviations:
        return
    for item in list_known(case):
        if not may_target(item, case.features) or (case.gathers_like_stable and item.shared_counters):
            continue
        if item.node_name or item.all_nodes:
            continue
        if item.node_selector is not None and not is_readable(item.node_selector):
            yield f"the node selector of slice {item.name} can't be read"


def _find_failing(case: VerifyCase, pools: Pools, claim: ResourceClaim) -> Iterator[str]:
    """A selector of a request for all devices that fails on one of the node's ends upstream's search."""
    if Deviation.SELECTOR_ERROR in case.deviations:
        return
    for request in _list_for_all(claim):
        for pool in pools.values():
            for name, (slice, device) in pool.devices.items():
                if fails(case, request, slice.driver, device):
                    yield f"a selector for all devices fails on device {DeviceId(*pool.id, name)}"


def _find_constraints(
    case: VerifyCase,
    pools: Pools,
    claim: ResourceClaim,
    *,
    allocation: AllocationResult,
    results: Sequence[AllocationResult],
) -> Iterator[str]:
    """All devices of an alternative that was passed over, free and tolerated, but in conflict with a constraint."""
    earlier = results[: case.claims.index(claim)]
    used = {result.device_id for given in earlier for result in given.results}
    for request in claim.spec.requests:
        for alternative in _list_passed_over(request, allocation):
            devices = find_all(case, pools, alternative)
            room = len(devices) + len(allocation.results) <= ALLOCATION_RESULTS_MAX
            if alternative.allocation_mode == "ExactCount" or not room or used & set(devices):
                continue
            if all(_is_free(case, alternative, id, place) for id, place in devices.items()):
                yield from _find_violated(case, claim, request, alternative=alternative, devices=devices)
        used |= {r.device_id for r in allocation.results if RequestName.parse(r.request).request == request.name}


def _list_passed_over(request: DeviceRequest, allocation: AllocationResult) -> list[SubRequest]:
    """Return the alternatives before the chosen one."""
    names = [RequestName.parse(result.request) for result in allocation.results]
    chosen = {name.subrequest for name in names if name.request == request.name}
    order = [alternative.name for alternative in request.first_available]
    places = [order.index(name) for name in chosen if name in order]
    return list(request.alternatives[: min(places, default=0)])


def _is_free(case: VerifyCase, request: SubRequest, id: DeviceId, place: Place) -> bool:
    """Tell whether nothing but a constraint can speak against the device."""
    slice, device = place
    if id in case.taken or device.consumes_counters or slice.skip_node_operations:
        return False
    held = (r.device_id for claim in case.allocated if claim.allocation for r in claim.allocation.results)
    tolerated = all(any(t.tolerates(taint) for t in request.tolerations) for taint in device.taints)
    return id not in held and (tolerated or not case.features.device_taints)


def _find_violated(
    case: VerifyCase,
    claim: ResourceClaim,
    request: DeviceRequest,
    *,
    alternative: SubRequest,
    devices: dict[DeviceId, Place],
) -> Iterator[str]:
    for constraint in claim.spec.constraints:
        if not _binds(constraint, request, alternative):
            continue
        name = constraint.match_attribute or constraint.distinct_attribute or ""
        found = [find_attribute(case, alternative, id.driver, device, name=name) for id, (_, device) in devices.items()]
        if None in found or is_violated(constraint, [value for value in found if value is not None]):
            yield f"request {request.name}/{alternative.name} asks for all devices, {name} excludes one of them"


def _binds(constraint: DeviceConstraint, request: DeviceRequest, alternative: SubRequest) -> bool:
    names = {request.name, f"{request.name}/{alternative.name}"}
    return not constraint.requests or bool(names & set(constraint.requests))

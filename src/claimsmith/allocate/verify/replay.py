"""Replays an allocation result by result, in the order in which it was made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from claimsmith.allocate.verify.aborts import find_aborts
from claimsmith.allocate.verify.amounts import exact, find_consumption
from claimsmith.allocate.verify.case import VerifyCase, Violation, is_experimental
from claimsmith.allocate.verify.claims import check_claim
from claimsmith.allocate.verify.pools import SeenPool, find_pools
from claimsmith.allocate.verify.selecting import why_unselectable
from claimsmith.allocate.verify.state import ReplayState
from claimsmith.model.claim import AllocationResult, DeviceResult, ResourceClaim, SubRequest
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId, PoolId, RequestName
from claimsmith.model.pool import ResourceSlice

__all__ = ["verify_allocation"]

Finding = tuple[str, str]


class _Step(NamedTuple):
    """One result with what it refers to."""

    request: SubRequest
    result: DeviceResult
    slice: ResourceSlice
    device: Device
    shareable: bool


def verify_allocation(case: VerifyCase, results: Sequence[AllocationResult]) -> tuple[Violation, ...]:
    """Return every rule that the allocation breaks; none for a valid one.

    Args:
        case: The problem.
        results: One result for each claim, in the order of the claims.

    Source: the allocator of k8s.io/dynamic-resource-allocation v0.37.2, structured/internal/experimental.
    """
    pools = find_pools(case)
    state = ReplayState(case, pools)
    found: list[Violation] = []
    if len(results) != len(case.claims):
        text = f"found {len(results)} results, allowed one for each of {len(case.claims)} claims"
        return tuple(Violation(rule="results", text=text, claim=claim.ref) for claim in case.claims[:1])
    found += find_aborts(case, pools, results)
    for claim, allocation in zip(case.claims, results, strict=True):
        found += _replay_claim(case, pools, state, claim=claim, allocation=allocation)
        found += check_claim(case, pools, claim, allocation=allocation)
    return tuple(found)


def _replay_claim(
    case: VerifyCase,
    pools: dict[PoolId, SeenPool],
    state: ReplayState,
    *,
    claim: ResourceClaim,
    allocation: AllocationResult,
) -> Iterator[Violation]:
    used_by_claim: set[DeviceId] = set()
    for result in allocation.results:
        step = _find_step(case, pools, claim, result)
        if isinstance(step, str):
            findings = [("device", step)]
        else:
            findings = [
                *_check_use(state, step, used_by_claim),
                *_check_request(case, step),
                *_check_share(state, step),
                *_check_fields(case, step),
                *_book(case, state, step),
            ]
            if not step.shareable:
                used_by_claim.add(result.device_id)
        for rule, text in findings:
            yield Violation(rule=rule, text=text, claim=claim.ref, device=result.device_id)


def _find_step(
    case: VerifyCase, pools: dict[PoolId, SeenPool], claim: ResourceClaim, result: DeviceResult
) -> _Step | str:
    name = RequestName.parse(result.request)
    requests = [r for r in claim.spec.requests if r.name == name.request]
    alternatives = [a for r in requests for a in r.alternatives if a.name == name.subrequest]
    if not alternatives:
        return f"the claim has no request {result.request!r}"
    pool = pools.get(result.device_id.pool_id)
    if pool is None or pool.state != "usable":
        return f"pool is {pool.state if pool else 'not visible'} on node {case.node.name}, allowed a usable one"
    if result.device not in pool.devices:
        return f"no such device reaches node {case.node.name}"
    slice, device = pool.devices[result.device]
    shareable = device.allow_multiple_allocations and case.features.consumable_capacity
    return _Step(alternatives[0], result, slice, device, shareable)


def _check_use(state: ReplayState, step: _Step, used_by_claim: set[DeviceId]) -> Iterator[Finding]:
    device = step.result.device_id
    if step.request.admin_access:
        if device in used_by_claim:
            yield "in-use", "the claim has the device already"
    elif device in state.taken:
        yield "in-use", "another claim holds the device"
    elif device in state.used_now and not step.shareable:
        yield "in-use", "this allocation has the device already"


def _check_request(case: VerifyCase, step: _Step) -> Iterator[Finding]:
    if why := why_unselectable(case, step.request, step.slice, step.device):
        yield "selector", why
    for taint in step.device.taints if case.features.device_taints else ():
        tolerated = any(toleration.tolerates(taint) for toleration in step.request.tolerations)
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerated:
            yield "taint", f"{taint.key}:{taint.effect} is not tolerated"
    if step.slice.skip_node_operations and is_experimental(case.features):
        declared = "DRAOptionalNodeOperations" in case.node.declared_features
        if not (case.features.optional_node_operations and declared):
            yield "node-operations", f"node {case.node.name} can't skip node operations"


def _check_share(state: ReplayState, step: _Step) -> Iterator[Finding]:
    share = step.result.share_id
    if bool(share) != step.shareable:
        yield "share", f"share id {share!r}, allowed one exactly for devices that are shared"
    if share in state.share_ids:
        yield "share", f"share id {share} is not unique"
    state.share_ids.update([share] if share else [])


def _check_fields(case: VerifyCase, step: _Step) -> Iterator[Finding]:
    result, device, features = step.result, step.device, case.features
    if (result.admin_access or None) != (step.request.admin_access or None):
        yield "fields", "adminAccess differs from the request's"
    if result.tolerations != step.request.tolerations:
        yield "fields", "tolerations differ from the request's"
    conditions = (device.binding_conditions, device.binding_failure_conditions)
    if (result.binding_conditions, result.binding_failure_conditions) != (
        conditions if features.device_binding_and_status else ((), ())
    ):
        yield "fields", "binding conditions differ from the device's"
    skipped = step.slice.skip_node_operations if features.optional_node_operations else ()
    if result.skip_node_operations != skipped:
        yield "fields", "skipNodeOperations differs from the slice's"


def _book(case: VerifyCase, state: ReplayState, step: _Step) -> Iterator[Finding]:
    id, pool = step.result.device_id, step.result.device_id.pool_id
    has_share = id in state.shared
    if case.features.consumable_capacity:
        yield from _book_capacity(case, state, step)
    if step.device.consumes_counters and not case.features.partitionable_devices:
        yield "counter", "the device consumes counters, their gate is off"
    elif step.device.consumes_counters and not (step.shareable and has_share):
        state.charge(pool, step.device)
        if overdrawn := state.find_overdrawn(pool):
            yield "counter", f"counter {overdrawn} of pool {pool} is overdrawn"
        clash = state.find_clash(pool, step.device) if case.features.compatibility_groups else None
        if clash:
            yield "compatibility-group", f"devices of counter set {clash} have no group in common"
    if step.shareable:
        state.shared.add(id)
    else:
        state.used_now.add(id)


def _book_capacity(case: VerifyCase, state: ReplayState, step: _Step) -> Iterator[Finding]:
    result, id = step.result, step.result.device_id
    fractional = case.features.fractional_capacity_range
    taken = find_consumption(step.device, step.request.capacity or {}, fractional=fractional)
    if isinstance(taken, str):
        yield "capacity", taken
        return
    for name, amount in taken.items():
        total, there = state.capacity[id, name] + amount, exact(step.device.capacity[name].value)
        if total > there:
            yield "capacity", f"{name}: {float(total)} of {float(there)} would be used"
        if step.shareable:
            state.capacity[id, name] = total
    recorded = None if result.consumed_capacity is None else {n: exact(a) for n, a in result.consumed_capacity.items()}
    if recorded != (taken if step.shareable and taken else None):
        yield "capacity", f"consumedCapacity is {result.consumed_capacity}, allowed {taken if step.shareable else None}"

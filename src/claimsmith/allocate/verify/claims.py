"""Rules that a claim's results keep together: counts, constraints, node selector, configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from claimsmith.allocate.verify.amounts import exact, find_consumption
from claimsmith.allocate.verify.case import VerifyCase, Violation, is_stable
from claimsmith.allocate.verify.pools import SeenPool
from claimsmith.allocate.verify.selecting import AttributeSet, find_attribute, why_unselectable
from claimsmith.model.claim import (
    ALLOCATION_RESULTS_MAX,
    AllocationConfig,
    AllocationResult,
    DeviceConstraint,
    DeviceResult,
    ResourceClaim,
    SubRequest,
)
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId, PoolId, RequestName
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

__all__ = ["check_claim", "find_all", "is_violated"]

Finding = tuple[str, str]


def check_claim(
    case: VerifyCase, pools: dict[PoolId, SeenPool], claim: ResourceClaim, *, allocation: AllocationResult
) -> Iterator[Violation]:
    """Yield every rule about the claim as a whole that the allocation breaks."""
    findings = [*_check_groups(case, pools, claim, allocation)]
    known = [r for r in allocation.results if _find_request(claim, r) and _find_device(pools, r)]
    if len(known) == len(allocation.results):
        for constraint in claim.spec.constraints:
            findings += _check_constraint(case, pools, claim, constraint=constraint, results=known)
        expected = _expect_node_selector(case, pools, known)
        if allocation.node_selector != expected:
            findings.append(("node-selector", f"found {allocation.node_selector}, allowed {expected}"))
        if allocation.config != (config := _expect_config(case, claim, known)):
            findings.append(("config", f"found {allocation.config}, allowed {config}"))
    for rule, text in findings:
        yield Violation(rule=rule, text=text, claim=claim.ref)


def _find_request(claim: ResourceClaim, result: DeviceResult) -> SubRequest | None:
    name = RequestName.parse(result.request)
    requests = (request for request in claim.spec.requests if request.name == name.request)
    return next((a for request in requests for a in request.alternatives if a.name == name.subrequest), None)


def _find_device(pools: dict[PoolId, SeenPool], result: DeviceResult) -> tuple[ResourceSlice, Device] | None:
    pool = pools.get(result.device_id.pool_id)
    return pool.devices.get(result.device) if pool else None


def _check_groups(
    case: VerifyCase, pools: dict[PoolId, SeenPool], claim: ResourceClaim, allocation: AllocationResult
) -> Iterator[Finding]:
    if len(allocation.results) > ALLOCATION_RESULTS_MAX:
        yield "limit", f"found {len(allocation.results)} devices, allowed {ALLOCATION_RESULTS_MAX} for each claim"
    order = [RequestName.parse(result.request).request for result in allocation.results]
    if list(dict.fromkeys(order)) != [request.name for request in claim.spec.requests] or order != sorted(
        order, key=list(dict.fromkeys(order)).index
    ):
        yield "requests", f"found results for {order}, allowed one group for each request in the claim's order"
    for name in dict.fromkeys(order):
        group = [r for r in allocation.results if RequestName.parse(r.request).request == name]
        request = _find_request(claim, group[0])
        if len({result.request for result in group}) != 1:
            yield "requests", f"request {name} mixes alternatives"
        elif request is not None:
            yield from _check_count(case, pools, request, [result.device_id for result in group])


def _check_count(
    case: VerifyCase, pools: dict[PoolId, SeenPool], request: SubRequest, devices: list[DeviceId]
) -> Iterator[Finding]:
    if len(set(devices)) != len(devices):
        yield "count", "a device serves one request twice"
    if request.allocation_mode == "ExactCount":
        if len(devices) != request.count:
            yield "count", f"found {len(devices)} devices, allowed {request.count}"
        return
    every = set(find_all(case, pools, request))
    if set(devices) != every:
        yield "all", f"found {sorted(map(str, devices))}, allowed {sorted(map(str, every))}"


def find_all(
    case: VerifyCase, pools: dict[PoolId, SeenPool], request: SubRequest
) -> dict[DeviceId, tuple[ResourceSlice, Device]]:
    """Return the devices that a request for all devices stands for, in use or not."""
    return {
        DeviceId(*pool.id, name): (slice, device)
        for pool in pools.values()
        for name, (slice, device) in pool.devices.items()
        if not why_unselectable(case, request, slice, device) and _has_capacity(case, request, device)
    }


def _has_capacity(case: VerifyCase, request: SubRequest, device: Device) -> bool:
    if not case.features.consumable_capacity:
        return True
    taken = find_consumption(device, request.capacity or {}, fractional=case.features.fractional_capacity_range)
    return not isinstance(taken, str) and all(taken[name] <= exact(c.value) for name, c in device.capacity.items())


def _applies(constraint: DeviceConstraint, result: DeviceResult) -> bool:
    parent = RequestName.parse(result.request).request
    return not constraint.requests or bool({result.request, parent} & set(constraint.requests))


def _check_constraint(
    case: VerifyCase,
    pools: dict[PoolId, SeenPool],
    claim: ResourceClaim,
    *,
    constraint: DeviceConstraint,
    results: list[DeviceResult],
) -> Iterator[Finding]:
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    values: list[AttributeSet] = []
    for result in results:
        request, place = _find_request(claim, result), _find_device(pools, result)
        if not _applies(constraint, result) or request is None or place is None:
            continue
        value = find_attribute(case, request, result.driver, place[1], name=name)
        if value is None:
            yield "constraint", f"device {result.device_id} has no attribute {name} that can be compared"
            return
        values.append(value)
    if not all(kind for kind, _ in values[1:]):
        yield "constraint", f"attribute {name} has lists, their gate is off"
    if is_violated(constraint, values):
        relation = "agree" if constraint.match_attribute else "differ"
        yield "constraint", f"devices do not {relation} in {name}: {values}"


def is_violated(constraint: DeviceConstraint, values: list[AttributeSet]) -> bool:
    """Tell whether devices with these attributes may not be allocated together."""
    if constraint.match_attribute and len(values) > 1:
        common = frozenset.intersection(*(value for _, value in values))
        return len({kind for kind, _ in values}) > 1 or not common
    return bool(constraint.distinct_attribute) and _overlap(values)


def _overlap(values: list[AttributeSet]) -> bool:
    seen: set[tuple[str, object]] = set()
    for kind, members in values:
        tagged = {(kind, member) for member in members}
        if seen & tagged:
            return True
        seen |= tagged
    return False


def _expect_node_selector(
    case: VerifyCase, pools: dict[PoolId, SeenPool], results: list[DeviceResult]
) -> NodeSelector | None:
    places = [place for result in results if (place := _find_device(pools, result)) is not None]
    names = [d.node_name if s.per_device_node_selection else s.node_name for s, d in places]
    if any(names) or (not is_stable(case.features) and any(device.binds_to_node for _, device in places)):
        name = NodeSelectorRequirement(key="metadata.name", operator="In", values=(case.node.name,))
        return NodeSelector(terms=(NodeSelectorTerm(match_fields=(name,)),))
    selectors = [d.node_selector if s.per_device_node_selection else s.node_selector for s, d in places]
    terms = [term for selector in selectors if selector is not None for term in selector.terms]
    if not terms:
        return None
    return NodeSelector(
        terms=(
            NodeSelectorTerm(
                match_expressions=_unique(r for term in terms for r in term.match_expressions),
                match_fields=_unique(r for term in terms for r in term.match_fields),
            ),
        )
    )


def _unique(requirements: Iterator[NodeSelectorRequirement]) -> tuple[NodeSelectorRequirement, ...]:
    found: dict[tuple[str, str, frozenset[str]], NodeSelectorRequirement] = {}
    for requirement in requirements:
        found.setdefault((requirement.key, requirement.operator, frozenset(requirement.values)), requirement)
    return tuple(found.values())


def _expect_config(case: VerifyCase, claim: ResourceClaim, results: list[DeviceResult]) -> tuple[AllocationConfig, ...]:
    chosen = {RequestName.parse(result.request).request: result.request for result in results}
    by_class: dict[str, list[str]] = {}
    for request in claim.spec.requests:
        name = chosen.get(request.name)
        for alternative in request.alternatives if name else ():
            if name and RequestName.parse(name).subrequest == alternative.name:
                by_class.setdefault(alternative.device_class, []).append(name)
    config = [
        AllocationConfig(source="FromClass", requests=tuple(names), opaque=item.opaque)
        for class_name, names in by_class.items()
        for item in (case.classes[class_name].config if class_name in case.classes else ())
    ]
    kept = {*chosen, *chosen.values()}
    config += [
        AllocationConfig(source="FromClaim", requests=item.requests, opaque=item.opaque)
        for item in claim.spec.config
        if not item.requests or kept & set(item.requests)
    ]
    return tuple(
        AllocationConfig(source=c.source, opaque=c.opaque) if _covers_all(c.requests, chosen) else c for c in config
    )


def _covers_all(requests: tuple[str, ...], chosen: Mapping[str, str]) -> bool:
    """Tell whether each request is named, by itself or by its chosen alternative."""
    return bool(chosen) and all({request, full} & set(requests) for request, full in chosen.items())

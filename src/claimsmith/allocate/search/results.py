"""AllocationResults from the devices that a search has chosen: results, configuration, node selector.

Source: Allocate and createNodeSelector in structured/internal/experimental, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from claimsmith.allocate.prepared.eligibility import is_stable
from claimsmith.allocate.prepared.node_selector import NAME_FIELD
from claimsmith.allocate.prepared.plan import ClaimPlan, RequestPlan
from claimsmith.allocate.search.attempt import Taken
from claimsmith.model.claim import AllocationConfig, AllocationResult, DeviceResult
from claimsmith.model.device import Device
from claimsmith.model.features import Features
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

__all__ = ["build_result", "find_unusable_selector"]


def find_unusable_selector(taken: Iterable[Taken], features: Features) -> str | None:
    """Return why no node selector of an allocation can stand for the devices; None when one can.

    An allocation has one term, so that a slice with several can't be part of it; validation lets none pass.
    """
    for item in taken:
        record = item.candidate.record
        target = record.device if record.slice.per_device_node_selection else record.slice
        if target.node_name is not None or _binds_to_node(record.device, features):
            return None
        if target.node_selector is not None and len(target.node_selector.terms) > 1:
            return f"slice {record.slice.name}: node selector with {len(target.node_selector.terms)} terms, allowed one"
    return None


def build_result(
    claim: ClaimPlan,
    taken: Sequence[Taken],
    *,
    chosen: Callable[[int], int],
    node_name: str,
    features: Features,
    share_ids: Callable[[], str],
) -> AllocationResult:
    """Return the allocation of one claim.

    Args:
        taken: The claim's devices in the order in which they were taken.
        chosen: The alternative that was chosen, by the place of the request.
        share_ids: Gives a new uid for each share.
    """
    plans = [group.alternatives[chosen(place)] for place, group in enumerate(claim.groups)]
    return AllocationResult(
        results=tuple(_build_device(item, features, share_ids) for item in taken),
        config=_build_config(claim, plans),
        node_selector=_build_node_selector(taken, node_name, features),
    )


def _build_device(taken: Taken, features: Features, share_ids: Callable[[], str]) -> DeviceResult:
    plan, record = taken.plan, taken.candidate.record
    device, amounts = record.device, taken.candidate.plan.amounts if taken.candidate.plan is not None else {}
    shared, binding = taken.candidate.shareable, features.device_binding_and_status
    return DeviceResult(
        request=plan.label,
        driver=record.id.driver,
        pool=record.id.pool,
        device=record.id.device,
        admin_access=True if plan.spec.admin_access else None,
        tolerations=plan.spec.tolerations,
        binding_conditions=device.binding_conditions if binding else (),
        binding_failure_conditions=device.binding_failure_conditions if binding else (),
        share_id=share_ids() if shared else None,
        consumed_capacity=amounts if shared and amounts else None,
        skip_node_operations=record.slice.skip_node_operations if features.optional_node_operations else (),
    )


def _build_config(claim: ClaimPlan, plans: list[RequestPlan]) -> tuple[AllocationConfig, ...]:
    """Class configurations first, each class once; then the claim's that name a request or a chosen alternative."""
    if not claim.claim.spec.config and not any(plan.device_class.config for plan in plans):
        return ()
    names: dict[str, list[str]] = {}
    for plan in plans:
        names.setdefault(plan.device_class.name, []).append(plan.label)
    classes = {plan.device_class.name: plan.device_class for plan in plans}
    configs = [
        AllocationConfig(source="FromClass", requests=tuple(names[name]), opaque=config.opaque)
        for name, device_class in classes.items()
        for config in device_class.config
    ]
    known = {plan.name.request for plan in plans} | {plan.label for plan in plans}
    configs += [
        AllocationConfig(source="FromClaim", requests=config.requests, opaque=config.opaque)
        for config in claim.claim.spec.config
        if not config.requests or known.intersection(config.requests)
    ]
    return tuple(_clear_requests(config, plans) for config in configs)


def _clear_requests(config: AllocationConfig, plans: list[RequestPlan]) -> AllocationConfig:
    """A configuration for every request of the claim names none."""
    requests = config.requests
    if requests and all(plan.name.request in requests or plan.label in requests for plan in plans):
        return AllocationConfig(source=config.source, opaque=config.opaque)
    return config


def _binds_to_node(device: Device, features: Features) -> bool:
    """Whether the device ties its claim to the node; upstream's stable implementation knows of no such devices."""
    return device.binds_to_node and not is_stable(features)


def _build_node_selector(taken: Iterable[Taken], node_name: str, features: Features) -> NodeSelector | None:
    """The nodes on which all devices can be used; None for all nodes."""
    expressions: list[NodeSelectorRequirement] = []
    fields: list[NodeSelectorRequirement] = []
    for item in taken:
        record = item.candidate.record
        target = record.device if record.slice.per_device_node_selection else record.slice
        if target.node_name is not None or _binds_to_node(record.device, features):
            return _select_node(node_name)
        terms = target.node_selector.terms if target.node_selector is not None else ()
        for term in terms:
            _add_requirements(expressions, term.match_expressions)
            _add_requirements(fields, term.match_fields)
    if not expressions and not fields:
        return None
    return NodeSelector(terms=(NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields)),))


def _add_requirements(to: list[NodeSelectorRequirement], added: Iterable[NodeSelectorRequirement]) -> None:
    """Add the requirements that are not there yet; the order of their values doesn't matter."""
    for requirement in added:
        key = (requirement.key, requirement.operator, frozenset(requirement.values))
        if all(key != (known.key, known.operator, frozenset(known.values)) for known in to):
            to.append(requirement)


def _select_node(name: str) -> NodeSelector:
    requirement = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(name,))
    return NodeSelector(terms=(NodeSelectorTerm(match_fields=(requirement,)),))

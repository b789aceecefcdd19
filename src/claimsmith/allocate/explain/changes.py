"""Carries out the changes of a fix on a problem: what is proposed is what was solved."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from claimsmith.allocate.explain.case import targets_node
from claimsmith.allocate.explain.draft import repair_slices
from claimsmith.allocate.explain.values import Change
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import DeviceRequest, ResourceClaim, Selector, SubRequest
from claimsmith.model.device import DeviceToleration
from claimsmith.model.names import RequestName
from claimsmith.model.quantity import parse_quantity

__all__ = ["apply_changes"]


def apply_changes(problem: AllocationProblem, changes: Iterable[Change]) -> AllocationProblem:
    """Return the problem with the changes; what is no part of a problem of one node is left as it is."""
    for change in changes:
        edit = _SPEC_EDITS.get(change.op)
        if edit is not None:
            problem = _edit_request(problem, change, edit)
        else:
            problem = _EDITS.get(change.op, _keep)(problem, change)
    return problem


def _keep(problem: AllocationProblem, change: Change) -> AllocationProblem:
    del change
    return problem


def _edit_request(
    problem: AllocationProblem, change: Change, edit: Callable[[SubRequest, Change], SubRequest]
) -> AllocationProblem:
    """Return the problem with one alternative of one claim's request edited; all of them if none is named."""
    name = RequestName.parse(change.request)

    def edit_request(request: DeviceRequest) -> DeviceRequest:
        if name.request not in ("", request.name):
            return request
        if request.exactly is not None:
            return replace(request, exactly=edit(request.exactly, change))
        return replace(
            request,
            first_available=tuple(
                edit(spec, change) if name.subrequest in ("", spec.name) else spec for spec in request.first_available
            ),
        )

    def edit_claim(claim: ResourceClaim) -> ResourceClaim:
        if change.claim is not None and claim.ref != change.claim:
            return claim
        return replace(claim, spec=replace(claim.spec, requests=tuple(map(edit_request, claim.spec.requests))))

    return replace(problem, claims=tuple(map(edit_claim, problem.claims)))


def _set_selectors(spec: SubRequest, change: Change) -> SubRequest:
    return replace(spec, selectors=_selectors(change.value))


def _selectors(value: Any) -> tuple[Selector, ...]:
    return tuple(Selector(expression=str(text)) for text in value)


def _tolerate(spec: SubRequest, change: Change) -> SubRequest:
    value: Any = change.value
    return replace(spec, tolerations=(*spec.tolerations, DeviceToleration(**value)))


def _set_count(spec: SubRequest, change: Change) -> SubRequest:
    value: Any = change.value
    return replace(spec, allocation_mode="ExactCount", count=int(value))


def _set_capacity(spec: SubRequest, change: Change) -> SubRequest:
    return replace(spec, capacity={**(spec.capacity or {}), change.name: parse_quantity(str(change.value))})


def _rename_capacity(spec: SubRequest, change: Change) -> SubRequest:
    asked = {
        str(change.value) if name == change.name else name: amount for name, amount in (spec.capacity or {}).items()
    }
    return replace(spec, capacity=asked)


def _set_class(spec: SubRequest, change: Change) -> SubRequest:
    return replace(spec, device_class=str(change.value))


def _set_class_selectors(problem: AllocationProblem, change: Change) -> AllocationProblem:
    changed = replace(problem.classes[change.name], selectors=_selectors(change.value))
    return replace(problem, classes={**problem.classes, change.name: changed})


def _remove_constraint(problem: AllocationProblem, change: Change) -> AllocationProblem:
    """Take a constraint away; the value is its position."""

    def edit(claim: ResourceClaim) -> ResourceClaim:
        if claim.ref != change.claim:
            return claim
        kept = tuple(item for position, item in enumerate(claim.spec.constraints) if position != change.value)
        return replace(claim, spec=replace(claim.spec, constraints=kept))

    return replace(problem, claims=tuple(map(edit, problem.claims)))


def _free_claims(problem: AllocationProblem, change: Change) -> AllocationProblem:
    value: Any = change.value
    freed = set(value)
    return replace(problem, allocated=tuple(claim for claim in problem.allocated if str(claim.ref) not in freed))


def _complete_pool(problem: AllocationProblem, change: Change) -> AllocationProblem:
    own = [slice for slice in problem.slices if str(slice.pool_id) == change.name]
    near = [slice for slice in own if targets_node(slice, problem.node)]
    newest = max((slice.generation for slice in near), default=0)
    names = frozenset(slice.name for slice in near if slice.generation == newest)
    others = tuple(slice for slice in problem.slices if str(slice.pool_id) != change.name)
    return replace(problem, slices=(*others, *repair_slices(own, names, problem.features)))


def _enable_gate(problem: AllocationProblem, change: Change) -> AllocationProblem:
    return replace(problem, features=replace(problem.features, **{change.name: True}))


_SPEC_EDITS: Final[dict[str, Callable[[SubRequest, Change], SubRequest]]] = {
    "set-selectors": _set_selectors,
    "tolerate": _tolerate,
    "set-count": _set_count,
    "set-capacity": _set_capacity,
    "set-class": _set_class,
    "rename-capacity": _rename_capacity,
}
_EDITS: Final[dict[str, Callable[[AllocationProblem, Change], AllocationProblem]]] = {
    "set-class-selectors": _set_class_selectors,
    "remove-constraint": _remove_constraint,
    "free-claims": _free_claims,
    "complete-pool": _complete_pool,
    "enable-gate": _enable_gate,
}

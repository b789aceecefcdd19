"""Rules of Workload: its templates stay, and agree in their priority.

Source: ValidateWorkloadSpec in pkg/apis/scheduling/validation/validation.go and
pkg/apis/scheduling/v1beta1/zz_generated.validations.go of k8s.io/kubernetes v1.37.2, with all gates on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from claimsmith.api.wire.scheduling_v1beta1 import (
    CompositePodGroupTemplate,
    PodGroupTemplate,
    TypedLocalObjectReference,
    WorkloadSpec,
)
from claimsmith.validate.groups import check_composite_members, check_group_members
from claimsmith.validate.issues import (
    FieldIssue,
    duplicate,
    find_duplicates,
    forbidden,
    immutable,
    invalid,
    required,
    too_many,
)
from claimsmith.validate.names import check_dns_label, check_subdomain

__all__ = ["check_workload_spec"]

TEMPLATES_MAX: Final = 8
"""Most templates in one list."""
DEPTH_MAX: Final = 4
"""Most levels of templates, the groups of pods included."""

_T = TypeVar("_T", PodGroupTemplate, CompositePodGroupTemplate)


def check_workload_spec(spec: WorkloadSpec, old: WorkloadSpec | None, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a workload.

    Args:
        spec: The spec.
        old: The spec before the change; None for a new workload.
        path: Field path of the spec.
    """
    groups, composites = spec.pod_group_templates or [], spec.composite_pod_group_templates or []
    names = {template.name for template in groups}
    yield from _check_names(composites, names, f"{path}.compositePodGroupTemplates")
    for i, template in enumerate(composites):
        where = f"{path}.compositePodGroupTemplates[{i}]"
        if _is_too_deep(template, 1):
            yield invalid(where, None, f"maximum template hierarchy depth is {DEPTH_MAX}")
        yield from _check_children(template, where)
    if len(set(_list_priorities(groups, composites))) > 1:
        yield invalid(path, None, "all priority and priorityClassName values must be identical")
    yield from _check_union(spec, old, path)
    if old is not None and old.controller_ref != spec.controller_ref:
        yield immutable(f"{path}.controllerRef", None)
    elif old is None and spec.controller_ref is not None:
        yield from _check_owner(spec.controller_ref, f"{path}.controllerRef")
    old_groups = None if old is None else old.pod_group_templates or []
    yield from _check_list(groups, old_groups, f"{path}.podGroupTemplates", _check_group)
    old_composites = None if old is None else old.composite_pod_group_templates or []
    yield from _check_list(composites, old_composites, f"{path}.compositePodGroupTemplates", _check_composite)


def _check_names(composites: Sequence[CompositePodGroupTemplate], names: set[str], path: str) -> Iterator[FieldIssue]:
    """Check that no name stands in two lists; `names` are those of the lists before, to which these are added."""
    for i, template in enumerate(composites):
        if template.name in names:
            yield duplicate(f"{path}[{i}].name", template.name)
    names.update(template.name for template in composites)
    for i, template in enumerate(composites):
        groups = template.pod_group_templates or []
        for j, group in enumerate(groups):
            if group.name in names:
                yield duplicate(f"{path}[{i}].podGroupTemplates[{j}].name", group.name)
        names.update(group.name for group in groups)
        below = template.composite_pod_group_templates or []
        yield from _check_names(below, names, f"{path}[{i}].compositePodGroupTemplates")


def _is_too_deep(template: CompositePodGroupTemplate, depth: int) -> bool:
    below = template.composite_pod_group_templates or []
    return depth == DEPTH_MAX or any(_is_too_deep(child, depth + 1) for child in below)


def _check_children(template: CompositePodGroupTemplate, path: str) -> Iterator[FieldIssue]:
    below = template.composite_pod_group_templates or []
    if not below and not template.pod_group_templates:
        why = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        yield invalid(path, template.name, why)
    for i, child in enumerate(below):
        yield from _check_children(child, f"{path}.compositePodGroupTemplates[{i}]")


def _list_priorities(
    groups: Sequence[PodGroupTemplate], composites: Sequence[CompositePodGroupTemplate]
) -> Iterator[tuple[str, int | None]]:
    for group in groups:
        yield group.priority_class_name or "", group.priority
    for template in composites:
        yield template.priority_class_name or "", template.priority
        yield from _list_priorities(template.pod_group_templates or [], template.composite_pod_group_templates or [])


def _check_union(spec: WorkloadSpec, old: WorkloadSpec | None, path: str) -> Iterator[FieldIssue]:
    """Check that a workload has templates of one sort."""
    chosen = (bool(spec.pod_group_templates), bool(spec.composite_pod_group_templates))
    if old is not None and chosen == (bool(old.pod_group_templates), bool(old.composite_pod_group_templates)):
        return
    names = "`podGroupTemplates`, `compositePodGroupTemplates`"
    if all(chosen):
        found = "{podGroupTemplates, compositePodGroupTemplates}"
        yield invalid(path, found, f"must specify exactly one of: {names}")
    elif not any(chosen):
        yield invalid(path, "", f"must specify one of: {names}")


def _check_owner(owner: TypedLocalObjectReference, path: str) -> Iterator[FieldIssue]:
    if owner.api_group:
        yield from check_subdomain(owner.api_group, f"{path}.apiGroup")
    for name, value in (("kind", owner.kind), ("name", owner.name)):
        if not value:
            yield required(f"{path}.{name}")
        elif value in (".", ".."):
            yield invalid(f"{path}.{name}", value, f"may not be '{value}'")
        else:
            for part in ("/", "%"):
                if part in value:
                    yield invalid(f"{path}.{name}", value, f"may not contain '{part}'")


def _check_list(
    new: Sequence[_T],
    old: Sequence[_T] | None,
    path: str,
    check: Callable[[_T, _T | None, str], Iterator[FieldIssue]],
) -> Iterator[FieldIssue]:
    """Check a list of templates, none of which may come or go."""
    if old is not None and list(new) == list(old):
        return
    before = {template.name: template for template in old or ()}
    faults = list(_check_membership(new, before if old is not None else None, path))
    yield from faults
    if faults:
        return
    yield from find_duplicates((template.name for template in new), path)
    for i, template in enumerate(new):
        if before.get(template.name) != template:
            yield from check(template, before.get(template.name), f"{path}[{i}]")


def _check_membership(new: Sequence[_T], before: dict[str, _T] | None, path: str) -> Iterator[FieldIssue]:
    if len(new) > TEMPLATES_MAX:
        yield too_many(path, len(new), TEMPLATES_MAX)
    if before is None:
        return
    for i, template in enumerate(new):
        if template.name not in before:
            yield forbidden(f"{path}[{i}]", "item may not be added")
    if set(before) - {template.name for template in new}:
        yield forbidden(path, "item may not be removed")


def _check_group(new: PodGroupTemplate, old: PodGroupTemplate | None, path: str) -> Iterator[FieldIssue]:
    if old is None:
        yield from _check_name(new.name, f"{path}.name")
    yield from check_group_members(new, old, path)


def _check_composite(
    new: CompositePodGroupTemplate, old: CompositePodGroupTemplate | None, path: str
) -> Iterator[FieldIssue]:
    if old is None:
        yield from _check_name(new.name, f"{path}.name")
    yield from check_composite_members(new, old, path)
    groups, old_groups = new.pod_group_templates or [], None if old is None else old.pod_group_templates or []
    yield from _check_list(groups, old_groups, f"{path}.podGroupTemplates", _check_group)
    below = new.composite_pod_group_templates or []
    old_below = None if old is None else old.composite_pod_group_templates or []
    yield from _check_list(below, old_below, f"{path}.compositePodGroupTemplates", _check_composite)


def _check_name(name: str, path: str) -> Iterator[FieldIssue]:
    if name:
        yield from check_dns_label(name, path)
    else:
        yield required(path)

"""Rules of PodGroup and Workload. Little of either may change: of a group, only how many pods must fit together.

Source: pkg/apis/scheduling/validation/validation.go and pkg/apis/scheduling/v1beta1/zz_generated.validations.go in
k8s.io/kubernetes v1.37.2, with all gates on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from claimsmith.api.wire.scheduling_v1beta1 import (
    CompositeDisruptionMode,
    CompositePodGroupSchedulingConstraints,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupTemplate,
    DisruptionMode,
    PodGroupResourceClaim,
    PodGroupResourceClaimStatus,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupStatus,
    PodGroupTemplate,
    SingleDisruptionMode,
    WorkloadReference,
)
from claimsmith.validate.issues import (
    FieldIssue,
    find_duplicates,
    immutable,
    invalid,
    not_supported,
    required,
    too_many,
)
from claimsmith.validate.metadata import check_conditions
from claimsmith.validate.names import check_dns_label, check_label_key, check_subdomain

__all__ = ["check_composite_members", "check_group_members", "check_group_spec", "check_group_status"]

CLAIMS_MAX: Final = 4
"""Most claims of a group."""
TOPOLOGY_MAX: Final = 1
"""Most node labels that the pods of a group must share."""
PRIORITY_MAX: Final = 1_000_000_000
"""Highest priority that users may give."""
_POLICIES: Final = ("Never", "PreemptLowerPriority")

_Members = PodGroupSpec | PodGroupTemplate
_Policy = PodGroupSchedulingPolicy | CompositePodGroupSchedulingPolicy
_Constraints = PodGroupSchedulingConstraints | CompositePodGroupSchedulingConstraints
_Mode = DisruptionMode | CompositeDisruptionMode
_Check = Callable[[Any, str], Iterator[FieldIssue]]


def check_group_spec(spec: PodGroupSpec, old: PodGroupSpec | None, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the spec of a group; an absent disruption mode is `single`.

    Args:
        spec: The spec.
        old: The spec before the change; None for a new group.
        path: Field path of the spec.
    """
    parent, reference = spec.parent_composite_pod_group_name, spec.workload_ref
    if parent is not None and reference is None:
        yield required(f"{path}.workloadRef", "must be set when parentCompositePodGroupName is set")
    before = None if old is None else (old.parent_composite_pod_group_name,)
    yield from _check_frozen(parent, before, f"{path}.parentCompositePodGroupName", _check_optional_name)
    before_reference = None if old is None else (old.workload_ref,)
    yield from _check_frozen(reference, before_reference, f"{path}.workloadRef", _check_reference)
    yield from check_group_members(spec, old, path, mode=DisruptionMode(single=SingleDisruptionMode()))


def check_group_members(
    new: _Members, old: _Members | None, path: str, *, mode: DisruptionMode | None = None
) -> Iterator[FieldIssue]:
    """Yield what is wrong with the fields that a group and a template of one share.

    Args:
        new: The group or template.
        old: It before the change; None when it is new.
        path: Its field path.
        mode: The disruption mode that counts when none is given.
    """
    policy, old_policy = new.scheduling_policy, None if old is None else old.scheduling_policy
    yield from _check_policy(policy, old_policy, f"{path}.schedulingPolicy")
    gang, old_gang = policy.gang, None if old_policy is None else old_policy.gang
    if gang is not None and (old is None or old_gang is not None):
        before = None if old_gang is None else old_gang.min_count
        yield from _check_least(gang.min_count, before, f"{path}.schedulingPolicy.gang.minCount")
    claims, old_claims = new.resource_claims or [], None if old is None else (old.resource_claims or [],)
    yield from _check_frozen(claims, old_claims, f"{path}.resourceClaims", _check_claims)
    if old_claims is not None and old_claims != (claims,) and len(claims) > CLAIMS_MAX:
        yield too_many(f"{path}.resourceClaims", len(claims), CLAIMS_MAX)
    old_mode = None if old is None else (old.disruption_mode or mode,)
    yield from _check_frozen(new.disruption_mode or mode, old_mode, f"{path}.disruptionMode", _check_mode)
    yield from _check_common(new, old, path)


def check_composite_members(
    new: CompositePodGroupTemplate, old: CompositePodGroupTemplate | None, path: str
) -> Iterator[FieldIssue]:
    """Yield what is wrong with a template of a group of groups, apart from the templates in it."""
    policy, old_policy = new.scheduling_policy, None if old is None else old.scheduling_policy
    yield from _check_policy(policy, old_policy, f"{path}.schedulingPolicy")
    gang, old_gang = policy.gang, None if old_policy is None else old_policy.gang
    if gang is not None and (old is None or old_gang is not None):
        before = None if old_gang is None else old_gang.min_group_count
        yield from _check_least(gang.min_group_count, before, f"{path}.schedulingPolicy.gang.minGroupCount")
    old_mode = None if old is None else (old.disruption_mode,)
    yield from _check_frozen(new.disruption_mode, old_mode, f"{path}.disruptionMode", _check_mode)
    yield from _check_common(new, old, path)


def _check_common(
    new: _Members | CompositePodGroupTemplate, old: _Members | CompositePodGroupTemplate | None, path: str
) -> Iterator[FieldIssue]:
    """Check constraints, priority and preemption, which groups and groups of groups share."""
    fields: tuple[tuple[str, str, _Check], ...] = (
        ("scheduling_constraints", "schedulingConstraints", _check_constraints),
        ("priority_class_name", "priorityClassName", _check_optional_name),
        ("priority", "priority", _check_priority),
        ("preemption_policy", "preemptionPolicy", _check_preemption),
    )
    for attribute, name, check in fields:
        before = None if old is None else (getattr(old, attribute),)
        yield from _check_frozen(getattr(new, attribute), before, f"{path}.{name}", check)


def _check_frozen(value: Any, before: tuple[Any] | None, path: str, check: _Check) -> Iterator[FieldIssue]:
    """Check a field that stays: its content in a new object, that it is the same (`before`) in an old one."""
    if before is None:
        if value is not None:
            yield from check(value, path)
    elif (value or None) != (before[0] or None):
        yield immutable(path, None)


def _check_policy(policy: _Policy, old: _Policy | None, path: str) -> Iterator[FieldIssue]:
    """Check that a policy is one of two, and stays the one that it is."""
    chosen = (policy.basic is not None, policy.gang is not None)
    before = None if old is None else (old.basic is not None, old.gang is not None)
    if chosen == before:
        return
    if sum(chosen) != 1:
        found = "{basic, gang}" if all(chosen) else ""
        yield invalid(path, found, f"must specify {'exactly ' if all(chosen) else ''}one of: `basic`, `gang`")
    if before is not None:
        for name, is_set, was_set in zip(("basic", "gang"), chosen, before, strict=True):
            if is_set != was_set:
                yield immutable(f"{path}.{name}", None)


def _check_least(count: int, before: int | None, path: str) -> Iterator[FieldIssue]:
    if count == before:
        return
    if not count:
        yield required(path)
    elif count < 1:
        yield invalid(path, count, "must be greater than or equal to 1")


def _check_claims(claims: list[PodGroupResourceClaim], path: str) -> Iterator[FieldIssue]:
    if len(claims) > CLAIMS_MAX:
        yield too_many(path, len(claims), CLAIMS_MAX)
        return
    yield from find_duplicates((claim.name for claim in claims), path)
    for i, claim in enumerate(claims):
        yield from _check_claim(claim, f"{path}[{i}]")


def _check_claim(claim: PodGroupResourceClaim, path: str) -> Iterator[FieldIssue]:
    sources = (claim.resource_claim_name, claim.resource_claim_template_name)
    if sum(source is not None for source in sources) != 1:
        rule = "must specify {}one of: `resourceClaimName`, `resourceClaimTemplateName`"
        if sources == (None, None):
            yield invalid(path, "", rule.format(""))
        else:
            yield invalid(path, "{resourceClaimName, resourceClaimTemplateName}", rule.format("exactly "))
    yield from _check_required_label(claim.name, f"{path}.name")
    for name, source in zip(("resourceClaimName", "resourceClaimTemplateName"), sources, strict=True):
        if source is not None:
            yield from check_subdomain(source, f"{path}.{name}")


def _check_reference(reference: WorkloadReference, path: str) -> Iterator[FieldIssue]:
    if reference.workload_name:
        yield from check_subdomain(reference.workload_name, f"{path}.workloadName")
    else:
        yield required(f"{path}.workloadName")
    yield from _check_required_label(reference.template_name, f"{path}.templateName")


def _check_required_label(text: str, path: str) -> Iterator[FieldIssue]:
    if text:
        yield from check_dns_label(text, path)
    else:
        yield required(path)


def _check_optional_name(name: str, path: str) -> Iterator[FieldIssue]:
    if name or path.endswith("parentCompositePodGroupName"):
        yield from check_subdomain(name, path)


def _check_constraints(constraints: _Constraints, path: str) -> Iterator[FieldIssue]:
    topology = constraints.topology or []
    if len(topology) > TOPOLOGY_MAX:
        yield too_many(f"{path}.topology", len(topology), TOPOLOGY_MAX)
        return
    for i, entry in enumerate(topology):
        if entry.key:
            yield from check_label_key(entry.key, f"{path}.topology[{i}].key")
        else:
            yield required(f"{path}.topology[{i}].key")


def _check_mode(mode: _Mode, path: str) -> Iterator[FieldIssue]:
    if mode.single is not None and mode.all is not None:
        yield invalid(path, "{single, all}", "must specify exactly one of: `single`, `all`")
    elif mode.single is None and mode.all is None:
        yield invalid(path, "", "must specify one of: `single`, `all`")


def _check_priority(priority: int, path: str) -> Iterator[FieldIssue]:
    if priority > PRIORITY_MAX:
        yield invalid(path, priority, f"must be less than or equal to {PRIORITY_MAX}")


def _check_preemption(policy: str, path: str) -> Iterator[FieldIssue]:
    if policy not in _POLICIES:
        yield not_supported(path, policy, _POLICIES)


def check_group_status(new: PodGroupStatus, claims: Iterable[PodGroupResourceClaim]) -> Iterator[FieldIssue]:
    """Yield what is wrong with the status of a group.

    Args:
        new: The status.
        claims: The claims of the group's spec.
    """
    yield from check_conditions(new.conditions, "status.conditions", most=None)
    path, statuses = "status.resourceClaimStatuses", new.resource_claim_statuses or []
    names = {claim.name for claim in claims}
    for i, status in enumerate(statuses):
        if status.name not in names:
            why = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(f"{path}[{i}].name", status.name, why)
    yield from _check_claim_statuses(statuses, path)


def _check_claim_statuses(statuses: list[PodGroupResourceClaimStatus], path: str) -> Iterator[FieldIssue]:
    if len(statuses) > CLAIMS_MAX:
        yield too_many(path, len(statuses), CLAIMS_MAX)
        return
    yield from find_duplicates((status.name for status in statuses), path)
    for i, status in enumerate(statuses):
        if status.resource_claim_name is not None:
            yield from check_subdomain(status.resource_claim_name, f"{path}[{i}].resourceClaimName")

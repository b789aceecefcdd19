"""What administrators allow, between JSON and the model: disruption budgets, quotas and priority classes.

Source: k8s.io/api v0.37.2 policy/v1, core/v1 (ResourceQuota), scheduling/v1.
"""

from __future__ import annotations

from typing import Any, Final

from claimsmith.api.decode import Source, convert, to_json_value
from claimsmith.api.kinds import POD_DISRUPTION_BUDGET, PRIORITY_CLASS, RESOURCE_QUOTA
from claimsmith.api.metadata import encode_metadata, encode_quantities, parse_metadata, parse_quantities
from claimsmith.api.wire import core_quota, meta, policy, scheduling
from claimsmith.model.policy import (
    DisruptionBudget,
    LabelRequirement,
    LabelSelector,
    PriorityClass,
    QuotaScope,
    ResourceQuota,
)

__all__ = [
    "encode_budget",
    "encode_priority_class",
    "encode_quota",
    "parse_budget",
    "parse_priority_class",
    "parse_quota",
]

_NO_TIME: Final = "1970-01-01T00:00:00Z"
"""Stands for the time at which a pod was taken for gone, which the model does not keep."""


def parse_budget(obj: Source, *, source: str = "") -> DisruptionBudget:
    """Return the disruption budget that a PodDisruptionBudget describes.

    Args:
        obj: Decoded JSON, JSON text, or the wire type.
        source: Where the object stands, for messages.

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    return convert(
        obj, policy.PodDisruptionBudget, _build_budget, source=source, api_version=POD_DISRUPTION_BUDGET.api_version
    )


def _build_budget(wire: policy.PodDisruptionBudget) -> DisruptionBudget:
    spec = wire.spec or policy.PodDisruptionBudgetSpec()
    status = wire.status or policy.PodDisruptionBudgetStatus()
    return DisruptionBudget(
        metadata=parse_metadata(wire.metadata),
        selector=None if spec.selector is None else _build_selector(spec.selector),
        min_available=spec.min_available,
        max_unavailable=spec.max_unavailable,
        disruptions_allowed=status.disruptions_allowed,
        disrupted_pods=frozenset(status.disrupted_pods or ()),
    )


def _build_selector(wire: meta.LabelSelector) -> LabelSelector:
    return LabelSelector(
        labels=wire.match_labels or {},
        requirements=tuple(
            LabelRequirement(key=entry.key, operator=entry.operator, values=tuple(entry.values or ()))
            for entry in wire.match_expressions or ()
        ),
    )


def encode_budget(value: DisruptionBudget) -> dict[str, Any]:
    """Return a disruption budget as JSON."""
    return to_json_value(
        policy.PodDisruptionBudget(
            api_version=POD_DISRUPTION_BUDGET.api_version,
            kind="PodDisruptionBudget",
            metadata=encode_metadata(value.metadata),
            spec=policy.PodDisruptionBudgetSpec(
                selector=None if value.selector is None else _encode_selector(value.selector),
                min_available=value.min_available,
                max_unavailable=value.max_unavailable,
            ),
            status=_encode_budget_status(value),
        )
    )


def _encode_budget_status(value: DisruptionBudget) -> policy.PodDisruptionBudgetStatus | None:
    if value.disruptions_allowed is None and not value.disrupted_pods:
        return None
    return policy.PodDisruptionBudgetStatus(
        disruptions_allowed=value.disruptions_allowed,
        disrupted_pods=dict.fromkeys(sorted(value.disrupted_pods), _NO_TIME) or None,
    )


def _encode_selector(value: LabelSelector) -> meta.LabelSelector:
    expressions = [
        meta.LabelSelectorRequirement(key=entry.key, operator=entry.operator, values=list(entry.values) or None)
        for entry in value.requirements
    ]
    return meta.LabelSelector(match_labels=dict(value.labels) or None, match_expressions=expressions or None)


def parse_quota(obj: Source, *, source: str = "") -> ResourceQuota:
    """Return the quota that a ResourceQuota describes (see `parse_budget`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    return convert(obj, core_quota.ResourceQuota, _build_quota, source=source, api_version=RESOURCE_QUOTA.api_version)


def _build_quota(wire: core_quota.ResourceQuota) -> ResourceQuota:
    spec = wire.spec or core_quota.ResourceQuotaSpec()
    status = wire.status or core_quota.ResourceQuotaStatus()
    selector = spec.scope_selector or core_quota.ScopeSelector()
    scopes = [QuotaScope(name=name) for name in spec.scopes or ()]
    scopes += [
        QuotaScope(name=entry.scope_name, operator=entry.operator, values=tuple(entry.values or ()))
        for entry in selector.match_expressions or ()
    ]
    return ResourceQuota(
        metadata=parse_metadata(wire.metadata),
        hard=parse_quantities(spec.hard),
        used=parse_quantities(status.used),
        scopes=tuple(scopes),
    )


def encode_quota(value: ResourceQuota) -> dict[str, Any]:
    """Return a quota as JSON; all its scopes as a selector."""
    expressions = [
        core_quota.ScopedResourceSelectorRequirement(
            scope_name=scope.name, operator=scope.operator, values=list(scope.values) or None
        )
        for scope in value.scopes
    ]
    used = encode_quantities(value.used)
    return to_json_value(
        core_quota.ResourceQuota(
            api_version=RESOURCE_QUOTA.api_version,
            kind="ResourceQuota",
            metadata=encode_metadata(value.metadata),
            spec=core_quota.ResourceQuotaSpec(
                hard=encode_quantities(value.hard) or None,
                scope_selector=core_quota.ScopeSelector(match_expressions=expressions) if expressions else None,
            ),
            status=core_quota.ResourceQuotaStatus(used=used) if used else None,
        )
    )


def parse_priority_class(obj: Source, *, source: str = "") -> PriorityClass:
    """Return the priority class that an object describes (see `parse_budget`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    return convert(obj, scheduling.PriorityClass, _build_class, source=source, api_version=PRIORITY_CLASS.api_version)


def _build_class(wire: scheduling.PriorityClass) -> PriorityClass:
    return PriorityClass(
        metadata=parse_metadata(wire.metadata),
        value=wire.value or 0,
        global_default=bool(wire.global_default),
        preemption_policy=wire.preemption_policy or "PreemptLowerPriority",
    )


def encode_priority_class(value: PriorityClass) -> dict[str, Any]:
    """Return a priority class as JSON."""
    return to_json_value(
        scheduling.PriorityClass(
            api_version=PRIORITY_CLASS.api_version,
            kind="PriorityClass",
            metadata=encode_metadata(value.metadata),
            value=value.value,
            global_default=value.global_default or None,
            preemption_policy=value.preemption_policy,
        )
    )

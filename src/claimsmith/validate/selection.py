"""Rules of node selectors, taints, tolerations and binding conditions.

Source: k8s.io/kubernetes v1.37.2 pkg/apis/core/validation/validation.go and pkg/apis/resource/validation/validation.go.

Deviates: request-tolerations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from claimsmith.api.wire.core_selection import NodeSelector, NodeSelectorRequirement
from claimsmith.api.wire.resource_claim import DeviceToleration
from claimsmith.api.wire.resource_slice import DeviceTaint
from claimsmith.validate.issues import (
    FieldIssue,
    duplicate,
    find_duplicates,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from claimsmith.validate.names import check_condition_type, check_label_key, check_label_value, check_subdomain

__all__ = [
    "check_binding_conditions",
    "check_node_selector",
    "check_skip_node_operations",
    "check_taint",
    "check_tolerations",
]

_BINDING_CONDITIONS_MAX: Final = 4
_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_OPERATORS: Final = ("Equal", "Exists")
_OPERATIONS: Final = ("*", "NodePrepareResources", "NodeUnprepareResources")


def check_node_selector(selector: NodeSelector, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with a node selector."""
    terms = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        yield required(terms, "must have at least one node selector term")
    for i, term in enumerate(selector.node_selector_terms):
        for j, entry in enumerate(term.match_expressions or ()):
            yield from _check_expression(entry, f"{terms}[{i}].matchExpressions[{j}]")
        for j, entry in enumerate(term.match_fields or ()):
            yield from _check_field(entry, f"{terms}[{i}].matchFields[{j}]")


def _check_expression(entry: NodeSelectorRequirement, path: str) -> Iterator[FieldIssue]:
    values = entry.values or []
    if entry.operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif entry.operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif entry.operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{path}.operator", entry.operator, "not a valid selector operator")
    yield from check_label_key(entry.key, f"{path}.key")
    for i, value in enumerate(values):
        yield from check_label_value(value, f"{path}.values[{i}]")


def _check_field(entry: NodeSelectorRequirement, path: str) -> Iterator[FieldIssue]:
    values = entry.values or []
    if entry.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", entry.operator, "not a valid selector operator")
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", why)
    if entry.key != "metadata.name":
        yield invalid(f"{path}.key", entry.key, "not a valid field selector key")
    else:
        for i, value in enumerate(values):
            yield from check_subdomain(value, f"{path}.values[{i}]")


def check_taint(taint: DeviceTaint, path: str, *, old_effect: str | None = None) -> Iterator[FieldIssue]:
    """Yield what is wrong with a device taint; an effect that was there before may stay."""
    yield from check_label_key(taint.key, f"{path}.key")
    yield from check_label_value(taint.value or "", f"{path}.value")
    if old_effect is not None and old_effect == taint.effect:
        return
    if not taint.effect:
        yield required(f"{path}.effect")
    elif taint.effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", taint.effect, _EFFECTS)


def check_tolerations(tolerations: list[DeviceToleration] | None, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the tolerations of a request; an absent operator is Equal.

    The server counts them as little as it asks for `Exists` with an empty key, although its documentation says so.
    """
    for i, entry in enumerate(tolerations or ()):
        yield from _check_toleration(entry, f"{path}[{i}]")


def _check_toleration(entry: DeviceToleration, path: str) -> Iterator[FieldIssue]:
    operator = entry.operator or "Equal"
    if entry.key:
        yield from check_label_key(entry.key, f"{path}.key")
    if operator == "Exists":
        if entry.value:
            yield invalid(f"{path}.value", entry.value, "must be empty for operator `Exists`")
    elif operator == "Equal":
        yield from check_label_value(entry.value or "", f"{path}.value")
    else:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if entry.effect and entry.effect not in _EFFECTS:
        yield not_supported(f"{path}.effect", entry.effect, _EFFECTS)


def check_binding_conditions(
    conditions: list[str] | None, failures: list[str] | None, path: str
) -> Iterator[FieldIssue]:
    """Yield what is wrong with binding conditions and binding failure conditions: both or none, and disjoint."""
    wanted, refused = conditions or [], failures or []
    for name, entries in (("bindingConditions", wanted), ("bindingFailureConditions", refused)):
        if len(entries) > _BINDING_CONDITIONS_MAX:
            yield too_many(f"{path}.{name}", len(entries), _BINDING_CONDITIONS_MAX)
        else:
            for i, entry in enumerate(entries):
                yield from check_condition_type(entry, f"{path}.{name}[{i}]")
        yield from find_duplicates(entries, f"{path}.{name}")
    for i, entry in enumerate(refused):
        if entry in wanted:
            why = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(f"{path}.bindingFailureConditions[{i}]", entry, why)
    if refused and not wanted:
        why = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(f"{path}.bindingConditions", wanted, why)
    if wanted and not refused:
        why = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(f"{path}.bindingFailureConditions", refused, why)


def check_skip_node_operations(operations: list[str] | None, path: str) -> Iterator[FieldIssue]:
    """Yield what is wrong with the kubelet calls that a driver skips: no prepare skipped without its unprepare."""
    entries = operations or []
    for i, entry in enumerate(entries):
        if entry not in _OPERATIONS:
            yield not_supported(f"{path}[{i}]", entry, _OPERATIONS)
        if entry in entries[:i]:
            yield duplicate(f"{path}[{i}]", entry)
    if "NodePrepareResources" in entries and not {"NodeUnprepareResources", "*"} & set(entries):
        why = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        yield invalid(path, entries, why)

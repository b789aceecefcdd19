"""Node selectors: does a node match, and which node can match at all.

Source: scheduling/corev1/nodeaffinity in k8s.io/component-helpers v0.37.2; labels.Requirement of apimachinery.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from claimsmith.model.node import Node
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.validate.names import check_label_key, check_label_value

__all__ = ["NAME_ANCHOR", "NAME_FIELD", "Anchor", "find_anchors", "find_selector_error", "matches_node"]

NAME_FIELD: Final = "metadata.name"
"""The only field that node selectors can name."""
NAME_ANCHOR: Final = "field:metadata.name"
"""Stands for the name of the node among label keys; no label key has a colon."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT64_MAX: Final = 2**63 - 1
_VALUE_COUNTS: Final = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}


def matches_node(selector: NodeSelector, node: Node) -> bool:
    """Tell whether one term of the selector matches the node; terms without requirements match nothing.

    A selector that `find_selector_error` complains of matches only by its correct requirements.
    """
    return any(_term_matches(term, node) for term in selector.terms)


def find_selector_error(selector: NodeSelector) -> str | None:
    """Return what is wrong with a selector; None when it can be used."""
    for term in selector.terms:
        for requirement in term.match_expressions:
            if error := _find_label_error(requirement) or _find_name_error(requirement):
                return error
        for requirement in term.match_fields:
            if requirement.operator not in ("In", "NotIn"):
                return f"operator {requirement.operator!r} of field {requirement.key}, allowed In, NotIn"
            if len(requirement.values) != 1:
                return f"{len(requirement.values)} values of field {requirement.key}, allowed exactly one"
    return None


Anchor = tuple[str, str]
"""A label key, or NAME_ANCHOR, with a value."""


def find_anchors(selector: NodeSelector) -> frozenset[Anchor] | None:
    """Return labels of which a node must have one to match, so that not every selector is tried on every node.

    Returns:
        None when nothing can be said, because the selector has several terms, is wrong, or has no operator In.
    """
    if len(selector.terms) != 1 or find_selector_error(selector):
        return None
    term = selector.terms[0]
    named = [r for r in term.match_fields if r.operator == "In" and r.key == NAME_FIELD]
    if named:
        return frozenset((NAME_ANCHOR, value) for value in named[0].values)
    labels = [r for r in term.match_expressions if r.operator == "In"]
    if not labels:
        return None
    fewest = min(labels, key=lambda requirement: len(requirement.values))
    return frozenset((fewest.key, value) for value in fewest.values)


def _find_label_error(requirement: NodeSelectorRequirement) -> str | None:
    what = f"label {requirement.key} with {requirement.operator}"
    if requirement.operator in ("In", "NotIn"):
        return None if requirement.values else f"{what}: no values"
    allowed = _VALUE_COUNTS.get(requirement.operator)
    if allowed is None:
        return f"{what}: allowed operators In, NotIn, Exists, DoesNotExist, Gt, Lt"
    if len(requirement.values) != allowed:
        return f"{what}: {len(requirement.values)} values, allowed {allowed}"
    if requirement.values and _find_integer(requirement.values[0]) is None:
        return f"{what}: value {requirement.values[0]!r}, allowed an integer"
    return None


def _find_name_error(requirement: NodeSelectorRequirement) -> str | None:
    """Return what is wrong with the key or a value as such; a number with a sign is no label value."""
    issues = [*check_label_key(requirement.key, "key")]
    issues += [issue for value in requirement.values for issue in check_label_value(value, "values")]
    if not issues:
        return None
    return (
        f"label {requirement.key!r} with {requirement.operator}: found {issues[0].value!r}, allowed {issues[0].detail}"
    )


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NAME_FIELD: node.name}
    return all(_label_matches(requirement, node.labels) for requirement in term.match_expressions) and all(
        (fields.get(requirement.key, "") in requirement.values) == (requirement.operator == "In")
        for requirement in term.match_fields
    )


def _label_matches(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(value, requirement)
        case _:
            return False


def _compares(value: str, requirement: NodeSelectorRequirement) -> bool:
    found, limit = _find_integer(value), _find_integer(requirement.values[0]) if requirement.values else None
    if found is None or limit is None:
        return False
    return found > limit if requirement.operator == "Gt" else found < limit


def _find_integer(text: str) -> int | None:
    """The 64-bit integer that a text stands for."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64_MAX - 1 <= number <= _INT64_MAX else None

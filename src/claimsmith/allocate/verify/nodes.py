"""Whether slices, devices and node selectors reach a node.

Source: nodeaffinity in k8s.io/component-helpers v0.37.2.
"""

from __future__ import annotations

import re
from typing import Final

from claimsmith.model.device import Device
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement

__all__ = ["device_reaches", "is_readable", "selector_matches", "slice_reaches"]

_LABEL_KEY: Final = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def slice_reaches(slice: ResourceSlice, node: Node) -> bool:
    """Tell whether any device of the slice could be used on the node."""
    if slice.per_device_node_selection:
        return any(device_reaches(device, node) for device in slice.devices)
    return _reaches(slice.node_name, slice.all_nodes, slice.node_selector, node)


def device_reaches(device: Device, node: Node) -> bool:
    """Tell whether a device of a slice with per-device node selection can be used on the node."""
    return _reaches(device.node_name, device.all_nodes, device.node_selector, node)


def _reaches(name: str | None, all_nodes: bool, selector: NodeSelector | None, node: Node) -> bool:
    if name:
        return name == node.name
    if all_nodes:
        return True
    return selector is not None and selector_matches(selector, node)


def selector_matches(selector: NodeSelector, node: Node) -> bool:
    """Tell whether one term of the selector holds; a term without requirements never does.

    A selector with a value that is no label value selects nothing.
    """
    values = (value for term in selector.terms for r in term.match_expressions for value in r.values)
    if not all(map(_LABEL_VALUE.fullmatch, values)):
        return False
    for term in selector.terms:
        requirements = [(r, node.labels) for r in term.match_expressions]
        requirements += [(r, {"metadata.name": node.name}) for r in term.match_fields]
        if requirements and all(_holds(r, values.get(r.key)) for r, values in requirements):
            return True
    return False


def is_readable(selector: NodeSelector) -> bool:
    """Tell whether upstream can make sense of every requirement of the selector."""
    return all(
        all(map(_is_label_readable, term.match_expressions)) and all(map(_is_field_readable, term.match_fields))
        for term in selector.terms
    )


def _is_label_readable(requirement: NodeSelectorRequirement) -> bool:
    values = requirement.values
    if not _LABEL_KEY.fullmatch(requirement.key) or not all(map(_LABEL_VALUE.fullmatch, values)):
        return False
    match requirement.operator:
        case "In" | "NotIn":
            return bool(values)
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and bool(_INTEGER.fullmatch(values[0])) and -(2**63) <= int(values[0]) < 2**63
    return False


def _is_field_readable(requirement: NodeSelectorRequirement) -> bool:
    return requirement.operator in ("In", "NotIn") and len(requirement.values) == 1


def _holds(requirement: NodeSelectorRequirement, value: str | None) -> bool:
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
            return _compares(requirement, value)
    return False


def _compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    try:
        left, right = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if requirement.operator == "Gt" else left < right

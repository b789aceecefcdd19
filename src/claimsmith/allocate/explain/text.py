"""Reasons as text: for people, and short enough for an event on a pod."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.decision import Reason, ReasonKind
from claimsmith.model.names import ClaimRef, DeviceId

__all__ = ["EVENT_LENGTH_MAX", "ReasonGroup", "format_event", "format_reasons", "group_reasons"]

EVENT_LENGTH_MAX: Final = 1024
"""Longest note of an event, in characters. Source: Event of events.k8s.io/v1."""

_SEVERITY: Final[tuple[ReasonKind, ...]] = ("class-selector", "node", "selector")
"""Kinds that are told last: they only say which devices were never meant."""


@dataclass(slots=True, kw_only=True)
class ReasonGroup:
    """The same reason on several nodes.

    Args:
        rule: The sentence without devices and nodes.
        nodes: Names of the nodes, in order.
        devices: Devices that fell to it, on all nodes.
        example: The sentence of the first one, with its devices.
    """

    kind: ReasonKind
    rule: str
    claim: ClaimRef | None
    request: str
    example: str
    nodes: list[str] = field(default_factory=list)
    devices: list[DeviceId] = field(default_factory=list)


def group_reasons(reasons: Iterable[Reason]) -> list[ReasonGroup]:
    """Return the reasons grouped over nodes, in the order in which they first appear."""
    groups: dict[tuple[object, ...], ReasonGroup] = {}
    for reason in reasons:
        rule = reason.data.get("rule", reason.text)
        key = (reason.kind, rule, reason.claim, reason.request)
        group = groups.get(key)
        if group is None:
            group = groups[key] = ReasonGroup(
                kind=reason.kind, rule=rule, claim=reason.claim, request=reason.request, example=reason.text
            )
        if reason.node not in group.nodes[-1:]:
            group.nodes.append(reason.node)
        group.devices.extend(reason.devices)
    return list(groups.values())


def format_reasons(reasons: Iterable[Reason]) -> str:
    """Return the reasons as lines for people: node by node, claim by claim, every sentence in full."""
    by_node: dict[str, list[Reason]] = defaultdict(list)
    for reason in reasons:
        by_node[reason.node].append(reason)
    lines = []
    for node, found in by_node.items():
        lines.append(f"node {node}:" if node else "all nodes:")
        for reason in found:
            where = _format_place(reason.claim, reason.request)
            lines.append(f"  {where}{': ' if where else ''}{reason.text}")
    return "\n".join(lines)


def format_event(reasons: Iterable[Reason], *, nodes: int) -> str:
    """Return the reasons in at most EVENT_LENGTH_MAX characters, the most telling ones first.

    Args:
        nodes: How many nodes were looked at.
    """
    groups = sorted(group_reasons(reasons), key=lambda group: group.kind in _SEVERITY)
    text = f"0/{nodes} nodes can serve the claims"
    for place, parts in _by_place(groups).items():
        added = f"; {place}: " if place else "; "
        for number, group in enumerate(parts):
            piece = (", " if number else added) + _format_group(group)
            if len(text) + len(piece) > EVENT_LENGTH_MAX - 2:
                return text + " …"
            text += piece
    return text


def _by_place(groups: Iterable[ReasonGroup]) -> dict[str, list[ReasonGroup]]:
    places: dict[str, list[ReasonGroup]] = defaultdict(list)
    for group in groups:
        places[_format_place(group.claim, group.request)].append(group)
    return places


def _format_group(group: ReasonGroup) -> str:
    """One group as a phrase: in full when it is about one node, else counted."""
    if len(group.nodes) == 1:
        return group.example
    if not group.devices:
        return f"{len(group.nodes)} nodes: {group.rule}"
    return f"{len(group.devices)} devices on {len(group.nodes)} nodes: {group.rule}"


def _format_place(claim: ClaimRef | None, request: str) -> str:
    if claim is None:
        return ""
    return f"claim {claim}, request {request}" if request else f"claim {claim}"

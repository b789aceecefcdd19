"""Findings about nodes as lines for people, and the length of an event's note."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from claimsmith.model.decision import Reason
from claimsmith.model.names import ClaimRef

__all__ = ["EVENT_LENGTH_MAX", "format_place", "format_reasons"]

EVENT_LENGTH_MAX: Final = 1024
"""Longest note of an event, in characters. Source: Event of events.k8s.io/v1."""


def format_reasons(reasons: Iterable[Reason]) -> str:
    """Return the reasons as lines for people: node by node, claim by claim, every sentence in full."""
    by_node: dict[str, list[Reason]] = defaultdict(list)
    for reason in reasons:
        by_node[reason.node].append(reason)
    lines = []
    for node, found in by_node.items():
        lines.append(f"node {node}:" if node else "all nodes:")
        for reason in found:
            where = format_place(reason.claim, reason.request)
            lines.append(f"  {where}{': ' if where else ''}{reason.text}")
    return "\n".join(lines)


def format_place(claim: ClaimRef | None, request: str) -> str:
    """Return what a reason is about, as the beginning of a sentence; empty when it is about all claims."""
    if claim is None:
        return ""
    return f"claim {claim}, request {request}" if request else f"claim {claim}"

"""Explanations as text for people, as the note of an event, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.allocate.explain.text import EVENT_LENGTH_MAX, format_place
from claimsmith.allocate.explain.values import Change, Explanation, Fix, NodeGroup
from claimsmith.model.decision import Reason

__all__ = ["encode_explanation", "format_explanation", "format_note", "merge_groups"]

_NAMES_SHOWN: Final = 3
_PASSING: Final = ("in-use", "taint", "counter", "pool-incomplete", "pool-invalid", "pool-obsolete", "resources")
_TOLD_LAST: Final = ("count", "class-selector")
"""Kinds of reasons that say the least."""


def merge_groups(groups: Iterable[NodeGroup]) -> tuple[NodeGroup, ...]:
    """Return the groups with those joined that have reasons of the same rules: those of all nodes, then the largest."""
    found: dict[object, list[NodeGroup]] = {}
    for group in groups:
        told = [reason for reason in group.reasons if not _is_implied(reason)]
        rules = tuple((r.kind, r.claim, r.request, r.data.get("rule", r.text)) for r in told)
        found.setdefault((rules, group.note), []).append(group)
    merged = [
        NodeGroup(
            nodes=tuple(name for group in same for name in group.nodes),
            reasons=same[0].reasons,
            is_irreducible=all(group.is_irreducible for group in same),
            note=same[0].note,
        )
        for same in found.values()
    ]
    return tuple(sorted(merged, key=lambda group: (bool(group.nodes), -len(group.nodes))))


def format_explanation(explanation: Explanation) -> str:
    """Return the explanation as lines: for each group of nodes its reasons, then what would help."""
    lines = []
    for group in merge_groups(explanation.groups):
        lines.append(f"{_format_nodes(group.nodes)}:" if group.nodes else "on any node:")
        for place, reasons in _by_place(reason for reason in group.reasons if not _is_implied(reason)):
            lines.append(f"  {place}:" if place else "  all claims:")
            lines += [f"    {reason.text}" for reason in reasons]
        if group.note:
            lines.append(f"  ({group.note})")
    if explanation.fits:
        lines.append(f"it fits on {_format_nodes(explanation.fits)}")
    lines += [f"note: {note}" for note in explanation.notes]
    if explanation.fixes:
        lines.append("what would help:")
        lines += [f"  {fix.text}{_format_gain(fix)}" for fix in explanation.fixes]
    return "\n".join(lines)


def format_note(explanation: Explanation) -> str:
    """Return the explanation in at most EVENT_LENGTH_MAX characters: the same reasons, those that may pass first."""
    writer = _Note(f"0/{explanation.node_count} nodes can serve the claims")
    groups = sorted(merge_groups(explanation.groups), key=lambda group: bool(group.nodes) and not _may_pass(group))
    for group in groups:
        where = _format_where(group.nodes) if explanation.node_count > 1 else ""
        for number, (place, reasons) in enumerate(_by_place(_tell(group.reasons))):
            start = f"; {where}" if not number else "; "
            start += f"{place}: " if place else ""
            for position, reason in enumerate(reasons):
                if not writer.add(f"{', ' if position else start}{reason.text}"):
                    return writer.text
    if explanation.fixes:
        writer.add(f"; what would help: {explanation.fixes[0].text}{_format_gain(explanation.fixes[0])}")
    return writer.text


@dataclass(slots=True)
class _Note:
    """A text that ends with … when the next piece is too much."""

    text: str

    def add(self, piece: str) -> bool:
        """Add a piece; False, and no more, when it does not fit."""
        if len(self.text) + len(piece) > EVENT_LENGTH_MAX - 2:
            self.text += " …"
            return False
        self.text += piece
        return True


def encode_explanation(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as JSON."""
    return {
        "nodes": explanation.node_count,
        "irreducible": explanation.is_irreducible,
        "groups": [_encode_group(group) for group in explanation.groups],
        "fits": list(explanation.fits),
        "fixes": [_encode_fix(fix) for fix in explanation.fixes],
        "notes": list(explanation.notes),
        "searches": explanation.searches,
    }


def _encode_group(group: NodeGroup) -> dict[str, Any]:
    return {
        "nodes": list(group.nodes),
        "irreducible": group.is_irreducible,
        "note": group.note,
        "reasons": [
            {
                "kind": reason.kind,
                "text": reason.text,
                "claim": str(reason.claim) if reason.claim else "",
                "request": reason.request,
                "devices": [str(device) for device in reason.devices],
                "data": dict(reason.data),
            }
            for reason in group.reasons
        ],
    }


def _encode_fix(fix: Fix) -> dict[str, Any]:
    return {
        "text": fix.text,
        "nodes": list(fix.nodes),
        "changes": [_encode_change(change) for change in fix.changes],
        "choices": [_encode_change(change) for change in fix.choices],
    }


def _encode_change(change: Change) -> dict[str, Any]:
    value: dict[str, Any] = {"op": change.op}
    if change.claim is not None:
        value["claim"] = str(change.claim)
    if change.template is not None:
        value["template"] = str(change.template)
    if change.request:
        value["request"] = change.request
    if change.name:
        value["name"] = change.name
    if change.value is not None:
        value["value"] = change.value
    return value


def _may_pass(group: NodeGroup) -> bool:
    """Whether the nodes could serve the claims at another time: something is in use, broken or not published yet."""
    return any(reason.kind in _PASSING for reason in group.reasons)


def _is_implied(reason: Reason) -> bool:
    """Whether another reason of the group says as much to people."""
    return "implied" in reason.data


def _tell(reasons: Sequence[Reason]) -> list[Reason]:
    """The reasons in the order of a note; that a device is wanted goes without saying when there is another one."""
    reasons = [reason for reason in reasons if not _is_implied(reason)]
    told = [reason for reason in reasons if reason.kind != "count"]
    lone = {(reason.claim, reason.request) for reason in told}
    counts = [
        reason
        for reason in reasons
        if reason.kind == "count" and (reason.data.get("wanted") != "1" or (reason.claim, reason.request) not in lone)
    ]
    return sorted((*told, *counts), key=lambda reason: reason.kind in _TOLD_LAST)


def _by_place(reasons: Iterable[Reason]) -> list[tuple[str, list[Reason]]]:
    found: dict[str, list[Reason]] = {}
    for reason in reasons:
        found.setdefault(format_place(reason.claim, reason.request), []).append(reason)
    return list(found.items())


def _format_where(nodes: Sequence[str]) -> str:
    return f"{len(nodes)} nodes, as on {nodes[0]}: " if len(nodes) > 1 else f"{nodes[0]}: " if nodes else ""


def _format_nodes(nodes: Sequence[str]) -> str:
    """Return a number of nodes with the names of the first."""
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    more = f" and {len(nodes) - _NAMES_SHOWN} more" if len(nodes) > _NAMES_SHOWN else ""
    return f"{len(nodes)} nodes ({', '.join(nodes[:_NAMES_SHOWN])}{more}), as on {nodes[0]}"


def _format_gain(fix: Fix) -> str:
    if not fix.nodes:
        return ""
    number = "1 node" if len(fix.nodes) == 1 else f"{len(fix.nodes)} nodes"
    more = ", …" if len(fix.nodes) > _NAMES_SHOWN else ""
    return f" → {number} ({', '.join(fix.nodes[:_NAMES_SHOWN])}{more})"

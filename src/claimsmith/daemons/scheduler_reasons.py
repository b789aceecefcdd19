"""Why a pod has no node: irreducible sets of reasons, as a note and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from claimsmith.allocate.explain.context import ALONE, ExplainContext
from claimsmith.allocate.explain.pending import ExplainLimits, explain_pending
from claimsmith.allocate.explain.report import format_note
from claimsmith.allocate.explain.tally import tally_reasons
from claimsmith.allocate.explain.values import Change, Explanation, Fix, NodeGroup
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.node import Node
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import Gang
from claimsmith.schedule.message import render_refusal

__all__ = ["IN_FULL", "IN_SHORT", "Attempted", "explain_attempt", "explain_member", "write_note"]

IN_SHORT: Final = ExplainLimits(groups_max=6, with_fixes=False, total_steps=150_000)
"""For the note of an event: the most frequent kinds of nodes, nothing about what would help."""
IN_FULL: Final = ExplainLimits()
"""For people who ask."""
_NODES_MAX: Final = 200
"""Nodes that a note looks at one by one; of the others it counts devices."""

Attempted = Iterable[tuple[tuple[ResourceClaim, ...], Iterable[Node]]]
"""Claims that were tried on nodes; a pod's extended resources can mean other claims on other nodes."""


def explain_attempt(
    cluster: PreparedCluster,
    attempted: Attempted,
    *,
    nodes: Mapping[str, Node],
    refused: Mapping[str, tuple[Reason, ...]],
    limits: ExplainLimits = IN_SHORT,
    context: ExplainContext = ALONE,
) -> Explanation:
    """Return why none of the nodes serves a pod.

    Args:
        attempted: At least one set of claims.
        nodes: All nodes that count, by name.
        refused: Why nodes can't take the pod whatever its devices.
        context: What is known of the claims beside the cluster.
    """
    parts, counted = [], []
    for number, (claims, found) in enumerate(attempted):
        left = [node for node in found if node.name not in refused]
        if not limits.with_fixes and len(left) > _NODES_MAX:
            counted.append(_count(cluster, claims, left[_NODES_MAX:]))
            left = left[:_NODES_MAX]
        vetoed = [node for name, node in nodes.items() if name in refused] if not number else []
        parts.append(
            explain_pending(
                cluster,
                claims,
                nodes=[*left, *vetoed],
                refused=refused if vetoed else {},
                limits=limits,
                context=context,
            )
        )
    return replace(
        parts[0],
        node_count=len(nodes),
        groups=(*(group for part in parts for group in part.groups), *counted),
        fixes=tuple(fix for part in parts for fix in part.fixes),
        fits=tuple(name for part in parts for name in part.fits),
        searches=sum(part.searches for part in parts),
    )


def _count(cluster: PreparedCluster, claims: tuple[ResourceClaim, ...], nodes: list[Node]) -> NodeGroup:
    """Tell of further nodes how many of their devices fell to which rule."""
    reasons = tally_reasons(cluster, claims, nodes=nodes)
    names = tuple(node.name for node in nodes)
    return NodeGroup(nodes=names, reasons=reasons, is_irreducible=False, note="devices of these nodes are only counted")


def explain_member(
    explanation: Explanation | None, gang: Gang, *, pod: Pod, fit: int, nodes: tuple[str, ...]
) -> Explanation | None:
    """Return why a pod of a gang fits nowhere beside the others, told as a matter of the gang.

    Args:
        explanation: Why the pod fits nowhere while the others have the places that they would get.
        fit: How many pods of the gang fit together.
        nodes: The nodes that those would get now.
    """
    if explanation is None:
        return None
    note = (
        f"pod group {gang.ref} needs {gang.min_count} pods at once, and {fit} fit; "
        f"the reasons are those of pod {pod.ref.name} beside them"
    )
    fixes = explanation.fixes
    if fit and nodes:
        change = Change(op="set-min-count", name=str(gang.ref), value=fit)
        text = f"lower the minCount of pod group {gang.ref} from {gang.min_count} to {fit}"
        fixes = (*fixes, Fix(text=text, nodes=nodes, changes=(change,)))
    return replace(explanation, notes=(*explanation.notes, note), fixes=fixes)


def write_note(explanation: Explanation, refused: Mapping[str, tuple[Reason, ...]], *, undecided: int) -> str:
    """Return why a pod has no node in one text.

    Args:
        undecided: On how many nodes the search gave up.
    """
    if len(refused) == explanation.node_count:
        return render_refusal(refused)
    text = format_note(explanation)
    return f"the search gave up on {undecided} nodes; {text}" if undecided else text

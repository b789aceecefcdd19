"""Why claims are pending on all nodes of a cluster, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.allocate.explain.case import ClauseBook
from claimsmith.allocate.explain.context import ALONE, OTHERS, ExplainContext, SolveGang
from claimsmith.allocate.explain.finding import Asked, NodeFinding, find_reasons, open_node
from claimsmith.allocate.explain.fixes import FixFinder, NodePart, NodeSet
from claimsmith.allocate.explain.gang_fixes import GangFixFinder
from claimsmith.allocate.explain.nodes import explain_nodes, explain_refusal
from claimsmith.allocate.explain.oracle import BUDGET_STEPS, TOTAL_STEPS
from claimsmith.allocate.explain.relaxations import Source
from claimsmith.allocate.explain.values import Change, Explanation, Fix, NodeGroup
from claimsmith.allocate.explain.variants import NodeVariants
from claimsmith.allocate.explain.wording import word_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.node import Node

__all__ = ["ExplainLimits", "explain_pending"]

GROUPS_MAX: Final = 48
"""Kinds of nodes that are looked at in full, the most frequent ones first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainLimits:
    """How much an explanation may cost.

    Args:
        groups_max: Kinds of nodes that are looked at in full.
        with_fixes: Look for what would help.
        budget_steps: Steps after which one search gives up.
        total_steps: Steps after which all searches about one kind of nodes give up.
        should_stop: Asked now and then; True ends the search at hand as undecided.
        sources: Further kinds of relaxations.
        solve_gang: Solves a change for all pods of a gang, where the claims are those of one of them; None: they wait
            for nobody.
    """

    groups_max: int = GROUPS_MAX
    with_fixes: bool = True
    budget_steps: int = BUDGET_STEPS
    total_steps: int = TOTAL_STEPS
    should_stop: Callable[[], bool] | None = None
    sources: tuple[Source, ...] = ()
    solve_gang: SolveGang | None = None


def explain_pending(
    cluster: PreparedCluster,
    claims: Iterable[ResourceClaim],
    *,
    nodes: Iterable[Node],
    refused: Mapping[str, tuple[Reason, ...]] | None = None,
    limits: ExplainLimits | None = None,
    context: ExplainContext = ALONE,
) -> Explanation:
    """Return irreducible sets of reasons, grouped over nodes, and the nearest fixes.

    Args:
        claims: The claims that are to be allocated together.
        refused: Why nodes can't take the pod whatever its devices, by name; each of the reasons alone is enough.
        context: What is known of the claims beside the cluster.
    """
    bounds = limits or ExplainLimits()
    book = ClauseBook(cluster, tuple(claims), context=context)
    asked = Asked(book, bounds.sources, bounds.budget_steps, bounds.total_steps, bounds.should_stop)
    vetoes, open_nodes, known = dict(refused or {}), list[Node](), dict[str, Node]()
    for node in nodes:
        known[node.name] = node
        if node.name not in vetoes:
            open_nodes.append(node)
    sets, rest = _find_sets(asked, open_nodes, groups_max=bounds.groups_max)
    pending = [item for item in sets if not item.finding.fits]
    groups = [*_refuse(vetoes, known), *map(_describe, pending)]
    groups += _describe_rest(asked, rest)
    groups.sort(key=lambda group: -len(group.nodes))
    explained, fixes = [item for item in pending if item.finding.kept], tuple[Fix, ...]()
    if bounds.with_fixes and bounds.solve_gang is not None:
        kinds = [group.nodes[0] for group in groups if group.nodes]
        fixes = GangFixFinder(explained, kinds=kinds, solve=bounds.solve_gang).find()
    elif bounds.with_fixes:
        fixes = (*FixFinder(explained).find(), *_lift_vetoes(asked, vetoes, known))
    return Explanation(
        node_count=len(known),
        groups=tuple(groups),
        fixes=fixes,
        fits=tuple(name for item in sets if item.finding.fits for name in item.nodes),
        searches=sum(item.finding.oracle.searches for item in sets),
    )


def _find_sets(asked: Asked, nodes: Iterable[Node], *, groups_max: int) -> tuple[list[NodeSet], list[Node]]:
    """Return what was found on nodes in groups of equal ones, and the nodes that were not looked at.

    What holds whoever uses the devices holds for all nodes that are equal but for that.
    """
    sets, rest = list[NodeSet](), list[Node]()
    for kind in _sort_nodes(asked, nodes):
        for number, same in enumerate(kind):
            if len(sets) >= groups_max:
                rest += same
                continue
            finding = find_reasons(asked, same[0])
            if finding.kept and not any(relaxation.is_passing for relaxation in finding.kept):
                parts = tuple(_open_part(asked, group) for group in kind[number:]) if len(kind) > 1 else ()
                sets.append(_make_set(asked, [node for group in kind[number:] for node in group], finding, parts))
                break
            sets.append(_make_set(asked, same, finding))
    return sets, rest


def _make_set(asked: Asked, nodes: list[Node], finding: NodeFinding, parts: tuple[NodePart, ...] = ()) -> NodeSet:
    """What was found on the first of the nodes, with a way to tell them apart when a constant is changed."""
    finding = replace(finding, find_variants=NodeVariants(asked, nodes).find)
    return NodeSet(nodes=tuple(node.name for node in nodes), finding=finding, parts=parts)


def _open_part(asked: Asked, nodes: list[Node]) -> NodePart:
    return NodePart(nodes=tuple(node.name for node in nodes), reopen=lambda: open_node(asked, nodes[0]))


def _sort_nodes(asked: Asked, nodes: Iterable[Node]) -> list[list[list[Node]]]:
    """Return the nodes in groups that are equal but for what is so at present, each in groups of equal ones.

    The largest come first.
    """
    found: dict[object, dict[object, list[Node]]] = {}
    for node in nodes:
        key = asked.profiles.sign_node(node, asked.book.cluster.view_node(node))
        found.setdefault(key.lasting, {}).setdefault(key.present, []).append(node)
    kinds = [sorted(kind.values(), key=lambda same: -len(same)) for kind in found.values()]
    return sorted(kinds, key=lambda kind: -sum(map(len, kind)))


def _describe(item: NodeSet) -> NodeGroup:
    finding = item.finding
    note, refused = "", finding.oracle.refused
    if finding.fits is None and refused is not None:
        reason = explain_refusal(refused, node=item.nodes[0])
        note = "devices were found, but their allocation could not be written down"
        return NodeGroup(nodes=item.nodes, reasons=(reason,), is_irreducible=False, note=note)
    if finding.fits is None:
        note = "the search gave up, so that it is not known whether the claims fit"
    elif not finding.is_irreducible:
        note = "the search gave up on a smaller set, so that fewer reasons may be enough"
    return NodeGroup(
        nodes=item.nodes,
        reasons=word_reasons(finding) if finding.kept else _list_obstacles(finding),
        is_irreducible=finding.is_irreducible,
        note=note,
    )


def _list_obstacles(finding: NodeFinding) -> tuple[Reason, ...]:
    case = finding.case
    reasons = explain_nodes(case.cluster, case.asked, nodes=(case.node,))
    return tuple(_name_holders(reason, case.context) for reason in reasons)


def _name_holders(reason: Reason, context: ExplainContext) -> Reason:
    """The reason with what other pods of a gang hold in thought told as theirs."""
    ours, holders = set(map(str, context.beside)), reason.data.get("holders", "")
    if not ours.intersection(holders.split(", ")):
        return reason
    names = dict.fromkeys(OTHERS if name in ours else name for name in holders.split(", "))
    told = ", ".join(names)
    return replace(reason, text=reason.text.replace(holders, told), data={**reason.data, "holders": told})


def _describe_rest(asked: Asked, nodes: list[Node]) -> list[NodeGroup]:
    """Nodes of many further kinds: the first obstacle of each device of one of them."""
    if not nodes:
        return []
    cluster, claims = asked.book.cluster, asked.book.claims
    found = explain_nodes(cluster, claims, nodes=nodes[:1])
    reasons = tuple(_name_holders(reason, asked.book.context) for reason in found)
    note = "nodes of many kinds, which were not looked at in full"
    return [NodeGroup(nodes=tuple(node.name for node in nodes), reasons=reasons, is_irreducible=False, note=note)]


def _refuse(vetoes: Mapping[str, tuple[Reason, ...]], known: Mapping[str, Node]) -> list[NodeGroup]:
    """Nodes that can't take the pod whatever its devices: any one of their reasons is enough, the first is told."""
    groups: dict[tuple[str, str], tuple[list[str], Reason]] = {}
    for name, reasons in vetoes.items():
        if name in known and reasons:
            groups.setdefault((reasons[0].kind, reasons[0].text), ([], reasons[0]))[0].append(name)
    return [NodeGroup(nodes=tuple(names), reasons=(_tell_amounts(reason),)) for names, reason in groups.values()]


def _tell_amounts(reason: Reason) -> Reason:
    """The reason with the amounts of the node that it is told of, which are no part of its rule."""
    amounts = reason.data.get("amounts")
    if not amounts:
        return reason
    return replace(reason, text=f"{reason.text} ({amounts})", data={"rule": reason.text, **reason.data})


def _lift_vetoes(asked: Asked, vetoes: Mapping[str, tuple[Reason, ...]], known: Mapping[str, Node]) -> tuple[Fix, ...]:
    """What would help about nodes that only one thing besides devices speaks against."""
    by_text: dict[str, list[Node]] = {}
    told: dict[str, str] = {}
    for name, reasons in vetoes.items():
        texts = {reason.text for reason in reasons}
        if name in known and len(texts) == 1:
            told.setdefault(reasons[0].text, _tell_amounts(reasons[0]).text)
            by_text.setdefault(texts.pop(), []).append(known[name])
    fixes = []
    for text, nodes in by_text.items():
        fitting: list[str] = []
        sets, _ = _find_sets(asked, nodes, groups_max=GROUPS_MAX)
        fitting += [name for item in sets if item.finding.fits for name in item.nodes]
        if fitting:
            change = Change(op="change-pod", value=text)
            fixes.append(Fix(text=f"change the pod or the node: {told[text]}", nodes=tuple(fitting), changes=(change,)))
    return tuple(fixes)

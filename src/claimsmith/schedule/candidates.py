"""Which nodes can take a pod, devices left aside, best first: kept per kind of pod, and followed node by node. Pure.

Most pods of a cluster are alike. What was found out about the nodes for one of them holds for the next, but for the
nodes that have changed in between; so a pod costs as many looks at nodes as nodes have changed, not as there are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.node import Node
from claimsmith.model.topology import NodeSelector
from claimsmith.model.workload import Pod, PodToleration
from claimsmith.schedule.extended import (
    ExtendedPlan,
    Served,
    find_claim_reasons,
    find_extended_names,
    find_served,
    plan_served,
)
from claimsmith.schedule.filter import MatchesNode, NodeFilter, find_claim_obstacle
from claimsmith.schedule.score import Placement, rate_node
from claimsmith.schedule.usage import UsageIndex, plan_requests

__all__ = ["CandidateIndex", "Candidates", "PodNeeds"]

_SHAPES_MAX: Final = 128
_NOTHING: Final = Served()
_Groups = tuple[tuple[ExtendedPlan, Iterable[Node]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What of a pod decides where it can go.

    Args:
        pod: The pod.
        allocated: Its claims that are allocated: it can only run where they can be used.
        special: The special claim that an earlier attempt made; None for none.
        class_names: The class of each extended resource that the pod asks for; None: no class offers it.
    """

    pod: Pod
    allocated: tuple[ResourceClaim, ...] = ()
    special: ResourceClaim | None = None
    class_names: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Pods of one shape get the same answer from every node; their own claims left aside."""

    wanted: tuple[tuple[str, int], ...]
    tolerations: tuple[PodToleration, ...]
    node_selector: tuple[tuple[str, str], ...]
    node_affinity: NodeSelector | None
    class_names: tuple[tuple[str, str | None], ...]


@dataclass(slots=True, eq=False)
class _Verdicts:
    """The nodes that can take pods of one shape, best first.

    Args:
        seen: Number of the last change that is counted in.
        order: (rating, name) of each node that fits, sorted.
        rated: The rating of each node that fits.
        served: Which extended resources devices serve on it; left out when there are none.
        short: Nodes with too little of some amount.
    """

    seen: int = 0
    order: list[tuple[float, str]] = field(default_factory=list)
    rated: dict[str, float] = field(default_factory=dict)
    served: dict[str, Served] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)

    def drop(self, name: str) -> None:
        rating = self.rated.pop(name, None)
        if rating is not None:
            del self.order[bisect_left(self.order, (rating, name))]
        self.served.pop(name, None)
        self.short.discard(name)

    def put(self, name: str, rating: float, served: Served) -> None:
        self.rated[name] = rating
        insort(self.order, (rating, name))
        if served is not _NOTHING:
            self.served[name] = served


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Candidates:
    """The nodes for one pod; valid until the cluster changes.

    Args:
        groups: Nodes that can take the pod, best first, with what its extended resources mean there.
        is_short: Whether some other node has too little of some amount.
    """

    groups: _Groups
    is_short: bool
    _index: CandidateIndex
    _needs: PodNeeds

    def find_refused(self) -> dict[str, tuple[Reason, ...]]:
        """Return why the other nodes can't take the pod; looks at every node."""
        return self._index.explain(self._needs)


class _NodesInOrder:
    """The nodes of a verdict, best first, read when they are asked for."""

    def __init__(self, nodes: Mapping[str, Node], order: Iterable[tuple[float, str]]) -> None:
        self._nodes, self._order = nodes, order

    def __iter__(self) -> Iterator[Node]:
        return (self._nodes[name] for _, name in self._order)


class CandidateIndex:
    """Finds nodes for pods.

    Args:
        nodes: The nodes of the cluster, as they are now: a live view.
        usage: What pods take from them.
        matches: Tells whether a node selector matches a node.
        placement: Which nodes are preferred.
    """

    def __init__(
        self, nodes: Mapping[str, Node], usage: UsageIndex, *, matches: MatchesNode, placement: Placement = "spread"
    ) -> None:
        self._nodes, self._usage, self._matches, self._placement = nodes, usage, matches, placement
        self._changed: OrderedDict[str, int] = OrderedDict()
        self._changes = 0
        self._shapes: OrderedDict[_Shape, _Verdicts] = OrderedDict()
        self.looks = 0
        """How often a node was looked at for some pod."""

    def touch(self, name: str) -> None:
        """Take note that a node has come, changed or gone, or that its pods have."""
        self._changes += 1
        self._changed[name] = self._changes
        self._changed.move_to_end(name)

    def find(self, needs: PodNeeds) -> Candidates:
        """Return the nodes that can take a pod, best first."""
        verdicts = self._follow(needs)
        if not find_extended_names(needs.pod):
            order = verdicts.order if not needs.allocated else self._reachable(verdicts, needs.allocated)
            groups: _Groups = ((ExtendedPlan(), _NodesInOrder(self._nodes, order)),) if order else ()
        else:
            groups = self._group(verdicts, needs)
        return Candidates(groups=groups, is_short=bool(verdicts.short), _index=self, _needs=needs)

    def explain(self, needs: PodNeeds) -> dict[str, tuple[Reason, ...]]:
        """Return why nodes can't take a pod; nodes that can are left out."""
        checks, found = self._checks(needs), {}
        names = find_extended_names(needs.pod)
        plans: dict[Served, ExtendedPlan] = {}
        for node in self._nodes.values():
            reasons: tuple[Reason, ...] = ()
            served = find_served(names, node, needs.class_names) if names else _NOTHING
            if names:
                plan = plans.setdefault(served, plan_served(needs.pod, served, needs.class_names))
                reasons = find_claim_reasons(needs.pod, plan, needs.special, node.name)
            reasons += checks.find_reasons(node, self._usage.find(node), by_claim=served.by_devices)
            if reasons:
                found[node.name] = reasons
        return found

    def _checks(self, needs: PodNeeds, *, with_claims: bool = True) -> NodeFilter:
        pod = replace(needs.pod, node_allocatable=()) if needs.pod.node_allocatable else needs.pod
        claims = needs.allocated if with_claims else ()
        return NodeFilter(pod=pod, wanted=plan_requests(pod), claims=claims, matches=self._matches)

    def _follow(self, needs: PodNeeds) -> _Verdicts:
        """Return the verdicts for the pod's shape, brought up to date."""
        checks = self._checks(needs, with_claims=False)
        shape = _Shape(
            wanted=tuple(sorted(checks.wanted.items())),
            tolerations=needs.pod.tolerations,
            node_selector=tuple(sorted(needs.pod.node_selector.items())),
            node_affinity=needs.pod.node_affinity,
            class_names=tuple(sorted(needs.class_names.items())),
        )
        verdicts = self._shapes.get(shape)
        if verdicts is None:
            verdicts = self._shapes[shape] = _Verdicts()
            if len(self._shapes) > _SHAPES_MAX:
                self._shapes.popitem(last=False)
            names: Iterable[str] = tuple(self._nodes)
        else:
            names = self._changed_since(verdicts.seen)
        self._shapes.move_to_end(shape)
        for name in names:
            self._judge(verdicts, checks, name, needs.class_names)
        verdicts.seen = self._changes
        return verdicts

    def _changed_since(self, change: int) -> tuple[str, ...]:
        changed = []
        for name, number in reversed(self._changed.items()):
            if number <= change:
                break
            changed.append(name)
        return tuple(changed)

    def _judge(self, verdicts: _Verdicts, checks: NodeFilter, name: str, class_names: Mapping[str, str | None]) -> None:
        """Look at one node for one shape."""
        self.looks += 1
        verdicts.drop(name)
        node = self._nodes.get(name)
        if node is None:
            return
        served = find_served(tuple(class_names), node, class_names) if class_names else _NOTHING
        usage = self._usage.find(node)
        reasons = checks.find_reasons(node, usage, by_claim=served.by_devices)
        if any(reason.kind == "resources" for reason in reasons) or served.unknown:
            verdicts.short.add(name)
        if not reasons and not served.unknown:
            verdicts.put(name, rate_node(usage, self._placement), served)

    def _reachable(self, verdicts: _Verdicts, claims: tuple[ResourceClaim, ...]) -> list[tuple[float, str]]:
        """The nodes on which allocated claims can be used; a claim of one node costs one look."""
        order = verdicts.order
        only = next(filter(None, map(_find_only_node, claims)), "")
        if only:
            order = [(verdicts.rated[only], only)] if only in verdicts.rated else []
        return [
            (rating, name)
            for rating, name in order
            if not any(find_claim_obstacle(claim, self._nodes[name], self._matches) for claim in claims)
        ]

    def _group(self, verdicts: _Verdicts, needs: PodNeeds) -> _Groups:
        """The nodes grouped by what devices serve there; groups that a special claim rules out are left out."""
        names: dict[Served, list[tuple[float, str]]] = {}
        for rating, name in self._reachable(verdicts, needs.allocated):
            names.setdefault(verdicts.served.get(name, _NOTHING), []).append((rating, name))
        groups: list[tuple[ExtendedPlan, Iterable[Node]]] = []
        for served, order in names.items():
            plan = plan_served(needs.pod, served, needs.class_names)
            if not find_claim_reasons(needs.pod, plan, needs.special, ""):
                groups.append((plan, _NodesInOrder(self._nodes, order)))
        return tuple(groups)


def _find_only_node(claim: ResourceClaim) -> str:
    """The one node that an allocated claim can be used on; empty when it may be several."""
    selector = claim.allocation.node_selector if claim.allocation is not None else None
    if selector is None or len(selector.terms) != 1 or len(selector.terms[0].match_fields) != 1:
        return ""
    (test,) = selector.terms[0].match_fields
    is_name = test.key == "metadata.name" and test.operator == "In" and len(test.values) == 1
    return test.values[0] if is_name else ""

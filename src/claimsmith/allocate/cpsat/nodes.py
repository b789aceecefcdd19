"""Which nodes the model looks at: of equal ones no more than there are members to go there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Final

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.cpsat.patterns import BatchKind, Patterns

__all__ = ["choose_nodes", "preselect_nodes"]

QUESTIONS_MAX: Final = 40_000
"""Nodes times shapes of requests that are looked into before equal nodes are told apart."""


def preselect_nodes(layout: Layout, parts: Iterable[Part], *, preferred: frozenset[str]) -> frozenset[str] | None:
    """Return the nodes to look at when there are too many to look at all of them; None for all.

    Args:
        preferred: Nodes that are to stay.
    """
    shapes = {request for part in parts for request in part.shapes}
    most = max(1, QUESTIONS_MAX // max(1, len(shapes)))
    if len(layout.nodes) <= most:
        return None
    others = [name for name in layout.nodes if name not in preferred]
    return preferred | frozenset(others[: max(0, most - len(preferred))])


def choose_nodes(
    objective: Objective, parts: Iterable[Part], patterns: Patterns, *, preferred: frozenset[str], most: int
) -> tuple[frozenset[str], int]:
    """Return the nodes that the model needs, and how many others it should have looked at.

    Args:
        preferred: Nodes that are to stay if one of several equal ones is enough.
        most: Nodes that the model may look at.
    """
    describer = _Describer(objective, parts, patterns)
    groups: dict[Hashable, list[str]] = defaultdict(list)
    for name in sorted(describer.open, key=lambda name: name not in preferred):
        groups[describer.describe(name)].append(name)
    needed: list[str] = []
    for names in groups.values():
        needed += names[: describer.count_members(names[0])]
    needed.sort(key=lambda name: name not in preferred)
    return frozenset(needed[:most]), max(0, len(needed) - most)


class _Describer:
    """Tells nodes by all that the members and the objective see of them."""

    def __init__(self, objective: Objective, parts: Iterable[Part], patterns: Patterns) -> None:
        self.objective = objective
        kinds: dict[str, list[BatchKind]] = defaultdict(list)
        for kind in patterns.kinds:
            for node in {node for node, _, _ in kind.answers}:
                kinds[node].append(kind)
        opened: dict[str, list[Part]] = {name: [] for name in objective.layout.nodes}
        for part in parts:
            closed = patterns.closed.get(part.number, frozenset())
            for name in part.nodes:
                if name not in closed and name in opened:
                    opened[name].append(part)
        self.kinds: Mapping[str, list[BatchKind]] = kinds
        self.open: Mapping[str, list[Part]] = {name: its for name, its in opened.items() if its}

    def count_members(self, name: str) -> int:
        """Return how many members may go to a node."""
        return sum(part.count for part in self.open[name] if part.claim is None)

    def describe(self, name: str) -> Hashable:
        """Return what equal nodes have in common."""
        layout = self.objective.layout
        kinds = self.kinds.get(name, [])
        local = Counter(kind.profile for kind in kinds if kind.node)
        shared = frozenset(kind.number for kind in kinds if not kind.node)
        free = None if layout.batch.free is None else layout.batch.free.get(name, {})
        labels = layout.nodes[name].labels
        return (
            tuple(part.number for part in self.open[name]),
            frozenset(local.items()),
            shared,
            self._describe_pools(kinds),
            None if free is None else tuple(sorted(free.items())),
            tuple(labels.get(gang.close_by) for gang, _ in layout.gangs.values() if gang.close_by),
            self._describe_worth(name),
        )

    def _describe_pools(self, kinds: Iterable[BatchKind]) -> Hashable:
        """What is left of the counters of the node's own pools, and the devices that may become lost with them."""
        views = {kind.view: None for kind in kinds if kind.node and kind.first.consumption}
        find_counters, objective = self.objective.layout.cluster.find_counters, self.objective
        found = []
        for view in views:
            counters = find_counters(view)
            left = tuple(sorted(counters.left.items()))
            groups = tuple(sorted((name, tuple(sorted(its or ()))) for name, its in counters.groups.items()))
            partitions = Counter((r.consumption, objective.price(r)) for r in objective.list_partitions(view))
            found.append((left, groups, frozenset(partitions.items())))
        return frozenset(Counter(found).items())

    def _describe_worth(self, name: str) -> Hashable:
        """What the terms of the objective read of the node as such."""
        terms, objective = set(self.objective.policy.terms), self.objective
        used = objective.count_used(name) if terms & {"pack", "spread"} else 0
        return (used, objective.sum_room(name) if "tightness" in terms else 0)

"""Nodes of a group told apart by what a clause compares: a constant that helps on one of them may not on another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from claimsmith.allocate.explain.comparisons import Constant, is_constant
from claimsmith.allocate.explain.finding import Asked, NodeFinding, Variant, open_node
from claimsmith.allocate.prepared.pools import node_reaches
from claimsmith.model.node import Node

__all__ = ["NodeVariants"]


@dataclass(slots=True, eq=False)
class NodeVariants:
    """The nodes of one group, which the claims can't tell apart as they are.

    Equality with a constant may tell every node from all others, so that it is looked at only when it is asked for.
    """

    asked: Asked
    nodes: Sequence[Node]
    _found: dict[str, tuple[Variant, ...]] = field(default_factory=dict)

    def find(self, operand: str) -> tuple[Variant, ...]:
        """Return the nodes in groups that are alike in what an operand comes to as well, the largest first."""
        if operand not in self._found:
            self._found[operand] = tuple(self._build(operand, same) for same in self._sort(operand))
        return self._found[operand]

    def _sort(self, operand: str) -> list[list[Node]]:
        found: dict[object, list[Node]] = {}
        for node in self.nodes:
            view = self.asked.book.cluster.view_node(node)
            found.setdefault(self.asked.profiles.sign_node(node, view, operand), []).append(node)
        return sorted(found.values(), key=lambda same: -len(same))

    def _build(self, operand: str, nodes: list[Node]) -> Variant:
        def reopen() -> NodeFinding:
            return open_node(self.asked, nodes[0])

        values = Counter(self._list_values(operand, nodes[0]))
        counts = {value: count * len(nodes) for value, count in values.items()}
        return Variant(nodes=tuple(node.name for node in nodes), values=counts, reopen=reopen)

    def _list_values(self, operand: str, node: Node) -> Iterator[Constant]:
        for pool in self.asked.book.cluster.view_node(node).pools:
            for record in pool.slices if pool.usable else ():
                slice = record.slice
                for device in slice.devices:
                    if slice.per_device_node_selection and not node_reaches(device, node):
                        continue
                    value = self.asked.profiles.find_value(operand, slice, device)
                    if is_constant(value):
                        yield value

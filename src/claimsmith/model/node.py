"""Nodes, as far as devices need them. Source: Node of core/v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.model.metadata import Metadata
from claimsmith.model.quantity import Quantity
from claimsmith.model.taint import Taint

__all__ = ["Node", "NodeTaint"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTaint(Taint):
    """A taint of a whole node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with the facts that scheduling reads.

    Args:
        allocatable: Amounts by resource name (cpu in cores, memory in bytes, counts).
        ready: The Ready condition; True when the node reports none.
    """

    metadata: Metadata
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    declared_features: frozenset[str] = frozenset()
    ready: bool = True

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the node."""
        return self.metadata.labels

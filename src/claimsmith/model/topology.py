"""Where a device or an allocation may be used: node selectors.

Source: NodeSelector of core/v1; component-helpers scheduling/corev1/nodeaffinity v0.37.2.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NodeSelector", "NodeSelectorRequirement", "NodeSelectorTerm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorRequirement:
    """One test of a node label or field.

    Args:
        key: Label key, or `metadata.name` for a field.
        operator: In, NotIn, Exists, DoesNotExist, Gt or Lt.
        values: Values of the operator; one integer for Gt and Lt, none for Exists and DoesNotExist.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """Requirements that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelector:
    """Terms of which one must hold."""

    terms: tuple[NodeSelectorTerm, ...]

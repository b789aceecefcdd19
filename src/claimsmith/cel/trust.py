"""Whether the types that the checker finds can be trusted: compiled code is made for them."""

from __future__ import annotations

from typing import Final

from claimsmith.cel.ast import Call, Expr, ListExpr, Literal, MapExpr, walk

__all__ = ["hides_types"]

_TAKES_ANY: Final = frozenset({"_==_", "_!=_", "@in", "or", "orValue"})
"""Functions that compare their arguments, or give one of the same type as the value that it stands in for."""


def hides_types(tree: Expr) -> bool:
    """Tell whether something passes for a value of any type, so that a node may be of another type than it is told.

    That is null, and what is taken out of an empty list or map.
    """
    harmless = {
        arg.id for node in walk(tree) if isinstance(node, Call) and node.function in _TAKES_ANY for arg in node.args
    }
    return any(node.id not in harmless and _is_of_any_type(node) for node in walk(tree))


def _is_of_any_type(node: Expr) -> bool:
    if isinstance(node, ListExpr):
        return not node.elements
    if isinstance(node, MapExpr):
        return not node.entries
    return isinstance(node, Literal) and node.value is None

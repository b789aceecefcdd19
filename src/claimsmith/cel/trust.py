"""Whether the types that the checker finds can be trusted: compiled code is made for them."""

from __future__ import annotations

from typing import Final

from claimsmith.cel.ast import Call, Comprehension, Expr, ListExpr, Literal, MapExpr, Select, walk
from claimsmith.cel.environment import CelEnvironment

__all__ = ["hides_types", "is_bool_for_sure"]

_QUANTIFIERS: Final = frozenset({"all", "exists", "exists_one"})
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


def is_bool_for_sure(expr: Expr, environment: CelEnvironment) -> bool:
    """Tell whether a node gives a bool or fails, whatever types its parts turn out to have."""
    if isinstance(expr, Literal):
        return isinstance(expr.value, bool)
    if isinstance(expr, Select):
        return expr.test_only
    if isinstance(expr, Comprehension):
        return expr.macro in _QUANTIFIERS
    if not isinstance(expr, Call):
        return False
    function = environment.functions().get(expr.function)
    return function is not None and all(overload.result.kind == "bool" for overload in function.overloads)


def _is_of_any_type(node: Expr) -> bool:
    if isinstance(node, ListExpr):
        return not node.elements
    if isinstance(node, MapExpr):
        return not node.entries
    return isinstance(node, Literal) and node.value is None

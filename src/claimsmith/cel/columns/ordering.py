"""Comparisons of one attribute or capacity with a constant, which need no run of the engine for each value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.cel.ast import Call, Expr, Ident, Literal, Select
from claimsmith.cel.columns.encoding import ORDER_KEYS
from claimsmith.cel.lib_quantity import to_quantity
from claimsmith.cel.lib_semver import to_semver
from claimsmith.cel.reads import DeviceRead, find_reads
from claimsmith.cel.values import Value
from claimsmith.errors import CelFault

_SIGNS: Final[dict[str, frozenset[int]]] = {
    "_==_": frozenset({0}),
    "_!=_": frozenset({-1, 1}),
    "_<_": frozenset({-1}),
    "_<=_": frozenset({-1, 0}),
    "_>_": frozenset({1}),
    "_>=_": frozenset({0, 1}),
}
_METHOD_SIGNS: Final = {"isLessThan": frozenset({-1}), "isGreaterThan": frozenset({1})}
_CONSTRUCTORS: Final[dict[str, Callable[[str], Value]]] = {"quantity": to_quantity, "semver": to_semver}
_BY_OPERATOR: Final = frozenset({int, str})


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTest:
    """A comparison that holds for values of one type by how they relate to a constant.

    Values of other types are not judged by it: they may fail, or be equal by other rules.

    Args:
        read: What is compared.
        kind: Exact type of the values that it judges.
        constant: Order key of the constant.
        signs: For which of -1 (less), 0 (equal) and 1 (greater) it is true.
    """

    read: DeviceRead
    kind: type
    constant: Any
    signs: frozenset[int]


def find_order_test(expr: Expr) -> OrderTest | None:
    """Return what a node compares; None when it is no comparison of one value with a constant."""
    if not isinstance(expr, Call):
        return None
    if expr.function in _METHOD_SIGNS and expr.target is not None and len(expr.args) == 1:
        return _make_test(expr.target, expr.args[0], _METHOD_SIGNS[expr.function], by_method=True)
    if expr.function not in _SIGNS:
        return None
    left, right = expr.args
    signs = _SIGNS[expr.function]
    if _find_constant(left) is not None:
        left, right, signs = right, left, frozenset(-sign for sign in signs)
    if _is_zero(right) and isinstance(left, Call) and left.function == "compareTo" and left.target is not None:
        return _make_test(left.target, left.args[0], signs, by_method=True)
    return _make_test(left, right, signs, by_method=False)


def _make_test(value: Expr, other: Expr, signs: frozenset[int], *, by_method: bool) -> OrderTest | None:
    constant = _find_constant(other)
    kind = type(constant)
    if constant is None or not _is_plain_read(value) or (kind in _BY_OPERATOR) is by_method:
        return None
    if not by_method and kind not in _BY_OPERATOR:
        return None
    (read,) = find_reads(value)
    return OrderTest(read=read, kind=kind, constant=ORDER_KEYS[kind](constant), signs=signs)


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Literal) and type(expr.value) is int and expr.value == 0


def _find_constant(expr: Expr) -> Value:
    """Return the value of a constant that has an order; None for other nodes."""
    if isinstance(expr, Literal):
        return expr.value if type(expr.value) in _BY_OPERATOR else None
    if isinstance(expr, Call) and expr.function in _CONSTRUCTORS and len(expr.args) == 1:
        text = expr.args[0]
        if isinstance(text, Literal) and type(text.value) is str:
            try:
                return _CONSTRUCTORS[expr.function](text.value)
            except CelFault:
                return None
    return None


def _is_plain_read(expr: Expr) -> bool:
    """Tell whether a node is `device.driver`, or one attribute or capacity by constant names."""
    names: list[str] = []
    while not isinstance(expr, Ident):
        if isinstance(expr, Select) and not expr.test_only:
            names.append(expr.field)
            expr = expr.operand
        elif isinstance(expr, Call) and expr.function == "_[_]" and isinstance(expr.args[1], Literal):
            if type(expr.args[1].value) is not str:
                return False
            names.append(expr.args[1].value)
            expr = expr.args[0]
        else:
            return False
    if expr.name.removeprefix(".") != "device":
        return False
    return names == ["driver"] or (len(names) == 3 and names[-1] in ("attributes", "capacity"))

"""Clauses that compare something of a device with a constant, and the constants near by with which it would be true."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from claimsmith.allocate.explain.nearness import is_near, rank_text
from claimsmith.cel import CelDevice, CelEnvironment, compile_expression
from claimsmith.cel.ast import Call, Expr, Literal
from claimsmith.errors import CelDeviceError, CelRuntimeError
from claimsmith.model.quantity import Quantity, find_quantity
from claimsmith.model.semver import Semver, find_semver

__all__ = ["Comparison", "Constant", "find_comparison", "is_constant"]

Constant = int | str | bool | Quantity | Semver
"""A value that a clause can compare with."""

_OPERATORS: Final = {"_>_": ">", "_>=_": ">=", "_<_": "<", "_<=_": "<=", "_==_": "=="}
_FLIPPED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">=", "==": "=="}
_METHODS: Final = {"isGreaterThan": ">", "isLessThan": "<"}
CANDIDATES_MAX: Final = 16
"""Values that are tried at most."""
VALUES_MAX: Final = 512
"""Values of which the nearest are looked for at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`operand operator constant`.

    Args:
        operand: The text of what is compared.
        operator: One of > >= < <= ==.
    """

    operand: str
    operator: str
    constant: Constant

    def count_values(self, devices: Iterable[CelDevice], environment: CelEnvironment) -> dict[Constant, int]:
        """Return what the operand comes to for devices, and for how many; those for which it fails are left out."""
        program = compile_expression(self.operand, environment=environment, purpose="part")
        counts: dict[Constant, int] = {}
        for device in devices:
            try:
                value = program.evaluate_value(device)
            except (CelRuntimeError, CelDeviceError):
                continue
            if is_constant(value):
                counts[value] = counts.get(value, 0) + 1
        return counts

    def find_nearest(self, counts: Mapping[Constant, int]) -> tuple[Constant, ...]:
        """Return the values of devices that the comparison excludes, the nearest to its constant first.

        Of an order, only those on its far side are of use; of equally near texts, the more frequent come first. Of very
        many values the most frequent ones are looked at.

        Args:
            counts: How many devices have each value.
        """
        known = sorted(counts, key=lambda value: -counts[value])
        found = [value for value in known if type(value) is type(self.constant) and not self._holds(value)][:VALUES_MAX]
        if isinstance(self.constant, int | Quantity) and not isinstance(self.constant, bool):
            found.sort(key=self._distance)
        elif isinstance(self.constant, Semver):
            found.sort(key=lambda value: value, reverse=self.operator in (">", ">="))
        else:
            wanted = str(self.constant)
            found.sort(key=lambda value: (rank_text(wanted, str(value)), -counts[value], str(value)))
        return tuple(found[:CANDIDATES_MAX])

    def is_near(self, value: Constant) -> bool:
        """Tell whether a value is more or less of the same, rather than another thing."""
        if isinstance(value, str):
            return is_near(str(self.constant), value)
        return not isinstance(value, bool)

    def relax_to(self, value: Constant) -> str:
        """Return the clause that also accepts a value, and everything between it and the constant."""
        operator = {">": ">=", "<": "<="}.get(self.operator, self.operator)
        if isinstance(value, Quantity):
            return f'{self.operand}.compareTo(quantity("{value}")) {operator} 0'
        if isinstance(value, Semver):
            return f'{self.operand}.compareTo(semver("{value}")) {operator} 0'
        return f"{self.operand} {operator} {json.dumps(value, ensure_ascii=False)}"

    def describe(self, value: Constant) -> str:
        """Return the condition on the operand in short: `>= 24Gi`."""
        operator = {">": ">=", "<": "<="}.get(self.operator, self.operator)
        return f"{operator} {json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else value}"

    def _distance(self, value: Constant) -> int:
        return abs(_number(value) - _number(self.constant))

    def _holds(self, value: Constant) -> bool:
        if self.operator == "==" or isinstance(value, str | bool):
            return value == self.constant
        left, right = (value, self.constant) if self.operator in (">", ">=") else (self.constant, value)
        if self.operator in (">", "<"):
            return bool(left > right)  # type: ignore[operator]
        return bool(left >= right)  # type: ignore[operator]


def _number(value: Constant) -> int:
    return value.nanos if isinstance(value, Quantity) else int(value) if isinstance(value, int) else 0


def is_constant(value: object) -> TypeGuard[Constant]:
    """Tell whether a clause can compare with a value."""
    return isinstance(value, int | str | bool | Quantity | Semver)


def find_comparison(clause: str, environment: CelEnvironment) -> Comparison | None:
    """Return the comparison that a clause is; None when it is something else."""
    tree = compile_expression(clause, environment=environment, purpose="part").checked.tree
    if not isinstance(tree, Call):
        return None
    if tree.function in _METHODS and tree.target is not None and len(tree.args) == 1:
        return _compare(clause, tree.target, _METHODS[tree.function], tree.args[0])
    operator = _OPERATORS.get(tree.function)
    if operator is None:
        return None
    left, right = tree.args
    if isinstance(left, Literal):
        left, right, operator = right, left, _FLIPPED[operator]
    if isinstance(left, Call) and left.function == "compareTo" and left.target is not None:
        is_zero = isinstance(right, Literal) and type(right.value) is int and right.value == 0
        return _compare(clause, left.target, operator, left.args[0]) if is_zero else None
    return _compare(clause, left, operator, right)


def _compare(clause: str, operand: Expr, operator: str, right: Expr) -> Comparison | None:
    constant = _read_constant(right)
    if constant is None or _read_constant(operand) is not None:
        return None
    if isinstance(constant, str | bool) and operator != "==":
        return None
    text = clause[operand.start : operand.end]
    if isinstance(operand, Call) and operand.target is None and operand.function != "_[_]":
        text = f"({text})" if operand.function.startswith(("_", "!", "-")) else text
    return Comparison(operand=text, operator=operator, constant=constant)


def _read_constant(expr: Expr) -> Constant | None:
    """Return the constant that an expression is: a literal, or a quantity or version made from one."""
    if isinstance(expr, Literal):
        return expr.value if isinstance(expr.value, str) or type(expr.value) in (int, bool) else None
    if isinstance(expr, Call) and expr.target is None and len(expr.args) == 1 and isinstance(expr.args[0], Literal):
        text = expr.args[0].value
        if isinstance(text, str) and expr.function == "quantity":
            return find_quantity(text)
        if isinstance(text, str) and expr.function == "semver":
            return find_semver(text)
    return None

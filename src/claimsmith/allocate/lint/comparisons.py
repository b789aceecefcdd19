"""Comparisons of an attribute or capacity with constants, and how each would be written for another type."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from claimsmith.allocate.lint.amounts import guess_quantity
from claimsmith.allocate.lint.paths import Edit, PathUse, quote
from claimsmith.allocate.lint.published import Name
from claimsmith.cel.ast import Call, Expr, ListExpr, walk
from claimsmith.cel.ast import Literal as Constant
from claimsmith.model.quantity import Quantity, find_quantity
from claimsmith.model.semver import find_semver

__all__ = [
    "Comparison",
    "find_bad_quantities",
    "find_comparisons",
    "plan_quantity",
    "plan_retyped",
    "plan_version",
]

_OPERATORS: Final = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBERS: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(.*)")

ConstantType = Literal["int", "bool", "string"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison.

    Args:
        node: The whole comparison.
        operator: As if the attribute stood on the left; `in` for a list of constants on the right.
        constants: What it is compared with.
    """

    use: PathUse
    node: Expr
    operator: str
    constants: tuple[Constant, ...]

    @property
    def types(self) -> frozenset[str]:
        """Types of the constants: int, bool, string, or another one's name."""
        return frozenset(type_of(constant) for constant in self.constants)


def find_comparisons(tree: Expr, uses: tuple[PathUse, ...]) -> Iterator[Comparison]:
    """Yield the comparisons of an expression that have an attribute or capacity on one side, constants on the other."""
    by_node = {use.node.id: use for use in uses if not _is_test(use)}
    for node in walk(tree):
        if not isinstance(node, Call) or len(node.args) != 2:
            continue
        left, right = node.args
        if node.function == "@in" and isinstance(right, ListExpr) and left.id in by_node:
            constants = tuple(item for item in right.elements if isinstance(item, Constant))
            if constants and len(constants) == len(right.elements):
                yield Comparison(use=by_node[left.id], node=node, operator="in", constants=constants)
        operator = _OPERATORS.get(node.function, "")
        if operator and left.id in by_node and isinstance(right, Constant):
            yield Comparison(use=by_node[left.id], node=node, operator=operator, constants=(right,))
        elif operator and right.id in by_node and isinstance(left, Constant):
            yield Comparison(use=by_node[right.id], node=node, operator=_MIRRORED[operator], constants=(left,))


def type_of(constant: Constant) -> str:
    """Return the type of a constant as attributes name it."""
    names: dict[type, str] = {bool: "bool", int: "int", str: "string"}
    return names.get(type(constant.value), type(constant.value).__name__)


def plan_retyped(comparison: Comparison, kind: str) -> tuple[Edit, ...]:
    """Return the edits that give the constants the type of the attribute; none when they can't have it."""
    edits = [_retype(constant, kind) for constant in comparison.constants]
    return tuple(edit for edit in edits if edit is not None) if all(edits) else ()


def plan_version(comparison: Comparison, text: str, *, is_string: bool) -> tuple[Edit, ...]:
    """Return the edit that compares versions by their precedence; none when a constant is no version.

    Args:
        is_string: The attribute is a string that holds a version.
    """
    path = text[comparison.use.node.start : comparison.use.node.end]
    value = f"semver({path}, true)" if is_string else path
    parts = []
    for constant in comparison.constants:
        version = complete_version(str(constant.value))
        if version is None:
            return ()
        operator = "==" if comparison.operator == "in" else comparison.operator
        parts.append(f"{value}.compareTo(semver({quote(version)})) {operator} 0")
    joined = " || ".join(parts)
    guarded = f"isSemver({path}, true) && {joined}" if is_string else joined
    is_compound = len(parts) > 1 or is_string
    return (Edit(comparison.node.start, comparison.node.end, f"({guarded})" if is_compound else guarded),)


def plan_quantity(comparison: Comparison, text: str, published: Collection[Quantity]) -> tuple[Edit, ...]:
    """Return the edit that compares a capacity with a quantity; none when the constant is no quantity.

    Args:
        comparison: The comparison.
        text: The expression.
        published: The amounts of the capacity that devices have.
    """
    path = text[comparison.use.node.start : comparison.use.node.end]
    parts = []
    for constant in comparison.constants:
        is_plain = type_of(constant) in ("int", "string")
        amount = guess_quantity(str(constant.value), published) if is_plain else ""
        if not amount:
            return ()
        operator = "==" if comparison.operator == "in" else comparison.operator
        parts.append(f"{path}.compareTo(quantity({quote(amount)})) {operator} 0")
    joined = " || ".join(parts)
    return (Edit(comparison.node.start, comparison.node.end, f"({joined})" if len(parts) > 1 else joined),)


def find_bad_quantities(tree: Expr, uses: Sequence[PathUse]) -> Iterator[tuple[Constant, Name | None]]:
    """Yield the texts in `quantity(…)` that are none, each with the capacity that is compared with it, if it is one."""
    calls = [node for node in walk(tree) if isinstance(node, Call)]
    for node in calls:
        if node.function != "quantity" or len(node.args) != 1 or not isinstance(node.args[0], Constant):
            continue
        constant = node.args[0]
        if not isinstance(constant.value, str) or find_quantity(constant.value) is not None:
            continue
        around = [call for call in calls if call.start <= node.start and node.end <= call.end and call is not node]
        names = [_list_inside(call, uses) for call in sorted(around, key=lambda call: call.end - call.start)]
        nearest = next((found for found in names if found), set())
        yield constant, nearest.pop() if len(nearest) == 1 else None


def _list_inside(call: Call, uses: Sequence[PathUse]) -> set[Name]:
    return {
        use.name
        for use in uses
        if use.name.field == "capacity" and call.start <= use.node.start and use.node.end <= call.end
    }


def complete_version(text: str) -> str | None:
    """Return a version with all three numbers, without leading zeros; None when the text begins with no number."""
    found = _NUMBERS.fullmatch(text)
    if found is None:
        return None
    numbers = ".".join(str(int(part or "0")) for part in found.groups()[:3])
    version = f"{numbers}{found.group(4)}"
    return version if find_semver(version) is not None else None


def _retype(constant: Constant, kind: str) -> Edit | None:
    value = constant.value
    text: str | None = None
    if kind == "string" and not isinstance(value, str):
        text = quote(str(value).lower() if isinstance(value, bool) else str(value))
    elif kind == "int" and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        text = str(int(value))
    elif kind == "bool" and isinstance(value, str) and value.lower() in ("true", "false"):
        text = value.lower()
    return None if text is None else Edit(constant.start, constant.end, text)


def _is_test(use: PathUse) -> bool:
    """Whether the node gives a bool, not the value: has() and `in`."""
    node = use.node
    return getattr(node, "test_only", False) or (isinstance(node, Call) and node.function == "@in")

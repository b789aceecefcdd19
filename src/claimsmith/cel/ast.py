"""The syntax tree of an expression, after macros are expanded.

Every node has an identity (`id`), unique in its tree, that types, references and costs are kept by; `offset`
points at the character that an error names; `start` and `end` are the span of its source text.

Source: common/ast in cel-go v0.29.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from claimsmith.cel.values import Value

MAX_DEPTH: Final = 250
"""Deepest tree that a macro copies."""

MAX_NODES: Final = 20_000
"""Most nodes of a tree; macros that copy their target could make more of a short text."""


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """What all nodes have; not used by itself.

    Args:
        id: Identity, unique in the tree.
        offset: Character that errors name, from the start of the text.
        start, end: Span of the source text; equal when the node has none.
    """

    id: int
    offset: int
    start: int
    end: int


@dataclass(slots=True, kw_only=True, eq=False)
class Literal(Node):
    """A constant: bool, int, uint, double, string, bytes or null."""

    value: Value


@dataclass(slots=True, kw_only=True, eq=False)
class Ident(Node):
    """A variable or a type, by name."""

    name: str


@dataclass(slots=True, kw_only=True, eq=False)
class Select(Node):
    """`operand.field`, or the presence test `has(operand.field)`."""

    operand: Expr
    field: str
    test_only: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Call(Node):
    """A function, method or operator with its arguments."""

    function: str
    args: list[Expr]
    target: Expr | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class ListExpr(Node):
    """`[a, ?b]`; `optional` holds the indexes of the elements with `?`."""

    elements: list[Expr]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, kw_only=True, eq=False)
class MapEntry:
    """`key: value`, or `?key: optional`."""

    key: Expr
    value: Expr
    optional: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class MapExpr(Node):
    """`{key: value}`."""

    entries: list[MapEntry]


@dataclass(slots=True, kw_only=True, eq=False)
class StructExpr(Node):
    """`type.name{field: value}`."""

    type_name: str
    fields: list[tuple[str, Expr]]


@dataclass(slots=True, kw_only=True, eq=False)
class Comprehension(Node):
    """A loop over a list or map that folds its elements; what all macros except has() become.

    Args:
        macro: The macro that it comes from: all, exists, exists_one, map, filter, transform_map, bind, ….
        variable, variable2: Element (or index or key), and the element of two-variable macros, empty if none.
    """

    macro: str
    range: Expr
    variable: str
    variable2: str = ""
    accumulator: str
    initial: Expr
    condition: Expr
    step: Expr
    result: Expr


Expr = Literal | Ident | Select | Call | ListExpr | MapExpr | StructExpr | Comprehension


@dataclass(slots=True, kw_only=True)
class IdSource:
    """Gives out node identities of one tree."""

    last: int = field(default=0)

    def next(self) -> int:
        """Return an identity that was not given out before."""
        self.last += 1
        return self.last


def children(expr: Expr) -> list[Expr]:
    """Return the nodes directly below a node, in the order of the text."""
    if isinstance(expr, Select):
        return [expr.operand]
    if isinstance(expr, Call):
        return [*([expr.target] if expr.target is not None else ()), *expr.args]
    if isinstance(expr, ListExpr):
        return list(expr.elements)
    if isinstance(expr, MapExpr):
        return [part for entry in expr.entries for part in (entry.key, entry.value)]
    if isinstance(expr, StructExpr):
        return [value for _, value in expr.fields]
    if isinstance(expr, Comprehension):
        return [expr.range, expr.initial, expr.condition, expr.step, expr.result]
    return []


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield a node and all nodes below it, parents first, without recursion."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def count_nodes(expr: Expr) -> int:
    """Return how many nodes a tree has, itself included."""
    return sum(1 for _ in walk(expr))


def find_deeper_than(expr: Expr, depth: int) -> Expr | None:
    """Return a node that lies deeper in the tree than allowed; None when there is none."""
    pending = [(expr, 1)]
    while pending:
        node, level = pending.pop()
        if level > depth:
            return node
        pending.extend((child, level + 1) for child in children(node))
    return None

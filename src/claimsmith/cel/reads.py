"""Which parts of a device an expression reads: for indexes, and for explanations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from claimsmith.cel.ast import Call, Comprehension, Expr, Ident, Select, children
from claimsmith.cel.ast import Literal as Constant

DeviceField = Literal["driver", "allowMultipleAllocations", "attributes", "capacity", "device"]
"""A field of the variable `device`; `device` for the variable as a whole."""


class DeviceRead(NamedTuple):
    """One thing that an expression reads.

    Args:
        field: Which field of `device`.
        domain: Domain of the attribute or capacity; None when it is computed, or all are read.
        id: Its id in the domain; None when it is computed, or all are read.
    """

    field: DeviceField
    domain: str | None = None
    id: str | None = None


_FIELDS: Final[dict[str, DeviceField]] = {
    "driver": "driver",
    "allowMultipleAllocations": "allowMultipleAllocations",
    "attributes": "attributes",
    "capacity": "capacity",
}
_INDEXING: Final = frozenset({"_[_]", "_[?_]", "_?._"})
_Path = tuple[str | None, ...]


def find_reads(tree: Expr) -> frozenset[DeviceRead]:
    """Return what a tree reads of a device."""
    finder = _Finder()
    finder.visit(tree)
    return frozenset(finder.reads)


@dataclass(slots=True, kw_only=True)
class _Finder:
    """One run over one tree.

    Args:
        variables: Paths from `device` that bound names stand for, innermost last; None for other values.
    """

    reads: set[DeviceRead] = field(default_factory=set)
    variables: dict[str, list[_Path | None]] = field(default_factory=dict)

    def visit(self, expr: Expr) -> None:
        """Collect the reads of a node and of all below it."""
        path = self.path_of(expr)
        if path is not None:
            self.record(path)
            self.visit_keys(expr)
        elif isinstance(expr, Comprehension):
            self.visit_loop(expr)
        elif isinstance(expr, Call) and expr.function == "@in" and self.path_of(expr.args[1]) is not None:
            self.visit_membership(expr)
        else:
            for child in children(expr):
                self.visit(child)

    def path_of(self, expr: Expr) -> _Path | None:
        """Return the fields and keys from `device` to a node; None when it doesn't come from there."""
        if isinstance(expr, Ident):
            bound = self.variables.get(expr.name)
            if bound:
                return bound[-1]
            return () if expr.name.removeprefix(".") == "device" else None
        if isinstance(expr, Select):
            inner = self.path_of(expr.operand)
            return None if inner is None else (*inner, expr.field)
        if isinstance(expr, Call) and expr.function in _INDEXING:
            inner = self.path_of(expr.args[0])
            return None if inner is None else (*inner, _constant_text(expr.args[1]))
        return None

    def record(self, path: _Path) -> None:
        """Add what a path reads."""
        if not path or path[0] is None:
            self.reads.add(DeviceRead("device"))
            return
        name = _FIELDS.get(path[0], "device")
        domain = path[1] if len(path) > 1 else None
        key = path[2] if len(path) > 2 else None
        self.reads.add(DeviceRead(name, domain, key))

    def visit_keys(self, expr: Expr) -> None:
        """Collect the reads of the indexes along a path."""
        while isinstance(expr, Select | Call):
            if isinstance(expr, Select):
                expr = expr.operand
                continue
            if not isinstance(expr.args[1], Constant):
                self.visit(expr.args[1])
            expr = expr.args[0]

    def visit_membership(self, expr: Call) -> None:
        """`"id" in device.attributes["domain"]` reads that id."""
        path = self.path_of(expr.args[1])
        if path is not None:
            self.record((*path, _constant_text(expr.args[0])))
            self.visit_keys(expr.args[1])
        self.visit(expr.args[0])

    def visit_loop(self, expr: Comprehension) -> None:
        """Collect the reads of a loop; a name bound to a part of the device stands for its path."""
        self.visit_unless_empty(expr)
        bound = self.path_of(expr.initial) if expr.macro == "bind" else None
        if bound is None:
            self.visit(expr.initial)
        else:
            self.visit_keys(expr.initial)
        names = [expr.variable, expr.variable2] if expr.variable2 else [expr.variable]
        for name in names:
            self.variables.setdefault(name, []).append(None)
        self.variables.setdefault(expr.accumulator, []).append(bound)
        if expr.macro != "bind":
            self.visit(expr.condition)
            self.visit(expr.step)
        self.visit(expr.result)
        for name in (*names, expr.accumulator):
            self.variables[name].pop()

    def visit_unless_empty(self, expr: Comprehension) -> None:
        """Collect the reads of the range of a loop."""
        if expr.macro != "bind":
            self.visit(expr.range)


def _constant_text(expr: Expr) -> str | None:
    return expr.value if isinstance(expr, Constant) and type(expr.value) is str else None

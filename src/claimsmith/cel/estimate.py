"""The worst-case cost of an expression on any device that the API allows.

Source: checker/cost.go in cel-go v0.29.2, with presence tests free as Kubernetes sets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from claimsmith.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from claimsmith.cel.checker import CheckedExpression
from claimsmith.cel.estimate_calls import Estimate, Part, estimate_call
from claimsmith.cel.macros import ACCUMULATOR
from claimsmith.cel.meter import LIST_COST, MAP_COST, REGEX_FACTOR, STRING_FACTOR
from claimsmith.cel.ranges import ONE, UINT64_MAX, UNKNOWN, ZERO, Range, find_size, fixed
from claimsmith.cel.types import CelType

_EMPTY: Final = Range(UINT64_MAX, 0)
_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_SMALLER_SIDE: Final = frozenset(
    {"less_string", "greater_string", "less_equals_string", "greater_equals_string", "less_bytes", "greater_bytes",
     "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals"}
)  # fmt: skip


def estimate_cost(checked: CheckedExpression) -> int:
    """Return the largest cost that an evaluation can have, in upstream's units; 2^64 - 1 when it has no bound."""
    return _Estimator(checked=checked).cost(checked.tree).max


class _EntrySize(NamedTuple):
    """Sizes of the entries of a container: its kind, its keys or indexes, its values."""

    kind: str
    key: Range
    value: Range

    def union(self, other: _EntrySize | None) -> _EntrySize | None:
        """Return sizes that cover both; None when nothing is known about one."""
        if other is None:
            return None
        return _EntrySize(self.kind, self.key.union(other.key), self.value.union(other.value))


@dataclass(slots=True, kw_only=True)
class _Variable:
    """What is known about a variable of a loop."""

    path: tuple[str, ...]
    size: Range | None
    entry_size: _EntrySize | None = None


@dataclass(slots=True, kw_only=True)
class _Estimator:
    """One run over one tree."""

    checked: CheckedExpression
    paths: dict[int, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[int, Range] = field(default_factory=dict)
    entry_sizes: dict[int, _EntrySize] = field(default_factory=dict)
    variables: dict[str, list[_Variable]] = field(default_factory=dict)

    def cost(self, expr: Expr) -> Range:
        """Return the cost of a node with all below it."""
        if isinstance(expr, Ident):
            return self.cost_ident(expr)
        if isinstance(expr, Select):
            return self.cost_select(expr)
        if isinstance(expr, Call):
            return self.cost_call(expr)
        if isinstance(expr, ListExpr):
            return self.cost_list(expr)
        if isinstance(expr, MapExpr):
            return self.cost_map(expr)
        if isinstance(expr, Comprehension):
            return self.cost_bind(expr) if self.is_bind(expr) else self.cost_loop(expr)
        return ZERO

    # --- what is known --------------------------------------------------------------------------------------------

    def type_of(self, expr: Expr) -> CelType:
        """Return the type of a node."""
        return self.checked.types[expr.id]

    def find_variable(self, name: str) -> _Variable | None:
        """Return the innermost variable of a name; None when it is no loop variable."""
        found = self.variables.get(name)
        return found[-1] if found else None

    def path_of(self, expr: Expr) -> tuple[str, ...]:
        """Return where a node's value comes from."""
        if isinstance(expr, Ident):
            variable = self.find_variable(expr.name)
            if variable is not None:
                return variable.path
        return self.paths.get(expr.id, ())

    def size_of(self, expr: Expr) -> Range | None:
        """Return the size of a node's value; None when it is not known."""
        known = self.sizes.get(expr.id) or _literal_size(expr)
        if known is not None:
            return known
        by_path = find_size(self.path_of(expr))
        if by_path is not None:
            self.sizes[expr.id] = by_path
            return by_path
        if _is_scalar(self.type_of(expr)):
            return ONE
        variable = self.find_variable(expr.name) if isinstance(expr, Ident) else None
        return variable.size if variable else None

    def entry_size_of(self, expr: Expr) -> _EntrySize | None:
        """Return the sizes of the entries of a node's value; None when they are not known."""
        known = self.entry_sizes.get(expr.id)
        if known is None and isinstance(expr, Ident):
            variable = self.find_variable(expr.name)
            known = variable.entry_size if variable else None
        return known

    def set_size(self, expr: Expr, size: Range | None) -> None:
        """Remember the size of a node's value."""
        if size is not None:
            self.sizes[expr.id] = size

    def set_entry_size(self, expr: Expr, size: _EntrySize | None) -> None:
        """Remember the sizes of the entries of a node's value."""
        if size is not None:
            self.entry_sizes[expr.id] = size

    def part(self, expr: Expr) -> Part:
        """Return a node as the estimate of a call sees it."""
        path = self.path_of(expr)
        if path and path[0] in (ACCUMULATOR, "__result__"):
            path = ()
        return Part(expr=expr, a_type=self.type_of(expr), size=self.size_of(expr), path=path)

    # --- names and calls ------------------------------------------------------------------------------------------

    def cost_ident(self, expr: Ident) -> Range:
        """A variable or a type."""
        variable = self.find_variable(expr.name)
        self.paths[expr.id] = variable.path if variable else (expr.name,)
        return ONE

    def cost_select(self, expr: Select) -> Range:
        """A field; has() costs nothing beyond its operand."""
        total = self.cost(expr.operand)
        if expr.test_only:
            return total
        if self.type_of(expr.operand).kind in ("map", "struct", "param"):
            total = total.plus(ONE)
        self.paths[expr.id] = (*self.path_of(expr.operand), expr.field)
        return total

    def cost_call(self, expr: Call) -> Range:
        """A function, method or operator."""
        if expr.function == "dyn":
            total = self.cost(expr.args[0]).plus(ONE)
            self.set_size(expr, self.size_of(expr.args[0]))
            self.set_entry_size(expr, self.entry_size_of(expr.args[0]))
            return total
        costs, parts = [], []
        for arg in expr.args:
            costs.append(self.cost(arg))
            parts.append(self.part(arg))
        total, target = ZERO, None
        if expr.target is not None:
            total = self.cost(expr.target)
            target = self.part(expr.target)
        found, size = _EMPTY, None
        for overload_id in self.checked.overloads.get(expr.id, ()):
            estimate = self.cost_overload(expr, overload_id, target, parts, costs)
            found = found.union(estimate.cost)
            size = self.result_size(expr, overload_id, size, estimate)
        self.set_size(expr, size)
        return total.plus(found)

    def result_size(self, expr: Call, overload_id: str, size: Range | None, estimate: Estimate) -> Range | None:
        """Return the size of a call's result after one more overload."""
        if estimate.size is not None:
            size = estimate.size if size is None else size.union(estimate.size)
        if overload_id in ("index_list", "index_map") and expr.args:
            entry = self.entry_size_of(expr.args[0])
            size = entry.value if entry else None
            step = "@items" if overload_id == "index_list" else "@values"
            self.paths[expr.id] = (*self.path_of(expr.args[0]), step)
        return self.size_of(expr) if size is None else size

    def cost_overload(
        self, expr: Call, overload_id: str, target: Part | None, parts: list[Part], costs: list[Range]
    ) -> Estimate:
        """Return the cost of one overload, arguments included."""
        arguments = ZERO
        for cost in costs:
            arguments = arguments.plus(cost)
        known = estimate_call(expr.function, overload_id, target, parts)
        if known is not None:
            return Estimate(known.cost.plus(arguments), known.size)
        if overload_id in ("logical_or", "logical_and"):
            return Estimate(Range(costs[0].min, costs[0].plus(costs[1]).max))
        if overload_id == "conditional":
            return self.cost_conditional(expr, parts, costs)
        if overload_id in ("add_string", "add_bytes", "add_list") and len(parts) == 2:
            known = self.cost_concatenation(expr, overload_id, parts)
        else:
            known = _standard_cost(overload_id, target, parts)
        return Estimate(known.cost.plus(arguments), known.size)

    def cost_conditional(self, expr: Call, parts: list[Part], costs: list[Range]) -> Estimate:
        """`condition ? one : other`."""
        one, other = self.entry_size_of(parts[1].expr), self.entry_size_of(parts[2].expr)
        self.set_entry_size(expr, one.union(other) if one else None)
        size = parts[1].own_size().union(parts[2].own_size())
        return Estimate(costs[0].plus(costs[1].union(costs[2])), size)

    def cost_concatenation(self, expr: Call, overload_id: str, parts: list[Part]) -> Estimate:
        """`left + right` of strings, bytes or lists."""
        size = parts[0].own_size().plus(parts[1].own_size())
        left, right = self.entry_size_of(parts[0].expr), self.entry_size_of(parts[1].expr)
        self.set_entry_size(expr, left.union(right) if left else None)
        return Estimate(ONE if overload_id == "add_list" else size.scaled(STRING_FACTOR), size)

    # --- containers and loops -------------------------------------------------------------------------------------

    def cost_list(self, expr: ListExpr) -> Range:
        """`[a, b]`."""
        total, items = ZERO, ZERO if not expr.elements else _EMPTY
        for element in expr.elements:
            total = total.plus(self.cost(element))
            items = items.union(self.size_of(element) or UNKNOWN)
        self.set_entry_size(expr, _EntrySize("list", ONE, items))
        return total.plus(fixed(LIST_COST))

    def cost_map(self, expr: MapExpr) -> Range:
        """`{key: value}`."""
        total = ZERO
        keys = values = ZERO if not expr.entries else _EMPTY
        for entry in expr.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            keys = keys.union(self.size_of(entry.key) or UNKNOWN)
            values = values.union(self.size_of(entry.value) or UNKNOWN)
        self.set_entry_size(expr, _EntrySize("map", keys, values))
        return total.plus(fixed(MAP_COST))

    @staticmethod
    def is_bind(expr: Comprehension) -> bool:
        """Tell whether a loop only names a value."""
        return (
            isinstance(expr.range, ListExpr)
            and not expr.range.elements
            and isinstance(expr.condition, Literal)
            and expr.condition.value is False
        )

    def cost_bind(self, expr: Comprehension) -> Range:
        """cel.bind() and what expands to it."""
        total = self.cost(expr.range).plus(self.cost(expr.initial))
        self.push_value(expr.accumulator, expr.initial)
        total = total.plus(self.cost(expr.result))
        self.variables[expr.accumulator].pop()
        self.set_size(expr, self.size_of(expr.result))
        self.set_entry_size(expr, self.entry_size_of(expr.result))
        return total

    def cost_loop(self, expr: Comprehension) -> Range:
        """A loop: the cost of one turn, for as many turns as the range can have entries."""
        total = self.cost(expr.range).plus(self.cost(expr.initial))
        self.push_value(expr.accumulator, expr.initial)
        self.push_loop_variables(expr)
        turn = self.cost(expr.condition)
        turn = self.cost(expr.step).plus(turn)
        self.variables[expr.variable].pop()
        if expr.variable2:
            self.variables[expr.variable2].pop()
        total = total.plus(self.cost(expr.result))
        self.variables[expr.accumulator].pop()
        turns = self.size_of(expr.range) or UNKNOWN
        if isinstance(expr.initial, Literal):
            self.set_size(expr, self.size_of(expr.initial))
        elif isinstance(expr.initial, ListExpr | MapExpr):
            self.set_size(expr, turns)
            self.set_entry_size(expr, self.entry_size_of(expr.step))
        return total.plus(turns.times(turn))

    def push_value(self, name: str, expr: Expr) -> None:
        """Bring a variable into scope that stands for the value of a node."""
        variable = _Variable(path=self.path_of(expr), size=self.size_of(expr), entry_size=self.entry_size_of(expr))
        self.variables.setdefault(name, []).append(variable)

    def push_loop_variables(self, expr: Comprehension) -> None:
        """Bring the variables of a loop into scope."""
        entry, path = self.entry_size_of(expr.range), self.path_of(expr.range)
        is_list = (entry.kind if entry else self.type_of(expr.range).kind) == "list"
        key, value = (entry.key, entry.value) if entry else (None, None)
        item = "@items" if is_list else "@values"
        if expr.variable2:
            first = _Variable(path=(*path, "@indices" if is_list else "@keys"), size=key)
            self.variables.setdefault(expr.variable, []).append(first)
            self.variables.setdefault(expr.variable2, []).append(_Variable(path=(*path, item), size=value))
            return
        only = _Variable(path=(*path, item if is_list else "@keys"), size=value if is_list else key)
        self.variables.setdefault(expr.variable, []).append(only)


def _literal_size(expr: Expr) -> Range | None:
    """Return the size of a constant or literal; None for other nodes."""
    if isinstance(expr, Literal):
        return fixed(len(expr.value)) if isinstance(expr.value, str | bytes) else ONE
    if isinstance(expr, ListExpr):
        return fixed(len(expr.elements))
    return fixed(len(expr.entries)) if isinstance(expr, MapExpr) else None


def _is_scalar(a_type: CelType) -> bool:
    if a_type.is_optional:
        return _is_scalar(a_type.params[0])
    return a_type.kind in _SCALARS


def _standard_cost(overload_id: str, target: Part | None, parts: list[Part]) -> Estimate:
    """Return the cost of a standard function, without its arguments."""
    sizes = [part.own_size() for part in parts]
    if overload_id in _SMALLER_SIDE:
        smallest = min(sizes[0].max, sizes[1].max)
        return Estimate(Range(1 if smallest > 0 else 0, smallest).scaled(STRING_FACTOR))
    if overload_id == "string_format" and target is not None:
        return Estimate(target.own_size().scaled(STRING_FACTOR))
    if overload_id in ("matches", "matches_string"):
        text, pattern = (target.own_size(), sizes[0]) if target is not None else (sizes[0], sizes[1])
        return Estimate(text.plus(ONE).scaled(STRING_FACTOR).times(pattern.scaled(REGEX_FACTOR)))
    if overload_id == "contains_string" and target is not None:
        return Estimate(target.own_size().scaled(STRING_FACTOR).times(sizes[0].scaled(STRING_FACTOR)))
    if overload_id == "in_list" and len(sizes) == 2:
        return Estimate(sizes[1].scaled(1))
    if overload_id in _SIZED_CONVERSIONS or overload_id in ("starts_with_string", "ends_with_string"):
        return Estimate(sizes[0].scaled(STRING_FACTOR), _converted_size(overload_id, sizes[0]))
    return Estimate(ONE)


_SIZED_CONVERSIONS: Final = frozenset({"string_to_bytes", "bytes_to_string", "strings_quote"})


def _converted_size(overload_id: str, size: Range) -> Range | None:
    """Return the size of the result of a conversion: characters become 1 to 4 bytes, or are escaped."""
    if overload_id == "string_to_bytes":
        return Range(size.min, size.max * 4 % 2**64)
    if overload_id == "bytes_to_string":
        return Range(size.min // 4, size.max)
    if overload_id == "strings_quote":
        return Range((size.min + 2) % 2**64, (size.max * 2 + 2) % 2**64)
    return None

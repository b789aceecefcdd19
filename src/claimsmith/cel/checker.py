"""Finds the type of every part of an expression, and refuses what can't be right for any device.

Source: checker/checker.go in cel-go v0.29.2.

Deviates: messages.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from claimsmith.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr
from claimsmith.cel.declarations import Function, Overload
from claimsmith.cel.environment import DEVICE_VARIABLE, TYPE_NAMES, CelEnvironment
from claimsmith.cel.types import (
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    UINT,
    CelType,
    Mapping,
    is_assignable,
    is_assignable_list,
    list_of,
    map_of,
    most_general,
    optional_of,
    param,
    substitute,
    type_of,
)  # fmt: skip
from claimsmith.cel.values import Uint, Value
from claimsmith.errors import CelCompileError

_LITERAL_TYPES: dict[type, CelType] = {
    bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedExpression:
    """A tree with what the checker found about it.

    Args:
        text: The expression.
        types: Type of each node, by its id.
        overloads: Ids of the overloads that a call may run, by the call's id.
        type_idents: Run-time names of the types that identifiers name, by the identifier's id.
    """

    text: str
    tree: Expr
    types: dict[int, CelType]
    overloads: dict[int, tuple[str, ...]]
    type_idents: dict[int, str]
    environment: CelEnvironment

    @property
    def output_type(self) -> CelType:
        """The type of the whole expression."""
        return self.types[self.tree.id]


def check(tree: Expr, *, text: str, environment: CelEnvironment) -> CheckedExpression:
    """Return a tree with its types; namespaced names in it become single nodes.

    Raises:
        CelCompileError: A name is not known, or a type doesn't fit.
    """
    checker = _Checker(text=text, environment=environment, functions=dict(environment.functions()))
    tree = checker.check(tree)
    types = {key: substitute(checker.mapping, found, to_dyn=True) for key, found in checker.types.items()}
    return CheckedExpression(
        text=text, tree=tree, types=types, overloads=checker.overloads, type_idents=checker.type_idents,
        environment=environment,
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class _Checker:
    """One run over one tree."""

    text: str
    environment: CelEnvironment
    functions: dict[str, Function]
    types: dict[int, CelType] = field(default_factory=dict)
    overloads: dict[int, tuple[str, ...]] = field(default_factory=dict)
    type_idents: dict[int, str] = field(default_factory=dict)
    mapping: Mapping = field(default_factory=dict)
    scopes: list[dict[str, CelType]] = field(default_factory=list)
    variables: int = 0

    def refusal(self, expr: Expr, message: str, hint: str = "") -> CelCompileError:
        """Return the error of a part of the expression."""
        return CelCompileError(message, text=self.text, offset=expr.offset, hint=hint)

    def check(self, expr: Expr) -> Expr:
        """Find the type of a node and of all below it; return the node that takes its place."""
        if isinstance(expr, Literal):
            self.types[expr.id] = _literal_type(expr.value)
            return expr
        if isinstance(expr, Ident):
            return self.check_ident(expr)
        if isinstance(expr, Select):
            return self.check_select(expr)
        if isinstance(expr, Call):
            return self.check_call(expr)
        if isinstance(expr, ListExpr):
            return self.check_list(expr)
        if isinstance(expr, MapExpr):
            return self.check_map(expr)
        if isinstance(expr, Comprehension):
            return self.check_comprehension(expr)
        return self.check_struct(expr)

    def new_variable(self) -> CelType:
        """Return a type that is not known yet."""
        self.variables += 1
        return param(f"_var{self.variables - 1}")

    def fits(self, given: CelType, wanted: CelType) -> bool:
        """Tell whether a type fits another, and keep what follows for types not known yet."""
        extended = is_assignable(self.mapping, given, wanted)
        if extended is None:
            return False
        self.mapping = extended
        return True

    # --- names ----------------------------------------------------------------------------------------------------

    def find_local(self, name: str) -> CelType | None:
        """Return the type of a loop variable; None when there is none of that name."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def find_global(self, name: str) -> CelType | None:
        """Return the type of `device` or of a type's name; None when it is neither."""
        if name == DEVICE_VARIABLE:
            return DEVICE
        named = TYPE_NAMES.get(name)
        return type_of(named) if named else None

    def check_ident(self, expr: Ident) -> Expr:
        """A loop variable, `device`, or a type."""
        name = expr.name.removeprefix(".")
        found = self.find_local(name) if not expr.name.startswith(".") else None
        if found is None:
            found = self.find_global(name)
            if found is not None and name in TYPE_NAMES and name != DEVICE_VARIABLE:
                self.type_idents[expr.id] = TYPE_NAMES[name].name
        if found is None:
            raise self.refusal(expr, f"unknown name {name!r}", _suggest(name, [DEVICE_VARIABLE, *self.local_names()]))
        if expr.name.startswith(".") and self.find_local(name) is None:
            expr.name = name
        self.types[expr.id] = found
        return expr

    def local_names(self) -> list[str]:
        """Names of the loop variables in scope that a text can write."""
        return [name for scope in self.scopes for name in scope if name[0] not in "@#"]

    def find_qualified(self, expr: Select) -> str | None:
        """Return the name of a type that a chain of selections spells; None when it spells none."""
        names = []
        node: Expr = expr
        while isinstance(node, Select) and not node.test_only:
            names.append(node.field)
            node = node.operand
        if not isinstance(node, Ident) or self.find_local(node.name) is not None:
            return None
        name = ".".join([node.name, *reversed(names)]).removeprefix(".")
        return name if name in TYPE_NAMES else None

    def check_select(self, expr: Select) -> Expr:
        """`operand.field` or has()."""
        qualified = self.find_qualified(expr) if not expr.test_only else None
        if qualified:
            ident = Ident(id=expr.id, offset=expr.offset, start=expr.start, end=expr.end, name=qualified)
            self.types[expr.id] = type_of(TYPE_NAMES[qualified])
            self.type_idents[expr.id] = TYPE_NAMES[qualified].name
            return ident
        expr.operand = self.check(expr.operand)
        result = self.field_type(expr, expr.operand, expr.field, optional=False)
        self.types[expr.id] = BOOL if expr.test_only else result
        return expr

    def field_type(self, expr: Expr, operand: Expr, name: str, *, optional: bool) -> CelType:
        """Return the type of a field of an operand."""
        operand_type = substitute(self.mapping, self.types[operand.id])
        is_optional = operand_type.is_optional
        target = operand_type.params[0] if is_optional else operand_type
        result = DYN
        if target.kind == "map":
            result = target.params[1]
        elif target == DEVICE:
            result = self.device_field(expr, name)
        elif target.kind == "struct":
            raise self.refusal(expr, f"{target.name} has no field {name!r}", "call one of its methods")
        elif target.kind == "param":
            self.fits(DYN, target)
        elif not target.is_dyn_or_error:
            raise self.refusal(expr, f"type '{target.text}' has no fields, found field {name!r}")
        result = optional_of(result) if is_optional or optional else result
        return substitute(self.mapping, result)

    def device_field(self, expr: Expr, name: str) -> CelType:
        """Return the type of a field of `device`."""
        fields = self.environment.fields()
        if name not in fields:
            gate = "; it needs the feature gate DRAConsumableCapacity" if name == "allowMultipleAllocations" else ""
            allowed = ", ".join(sorted(fields))
            raise self.refusal(expr, f"device has no field {name!r}, allowed {allowed}{gate}", _suggest(name, fields))
        return fields[name]

    # --- calls ----------------------------------------------------------------------------------------------------

    def check_call(self, expr: Call) -> Expr:
        """A function, method or operator."""
        if expr.function == "_?._":
            return self.check_optional_select(expr)
        expr.args = [self.check(arg) for arg in expr.args]
        if expr.target is not None:
            qualified = _qualified_name(expr.target)
            name = f"{qualified}.{expr.function}".removeprefix(".") if qualified else ""
            if name in self.functions and not self.is_local(expr.target):
                expr.function, expr.target = name, None
            else:
                expr.target = self.check(expr.target)
        name = expr.function.removeprefix(".")
        found = self.functions.get(name)
        if found is None:
            kind = "method" if expr.target is not None else "function"
            raise self.refusal(expr, f"unknown {kind} {name!r}", self.function_hint(name))
        expr.function = name
        self.resolve(expr, found)
        return expr

    def is_local(self, target: Expr) -> bool:
        """Tell whether a chain of names starts at a loop variable."""
        while isinstance(target, Select):
            target = target.operand
        return isinstance(target, Ident) and self.find_local(target.name) is not None

    def function_hint(self, name: str) -> str:
        """What to do about an unknown function."""
        if name == "includes":
            return "it needs the feature gate DRAListTypeAttributes; write == for a scalar"
        return _suggest(name, (known for known in self.functions if known[0].isalpha()))

    def check_optional_select(self, expr: Call) -> Expr:
        """`operand.?field`."""
        operand, name = expr.args
        assert isinstance(name, Literal)
        expr.args = [self.check(operand), name]
        self.types[name.id] = STRING
        self.types[expr.id] = self.field_type(expr, expr.args[0], str(name.value), optional=True)
        self.overloads[expr.id] = ("select_optional_field",)
        return expr

    def resolve(self, expr: Call, found: Function) -> None:
        """Find the overloads that a call may run, and the type of its result."""
        parts = [expr.target, *expr.args] if expr.target is not None else expr.args
        given = tuple(self.types[part.id] for part in parts)
        if expr.function in ("_&&_", "_||_"):
            self.resolve_logic(expr, found.overloads[0])
            return
        ids: list[str] = []
        result: CelType | None = None
        for overload in found.overloads:
            if overload.is_method != (expr.target is not None):
                continue
            wanted, candidate = self.instantiate(overload)
            extended = is_assignable_list(self.mapping, given, wanted)
            if extended is None:
                continue
            self.mapping = extended
            ids.append(overload.id)
            found_result = substitute(self.mapping, candidate)
            if result is None:
                result = found_result
            elif not result.is_dyn and found_result != result:
                result = DYN
        if result is None:
            self.fail_overload(expr, given)
        self.overloads[expr.id] = tuple(ids)
        self.types[expr.id] = result

    def resolve_logic(self, expr: Call, overload: Overload) -> None:
        """&& and || take bools."""
        for arg in expr.args:
            if not self.fits(self.types[arg.id], BOOL):
                found = substitute(self.mapping, self.types[arg.id], to_dyn=True)
                raise self.refusal(arg, f"found type '{found.text}' beside {expr.function.strip('_')}, allowed 'bool'")
        self.overloads[expr.id] = (overload.id,)
        self.types[expr.id] = BOOL

    def instantiate(self, overload: Overload) -> tuple[tuple[CelType, ...], CelType]:
        """Return the argument types and the result of an overload, with new variables for its parameters."""
        if not overload.params:
            return overload.args, overload.result
        fresh = {name: self.new_variable() for name in overload.params}
        return tuple(substitute(fresh, arg) for arg in overload.args), substitute(fresh, overload.result)

    def fail_overload(self, expr: Call, given: tuple[CelType, ...]) -> NoReturn:
        """Refuse a call whose arguments fit no overload."""
        types = [substitute(self.mapping, a_type, to_dyn=True).text for a_type in given]
        operator = expr.function.strip("_@").replace("_", " ")
        if expr.target is not None:
            found = f"{types[0]}.{expr.function}({', '.join(types[1:])})"
        elif expr.function[0] in "_@!-":
            found = f"{operator!r} on {' and '.join(types)}"
        else:
            found = f"{expr.function}({', '.join(types)})"
        raise self.refusal(expr, f"found {found}, which no overload allows", _overload_hint(expr, types))

    # --- containers -----------------------------------------------------------------------------------------------

    def check_list(self, expr: ListExpr) -> Expr:
        """`[a, b]`: all elements of one type."""
        joined: CelType | None = None
        for index, element in enumerate(expr.elements):
            expr.elements[index] = checked = self.check(element)
            found = self.unwrap(checked) if index in expr.optional else self.types[checked.id]
            joined = self.join(checked, joined, found)
        self.types[expr.id] = list_of(joined if joined is not None else self.new_variable())
        return expr

    def check_map(self, expr: MapExpr) -> Expr:
        """`{key: value}`: all keys of one type, all values of one type."""
        keys: CelType | None = None
        values: CelType | None = None
        for entry in expr.entries:
            entry.key = self.check(entry.key)
            keys = self.join(entry.key, keys, self.types[entry.key.id])
            entry.value = self.check(entry.value)
            found = self.unwrap(entry.value) if entry.optional else self.types[entry.value.id]
            values = self.join(entry.value, values, found)
        self.types[expr.id] = map_of(
            keys if keys is not None else self.new_variable(), values if values is not None else self.new_variable()
        )
        return expr

    def unwrap(self, expr: Expr) -> CelType:
        """Return the type inside an optional element."""
        found = self.types[expr.id]
        if found.is_optional:
            return found.params[0]
        if not found.is_dyn:
            raise self.refusal(expr, f"found type '{found.text}' behind '?', allowed an optional")
        return found

    def join(self, expr: Expr, previous: CelType | None, found: CelType) -> CelType:
        """Return the type that elements have in common; dyn when they have none, which a validator then judges."""
        if previous is None:
            return found
        if self.fits(previous, found):
            return most_general(previous, found)
        return DYN

    def check_comprehension(self, expr: Comprehension) -> Expr:
        """A loop of a macro."""
        expr.range = self.check(expr.range)
        expr.initial = self.check(expr.initial)
        accumulated = self.types[expr.initial.id]
        first, second = self.loop_types(expr)
        self.scopes.append({expr.accumulator: accumulated})
        self.scopes.append({expr.variable: first, **({expr.variable2: second} if expr.variable2 else {})})
        expr.condition = self.check(expr.condition)
        self.demand(expr.condition, BOOL)
        expr.step = self.check(expr.step)
        self.demand(expr.step, accumulated)
        self.scopes.pop()
        expr.result = self.check(expr.result)
        self.scopes.pop()
        self.types[expr.id] = substitute(self.mapping, self.types[expr.result.id])
        return expr

    def loop_types(self, expr: Comprehension) -> tuple[CelType, CelType]:
        """Return the types of the loop's variables."""
        ranged = substitute(self.mapping, self.types[expr.range.id])
        if ranged.kind == "list":
            return (INT, ranged.params[0]) if expr.variable2 else (ranged.params[0], DYN)
        if ranged.kind == "map":
            return ranged.params[0], ranged.params[1]
        if ranged.kind in ("dyn", "error", "param"):
            self.fits(DYN, ranged)
            return DYN, DYN
        hint = "attributes are lists only with the feature gate DRAListTypeAttributes" if ranged.kind == "any" else ""
        raise self.refusal(
            expr.range, f"found type '{ranged.text}' before .{expr.macro}(), allowed a list or map", hint
        )

    def demand(self, expr: Expr, wanted: CelType) -> None:
        """Refuse a part of a loop that is not of the type that the loop needs."""
        if not self.fits(wanted, self.types[expr.id]):
            found = substitute(self.mapping, self.types[expr.id], to_dyn=True).text
            raise self.refusal(
                expr, f"found type '{found}' in the loop, allowed '{substitute(self.mapping, wanted).text}'"
            )

    def check_struct(self, expr: StructExpr) -> NoReturn:
        """`type.name{…}`: no message types are known."""
        raise self.refusal(expr, f"unknown message type {expr.type_name!r}", "selectors have no messages")


def _literal_type(value: Value) -> CelType:
    return _LITERAL_TYPES[type(value)]


def _qualified_name(expr: Expr) -> str:
    """Return `a.b.c` of a chain of names; empty when it is something else."""
    names = []
    while isinstance(expr, Select) and not expr.test_only:
        names.append(expr.field)
        expr = expr.operand
    return ".".join([expr.name, *reversed(names)]) if isinstance(expr, Ident) else ""


def _suggest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name that is most like a wrong one."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}" if close else ""


def _overload_hint(expr: Call, types: list[str]) -> str:
    """Return what to do about a call that no overload allows."""
    if "kubernetes.Quantity" in types and expr.function in ("_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_"):
        return 'compare quantities with a.compareTo(quantity("10Gi")) >= 0, a.isGreaterThan(b) or a.isLessThan(b)'
    if "kubernetes.Semver" in types and expr.function in ("_<_", "_<=_", "_>_", "_>=_", "_==_", "_!=_"):
        return 'compare versions with a.compareTo(semver("1.2.3")) >= 0, a.isGreaterThan(b) or a.isLessThan(b)'
    if any(found.startswith("map(") for found in types) and expr.function in ("_==_", "_!=_"):
        return 'name the domain too: device.attributes["domain"].id'
    return ""

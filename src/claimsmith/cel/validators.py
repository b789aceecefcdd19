"""Checks after the type check: constants that can't be read, lists of mixed types, format texts.

Source: cel/validator.go and ext/formatting.go in cel-go v0.29.2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from claimsmith.cel.ast import Call, Expr, Ident, ListExpr, Literal, MapExpr, children, walk
from claimsmith.cel.checker import CheckedExpression
from claimsmith.cel.lib_format import parse_clauses
from claimsmith.cel.lib_regex import compile_pattern
from claimsmith.cel.lib_time import parse_duration, parse_timestamp
from claimsmith.cel.types import CelType
from claimsmith.errors import CelCompileError, CelFault

_TEXT_READERS: Final[dict[str, tuple[Callable[[str], object], str]]] = {
    "duration": (parse_duration, "a duration such as '1h30m'"),
    "timestamp": (parse_timestamp, "an RFC 3339 time such as '2026-01-31T08:00:00Z'"),
    "matches": (compile_pattern, "a regular expression of RE2"),
}
_CLAUSE_KINDS: Final = {
    "s": {"list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"},
    "d": {"int", "uint"},
    "f": {"double", "string"},
    "e": {"double", "string"},
    "b": {"int", "uint", "bool"},
    "x": {"int", "uint", "string", "bytes"},
    "X": {"int", "uint", "string", "bytes"},
    "o": {"int", "uint"},
}


def validate(checked: CheckedExpression) -> None:
    """Refuse constants that fail on every device, and literals of mixed types.

    Raises:
        CelCompileError: There is one.
    """
    exempt = _find_exempt(checked.tree)
    for node in walk(checked.tree):
        if isinstance(node, Call):
            _check_constant(checked, node)
            if node.function == "format" and node.target is not None:
                _check_format(checked, node)
        elif isinstance(node, Ident):
            _check_variable(checked, node)
        elif isinstance(node, ListExpr) and node.id not in exempt:
            _check_list(checked, node)
        elif isinstance(node, MapExpr) and node.id not in exempt:
            _check_map(checked, node)


def _fail(checked: CheckedExpression, expr: Expr, message: str, hint: str = "") -> NoReturn:
    raise CelCompileError(message, text=checked.text, offset=expr.offset, hint=hint)


def _check_variable(checked: CheckedExpression, node: Ident) -> None:
    """Refuse a variable that holds a type: upstream takes it for a type's name. Source: planCheckedIdent in cel-go."""
    if checked.types[node.id].kind == "type" and node.id not in checked.type_idents:
        _fail(checked, node, f"reference to undefined type: {node.name}", "compare the type where it is computed")


def _find_exempt(tree: Expr) -> set[int]:
    """Return the ids of the nodes inside a format() call, whose arguments are of mixed types by nature."""
    exempt: set[int] = set()
    for node in walk(tree):
        if node.id in exempt or (isinstance(node, Call) and node.function == "format"):
            exempt.update(child.id for child in children(node))
    return exempt


def _check_constant(checked: CheckedExpression, call: Call) -> None:
    reader = _TEXT_READERS.get(call.function)
    if reader is None or not call.args or not isinstance(call.args[0], Literal):
        return
    value = call.args[0].value
    if type(value) is not str:
        return
    try:
        reader[0](value)
    except CelFault as error:
        _fail(checked, call.args[0], f"found {value!r} in {call.function}(), allowed {reader[1]}", error.message)


def _check_list(checked: CheckedExpression, expr: ListExpr) -> None:
    wanted: CelType | None = None
    for index, element in enumerate(expr.elements):
        found = checked.types[element.id]
        if index in expr.optional and found.params:
            found = found.params[0]
        wanted = _demand_same(checked, element, wanted, found)


def _check_map(checked: CheckedExpression, expr: MapExpr) -> None:
    keys: CelType | None = None
    values: CelType | None = None
    for entry in expr.entries:
        keys = _demand_same(checked, entry.key, keys, checked.types[entry.key.id])
        found = checked.types[entry.value.id]
        if entry.optional and found.params:
            found = found.params[0]
        values = _demand_same(checked, entry.value, values, found)


def _demand_same(checked: CheckedExpression, expr: Expr, wanted: CelType | None, found: CelType) -> CelType:
    if wanted is None or wanted == found:
        return found
    _fail(
        checked,
        expr,
        f"found type '{found.text}' among elements of type '{wanted.text}', allowed one type",
        "use elements of one type",
    )


def _check_format(checked: CheckedExpression, call: Call) -> None:
    text, args = call.target, call.args[0]
    if not isinstance(text, Literal) or type(text.value) is not str or not isinstance(args, ListExpr):
        return
    try:
        clauses, _ = parse_clauses(text.value, len(args.elements))
    except CelFault as error:
        _fail(checked, call, f"found format text {text.value!r}: {error.message}")
    if len(clauses) < len(args.elements):
        _fail(checked, call, f"found {len(args.elements)} arguments of format(), allowed {len(clauses)}")
    for clause, arg in zip(clauses, args.elements, strict=True):
        _check_clause(checked, clause.verb, arg)


def _check_clause(checked: CheckedExpression, verb: str, arg: Expr) -> None:
    found = checked.types[arg.id]
    if found.kind not in _CLAUSE_KINDS[verb] and found.kind != "dyn":
        allowed = ", ".join(sorted(_CLAUSE_KINDS[verb]))
        _fail(checked, arg, f"found type '{found.text}' for %{verb}, allowed {allowed}")
    if verb == "s" and isinstance(arg, ListExpr | MapExpr):
        for inner in children(arg):
            _check_clause(checked, verb, inner)

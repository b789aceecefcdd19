"""Expands macros while the tree is built: has, all, exists, map, filter, cel.bind, optMap, sortBy and the rest.

Source: parser/macro.go, ext/bindings.go, ext/comprehensions.go, ext/lists.go, cel/library.go in cel-go v0.29.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.cel.ast import (
    MAX_DEPTH,
    MAX_NODES,
    Call,
    Comprehension,
    Expr,
    Ident,
    IdSource,
    ListExpr,
    Literal,
    MapEntry,
    MapExpr,
    Select,
    StructExpr,
    count_nodes,
    find_deeper_than,
)
from claimsmith.cel.values import Value
from claimsmith.errors import CelCompileError

ACCUMULATOR: Final = "@result"
"""The variable that a loop folds into; no text can name it."""

UNUSED: Final = "#unused"
"""The loop variable of a comprehension that only binds a name."""

_OLD_ACCUMULATOR: Final = "__result__"


@dataclass(slots=True, kw_only=True)
class MacroSite:
    """Where a macro stands, and the nodes that it can make there.

    Args:
        text: The whole expression.
        offset: Character that errors of the new nodes name.
        start, end: Span of the macro's text.
    """

    text: str
    ids: IdSource
    offset: int
    start: int
    end: int

    def literal(self, value: Value) -> Literal:
        """Make a constant."""
        return Literal(id=self.ids.next(), offset=self.offset, start=self.start, end=self.start, value=value)

    def ident(self, name: str) -> Ident:
        """Make a variable."""
        return Ident(id=self.ids.next(), offset=self.offset, start=self.start, end=self.start, name=name)

    def list(self, *elements: Expr) -> ListExpr:
        """Make a list."""
        return ListExpr(
            id=self.ids.next(), offset=self.offset, start=self.start, end=self.start, elements=list(elements)
        )

    def map(self) -> MapExpr:
        """Make an empty map."""
        return MapExpr(id=self.ids.next(), offset=self.offset, start=self.start, end=self.start, entries=[])

    def call(self, function: str, *args: Expr, target: Expr | None = None) -> Call:
        """Make a call."""
        return Call(
            id=self.ids.next(), offset=self.offset, start=self.start, end=self.end, function=function,
            args=list(args), target=target,
        )  # fmt: skip

    def accumulator(self) -> Ident:
        """Make a reference to what the loop has folded so far."""
        return self.ident(ACCUMULATOR)

    def loop(self, macro: str, range_: Expr, variables: tuple[str, str], fold: _Fold) -> Comprehension:
        """Make a loop."""
        return Comprehension(
            id=self.ids.next(), offset=self.offset, start=self.start, end=self.end, macro=macro, range=range_,
            variable=variables[0], variable2=variables[1], accumulator=fold.name, initial=fold.initial,
            condition=fold.condition, step=fold.step, result=fold.result,
        )  # fmt: skip

    def bind(self, name: str, value: Expr, result: Expr) -> Comprehension:
        """Make a loop that runs zero times and only names a value."""
        fold = _Fold(name=name, initial=value, condition=self.literal(False), step=self.ident(name), result=result)
        return self.loop("bind", self.list(), (UNUSED, ""), fold)

    def copy_target(self, expr: Expr, macro: str) -> Expr:
        """Make the same tree with new identities, unless it is too large for that."""
        if find_deeper_than(expr, MAX_DEPTH) is None and self.ids.last + count_nodes(expr) <= MAX_NODES:
            return self.copy(expr)
        raise CelCompileError(
            f"{macro}() copies its target, which is too large for that",
            text=self.text,
            offset=self.offset,
            hint="name the target with cel.bind() first",
        )

    def copy(self, expr: Expr) -> Expr:
        """Make the same tree with new identities."""
        if isinstance(expr, Select):
            return replace(expr, id=self.ids.next(), operand=self.copy(expr.operand))
        if isinstance(expr, Call):
            target = self.copy(expr.target) if expr.target is not None else None
            return replace(expr, id=self.ids.next(), target=target, args=[self.copy(arg) for arg in expr.args])
        if isinstance(expr, ListExpr):
            return replace(expr, id=self.ids.next(), elements=[self.copy(element) for element in expr.elements])
        if isinstance(expr, MapExpr):
            entries = [
                MapEntry(key=self.copy(entry.key), value=self.copy(entry.value), optional=entry.optional)
                for entry in expr.entries
            ]
            return replace(expr, id=self.ids.next(), entries=entries)
        if isinstance(expr, StructExpr):
            return replace(expr, id=self.ids.next(), fields=[(name, self.copy(value)) for name, value in expr.fields])
        if isinstance(expr, Comprehension):
            return replace(
                expr, id=self.ids.next(), range=self.copy(expr.range), initial=self.copy(expr.initial),
                condition=self.copy(expr.condition), step=self.copy(expr.step), result=self.copy(expr.result),
            )  # fmt: skip
        return replace(expr, id=self.ids.next())

    def name_of(self, expr: Expr, message: str) -> str:
        """Return the loop variable that an argument names."""
        if not isinstance(expr, Ident):
            raise CelCompileError(message, text=self.text, offset=expr.offset, hint="write a plain name")
        if expr.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
            raise CelCompileError(
                f"{expr.name!r} is the loop's own variable", text=self.text, offset=expr.offset, hint="use another name"
            )
        return expr.name


@dataclass(slots=True, kw_only=True)
class _Fold:
    """How a loop folds its elements."""

    initial: Expr
    condition: Expr
    step: Expr
    result: Expr
    name: str = ACCUMULATOR


_Macro = Callable[[MacroSite, Expr, list[Expr]], Expr | None]


def expand_macro(site: MacroSite, function: str, target: Expr | None, args: list[Expr]) -> Expr | None:
    """Return what a macro call stands for; None when the call is no macro.

    Raises:
        CelCompileError: It is a macro, but its arguments are not what the macro needs.
    """
    if target is None:
        return _has(site, args) if function == "has" and len(args) == 1 else None
    macro = _MACROS.get((function, len(args)))
    return macro(site, target, args) if macro else None


def _has(site: MacroSite, args: list[Expr]) -> Expr:
    field = args[0]
    if not isinstance(field, Select) or field.test_only:
        raise CelCompileError(
            "has() needs a field", text=site.text, offset=field.offset,
            hint="write has(device.attributes[\"domain\"].id), without index or ?",
        )  # fmt: skip
    return Select(
        id=site.ids.next(), offset=site.offset, start=site.start, end=site.end, operand=field.operand,
        field=field.field, test_only=True,
    )  # fmt: skip


def _variables(site: MacroSite, args: list[Expr], count: int) -> tuple[str, str]:
    message = "the first argument must be a simple name" if count == 1 else "the first two arguments must be names"
    first = site.name_of(args[0], message)
    if count == 1:
        return first, ""
    second = site.name_of(args[1], message)
    if first == second:
        raise CelCompileError(
            f"both variables are named {first!r}", text=site.text, offset=args[1].offset, hint="use two names"
        )
    return first, second


def _all(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    fold = _Fold(
        initial=site.literal(True),
        condition=site.call("@not_strictly_false", site.accumulator()),
        step=site.call("_&&_", site.accumulator(), args[-1]),
        result=site.accumulator(),
    )
    return site.loop("all", target, _variables(site, args, len(args) - 1), fold)


def _exists(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    fold = _Fold(
        initial=site.literal(False),
        condition=site.call("@not_strictly_false", site.call("!_", site.accumulator())),
        step=site.call("_||_", site.accumulator(), args[-1]),
        result=site.accumulator(),
    )
    return site.loop("exists", target, _variables(site, args, len(args) - 1), fold)


def _exists_one(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    more = site.call("_+_", site.accumulator(), site.literal(1))
    fold = _Fold(
        initial=site.literal(0),
        condition=site.literal(True),
        step=site.call("_?_:_", args[-1], more, site.accumulator()),
        result=site.call("_==_", site.accumulator(), site.literal(1)),
    )
    return site.loop("exists_one", target, _variables(site, args, len(args) - 1), fold)


def _collect(site: MacroSite, target: Expr, variables: tuple[str, str], item: Expr, condition: Expr | None) -> Expr:
    """The loop that appends an item for each element, or for each that fulfils a condition."""
    step = site.call("_+_", site.accumulator(), site.list(item))
    if condition is not None:
        step = site.call("_?_:_", condition, step, site.accumulator())
    fold = _Fold(initial=site.list(), condition=site.literal(True), step=step, result=site.accumulator())
    return site.loop("map", target, variables, fold)


def _map(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    condition = args[1] if len(args) == 3 else None
    return _collect(site, target, _variables(site, args, 1), args[-1], condition)


def _filter(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    return _collect(site, target, _variables(site, args, 1), args[0], args[1])


def _transform_list(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    condition = args[2] if len(args) == 4 else None
    return _collect(site, target, _variables(site, args, 2), args[-1], condition)


def _transform_map(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    variables = _variables(site, args, 2)
    return _insert_all(site, target, variables, [site.ident(variables[0]), args[-1]], args)


def _transform_map_entry(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    return _insert_all(site, target, _variables(site, args, 2), [args[-1]], args)


def _insert_all(site: MacroSite, target: Expr, variables: tuple[str, str], entry: list[Expr], args: list[Expr]) -> Expr:
    """The loop that inserts an entry for each element, or for each that fulfils a condition."""
    step = site.call("cel.@mapInsert", site.accumulator(), *entry)
    if len(args) == 4:
        step = site.call("_?_:_", args[2], step, site.accumulator())
    fold = _Fold(initial=site.map(), condition=site.literal(True), step=step, result=site.accumulator())
    return site.loop("transform_map", target, variables, fold)


def _bind(site: MacroSite, target: Expr, args: list[Expr]) -> Expr | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], Ident):
        raise CelCompileError(
            "cel.bind() needs a name", text=site.text, offset=args[0].offset, hint="write cel.bind(name, value, …)"
        )
    return site.bind(args[0].name, args[1], args[2])


def _opt_map(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    return _opt(site, target, args, flat=False)


def _opt_flat_map(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    return _opt(site, target, args, flat=True)


def _opt(site: MacroSite, target: Expr, args: list[Expr], *, flat: bool) -> Expr:
    macro = "optFlatMap" if flat else "optMap"
    if not isinstance(args[0], Ident):
        raise CelCompileError(
            f"{macro}() needs a name", text=site.text, offset=args[0].offset, hint=f"write .{macro}(name, …)"
        )
    present = site.call("hasValue", target=target)
    bound: Expr = site.bind(args[0].name, site.call("value", target=site.copy_target(target, macro)), args[1])
    if not flat:
        bound = site.call("optional.of", bound)
    return site.call("_?_:_", present, bound, site.call("optional.none"))


def _sort_by(site: MacroSite, target: Expr, args: list[Expr]) -> Expr:
    name = "@__sortBy_input__"
    if isinstance(target, Literal | MapExpr | StructExpr):
        raise CelCompileError("sortBy() needs a list", text=site.text, offset=target.offset)
    keys = _map(site, site.ident(name), args)
    return site.bind(name, target, site.call("@sortByAssociatedKeys", keys, target=site.ident(name)))


_MACROS: Final[dict[tuple[str, int], _Macro]] = {
    ("all", 2): _all,
    ("all", 3): _all,
    ("exists", 2): _exists,
    ("exists", 3): _exists,
    ("exists_one", 2): _exists_one,
    ("exists_one", 3): _exists_one,
    ("existsOne", 3): _exists_one,
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("bind", 3): _bind,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
    ("sortBy", 2): _sort_by,
}

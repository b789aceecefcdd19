"""The fast evaluator: turns a checked tree into one Python function.

The source holds only names made here; every constant of the expression comes in as an argument, so no text of a user
becomes code. The function gives a value, or FALLBACK whenever anything fails or is not simple: then the interpreter,
which is the authority, runs the expression again. So the function may be narrow, but it must never give another value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from claimsmith.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, walk
from claimsmith.cel.checker import CheckedExpression
from claimsmith.cel.codegen_calls import COMPARISONS, FAST_CALLS, SWAPPED, FastCall
from claimsmith.cel.codegen_support import HELPERS, make_matcher
from claimsmith.cel.trust import hides_types, is_bool_for_sure
from claimsmith.cel.types import DEVICE, CelType
from claimsmith.cel.values import (
    TypeValue,
    Value,
)  # fmt: skip
from claimsmith.errors import CelFault

Compiled = Callable[[Any], Value]
"""Takes a CelDevice; gives a value or FALLBACK."""

_INTERPRETED: Final = frozenset({"sort", "@sortByAssociatedKeys", "distinct", "flatten"})
"""Functions whose arguments, when they fail, make upstream stop whatever is around them."""

_MAX_BLOCKS: Final = 15
_MAX_INLINE: Final = 200
_SCALAR_KINDS: Final = frozenset({"bool", "int", "string", "bytes"})
_PYTHON_TYPES: Final = {"bool": "bool", "int": "int", "string": "str", "double": "float", "bytes": "bytes"}


class _Unsupported(Exception):  # noqa: N818 - a signal inside this module
    """The expression is left to the interpreter."""


def compile_function(checked: CheckedExpression) -> Compiled | None:
    """Return a function for a checked expression; None when only the interpreter can run it."""
    if hides_types(checked.tree):
        return None
    emitter = _Emitter(checked=checked)
    try:
        source = emitter.function()
        code = compile(source, "<selector>", "exec")
    except (_Unsupported, SyntaxError, RecursionError, MemoryError):
        return None
    namespace: dict[str, Any] = {"__builtins__": {}}
    exec(code, namespace)
    compiled: Compiled = namespace["make"](*emitter.constants)
    return compiled


@dataclass(slots=True, kw_only=True)
class _Emitter:
    """Makes the source of one function."""

    checked: CheckedExpression
    lines: list[str] = field(default_factory=list)
    depth: int = 2
    blocks: int = 0
    counter: int = 0
    names: list[str] = field(default_factory=lambda: list(HELPERS))
    constants: list[Any] = field(default_factory=lambda: list(HELPERS.values()))
    variables: dict[str, list[str]] = field(default_factory=dict)

    def function(self) -> str:
        """Return the source of `make`, which takes the constants and gives the function."""
        self.depth = 3
        result = self.emit(self.checked.tree)
        self.line(f"return {result}")
        body = "\n".join(self.lines)
        parameters = ", ".join(self.names)
        tail = "  except (Exception, ABORT):\n   return FALLBACK\n return run\n"
        return f"def make({parameters}):\n def run(D):\n  try:\n{body}\n{tail}"

    # --- lines, names, blocks -------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append a line at the current depth."""
        self.lines.append(" " * self.depth + text)

    @contextmanager
    def block(self, header: str, *, nests: bool = False) -> Iterator[None]:
        """Append a compound statement; its body is what is appended inside. `nests` for loops and tries."""
        self.blocks += nests
        if self.blocks > _MAX_BLOCKS or self.depth > 60:
            raise _Unsupported
        self.line(header)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1
        self.blocks -= nests

    def temporary(self) -> str:
        """Return a new local name."""
        self.counter += 1
        return f"t{self.counter}"

    def constant(self, value: Value) -> str:
        """Return the name of a constant."""
        if value is None or value is True or value is False:
            return str(value)
        self.names.append(f"k{len(self.names)}")
        self.constants.append(value)
        return self.names[-1]

    def named(self, code: str) -> str:
        """Return a name for the value of some code, so that it can be used twice."""
        if code.isidentifier():
            return code
        name = self.temporary()
        self.line(f"{name} = {code}")
        return name

    def short(self, code: str) -> str:
        """Return code that is not too long to be part of other code."""
        return code if len(code) <= _MAX_INLINE else self.named(code)

    def type_of(self, expr: Expr) -> CelType:
        """Return the type of a node."""
        return self.checked.types[expr.id]

    # --- nodes ----------------------------------------------------------------------------------------------------

    def emit(self, expr: Expr) -> str:
        """Return code for the value of a node; lines that must run before are appended."""
        if isinstance(expr, Literal):
            return self.constant(expr.value)
        if isinstance(expr, Ident):
            return self.emit_ident(expr)
        if isinstance(expr, Select):
            return self.short(self.emit_select(expr))
        if isinstance(expr, Call):
            return self.short(self.emit_call(expr))
        if isinstance(expr, ListExpr):
            return self.emit_list(expr)
        if isinstance(expr, MapExpr):
            return self.emit_map(expr)
        if isinstance(expr, Comprehension):
            return self.emit_loop(expr)
        raise _Unsupported

    def emit_bool(self, expr: Expr) -> str:
        """Return code for a value that is True or False, or fails."""
        code = self.emit(expr)
        if is_bool_for_sure(expr, self.checked.environment):
            return code
        name = self.named(code)
        self.line(f"if {name} is not True and {name} is not False: raise FAIL")
        return name

    def emit_ident(self, expr: Ident) -> str:
        """A loop variable, or a type. `device` alone is left to the interpreter."""
        if expr.id in self.checked.type_idents:
            return self.constant(TypeValue(self.checked.type_idents[expr.id]))
        found = self.variables.get(expr.name)
        if not found or expr.name.startswith("."):
            raise _Unsupported
        return found[-1]

    def device_map(self, expr: Expr) -> str | None:
        """Return code for `device.attributes` or `device.capacity` as a plain dict; None for other nodes."""
        if isinstance(expr, Select) and not expr.test_only and self.type_of(expr.operand) == DEVICE:
            if not (isinstance(expr.operand, Ident) and expr.operand.name.lstrip(".") == "device"):
                return None
            return {"attributes": "D.attributes", "capacity": "D.capacity"}.get(expr.field)
        return None

    def domain_of(self, expr: Expr) -> tuple[str, str] | None:
        """Return map and key of `device.attributes["domain"]`; None for other nodes."""
        if isinstance(expr, Call) and expr.function == "_[_]" and isinstance(expr.args[1], Literal):
            outer = self.device_map(expr.args[0])
            if outer is not None and type(expr.args[1].value) is str:
                return outer, self.constant(expr.args[1].value)
        return None

    def emit_domain(self, expr: Expr) -> str | None:
        """Return code for the attributes of one domain, empty if there are none; None for other nodes."""
        found = self.domain_of(expr)
        return f"{found[0]}.get({found[1]}, EMPTY)" if found else None

    def emit_select(self, expr: Select) -> str:
        """`operand.field` or has()."""
        domain = self.domain_of(expr.operand)
        if domain is not None:
            key = self.constant(expr.field)
            if expr.test_only:
                return f"({key} in {domain[0]}.get({domain[1]}, EMPTY))"
            return f"{domain[0]}[{domain[1]}][{key}]"
        if self.type_of(expr.operand) == DEVICE:
            return self.emit_device_field(expr)
        operand, key = self.emit(expr.operand), self.constant(expr.field)
        a_type = self.type_of(expr.operand)
        if a_type.kind != "map" or a_type.params[1].kind == "map":
            return f"{'HAS' if expr.test_only else 'GET'}({operand}, {key})"
        return f"({key} in {operand})" if expr.test_only else f"{operand}[{key}]"

    def emit_device_field(self, expr: Select) -> str:
        """A field of `device`."""
        if not (isinstance(expr.operand, Ident) and expr.operand.name.lstrip(".") == "device"):
            raise _Unsupported
        if expr.test_only:
            return "True"
        outer = self.device_map(expr)
        if outer is not None:
            return f"DOMAINS({outer})"
        return {"driver": "D.driver", "allowMultipleAllocations": "D.allow_multiple_allocations"}[expr.field]

    def emit_list(self, expr: ListExpr) -> str:
        """`[a, b]`."""
        if expr.optional:
            raise _Unsupported
        values = [self.emit(element) for element in expr.elements]
        return self.short(f"[{', '.join(values)}]")

    def emit_map(self, expr: MapExpr) -> str:
        """`{key: value}`."""
        if any(entry.optional for entry in expr.entries):
            raise _Unsupported
        parts = []
        for entry in expr.entries:
            if self.type_of(entry.key).kind not in ("int", "uint", "string", "bool"):
                raise _Unsupported
            key, value = self.emit(entry.key), self.emit(entry.value)
            parts.append(f"KEY({key}): {value}")
        return self.short(f"{{{', '.join(parts)}}}")

    # --- calls ----------------------------------------------------------------------------------------------------

    def emit_call(self, expr: Call) -> str:
        """A function, method or operator."""
        special = _SPECIAL_CALLS.get(expr.function)
        if special is not None:
            return special(self, expr)
        comparison = self.emit_quantity_order(expr) or self.emit_comparison(expr)
        if comparison is not None:
            return comparison
        parts = [expr.target, *expr.args] if expr.target is not None else expr.args
        ids = self.checked.overloads[expr.id]
        implementation, _ = self.checked.environment.functions()[expr.function].select(ids)
        if all(isinstance(part, Literal) for part in parts):
            return self.fold(implementation, [part.value for part in parts if isinstance(part, Literal)])
        if expr.function in _INTERPRETED:
            raise _Unsupported
        names = [self.named(self.emit(part)) for part in parts]
        if expr.function == "matches" and isinstance(parts[1], Literal) and type(parts[1].value) is str:
            return f"{self.constant(make_matcher(parts[1].value))}({names[0]})"
        run = self.constant(implementation)
        slow = f"{run}({', '.join(names)})"
        fast = FAST_CALLS.get(ids[0]) if len(ids) == 1 else None
        return self.guarded(fast, parts, names, slow) if fast else slow

    def fold(self, implementation: Callable[..., Value], values: list[Value]) -> str:
        """Return the result of a call on constants; one that fails does so when it runs."""
        try:
            return self.constant(implementation(*values))
        except CelFault:
            return "GET(None, None)"

    def guarded(self, fast: FastCall, parts: list[Expr], names: list[str], slow: str) -> str:
        """Return plain code for values of the right types, and the slow call for others."""
        guards = []
        for part, name, (kind, python_type) in zip(parts, names, fast.types, strict=True):
            if self.type_of(part).name != kind:
                guards.append(f"type({name}) is {self.python_type(python_type)}")
        code = fast.template.format(*names)
        return f"({code} if {' and '.join(guards)} else {slow})" if guards else f"({code})"

    def python_type(self, python_type: type) -> str:
        """Return the name of a Python type."""
        return python_type.__name__ if python_type.__name__ in HELPERS else self.constant(python_type)

    def emit_quantity_order(self, expr: Call) -> str | None:
        """`a.compareTo(b) >= 0` on quantities, without the call; None for other calls."""
        if expr.function not in COMPARISONS or len(expr.args) != 2:
            return None
        left, right = expr.args
        operator = COMPARISONS[expr.function]
        if isinstance(left, Literal):
            left, right, operator = right, left, SWAPPED[operator]
        if not (isinstance(right, Literal) and type(right.value) is int and right.value == 0):
            return None
        if not (isinstance(left, Call) and self.checked.overloads.get(left.id) == ("quantity_compare_to",)):
            return None
        sides = [left.target, *left.args]
        if left.target is None or any(self.type_of(side).name != "kubernetes.Quantity" for side in sides if side):
            return None
        one, other = (self.nanos(side) for side in sides if side is not None)
        return f"({one} {operator} {other})"

    def nanos(self, expr: Expr) -> str:
        """Return code for the nano units of a quantity; a constant one is converted now."""
        code = self.emit(expr)
        if code in self.names:
            value = self.constants[self.names.index(code)]
            if hasattr(value, "nanos"):
                return self.constant(value.nanos)
        return f"{code}.nanos"

    def emit_comparison(self, expr: Call) -> str | None:
        """<, <=, >, >=; None for other calls."""
        if expr.function not in COMPARISONS:
            return None
        operator = COMPARISONS[expr.function]
        left, right = expr.args
        names = [self.named(self.emit(left)), self.named(self.emit(right))]
        plain = f"{names[0]} {operator} {names[1]}"
        kinds = [self.type_of(left).kind, self.type_of(right).kind]
        known = next((kind for kind in kinds if kind in ("int", "string")), None)
        ids = self.checked.overloads[expr.id]
        run = self.constant(self.checked.environment.functions()[expr.function].select(ids)[0])
        slow = f"{run}({names[0]}, {names[1]})"
        if known is None or not all(kind == known or kind in ("dyn", "any") for kind in kinds):
            return slow
        guards = [
            f"type({name}) is {_PYTHON_TYPES[known]}"
            for name, kind in zip(names, kinds, strict=True)
            if kind in ("dyn", "any")
        ]
        return f"({plain} if {' and '.join(guards)} else {slow})" if guards else f"({plain})"

    def emit_equality(self, expr: Call) -> str:
        """== or !=."""
        quantities = self.emit_quantity_order(expr)
        if quantities is not None:
            return quantities
        left, right = expr.args
        names = [self.named(self.emit(left)), self.named(self.emit(right))]
        same, slow = "==", "EQ({}, {})".format(*names)
        if expr.function == "_!=_":
            same, slow = "!=", "(not SAME({}, {}))".format(*names)
        kinds = [self.type_of(left).kind, self.type_of(right).kind]
        known = next((kind for kind in kinds if kind in _SCALAR_KINDS), None)
        if known is None or not all(kind == known or kind in ("dyn", "any") for kind in kinds):
            return slow
        guards = [
            f"type({name}) is {_PYTHON_TYPES[known]}"
            for name, kind in zip(names, kinds, strict=True)
            if kind in ("dyn", "any")
        ]
        plain = f"{names[0]} {same} {names[1]}"
        return f"({plain} if {' and '.join(guards)} else {slow})" if guards else f"({plain})"

    def emit_logic(self, expr: Call) -> str:
        """&& or ||: the side that decides wins, also over a failure of the other."""
        deciding = expr.function == "_||_"
        left, right = expr.args
        result = self.temporary()
        fails = self.can_fail(left) or not is_bool_for_sure(left, self.checked.environment)
        if not fails:
            self.line(f"{result} = {self.emit_bool(left)}")
        else:
            with self.block("try:", nests=True):
                self.line(f"{result} = {self.emit_bool(left)}")
            with self.block("except Exception:"):
                self.line(f"{result} = None")
        with self.block(f"if {result} is not {deciding}:"):
            value = self.emit_bool(right)
            if fails:
                value = self.named(value)
                self.line(f"if {result} is None and {value} is not {deciding}: raise FAIL")
            self.line(f"{result} = {value}")
        return result

    def can_fail(self, expr: Expr) -> bool:
        """Tell whether the value of a node can fail; True when in doubt."""
        if isinstance(expr, Literal):
            return False
        if isinstance(expr, Ident):
            return False
        if isinstance(expr, Select):
            if self.type_of(expr.operand) == DEVICE:
                return False
            return not (expr.test_only and self.domain_of(expr.operand) is not None)
        if not isinstance(expr, Call):
            return True
        if expr.function in ("_&&_", "_||_", "!_"):
            return any(self.can_fail(arg) or self.type_of(arg).kind != "bool" for arg in expr.args)
        if expr.function in ("_==_", "_!=_"):
            typed = all(self.type_of(arg).kind in _SCALAR_KINDS for arg in expr.args)
            return not typed or any(self.can_fail(arg) for arg in expr.args)
        if expr.function == "@in":
            known = self.device_map(expr.args[1]) is not None or self.domain_of(expr.args[1]) is not None
            return not known or self.can_fail(expr.args[0])
        return True

    def emit_not(self, expr: Call) -> str:
        """`!value`."""
        return f"(not {self.emit_bool(expr.args[0])})"

    def emit_conditional(self, expr: Call) -> str:
        """`condition ? one : other`."""
        condition, result = self.emit_bool(expr.args[0]), self.temporary()
        with self.block(f"if {condition}:"):
            self.line(f"{result} = {self.emit(expr.args[1])}")
        with self.block("else:"):
            self.line(f"{result} = {self.emit(expr.args[2])}")
        return result

    def emit_in(self, expr: Call) -> str:
        """`element in container`."""
        element, container = expr.args
        outer = self.device_map(container) or self.emit_domain(container)
        if outer is not None and self.type_of(element).kind == "string":
            return f"({self.emit(element)} in {outer})"
        if isinstance(container, ListExpr) and container.elements and not container.optional:
            values = [item.value for item in container.elements if isinstance(item, Literal)]
            kinds = {type(value) for value in values}
            if len(values) == len(container.elements) and kinds in ({str}, {int}):
                return self.emit_membership(element, values, next(iter(kinds)))
            if not any(isinstance(node, (Ident, Select)) for node in walk(container)):
                raise _Unsupported  # upstream looks constants up, which is not to compare them
        contains = "IN_LIST" if isinstance(container, ListExpr) else "IN"
        return f"{contains}({self.emit(element)}, {self.emit(container)})"

    def emit_membership(self, element: Expr, values: list[Value], python_type: type) -> str:
        """`x in [constants]` of one type; other numbers are compared by value."""
        name = self.named(self.emit(element))
        code = f"{name} in {self.constant(frozenset(values))}"
        slow = f"MEMBER({name}, {self.constant(frozenset(values))})"
        kind = "string" if python_type is str else "int"
        return (
            f"({code})"
            if self.type_of(element).kind == kind
            else f"({code} if type({name}) is {python_type.__name__} else {slow})"
        )

    def emit_index(self, expr: Call) -> str:
        """`operand[index]`."""
        domain = self.emit_domain(expr)
        if domain is not None:
            return domain
        inner = self.domain_of(expr.args[0])
        if inner is not None and isinstance(expr.args[1], Literal) and type(expr.args[1].value) is str:
            return f"{inner[0]}[{inner[1]}][{self.constant(expr.args[1].value)}]"
        return f"GET({self.emit(expr.args[0])}, {self.emit(expr.args[1])})"

    def emit_optional_index(self, expr: Call) -> str:
        """`operand[?index]` or `operand.?field`."""
        return f"OPT({self.emit(expr.args[0])}, {self.emit(expr.args[1])})"

    def emit_optional_or(self, expr: Call) -> str:
        """`optional.or(other)` and `optional.orValue(other)`."""
        assert expr.target is not None
        unwraps = expr.function == "orValue"
        quick = self.emit_default(expr) if unwraps else None
        if quick is not None:
            return quick
        optional, result = self.named(f"UNWRAP({self.emit(expr.target)})"), self.temporary()
        with self.block(f"if {optional}.present:"):
            self.line(f"{result} = {optional}{'.value' if unwraps else ''}")
        with self.block("else:"):
            self.line(f"{result} = {self.emit(expr.args[0])}")
        return result

    def emit_default(self, expr: Call) -> str | None:
        """`device.attributes["d"].?x.orValue(y)`, without an optional in between; None for other calls."""
        source = expr.target
        if not (isinstance(source, Call) and source.function in ("_?._", "_[?_]")):
            return None
        domain = self.emit_domain(source.args[0])
        key = source.args[1]
        if domain is None or not (isinstance(key, Literal) and type(key.value) is str):
            return None
        result = self.temporary()
        self.line(f"{result} = {domain}.get({self.constant(key.value)}, MISSING)")
        with self.block(f"if {result} is MISSING:"):
            self.line(f"{result} = {self.emit(expr.args[0])}")
        return result

    # --- loops ----------------------------------------------------------------------------------------------------

    def emit_loop(self, expr: Comprehension) -> str:
        """A loop of a macro."""
        if expr.macro == "bind":
            return self.emit_bind(expr)
        ranged = self.emit(expr.range)
        result = self.temporary()
        loop = _LOOPS[expr.macro]
        names = [self.temporary(), self.temporary()] if expr.variable2 else [self.temporary()]
        header = f"for {', '.join(names)} in {'PAIRS' if expr.variable2 else 'ITER'}({ranged}):"
        for variable, name in zip((expr.variable, expr.variable2), names, strict=False):
            self.variables.setdefault(variable, []).append(name)
        loop(self, expr, result, header)
        for variable in (expr.variable, expr.variable2)[: len(names)]:
            self.variables[variable].pop()
        return result

    def emit_bind(self, expr: Comprehension) -> str:
        """cel.bind(): made at once; a value that fails unused only costs the detour over the interpreter."""
        domain = self.emit_domain(expr.initial)
        name = self.named(domain if domain is not None else self.emit(expr.initial))
        self.variables.setdefault(expr.accumulator, []).append(name)
        result = self.emit(expr.result)
        self.variables[expr.accumulator].pop()
        return result

    def loop_until(self, expr: Comprehension, result: str, header: str) -> None:
        """all() and exists(): up to the element that decides; failures count only when none does."""
        deciding = expr.macro == "exists"
        assert isinstance(expr.step, Call)
        failed = self.temporary()
        self.line(f"{result} = {not deciding}")
        self.line(f"{failed} = False")
        with self.block(header, nests=True):
            with self.block("try:", nests=True):
                self.line(f"{result} = {self.emit_bool(expr.step.args[1])}")
            with self.block("except Exception:"):
                self.line(f"{failed} = True")
                self.line("continue")
            self.line(f"if {result} is {deciding}: break")
        self.line(f"if {failed} and {result} is not {deciding}: raise FAIL")

    def loop_count(self, expr: Comprehension, result: str, header: str) -> None:
        """exists_one()."""
        assert isinstance(expr.step, Call)
        self.line(f"{result} = 0")
        with self.block(header, nests=True):
            condition = self.emit_bool(expr.step.args[0])
            one = self.constant(1)
            self.line(f"if {condition}: {result} = {result} + {one}")
        self.line(f"{result} = {result} == {self.constant(1)}")

    def loop_collect(self, expr: Comprehension, result: str, header: str) -> None:
        """map(), filter(), transformList()."""
        assert isinstance(expr.step, Call)
        self.line(f"{result} = []")
        with self.block(header, nests=True):
            step = self.skip_unless(expr.step)
            made = step.args[1]
            assert isinstance(made, ListExpr)
            self.line(f"{result}.append({self.emit(made.elements[0])})")

    def loop_insert(self, expr: Comprehension, result: str, header: str) -> None:
        """transformMap() and transformMapEntry()."""
        assert isinstance(expr.step, Call)
        self.line(f"{result} = MAP()")
        with self.block(header, nests=True):
            step = self.skip_unless(expr.step)
            ids = self.checked.overloads[step.id]
            run = self.constant(self.checked.environment.functions()[step.function].select(ids)[0])
            values = ", ".join(self.emit(arg) for arg in step.args[1:])
            self.line(f"{run}({result}, {values})")
        self.line(f"{result} = PLAIN({result})")

    def skip_unless(self, step: Call) -> Call:
        """Append the condition of a loop that has one; return the step behind it."""
        if step.function != "_?_:_":
            return step
        condition = self.emit_bool(step.args[0])
        self.line(f"if not {condition}: continue")
        inner = step.args[1]
        assert isinstance(inner, Call)
        return inner


_SPECIAL_CALLS: Final[dict[str, Callable[[_Emitter, Call], str]]] = {
    "_&&_": _Emitter.emit_logic,
    "_||_": _Emitter.emit_logic,
    "!_": _Emitter.emit_not,
    "_?_:_": _Emitter.emit_conditional,
    "_==_": _Emitter.emit_equality,
    "_!=_": _Emitter.emit_equality,
    "@in": _Emitter.emit_in,
    "_[_]": _Emitter.emit_index,
    "_[?_]": _Emitter.emit_optional_index,
    "_?._": _Emitter.emit_optional_index,
    "or": _Emitter.emit_optional_or,
    "orValue": _Emitter.emit_optional_or,
}
_LOOPS: Final[dict[str, Callable[[_Emitter, Comprehension, str, str], None]]] = {
    "all": _Emitter.loop_until,
    "exists": _Emitter.loop_until,
    "exists_one": _Emitter.loop_count,
    "map": _Emitter.loop_collect,
    "transform_map": _Emitter.loop_insert,
}

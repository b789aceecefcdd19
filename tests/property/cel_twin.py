"""A slow and obvious evaluator of the selector language: the rules written down once more, for comparison."""

from __future__ import annotations

from typing import Any

from claimsmith.cel.ast import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from claimsmith.model.quantity import Quantity, parse_quantity
from claimsmith.model.semver import Semver, parse_semver

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


class TwinError(Exception):
    """The evaluation fails."""


def twin(expr: Expr, scope: dict[str, Any]) -> Any:
    """Return the value of a tree; variables are in the scope.

    Raises:
        TwinError: The evaluation fails.
    """
    if isinstance(expr, Literal):
        return expr.value
    if isinstance(expr, Ident):
        return twin_variable(expr.name, scope)
    if isinstance(expr, Select):
        target = twin(expr.operand, scope)
        if expr.test_only:
            return isinstance(target, dict) and (expr.field in target or is_domains(target, scope))
        return twin_item(target, expr.field, scope)
    if isinstance(expr, ListExpr):
        return [twin(element, scope) for element in expr.elements]
    if isinstance(expr, MapExpr):
        return {twin(entry.key, scope): twin(entry.value, scope) for entry in expr.entries}
    if isinstance(expr, Comprehension):
        return twin_loop(expr, scope)
    assert isinstance(expr, Call)
    return twin_call(expr, scope)


def twin_variable(name: str, scope: dict[str, Any]) -> Any:
    value = scope[name]
    return value() if callable(value) else value


def is_domains(target: Any, scope: dict[str, Any]) -> bool:
    return target is scope["device"]["attributes"] or target is scope["device"]["capacity"]


def twin_item(target: Any, key: Any, scope: dict[str, Any]) -> Any:
    if isinstance(target, dict):
        if key in target:
            return target[key]
        if is_domains(target, scope):
            return {}
    if isinstance(target, list) and type(key) is int and 0 <= key < len(target):
        return target[key]
    raise TwinError(f"no {key}")


def twin_loop(expr: Comprehension, scope: dict[str, Any]) -> Any:
    inner = dict(scope)
    if expr.macro == "bind":
        inner[expr.accumulator] = lambda: twin(expr.initial, scope)
        return twin(expr.result, inner)
    ranged = twin(expr.range, scope)
    if not isinstance(ranged, (list, dict)):
        raise TwinError("not iterable")
    folded: Any = twin(expr.initial, scope)
    for element in ranged:
        inner[expr.variable] = element
        inner[expr.accumulator] = hold(folded)
        if attempt(expr.condition, inner) is False:
            break
        folded = attempt(expr.step, inner)
    inner[expr.accumulator] = hold(folded)
    return twin(expr.result, inner)


def attempt(expr: Expr, scope: dict[str, Any]) -> Any:
    """Return the value, or the failure as a value."""
    try:
        return twin(expr, scope)
    except TwinError as error:
        return error


def hold(value: Any) -> Any:
    """Return a variable that fails when it is read, if the value is a failure."""

    def fail() -> Any:
        raise value

    return fail if isinstance(value, TwinError) else value


def twin_call(expr: Call, scope: dict[str, Any]) -> Any:
    if expr.function in ("_&&_", "_||_"):
        return twin_logic(expr, scope)
    if expr.function == "_?_:_":
        condition = twin(expr.args[0], scope)
        if not isinstance(condition, bool):
            raise TwinError("no bool")
        return twin(expr.args[1 if condition else 2], scope)
    if expr.function == "@not_strictly_false":
        return attempt(expr.args[0], scope) is not False
    if expr.function == "orValue":
        assert expr.target is not None
        found = twin(expr.target, scope)
        return found[0] if found else twin(expr.args[0], scope)
    parts = [expr.target, *expr.args] if expr.target is not None else expr.args
    values = [twin(part, scope) for part in parts]
    if expr.function == "_[_]":
        return twin_item(values[0], values[1], scope)
    if expr.function in ("_?._", "_[?_]"):
        try:
            return (twin_item(values[0], values[1], scope),)
        except TwinError:
            return ()
    return twin_function(expr.function, values)


def twin_logic(expr: Call, scope: dict[str, Any]) -> bool:
    decides = expr.function == "_||_"
    sides = [attempt(arg, scope) for arg in expr.args]
    if any(side is decides for side in sides):
        return decides
    if all(side is (not decides) for side in sides):
        return not decides
    raise TwinError("a side failed")


def twin_function(name: str, values: list[Any]) -> Any:
    if name in ("_==_", "_!=_"):
        return twin_equal(*values, strict=name == "_==_") == (name == "_==_")
    if name in ("_<_", "_<=_", "_>_", "_>=_"):
        return twin_order(name, *values)
    if name in ("_+_", "_-_", "_*_"):
        return twin_arithmetic(name, *values)
    if name == "!_":
        if not isinstance(values[0], bool):
            raise TwinError("no bool")
        return not values[0]
    if name == "@in":
        return twin_in(*values)
    if name == "size" and isinstance(values[0], (str, list, dict)):
        return len(values[0])
    if name in ("startsWith", "contains") and all(isinstance(value, str) for value in values):
        return values[0].startswith(values[1]) if name == "startsWith" else values[1] in values[0]
    if name == "quantity":
        return parse_quantity(values[0])
    if name == "semver":
        return parse_semver(values[0])
    kinds = {type(value) for value in values}
    if name in ("isGreaterThan", "compareTo") and kinds in ({Quantity}, {Semver}):
        return values[0] > values[1] if name == "isGreaterThan" else values[0].compare_to(values[1])
    raise TwinError(f"no {name}")


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def twin_equal(left: Any, right: Any, *, strict: bool) -> bool:
    if isinstance(left, (Quantity, Semver)) and type(left) is not type(right):
        if strict:
            raise TwinError("other type")
        return False
    if is_number(left) and is_number(right):
        return bool(left == right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(twin_equal_item(one, two) for one, two in zip(left, right, strict=True))
    return type(left) is type(right) and bool(left == right)


def twin_equal_item(one: Any, two: Any) -> bool:
    try:
        return twin_equal(one, two, strict=True)
    except TwinError:
        return True


def twin_order(name: str, left: Any, right: Any) -> bool:
    if not (is_number(left) and is_number(right)) and not (type(left) is type(right) and type(left) in (str, bool)):
        raise TwinError("no order")
    order = {"_<_": left < right, "_<=_": left <= right, "_>_": left > right, "_>=_": left >= right}
    return bool(order[name])


def twin_arithmetic(name: str, left: Any, right: Any) -> Any:
    if type(left) is int and type(right) is int:
        result = {"_+_": left + right, "_-_": left - right, "_*_": left * right}[name]
        if not SMALLEST <= result <= LARGEST:
            raise TwinError("overflow")
        return result
    if name == "_+_" and type(left) is type(right) and type(left) in (str, list):
        return left + right
    raise TwinError("no arithmetic")


def twin_in(element: Any, container: Any) -> bool:
    if isinstance(container, list):
        return any(twin_equal(element, item, strict=False) for item in container)
    if isinstance(container, dict):
        return isinstance(element, str) and element in container
    raise TwinError("no container")

"""Arithmetic, comparison, membership and size.

Source: common/stdlib/standard.go and common/types in cel-go v0.29.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from claimsmith.cel.declarations import Function, Overload, function, method, overload
from claimsmith.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    list_of,
    map_of,
    param,
)  # fmt: skip
from claimsmith.cel.values import (
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    Duration,
    MutableList,
    Timestamp,
    Uint,
    Value,
    compare,
    equals,
    find_entry,
    is_list,
    is_map,
    size_of,
)  # fmt: skip
from claimsmith.errors import CelFault

NO_OVERLOAD: Final = "no such overload"

_TIMESTAMP_MIN_S: Final = -62135596800
_TIMESTAMP_MAX_S: Final = 253402300799
_NANOS: Final = 10**9


def check_int(number: int) -> int:
    """Return a number that fits 64 bits.

    Raises:
        CelFault: It doesn't fit.
    """
    if INT64_MIN <= number <= INT64_MAX:
        return number
    raise CelFault("integer overflow")


def check_uint(number: int) -> Uint:
    """Return a number as an unsigned integer.

    Raises:
        CelFault: It doesn't fit.
    """
    if 0 <= number <= UINT64_MAX:
        return Uint(number)
    raise CelFault("unsigned integer overflow")


def check_duration(nanos: int) -> Duration:
    """Return a duration.

    Raises:
        CelFault: It is longer than 64 bits of nanoseconds.
    """
    if INT64_MIN <= nanos <= INT64_MAX:
        return Duration(nanos)
    raise CelFault("duration overflow")


def check_timestamp(nanos: int, zone_s: int = 0) -> Timestamp:
    """Return a point in time.

    Raises:
        CelFault: It is not in the years 1 to 9999.
    """
    if _TIMESTAMP_MIN_S <= nanos // _NANOS <= _TIMESTAMP_MAX_S:
        return Timestamp(nanos, zone_s)
    raise CelFault("timestamp overflow")


def add(left: Value, right: Value) -> Value:
    """`left + right`."""
    kind = type(left)
    if kind is int and type(right) is int:
        return check_int(left + right)
    if kind is MutableList and is_list(right):
        left.extend(right)
        return left
    if is_list(left) and is_list(right):
        return [*left, *right]
    if kind is Duration and type(right) is Timestamp:
        return check_timestamp(left.nanos + right.nanos, right.zone_s)
    if kind is Timestamp and type(right) is Duration:
        return check_timestamp(left.nanos + right.nanos, left.zone_s)
    if kind is not type(right):
        raise CelFault(NO_OVERLOAD)
    if kind is Uint:
        return check_uint(int(left) + int(right))
    if kind is Duration:
        return check_duration(left.nanos + right.nanos)
    if kind in (str, bytes, float):
        return left + right
    raise CelFault(NO_OVERLOAD)


def subtract(left: Value, right: Value) -> Value:
    """`left - right`."""
    kind = type(left)
    if kind is Timestamp and type(right) is Duration:
        return check_timestamp(left.nanos - right.nanos, left.zone_s)
    if kind is not type(right):
        raise CelFault(NO_OVERLOAD)
    if kind is int:
        return check_int(left - right)
    if kind is Uint:
        return check_uint(int(left) - int(right))
    if kind is float:
        return left - right
    if kind in (Duration, Timestamp):
        return check_duration(left.nanos - right.nanos)
    raise CelFault(NO_OVERLOAD)


def multiply(left: Value, right: Value) -> Value:
    """`left * right`."""
    kind = type(left)
    if kind is not type(right):
        raise CelFault(NO_OVERLOAD)
    if kind is int:
        return check_int(left * right)
    if kind is Uint:
        return check_uint(int(left) * int(right))
    if kind is float:
        return left * right
    raise CelFault(NO_OVERLOAD)


def divide(left: Value, right: Value) -> Value:
    """`left / right`, rounded toward zero for integers."""
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint, float):
        raise CelFault(NO_OVERLOAD)
    if kind is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise CelFault("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    if kind is Uint:
        return Uint(quotient)
    return check_int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def modulo(left: Value, right: Value) -> Value:
    """`left % right`, with the sign of the left side."""
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise CelFault(NO_OVERLOAD)
    if right == 0:
        raise CelFault("modulus by zero")
    if left == INT64_MIN and right == -1:
        raise CelFault("integer overflow")
    rest = abs(int(left)) % abs(int(right))
    if kind is Uint:
        return Uint(rest)
    return -rest if left < 0 else rest


def negate(value: Value) -> Value:
    """`-value`."""
    kind = type(value)
    if kind is int:
        return check_int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return check_duration(-value.nanos)
    raise CelFault(NO_OVERLOAD)


def logical_not(value: Value) -> Value:
    """`!value`."""
    if value is True:
        return False
    if value is False:
        return True
    raise CelFault(NO_OVERLOAD)


def less(left: Value, right: Value) -> bool:
    """`left < right`."""
    return compare(left, right) < 0


def less_equals(left: Value, right: Value) -> bool:
    """`left <= right`."""
    return compare(left, right) <= 0


def greater(left: Value, right: Value) -> bool:
    """`left > right`."""
    return compare(left, right) > 0


def greater_equals(left: Value, right: Value) -> bool:
    """`left >= right`."""
    return compare(left, right) >= 0


def contains(element: Value, container: Value) -> bool:
    """`element in container`: an element of a list, or a key of a map."""
    if is_list(container):
        return any(is_equal(element, item) for item in container)
    if is_map(container):
        return has_key(container, element)
    raise CelFault(NO_OVERLOAD)


def has_key(a_map: Value, key: Value) -> bool:
    """Tell whether a map really has a key, also a map in which missing keys read as empty."""
    plain = dict(a_map) if type(a_map) is not dict else a_map
    return find_entry(plain, key)[1]


def is_equal(left: Value, right: Value) -> bool:
    """Tell whether two values are equal; values that can't be compared are not."""
    try:
        return equals(left, right)
    except CelFault:
        return False


def size(value: Value) -> int:
    """Return the size of a string (code points), bytes, list or map."""
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return len(value)
    found = size_of(value)
    if found is None:
        raise CelFault(f"{NO_OVERLOAD}: size")
    return found


def _not_bound(*_values: Value) -> Value:
    """Logical operators, == and indexing are run by the evaluators themselves."""
    raise CelFault(NO_OVERLOAD)


_A, _B = param("A"), param("B")
_LIST_A, _MAP_AB = list_of(_A), map_of(_A, _B)
_NUMBERS: Final = {"double": DOUBLE, "int64": INT, "uint64": UINT}
# Overloads stand in upstream's order: operands of unknown type are of the type that the first one takes.


def _on(prefix: str, *suffixes: str) -> tuple[Overload, ...]:
    """Declare an operator on two numbers of one type."""
    return tuple(overload(f"{prefix}_{name}", (_NUMBERS[name], _NUMBERS[name]), _NUMBERS[name]) for name in suffixes)


def _ordering(name: str, run: Callable[[Value, Value], bool], prefix: str) -> Function:
    """Declare a comparison: within one type, and between numbers of different types."""
    overloads = [overload(f"{prefix}_bool", (BOOL, BOOL), BOOL)]
    for one in ("int64", "uint64", "double"):
        overloads.append(overload(f"{prefix}_{one}", (_NUMBERS[one], _NUMBERS[one]), BOOL))
        overloads += [
            overload(f"{prefix}_{one}_{two}", (_NUMBERS[one], _NUMBERS[two]), BOOL)
            for two in ("double", "int64", "uint64")
            if one != two
        ]
    others = {"string": STRING, "bytes": BYTES, "timestamp": TIMESTAMP, "duration": DURATION}
    overloads += [overload(f"{prefix}_{suffix}", (kind, kind), BOOL) for suffix, kind in others.items()]
    return function(name, *overloads, run=run)


def _size_overloads() -> tuple[Overload, ...]:
    kinds: tuple[tuple[str, CelType], ...] = (("bytes", BYTES), ("list", _LIST_A), ("map", _MAP_AB), ("string", STRING))
    return tuple(
        make(f"{prefix}{suffix}", (kind,), INT)
        for kind_name, kind in kinds
        for make, prefix, suffix in ((overload, "size_", kind_name), (method, f"{kind_name}_", "size"))
    )


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("_?_:_", overload("conditional", (BOOL, _A, _A), _A), run=_not_bound),
    function("_&&_", overload("logical_and", (BOOL, BOOL), BOOL), run=_not_bound),
    function("_||_", overload("logical_or", (BOOL, BOOL), BOOL), run=_not_bound),
    function("!_", overload("logical_not", (BOOL,), BOOL), run=logical_not),
    function("@not_strictly_false", overload("not_strictly_false", (BOOL,), BOOL), run=_not_bound),
    function("_==_", overload("equals", (_A, _A), BOOL), run=_not_bound),
    function("_!=_", overload("not_equals", (_A, _A), BOOL), run=_not_bound),
    function(
        "_+_",
        overload("add_bytes", (BYTES, BYTES), BYTES),
        *_on("add", "double"),
        overload("add_duration_duration", (DURATION, DURATION), DURATION),
        overload("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
        overload("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        *_on("add", "int64"),
        overload("add_list", (_LIST_A, _LIST_A), _LIST_A),
        overload("add_string", (STRING, STRING), STRING),
        *_on("add", "uint64"),
        run=add,
    ),
    function(
        "_-_",
        *_on("subtract", "double"),
        overload("subtract_duration_duration", (DURATION, DURATION), DURATION),
        *_on("subtract", "int64"),
        overload("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        overload("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
        *_on("subtract", "uint64"),
        run=subtract,
    ),
    function("_*_", *_on("multiply", "double", "int64", "uint64"), run=multiply),
    function("_/_", *_on("divide", "double", "int64", "uint64"), run=divide),
    function("_%_", *_on("modulo", "int64", "uint64"), run=modulo),
    function("-_", overload("negate_double", (DOUBLE,), DOUBLE), overload("negate_int64", (INT,), INT), run=negate),
    _ordering("_<_", less, "less"),
    _ordering("_<=_", less_equals, "less_equals"),
    _ordering("_>_", greater, "greater"),
    _ordering("_>=_", greater_equals, "greater_equals"),
    function(
        "_[_]", overload("index_list", (_LIST_A, INT), _A), overload("index_map", (_MAP_AB, _A), _B), run=_not_bound
    ),
    function("@in", overload("in_list", (_A, _LIST_A), BOOL), overload("in_map", (_A, _MAP_AB), BOOL), run=contains),
    function("size", *_size_overloads(), run=size),
)
"""The operators and size()."""

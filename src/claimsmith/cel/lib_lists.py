"""Functions on lists and sets: Kubernetes' own (sum, min, indexOf, includes, …), the lists extension 3, sets.

Source: pkg/cel/library/lists.go in k8s.io/apiserver v0.37.2; ext/lists.go and ext/sets.go in cel-go v0.29.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from claimsmith.cel.declarations import Function, Overload, function, method, overload
from claimsmith.cel.go_sort import sort_like_go
from claimsmith.cel.operators import add, is_equal
from claimsmith.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    list_of,
    param,
)  # fmt: skip
from claimsmith.cel.values import Duration, Uint, Value, compare, is_list, is_ordered, type_name
from claimsmith.errors import CelFault

MAX_RANGE: Final = 1_000_000
"""Longest list that lists.range() makes. Source: defaultMaxRangeSize in ext/lists.go."""


def is_sorted(values: list[Value]) -> bool:
    """`values.isSorted()`."""
    return not any(
        _compares(values[place - 1], value, 1) for place, value in enumerate(_demand_ordered(values)) if place
    )


def _demand_ordered(values: list[Value]) -> Iterator[Value]:
    """Yield the values as long as they are of types that have an order."""
    for value in values:
        if not is_ordered(value):
            raise CelFault("no such overload")
        yield value


def _compares(one: Value, two: Value, sign: int) -> bool:
    """Tell whether two values compare so; those of different types, and NaN, don't compare at all."""
    try:
        return compare(one, two) == sign
    except CelFault:
        return False


def _summing(zero: Value) -> Callable[[list[Value]], Value]:
    def run(values: list[Value]) -> Value:
        total = zero
        for value in values:
            total = add(total, value)
        return total

    return run


def _extreme(name: str, sign: int) -> Callable[[list[Value]], Value]:
    def run(values: list[Value]) -> Value:
        if not values:
            raise CelFault(f"{name} called on empty list")
        best = values[0]
        for value in _demand_ordered(values):
            if _compares(value, best, sign):
                best = value
        return best

    return run


def index_of_item(values: list[Value], item: Value) -> int:
    """`values.indexOf(item)`; -1 when the item is not there."""
    return next((index for index, value in enumerate(values) if is_equal(value, item)), -1)


def last_index_of_item(values: list[Value], item: Value) -> int:
    """`values.lastIndexOf(item)`."""
    return next((index for index in range(len(values) - 1, -1, -1) if is_equal(values[index], item)), -1)


def includes(target: Value, item: Value) -> bool:
    """`target.includes(item)`: an element of a list is the item; a scalar is the item itself."""
    if is_list(target):
        return any(is_equal(value, item) for value in target)
    return is_equal(target, item)


def slice_list(values: list[Value], start: int, end: int) -> list[Value]:
    """`values.slice(start, end)`."""
    if start < 0 or end < 0:
        raise CelFault(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelFault(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(values) < end:
        raise CelFault(f"cannot slice({start}, {end}), list is length {len(values)}")
    return list(values[start:end])


def flatten(values: Value, depth: Value = 1) -> list[Value]:
    """`values.flatten([depth])`."""
    if not is_list(values) or type(depth) is not int:
        raise CelFault(f"no such overload: {type_name(values)}.flatten()")
    if depth < 0:
        raise CelFault("level must be non-negative")
    flat = list(values)
    for _ in range(depth):
        if not any(map(is_list, flat)):
            break
        flat = [inner for value in flat for inner in (value if is_list(value) else (value,))]
    return flat


def sort_by_keys(values: list[Value], keys: list[Value]) -> list[Value]:
    """Return the values in the order of their keys, which must be of one comparable type."""
    if len(values) != len(keys):
        raise CelFault(f"@sortByAssociatedKeys() expected {len(values)} keys, but got {len(keys)}")
    if not values:
        return list(values)
    if not is_ordered(keys[0]):
        raise CelFault("list elements must be comparable")
    if any(type_name(key) != type_name(keys[0]) for key in keys):
        raise CelFault("list elements must have the same type")
    return [values[place] for place in sort_like_go(len(keys), lambda one, two: _precedes(keys[one], keys[two]))]


def _precedes(one: Value, two: Value) -> bool:
    """Tell whether a key comes before another of its type; NaN comes before and after nothing."""
    return one == one and two == two and compare(one, two) < 0


def sort_list(values: list[Value]) -> list[Value]:
    """`values.sort()`."""
    return sort_by_keys(values, values)


def make_range(count: int) -> list[int]:
    """`lists.range(count)`."""
    if count < 0:
        raise CelFault(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_RANGE:
        raise CelFault(f"lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(count))


def reverse_list(values: list[Value]) -> list[Value]:
    """`values.reverse()`."""
    return list(values[::-1])


def distinct(values: list[Value]) -> list[Value]:
    """`values.distinct()`: the first of each set of equal values."""
    unique: list[Value] = []
    for value in values:
        if not any(is_equal(value, other) for other in unique):
            unique.append(value)
    return unique


def sets_contains(values: list[Value], part: list[Value]) -> bool:
    """`sets.contains(values, part)`: every item of the part is among the values."""
    return all(any(is_equal(item, value) for value in values) for item in part)


def sets_equivalent(one: list[Value], two: list[Value]) -> bool:
    """`sets.equivalent(one, two)`: each contains the other."""
    return sets_contains(one, two) and sets_contains(two, one)


def sets_intersects(one: list[Value], two: list[Value]) -> bool:
    """`sets.intersects(one, two)`: they have an item in common."""
    return any(is_equal(item, value) for item in one for value in two)


COMPARABLE: Final[tuple[tuple[str, CelType], ...]] = (
    ("int", INT), ("uint", UINT), ("double", DOUBLE), ("bool", BOOL), ("duration", DURATION),
    ("timestamp", TIMESTAMP), ("string", STRING), ("bytes", BYTES),
)  # fmt: skip
"""Types with an order, by the name that overloads carry."""

_ZEROS: Final[dict[str, tuple[CelType, Value]]] = {
    "int": (INT, 0),
    "uint": (UINT, Uint(0)),
    "double": (DOUBLE, 0.0),
    "duration": (DURATION, Duration(0)),
}
_A, _T = param("A"), param("T")
_LIST_A, _LIST_T = list_of(_A), list_of(_T)


def _for_comparable(pattern: str, result: CelType | None, run: Callable[..., Value]) -> tuple[Overload, ...]:
    """Declare a method on lists of each type with an order; the result is the element type if not given."""
    return tuple(method(pattern.format(name=name), (list_of(kind),), result or kind, run) for name, kind in COMPARABLE)


def _sort_overloads(run: Callable[..., Value]) -> tuple[Overload, ...]:
    return tuple(method(f"list_{kind.name}_sort", (list_of(kind),), list_of(kind), run) for _, kind in COMPARABLE)


def _sort_by_overloads(run: Callable[..., Value]) -> tuple[Overload, ...]:
    return tuple(
        method(f"list_{kind.name}_sortByAssociatedKeys", (_LIST_T, list_of(kind)), _LIST_T, run)
        for _, kind in COMPARABLE
    )


def _guard_lists(run: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function for all overloads of a name: it refuses what is no list."""

    def guarded(values: Value, *rest: Value) -> Value:
        if not is_list(values) or not all(map(is_list, rest)):
            raise CelFault("no such overload")
        return run(values, *rest)

    return guarded


KUBERNETES_FUNCTIONS: Final[tuple[Function, ...]] = (
    function("isSorted", *_for_comparable("list_{name}_is_sorted_bool", BOOL, is_sorted)),
    function(
        "sum",
        *(
            method(f"list_{name}_sum_{name}", (list_of(kind),), kind, _summing(zero))
            for name, (kind, zero) in _ZEROS.items()
        ),
    ),
    function("max", *_for_comparable("list_{name}_max_{name}", None, _extreme("max", 1))),
    function("min", *_for_comparable("list_{name}_min_{name}", None, _extreme("min", -1))),
    function("indexOf", method("list_a_index_of_int", (_LIST_A, _A), INT, index_of_item)),
    function("lastIndexOf", method("list_a_last_index_of_int", (_LIST_A, _A), INT, last_index_of_item)),
)
"""The list functions of Kubernetes, version 0."""

INCLUDES: Final[Function] = function("includes", method("list_includes_dyn_dyn", (DYN, DYN), BOOL, includes))
"""`includes`, which needs the gate for lists as attributes, or version 1 of the list functions."""

EXTENSION_FUNCTIONS: Final[tuple[Function, ...]] = (
    function("slice", method("list_slice", (_LIST_T, INT, INT), _LIST_T, slice_list)),
    function(
        "flatten",
        Overload(
            id="list_flatten", args=(list_of(_LIST_T),), result=_LIST_T, is_method=True, run=flatten, is_guarded=False
        ),
        Overload(
            id="list_flatten_int",
            args=(list_of(DYN), INT),
            result=list_of(DYN),
            is_method=True,
            run=flatten,
            is_guarded=False,
        ),
    ),
    function("sort", *_sort_overloads(sort_list), run=_guard_lists(sort_list)),
    function("@sortByAssociatedKeys", *_sort_by_overloads(sort_by_keys), run=_guard_lists(sort_by_keys)),
    function("lists.range", overload("lists_range", (INT,), list_of(INT), make_range)),
    function("reverse", method("list_reverse", (_LIST_T,), _LIST_T, reverse_list)),
    function("distinct", method("list_distinct", (_LIST_T,), _LIST_T, distinct)),
    function("sets.contains", overload("list_sets_contains_list", (_LIST_T, _LIST_T), BOOL, sets_contains)),
    function("sets.equivalent", overload("list_sets_equivalent_list", (_LIST_T, _LIST_T), BOOL, sets_equivalent)),
    function("sets.intersects", overload("list_sets_intersects_list", (_LIST_T, _LIST_T), BOOL, sets_intersects)),
)
"""The lists extension, version 3, and sets."""

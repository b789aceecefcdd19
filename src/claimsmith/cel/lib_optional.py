"""Optional values: optional.of(), value(), hasValue(), first(), last() and what makes maps in loops.

`or`, `orValue`, `.?field` and `[?index]` are run by the evaluators, because they evaluate only what they need.

Source: cel/library.go (optional library 2) and ext/comprehensions.go in cel-go v0.29.2.
"""

from __future__ import annotations

from typing import Final

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, param
from claimsmith.cel.values import (
    NONE,
    Duration,
    MutableMap,
    Optional,
    Timestamp,
    Value,
    find_entry,
    format_value,
    iterate_keys,
    to_key,
)  # fmt: skip
from claimsmith.errors import CelFault

_ZERO_TIME_NANOS: Final = -62135596800 * 10**9


def make_optional(value: Value) -> Optional:
    """`optional.of(value)`."""
    return Optional(value, True)


def is_zero(value: Value) -> bool:
    """Tell whether a value is the zero or empty one of its type."""
    if value is None or value is False:
        return True
    if isinstance(value, (int, float)):
        return value == 0
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return not value
    if isinstance(value, Duration):
        return value.nanos == 0
    return isinstance(value, Timestamp) and value.nanos == _ZERO_TIME_NANOS


def make_optional_of_non_zero(value: Value) -> Optional:
    """`optional.ofNonZeroValue(value)`."""
    return NONE if is_zero(value) else Optional(value, True)


def make_none() -> Optional:
    """`optional.none()`."""
    return NONE


def get_value(optional: Optional) -> Value:
    """`optional.value()`."""
    if not optional.present:
        raise CelFault("optional.none() dereference")
    return optional.value


def unwrap(optionals: list[Value]) -> list[Value]:
    """`optional.unwrap(list)`: the values of those that have one."""
    for optional in optionals:
        if type(optional) is not Optional:
            raise CelFault(f"value {format_value(optional)} is not optional")
    return [optional.value for optional in optionals if optional.present]


def _first(values: list[Value]) -> Optional:
    return Optional(values[0], True) if values else NONE


def _last(values: list[Value]) -> Optional:
    return Optional(values[-1], True) if values else NONE


def insert_entry(a_map: Value, key: Value, value: Value) -> Value:
    """Return a map with one more entry; the map of a loop is filled in place.

    Raises:
        CelFault: The map has the key already.
    """
    if find_entry(a_map, key)[1]:
        raise CelFault(f"insert failed: key {format_value(key)} already exists")
    target = a_map if type(a_map) is MutableMap else dict(a_map)
    target[to_key(key)] = value
    return target


def insert_map(a_map: Value, more: Value) -> Value:
    """Return a map with the entries of another added."""
    for key in iterate_keys(more):
        a_map = insert_entry(a_map, key, more[to_key(key)])
    return a_map


def _not_bound(*_values: Value) -> Value:
    raise CelFault("no such overload")


_K, _V = param("K"), param("V")
_OPTIONAL_V, _LIST_V, _MAP_KV = optional_of(_V), list_of(_V), map_of(_K, _V)

FUNCTIONS: Final[tuple[Function, ...]] = (
    function("optional.of", overload("optional_of", (_V,), _OPTIONAL_V, make_optional)),
    function(
        "optional.ofNonZeroValue", overload("optional_ofNonZeroValue", (_V,), _OPTIONAL_V, make_optional_of_non_zero)
    ),
    function("optional.none", overload("optional_none", (), _OPTIONAL_V, make_none)),
    function("value", method("optional_value", (_OPTIONAL_V,), _V, get_value)),
    function("hasValue", method("optional_hasValue", (_OPTIONAL_V,), BOOL, lambda optional: optional.present)),
    function("or", method("optional_or_optional", (_OPTIONAL_V, _OPTIONAL_V), _OPTIONAL_V), run=_not_bound),
    function("orValue", method("optional_orValue_value", (_OPTIONAL_V, _V), _V), run=_not_bound),
    function("_?._", overload("select_optional_field", (DYN, STRING), _OPTIONAL_V), run=_not_bound),
    function(
        "_[?_]",
        overload("list_optindex_optional_int", (_LIST_V, INT), _OPTIONAL_V),
        overload("optional_list_optindex_optional_int", (optional_of(_LIST_V), INT), _OPTIONAL_V),
        overload("map_optindex_optional_value", (_MAP_KV, _K), _OPTIONAL_V),
        overload("optional_map_optindex_optional_value", (optional_of(_MAP_KV), _K), _OPTIONAL_V),
        run=_not_bound,
    ),
    function(
        "_[_]",
        overload("optional_list_index_int", (optional_of(_LIST_V), INT), _OPTIONAL_V),
        overload("optional_map_index_value", (optional_of(_MAP_KV), _K), _OPTIONAL_V),
    ),
    function("last", method("list_last", (_LIST_V,), _OPTIONAL_V, _last)),
    function("first", method("list_first", (_LIST_V,), _OPTIONAL_V, _first)),
    function("optional.unwrap", overload("optional_unwrap", (list_of(_OPTIONAL_V),), _LIST_V, unwrap)),
    function("unwrapOpt", method("optional_unwrapOpt", (list_of(_OPTIONAL_V),), _LIST_V, unwrap)),
    function(
        "cel.@mapInsert",
        overload("@mapInsert_map_key_value", (_MAP_KV, _K, _V), _MAP_KV, insert_entry),
        overload("@mapInsert_map_map", (_MAP_KV, _MAP_KV), _MAP_KV, insert_map),
    ),
)
"""Functions of optional values, and of the maps that loops make."""

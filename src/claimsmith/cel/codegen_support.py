"""What compiled functions call: slow but general ways to read, loop and compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NoReturn

from claimsmith.cel.attributes import QUALIFIER_TYPES, select
from claimsmith.cel.frames import Failure
from claimsmith.cel.lib_regex import compile_pattern
from claimsmith.cel.operators import contains, is_equal
from claimsmith.cel.values import (
    NONE,
    UNHASHABLE_TYPES,
    DomainMap,
    MutableMap,
    Optional,
    Value,
    equals,
    from_key,
    is_list,
    is_map,
    is_member,
    to_key,
)
from claimsmith.errors import CelAbort

_REMEMBERED_MATCHES: Final = 512

FALLBACK: Final = object()
"""What a compiled function gives when the interpreter must decide."""


class _NarrowError(Exception):
    """A value is outside what the function handles; raised as a class, so that no traceback grows."""


def _fail() -> NoReturn:
    raise _NarrowError


def _iterate(value: Value) -> Iterator[Value] | list[Value]:
    """Elements of a list, or keys of a map."""
    if isinstance(value, (list, tuple)):
        return iter(value)
    return [from_key(key) for key in value] if is_map(value) else _fail()


def _iterate_pairs(value: Value) -> Iterator[tuple[Value, Value]] | list[tuple[Value, Value]]:
    """Indexes and elements of a list, or keys and values of a map."""
    if is_list(value):
        return enumerate(value)
    return [(from_key(key), item) for key, item in value.items()] if is_map(value) else _fail()


def _get(target: Value, key: Value) -> Value:
    """What stands at a key or index; optionals stay optional."""
    if type(target) is Optional:
        return _get_optional(target, key)
    value, _ = select(target, key, is_test=False)
    return _fail() if isinstance(value, Failure) else value


def _get_optional(target: Value, key: Value) -> Optional:
    """What stands at a key or index, as an optional."""
    if type(key) not in QUALIFIER_TYPES:
        _fail()
    if type(target) is Optional:
        if not target.present:
            return NONE
        target = target.value
    value, present = select(target, key, is_test=True)
    if isinstance(value, Failure):
        _fail()
    return Optional(value, True) if present else NONE


def _has(target: Value, key: Value) -> bool:
    """Whether something stands at a key."""
    return _get_optional(target, key).present


def _contains_in_list(element: Value, container: Value) -> bool:
    """`element in [a, b]`, but for elements at which the interpreter stops if the list is constant."""
    if type(element) in UNHASHABLE_TYPES:
        raise CelAbort("left to the interpreter")
    return contains(element, container)


def _as_domain_map(value: dict[str, Any]) -> DomainMap:
    return DomainMap(value)


def _unwrap(value: Value) -> Optional:
    return value if type(value) is Optional else _fail()


def make_matcher(pattern: str) -> Callable[[Value], bool]:
    """Return a function that matches texts with one pattern and remembers its answers."""
    search = compile_pattern(pattern).search

    @lru_cache(maxsize=_REMEMBERED_MATCHES)
    def matches_text(text: str) -> bool:
        return search(text) is not None

    def matches(value: Value) -> bool:
        return matches_text(value) if type(value) is str else _fail()

    return matches


HELPERS: Final[dict[str, Any]] = {
    "FALLBACK": FALLBACK, "FAIL": _NarrowError, "ABORT": CelAbort, "EMPTY": {}, "MISSING": object(), "NONE": NONE,
    "ITER": _iterate, "PAIRS": _iterate_pairs, "GET": _get, "OPT": _get_optional, "HAS": _has, "EQ": equals,
    "SAME": is_equal, "IN": contains, "IN_LIST": _contains_in_list, "MEMBER": is_member,
    "DOMAINS": _as_domain_map, "UNWRAP": _unwrap, "OPTIONAL": Optional, "KEY": to_key, "MAP": MutableMap,
    "PLAIN": dict, "type": type, "str": str, "int": int, "bool": bool, "float": float, "bytes": bytes,
    "Exception": Exception,
}  # fmt: skip
"""Names that compiled functions use, with what they stand for."""

"""Values at run time, as plain Python values where their meaning is the same.

int, float, str, bytes, bool, None, list and dict stand for themselves (an int is an int64); the rest have a class here.
Map keys that are bools are wrapped, because True and 1 are one key to a dict and two to the language.

Source: common/types in cel-go v0.29.2; pkg/cel in k8s.io/apiserver v0.37.2.

Deviates: map-key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from claimsmith.cel.types import CelType
from claimsmith.errors import CelAbort, CelFault
from claimsmith.model.quantity import Quantity
from claimsmith.model.semver import Semver

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
UINT64_MAX: Final = 2**64 - 1

Value = Any
"""Any run-time value; see the module's text for what stands for what."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class MutableList(list[Value]):
    """The list that a comprehension fills in place."""

    __slots__ = ()


class MutableMap(dict[Value, Value]):
    """The map that a comprehension fills in place."""

    __slots__ = ()


class DomainMap(dict[str, Mapping[str, Value]]):
    """Attributes or capacity by domain; a domain that is not there reads as an empty map.

    Source: newStringInterfaceMapWithDefault in compile.go, k8s.io/dynamic-resource-allocation v0.37.2.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as the key of a map."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value that may be absent."""

    value: Value = None
    present: bool = False


NONE: Final = Optional()
"""The optional without a value."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time in nanoseconds, within ±292 years."""

    nanos: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """A point in time: nanoseconds since 1970-01-01 UTC, and the zone it was written in (seconds east)."""

    nanos: int
    zone_s: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value; equal by run-time name, so `type([1]) == list`."""

    name: str


@dataclass(frozen=True, slots=True)
class Ip:
    """An IP address."""

    address: IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """An IP network with the host bits that were written."""

    interface: IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True)
class Url:
    """A parsed absolute URL."""

    text: str
    scheme: str
    host: str
    hostname: str
    port: str
    escaped_path: str
    query: Mapping[str, tuple[str, ...]]

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True, slots=True, eq=False)
class NamedFormat:
    """A text format of Kubernetes; `validate` gives the faults of a text, empty when it is fine."""

    name: str
    validate: Callable[[str], list[str]]
    max_regex_size: int


class ComputedQuantity(Quantity):
    """The result of add() or sub(), which upstream refuses on the right side of `==`.

    Source: Equal in pkg/cel/quantity.go and quantityAdd in pkg/cel/library/quantity.go, k8s.io/apiserver v0.37.2.
    """

    __slots__ = ()

    @classmethod
    def of(cls, value: Quantity) -> ComputedQuantity:
        """Return the same value, marked as computed."""
        return cls(nanos=value.nanos, format=value.format, exponent=value.exponent, is_wide=value.is_wide)


_TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null_type",
    list: "list", tuple: "list", MutableList: "list", dict: "map", MutableMap: "map", DomainMap: "map",
    Optional: "optional_type", Duration: "google.protobuf.Duration", Timestamp: "google.protobuf.Timestamp",
    TypeValue: "type", Quantity: "kubernetes.Quantity", ComputedQuantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver", Ip: "net.IP", Cidr: "net.CIDR",
    Url: "kubernetes.URL", NamedFormat: "kubernetes.NamedFormat",
}  # fmt: skip


def type_name(value: Value) -> str:
    """Return the run-time name of a value's type."""
    return _TYPE_NAMES.get(type(value), "unknown")


def is_list(value: Value) -> bool:
    """Tell whether a value is a list."""
    return isinstance(value, (list, tuple))


def is_map(value: Value) -> bool:
    """Tell whether a value is a map."""
    return isinstance(value, dict)


def to_key(value: Value) -> Value:
    """Return a value in the form in which it is a key of a dict."""
    return BoolKey(value) if value is True or value is False else value


def from_key(key: Value) -> Value:
    """Return the value that a key of a dict stands for."""
    return key.value if type(key) is BoolKey else key


def iterate_keys(a_map: Mapping[Value, Value]) -> Iterator[Value]:
    """Yield the keys of a map as values."""
    return (from_key(key) for key in a_map)


_KEY_TYPES: Final = frozenset({str, int, Uint, bool, float})


def find_entry(a_map: Mapping[Value, Value], key: Value) -> tuple[Value, bool]:
    """Return the value of a key and True; None and False when the map doesn't have the key."""
    if type(key) not in _KEY_TYPES:
        return ({}, True) if type(a_map) is DomainMap else (None, False)
    found = a_map.get(to_key(key), a_map)
    if found is not a_map:
        return found, True
    return ({}, True) if type(a_map) is DomainMap else (None, False)


UNHASHABLE_TYPES: Final = frozenset({Semver, NamedFormat, bytes})
"""Types of values that upstream can't look up among constants."""


def is_member(value: Value, keys: frozenset[Value]) -> bool:
    """Tell whether a value is one of some constants, which are given as keys.

    Raises:
        CelAbort: The value is of a type that upstream can't look up.

    Source: evalSetMembership in interpreter/interpretable.go.
    """
    kind = type(value)
    if kind in UNHASHABLE_TYPES:
        raise CelAbort(f"a value of type {type_name(value)} can't be looked up in a list of constants")
    return kind in _KEY_TYPES and to_key(value) in keys


def is_number(value: Value) -> bool:
    """Tell whether a value is an int, uint or double."""
    return isinstance(value, (int, float)) and value is not True and value is not False


def equals(left: Value, right: Value) -> bool:
    """Tell whether two values are equal; values of different types are not, except numbers.

    Raises:
        CelFault: The left side is of one of Kubernetes' own types, and the right side of another type.
    """
    if left is None or right is None:
        return left is right
    kind = type(left)
    if kind is str or kind is bytes:
        return type(right) is kind and bool(left == right)
    if kind is bool:
        return left is right
    if isinstance(left, (int, float)):
        return _equal_numbers(left, right)
    if isinstance(left, (list, tuple)):
        return is_list(right) and _equal_lists(left, right)
    if isinstance(left, dict):
        return is_map(right) and _equal_maps(left, right)
    if kind is Optional:
        return _equal_optionals(left, right)
    if kind in _STRICT_TYPES:
        return _equal_strict(left, right)
    return bool(left == right)


def _equal_strict(left: Value, right: Value) -> bool:
    """Compare Kubernetes' own values."""
    if isinstance(left, Quantity):
        if type(right) is not Quantity:
            raise CelFault("no such overload")
        return left.nanos == right.nanos
    if type(left) is not type(right):
        raise CelFault("no such overload")
    if isinstance(left, NamedFormat):
        return bool(left.name == right.name)
    return bool(left == right)


def _equal_items(left: Value, right: Value) -> bool:
    """Compare items of lists and maps; upstream takes an error here for equality."""
    try:
        return equals(left, right)
    except CelFault:
        return True


def _equal_numbers(left: float, right: Value) -> bool:
    """Compare as upstream: an int against a double is compared as doubles, unless it is out of range."""
    if not is_number(right):
        return False
    if isinstance(left, float) or isinstance(right, float):
        return compare_numbers(left, right) == 0 if left == left and right == right else False
    return left == right


def _equal_lists(left: Value, right: Value) -> bool:
    return len(left) == len(right) and all(_equal_items(one, two) for one, two in zip(left, right, strict=True))


def _equal_maps(left: Mapping[Value, Value], right: Mapping[Value, Value]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        other, found = find_entry(right, from_key(key))
        if not found or not _equal_items(value, other):
            return False
    return True


def _equal_optionals(left: Optional, right: Value) -> bool:
    if type(right) is not Optional or left.present != right.present:
        return False
    return not left.present or equals(left.value, right.value)


def compare_numbers(left: float, right: float) -> int:
    """Return -1, 0 or 1 for two numbers, none of them NaN. Source: common/types/compare.go."""
    if isinstance(left, float) and not isinstance(right, float):
        low, high = (0, UINT64_MAX) if isinstance(right, Uint) else (INT64_MIN, INT64_MAX)
        if left < float(low):
            return -1
        if left > float(high):
            return 1
        right = float(right)
    elif isinstance(right, float) and not isinstance(left, float):
        return -compare_numbers(right, left)
    return (left > right) - (left < right)


_STRICT_TYPES: Final = frozenset({Quantity, ComputedQuantity, Semver, Ip, Cidr, Url, NamedFormat})
_PLAIN_ORDERED: Final = frozenset({str, bytes, bool, Duration})


def is_ordered(value: Value) -> bool:
    """Tell whether values of this type have an order."""
    return type(value) in _PLAIN_ORDERED or is_number(value) or type(value) is Timestamp


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1: the order of two values.

    Raises:
        CelFault: The values have no order.
    """
    kind = type(left)
    if kind in _PLAIN_ORDERED:
        if type(right) is not kind:
            raise CelFault("no such overload")
        if kind is str:
            return _compare_strings(left, right)
        return int(left > right) - int(left < right)
    if is_number(left):
        if not is_number(right):
            raise CelFault("no such overload")
        if math.isnan(left) or math.isnan(right):
            raise CelFault("NaN values cannot be ordered")
        return compare_numbers(left, right)
    if kind is Timestamp and type(right) is Timestamp:
        return int(left.nanos > right.nanos) - int(left.nanos < right.nanos)
    raise CelFault("no such overload")


def _compare_strings(left: str, right: str) -> int:
    """Order texts by their UTF-8 bytes, which is the order of their code points."""
    return (left > right) - (left < right)


def size_of(value: Value) -> int | None:
    """Return the size of a string (code points), bytes, list or map; None for values without a size."""
    if isinstance(value, (str, bytes, list, tuple, dict)):
        return len(value)
    if type(value) is Ip:
        return 4 if value.address.version == 4 else 16
    if type(value) is Cidr:
        return (value.interface.network.prefixlen + 7) // 8
    if type(value) is NamedFormat:
        return value.max_regex_size
    return None


def actual_size(value: Value) -> int:
    """Return the size that run-time costs count with; 1 for values without a size. Source: runtimecost.go."""
    size = size_of(value)
    if size is not None:
        return size
    if type(value) is Optional and value.present:
        return actual_size(value.value)
    return 1


def matches_type(wanted: CelType, value: Value) -> bool:
    """Tell whether a value can be an argument of a type: lists and maps are judged by their first entry.

    Source: defaultIsAssignableRuntimeType in common/types/types.go.
    """
    if wanted.kind in ("dyn", "any", "param"):
        return True
    if type_name(value) != wanted.name:
        return False
    if wanted.kind == "list" and value:
        return matches_type(wanted.params[0], value[0])
    if wanted.kind == "map" and value:
        key = next(iter(value))
        return matches_type(wanted.params[0], from_key(key)) and matches_type(wanted.params[1], value[key])
    return True


def format_value(value: Value) -> str:
    """Return a value as error messages show it."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if type(value) is Uint:
        return str(int(value))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{format_value(from_key(k))}: {format_value(v)}" for k, v in value.items()) + "}"
    return str(value)

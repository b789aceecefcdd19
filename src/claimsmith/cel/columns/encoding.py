"""Columns: distinct values of one read, and a code for each device."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from claimsmith.cel.values import ComputedQuantity, DomainMap, Value
from claimsmith.model.quantity import Quantity
from claimsmith.model.semver import Semver

Codes = NDArray[np.intp]
"""One code for each device, an index into the values of the column."""

Signs = NDArray[np.int8]
"""-1, 0 or 1 for each value of a column: how it relates to a constant; NO_SIGN where it doesn't."""

NO_SIGN: Final = 2
"""The sign of a value of another type than the constant."""

ABSENT: Final = 0
"""The code of devices that don't have what is read."""


class _Absent:
    """Stands for what a device doesn't have."""

    __slots__ = ()


MISSING: Final = _Absent()
"""The value of code ABSENT."""

ORDER_KEYS: Final[dict[type, Callable[[Any], Any]]] = {
    int: lambda value: value,
    str: lambda value: value,
    Quantity: lambda value: value.nanos,
    Semver: lambda value: value.precedence,
}
"""What the order of the values of a type goes by; equal keys mean equal values to the language."""


def _list_key(value: Any) -> object:
    return (type(value), tuple(map(encoding_key, value)))


def _map_key(value: Any) -> object:
    """The order of the entries counts, because loops see it."""
    return (type(value), tuple((encoding_key(key), encoding_key(item)) for key, item in value.items()))


def _quantity_key(value: Any) -> object:
    return (type(value), value.nanos, value.format.name, value.text, value.exponent, value.is_wide)


_KEYS: Final[dict[type, Callable[[Any], object]]] = {
    str: lambda value: value,
    bool: lambda value: (bool, value),
    int: lambda value: (int, value),
    Quantity: _quantity_key,
    ComputedQuantity: _quantity_key,
    Semver: lambda value: (Semver, value.precedence, value.build),
    list: _list_key,
    tuple: _list_key,
    dict: _map_key,
    DomainMap: _map_key,
}


def encoding_key(value: Value) -> object:
    """Return what two values share only if no expression can tell them apart.

    Equality of the language is too coarse: 1Gi and 1024Mi are equal, yet print differently.
    """
    make = _KEYS.get(type(value))
    return object() if make is None else make(value)


class Column:
    """What one read gives on each device.

    Args:
        find: Gives the value on a device, MISSING if it is not there.
    """

    __slots__ = ("_by_identity", "_codes", "_count", "_find", "_known", "_orders", "values")

    def __init__(self, find: Callable[[Any], Value]) -> None:
        self.values: list[Value] = [MISSING]
        self._find = find
        self._known: dict[object, int] = {}
        # Of the objects in `values` alone: they live as long as the column, so that no other gets their identity.
        self._by_identity: dict[int, int] = {id(MISSING): ABSENT}
        self._codes: Codes = np.zeros(64, dtype=np.intp)
        self._count = 0
        self._orders: dict[type, _Order] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def codes(self) -> Codes:
        """The codes of the devices, by row; a view, not to be changed."""
        return self._codes[: self._count]

    def extend(self, devices: Iterable[Any]) -> None:
        """Append devices."""
        find, known, encode = self._find, self._by_identity.get, self._encode
        found = ((value, known(id(value))) for value in map(find, devices))
        more = np.fromiter((encode(value) if code is None else code for value, code in found), dtype=np.intp)
        needed = self._count + len(more)
        if needed > len(self._codes):
            grown = np.zeros(max(needed, 2 * len(self._codes)), dtype=np.intp)
            grown[: self._count] = self.codes
            self._codes = grown
        self._codes[self._count : needed] = more
        self._count = needed

    def replace(self, row: int, device: Any) -> None:
        """Put another device into a row."""
        self._codes[row] = self._encode(self._find(device))

    def compare(self, kind: type, constant: Any) -> Signs:
        """Return how each value relates to a constant.

        Args:
            kind: Exact type of the values to compare, one of ORDER_KEYS.
            constant: Order key of the constant.
        """
        order = self._orders.get(kind)
        if order is None or order.size != len(self.values):
            order = self._orders[kind] = _Order(kind, self.values)
        return order.compare(constant)

    def _encode(self, value: Value) -> int:
        """Return the code of a value, a new one if it has none."""
        known = self._by_identity.get(id(value))
        if known is not None:
            return known
        key = value if type(value) is str else encoding_key(value)
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = self._by_identity[id(value)] = len(self.values)
            self.values.append(value)
        return code


class _Order:
    """The values of one type in their order.

    Ranks, not the values, go into arrays: numbers of any size compare exactly.
    """

    __slots__ = ("_keys", "_ranks", "size")

    def __init__(self, kind: type, values: list[Value]) -> None:
        order_key = ORDER_KEYS[kind]
        self.size = len(values)
        self._keys = sorted({order_key(value) for value in values if type(value) is kind})
        ranks = {key: rank for rank, key in enumerate(self._keys)}
        found = (ranks[order_key(value)] if type(value) is kind else -1 for value in values)
        self._ranks = np.fromiter(found, dtype=np.intp, count=len(values))

    def compare(self, constant: Any) -> Signs:
        """Return how each value relates to a constant."""
        first, behind = bisect_left(self._keys, constant), bisect_right(self._keys, constant)
        signs = (self._ranks >= behind).astype(np.int8) - (self._ranks < first).astype(np.int8)
        signs[self._ranks < 0] = NO_SIGN
        return signs

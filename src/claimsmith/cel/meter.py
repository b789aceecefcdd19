"""What an evaluation costs, counted as upstream counts it.

Costs are kept per step: the interpreter reports every value it computes, and a stack of (value, node) tells which of
them are the arguments of a call. The stack keeps entries that upstream forgets to drop, because they change the sum.

Source: interpreter/runtimecost.go, ext/lists.go and ext/sets.go in cel-go v0.29.2; pkg/cel/library/cost.go in
k8s.io/apiserver v0.37.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from claimsmith.cel.lib_lists import COMPARABLE
from claimsmith.cel.values import Cidr, Ip, NamedFormat, Url, Value, actual_size, is_list, is_map, size_of
from claimsmith.errors import CelAbort, CelCostLimitReached
from claimsmith.model.quantity import Quantity
from claimsmith.model.semver import Semver

LIST_COST: Final = 10
"""Cost of making a list."""

MAP_COST: Final = 30
"""Cost of making a map."""

STRING_FACTOR: Final = 0.1
"""Cost of reading one character."""

REGEX_FACTOR: Final = 0.25
"""Cost of one character of a pattern, for each unit of the text's cost."""


class CostMeter:
    """Counts the cost of one evaluation.

    Args:
        limit: Largest cost, in upstream's units; more raises CelCostLimitReached.
        node_count: No node has an id above it.
    """

    __slots__ = ("_counts", "_ids", "_values", "cost", "limit")

    def __init__(self, limit: int, node_count: int) -> None:
        self.cost, self.limit = 0, limit
        self._values: list[Value] = []
        self._ids: list[int] = []
        self._counts = [0] * (node_count + 1)

    def push(self, node_id: int, value: Value) -> None:
        """Remember the value of a node, and check the limit."""
        self._counts[node_id] += 1
        self._ids.append(node_id)
        self._values.append(value)
        if self.cost > self.limit:
            raise CelCostLimitReached

    def drop(self, node_id: int) -> None:
        """Forget the last value of a node and all values behind it."""
        counts = self._counts
        if not counts[node_id]:
            return
        ids, values = self._ids, self._values
        while True:
            found = ids.pop()
            values.pop()
            counts[found] -= 1
            if found == node_id:
                return

    def take_args(self, node_ids: Sequence[int]) -> list[Value] | None:
        """Return the values of the arguments of a call and forget them; None when one is not there."""
        counts, ids, values = self._counts, self._ids, self._values
        taken = []
        for node_id in reversed(node_ids):
            if not counts[node_id]:
                return None
            while True:
                found, value = ids.pop(), values.pop()
                counts[found] -= 1
                if found == node_id:
                    break
            taken.append(value)
        taken.reverse()
        return taken


CallCost = Callable[[list[Value], Value], int]
"""Gives the cost of a call from its arguments and its result."""


def find_call_cost(function: str, overload_id: str) -> CallCost:
    """Return what tells the cost of a call.

    Args:
        overload_id: The overload if only one is possible, else empty.
    """
    tracked = _BY_OVERLOAD.get(overload_id)
    if tracked is not None:
        return tracked
    known = _BY_FUNCTION.get(function)
    if known is not None:
        return partial(known, overload_id)
    if function == "_==_":
        return _equality
    standard = _STANDARD.get(overload_id)
    return _always_one if standard is None else lambda args, _result: standard(args)


def _always_one(_args: list[Value], _result: Value) -> int:
    return 1


def _equality(args: list[Value], _result: Value) -> int:
    return 1 if isinstance(args[0], _CHEAP_EQUALITY) else _smaller(args)


_CHEAP_EQUALITY: Final = (Quantity, Ip, Cidr, NamedFormat, Url, Semver)


def scan(size: float, factor: float = STRING_FACTOR) -> int:
    """Return the cost of reading something of a size, rounded up."""
    return math.ceil(size * factor)


def _kubernetes_size(value: Value) -> int:
    size = size_of(value)
    return 1 if size is None else size


def _scan_first(_overload_id: str, args: list[Value], _result: Value) -> int:
    return scan(_kubernetes_size(args[0]))


def _scan_first_twice(_overload_id: str, args: list[Value], _result: Value) -> int:
    return scan(_kubernetes_size(args[0]), 2 * STRING_FACTOR)


def _join(_overload_id: str, _args: list[Value], result: Value) -> int:
    return scan(_kubernetes_size(result), 2 * STRING_FACTOR)


def _traverse(_overload_id: str, args: list[Value], _result: Value) -> int:
    return _traversal(args[0])


def _traversal(value: Value) -> int:
    """Return the cost of visiting a value and all values inside."""
    if isinstance(value, str):
        return int(len(value.encode()) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if is_list(value):
        return sum(map(_traversal, value))
    if is_map(value):
        return sum(_traversal(key) + _traversal(item) for key, item in value.items())
    return 1


def _find(_overload_id: str, args: list[Value], _result: Value) -> int:
    return scan(1.0 + _kubernetes_size(args[0])) * scan(_kubernetes_size(args[1]), REGEX_FACTOR)


def _ip(overload_id: str, args: list[Value], result: Value) -> int:
    return 1 if overload_id == "cidr_ip" else _scan_first(overload_id, args, result)


def _contains_ip(overload_id: str, args: list[Value], _result: Value) -> int:
    width = _kubernetes_size(args[0])
    cost = scan(width + width)
    return cost + scan(_kubernetes_size(args[1])) if overload_id == "cidr_contains_ip_string" else cost


def _contains_cidr(overload_id: str, args: list[Value], _result: Value) -> int:
    width = _kubernetes_size(args[0])
    cost = scan(width + width) + scan(width) + 1
    return cost + scan(_kubernetes_size(args[1])) if overload_id == "cidr_contains_cidr_string" else cost


def _validate(_overload_id: str, args: list[Value], _result: Value) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return scan(1.0 + _kubernetes_size(args[1])) * scan(args[0].max_regex_size, REGEX_FACTOR)


def _one(_overload_id: str, _args: list[Value], _result: Value) -> int:
    return 1


_Known = Callable[[str, list[Value], Value], int]

_BY_FUNCTION: Final[dict[str, _Known]] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _traverse),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _scan_first),
    **dict.fromkeys(("replace", "split"), _scan_first_twice),
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(("cidr", "isIP", "isCIDR"), _scan_first),
    "ip": _ip,
    "ip.isCanonical": _scan_first_twice,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _scan_first),
    "validate": _validate,
    **dict.fromkeys(
        ("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
         "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger",
         "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch",
         "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
        _one,
    ),
}  # fmt: skip


def _list_call(factor: float, size: int) -> int:
    """Return the cost of a call that makes a list; beyond 64 bits Go's conversion on amd64 gives 2**63."""
    amount = int(size * (1.0 if factor < 0 else factor))
    return (amount if amount < 2**64 else 2**63) + 1 + LIST_COST


def _output_size(_args: list[Value], result: Value) -> int:
    return _list_call(1, actual_size(result))


def _flatten(args: list[Value], _result: Value) -> int:
    if len(args) == 2 and type(args[1]) is not int:
        raise CelAbort("the depth of flatten() is the result of something that failed")
    depth = float(args[1]) if len(args) == 2 else 1.0
    return _list_call(depth, actual_size(args[0]))


def _self_compare(values: Value) -> int:
    if not is_list(values):
        raise CelAbort("a list to compare is the result of something that failed")
    size = actual_size(values)
    if size == 0:
        return _list_call(2.0, 0)
    factor = 2.0 + (STRING_FACTOR if isinstance(values[0], (str, bytes)) else 0.0)
    return _list_call(factor, size * size)


def _compare_first(args: list[Value], _result: Value) -> int:
    return _self_compare(args[0])


def _compare_second(args: list[Value], _result: Value) -> int:
    return _self_compare(args[1])


def _sets(factor: float) -> Callable[[list[Value], Value], int]:
    return lambda args, _result: 1 + int(actual_size(args[0]) * actual_size(args[1]) * factor)


_BY_OVERLOAD: Final[dict[str, Callable[[list[Value], Value], int]]] = {
    "list_slice": _output_size,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _output_size,
    "list_reverse": _output_size,
    "list_distinct": _compare_first,
    **{f"list_{kind.name}_sort": _compare_first for _, kind in COMPARABLE},
    **{f"list_{kind.name}_sortByAssociatedKeys": _compare_second for _, kind in COMPARABLE},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


def _smaller(args: list[Value]) -> int:
    return scan(min(actual_size(args[0]), actual_size(args[1])))


def _matches(args: list[Value]) -> int:
    return scan(1.0 + actual_size(args[0])) * scan(actual_size(args[1]), REGEX_FACTOR)


_STANDARD: Final[dict[str, Callable[[list[Value]], int]]] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string"), lambda args: scan(actual_size(args[1]))),
    **dict.fromkeys(
        ("string_to_bytes", "bytes_to_string", "strings_quote", "string_format"),
        lambda args: scan(actual_size(args[0])),
    ),
    "in_list": lambda args: actual_size(args[1]),
    **dict.fromkeys(
        ("less_string", "greater_string", "less_equals_string", "greater_equals_string", "less_bytes",
         "greater_bytes", "less_equals_bytes", "greater_equals_bytes", "equals", "not_equals"),
        _smaller,
    ),
    **dict.fromkeys(
        ("add_string", "add_bytes"), lambda args: scan(actual_size(args[0]) + actual_size(args[1]))
    ),
    **dict.fromkeys(("matches", "matches_string"), _matches),
    "contains_string": lambda args: scan(actual_size(args[0])) * scan(actual_size(args[1])),
}  # fmt: skip

"""The estimated cost of calls, by function and overload.

Source: checker/cost.go (functionCost), ext/lists.go, ext/sets.go and ext/costs.go in cel-go v0.29.2;
EstimateCallCost in pkg/cel/library/cost.go of k8s.io/apiserver v0.37.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from claimsmith.cel.ast import Expr, Literal
from claimsmith.cel.lib_lists import COMPARABLE
from claimsmith.cel.meter import LIST_COST, REGEX_FACTOR, STRING_FACTOR
from claimsmith.cel.ranges import ONE, UINT64_MAX, UNKNOWN, ZERO, Range, find_size, fixed
from claimsmith.cel.types import NAMED_FORMAT, QUANTITY, SEMVER, URL, CelType

_MAX_FORMAT_SIZE: Final = 64
_MAX_NAME_FORMAT_PATTERN: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A target or argument, as the estimate of a call sees it.

    Args:
        size: Its size if the expression tells it.
        path: Where it comes from, from the variable on; empty if from nowhere.
    """

    expr: Expr
    a_type: CelType
    size: Range | None
    path: tuple[str, ...]

    def best_size(self) -> Range:
        """Return the size that the expression or the API's limits tell."""
        return self.size or find_size(self.path) or UNKNOWN

    def own_size(self) -> Range:
        """Return the size that the expression tells, without another look at the limits."""
        return self.size or UNKNOWN

    def element_size(self) -> Range | None:
        """Return the size of an element by the API's limits; None when the type has no elements."""
        if not self.a_type.params:
            return None
        return (find_size((*self.path, "@items")) if self.path else None) or UNKNOWN


class Estimate(NamedTuple):
    """What a call costs without its arguments, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None


_Estimator = Callable[[Part | None, list[Part]], Estimate | None]


def estimate_call(function: str, overload_id: str, target: Part | None, args: list[Part]) -> Estimate | None:
    """Return the estimate of a call by the extension libraries and Kubernetes; None for the standard functions."""
    by_overload = _BY_OVERLOAD.get(overload_id)
    found = by_overload(target, args) if by_overload else None
    if found is not None:
        return found
    if function == "ip" and overload_id == "cidr_ip":
        return Estimate(ONE)
    if function in ("containsIP", "containsCIDR") and args:
        return _contains_net(function, overload_id, args)
    if function == "_==_" and len(args) == 2:
        return _equality(args)
    by_function = _BY_FUNCTION.get(function)
    return by_function(target, args) if by_function else None


def _traverse(function: str) -> _Estimator:
    """isSorted, sum, min, max, indexOf, lastIndexOf, includes: every element once."""

    def estimate(target: Part | None, _args: list[Part]) -> Estimate | None:
        if target is None:
            return None
        element = target.element_size()
        if element is not None:
            cost = ONE
            if target.a_type.params[0].kind in ("string", "bytes"):
                cost = cost.plus(element.scaled(STRING_FACTOR))
            return Estimate(target.best_size().times(cost))
        if function == "includes":
            return Estimate(target.best_size().times(ONE))
        return Estimate(target.best_size().scaled(STRING_FACTOR))

    return estimate


def _scan_argument(factor: float, *, keeps_size: bool = False) -> _Estimator:
    def estimate(_target: Part | None, args: list[Part]) -> Estimate | None:
        if not args or (keeps_size and len(args) != 1):
            return None
        size = args[0].best_size()
        return Estimate(size.scaled(factor), size if keeps_size else None)

    return estimate


def _scan_target(target: Part | None, _args: list[Part]) -> Estimate | None:
    if target is None:
        return None
    size = target.best_size()
    return Estimate(size.scaled(STRING_FACTOR), size)


def _replace(target: Part | None, args: list[Part]) -> Estimate | None:
    if target is None or len(args) < 2:
        return None
    size, old, new = target.best_size(), args[0].best_size(), args[1].best_size()
    most, kept_most = _replacements(size.max, old.min, grows=new.max > old.min)
    least, kept_least = _replacements(size.min, old.max, grows=old.max > new.min)
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return Estimate(size.scaled(2 * STRING_FACTOR), result)


def _replacements(size: int, old: int, *, grows: bool) -> tuple[int, int]:
    """Return how many replacements are counted in a text of a size, and how much of the text stays."""
    if old == 0:
        return min(size + 1, UINT64_MAX), size
    if not grows:
        return 0, size
    return min(math.ceil(float(size) / float(old)), UINT64_MAX), 0


def _split(target: Part | None, args: list[Part]) -> Estimate | None:
    if target is None:
        return None
    size = target.best_size()
    most = size.max
    if len(args) > 1 and isinstance(args[1].expr, Literal) and type(args[1].expr.value) is int:
        most = args[1].expr.value % 2**64
    return Estimate(size.scaled(2 * STRING_FACTOR), Range(0, most))


def _join(target: Part | None, args: list[Part]) -> Estimate | None:
    if target is None:
        return None
    count, element = target.best_size(), target.element_size()
    size = count.times(element) if element is not None else ZERO
    if args:
        separators = Range(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(args[0].best_size().times(separators))
    return Estimate(size.scaled(STRING_FACTOR), size)


def _find(target: Part | None, args: list[Part]) -> Estimate | None:
    if target is None or not args:
        return None
    size = target.best_size()
    cost = size.plus(ONE).scaled(STRING_FACTOR).times(args[0].best_size().scaled(REGEX_FACTOR))
    return Estimate(cost, Range(0, size.max))


def _contains_net(function: str, overload_id: str, args: list[Part]) -> Estimate:
    width = Range(4, 16)
    cost = width.plus(width).scaled(STRING_FACTOR)
    if function == "containsCIDR":
        cost = cost.plus(width.scaled(STRING_FACTOR)).plus(ONE)
    if overload_id in ("cidr_contains_ip_string", "cidr_contains_cidr_string"):
        cost = cost.plus(args[0].best_size().scaled(STRING_FACTOR))
    return Estimate(cost)


def _validate(_target: Part | None, args: list[Part]) -> Estimate | None:
    if not args:
        return None
    cost = args[0].best_size().scaled(STRING_FACTOR).scaled(_MAX_NAME_FORMAT_PATTERN * REGEX_FACTOR)
    return Estimate(cost)


def _one(_target: Part | None, _args: list[Part]) -> Estimate | None:
    return Estimate(ONE)


def _equality(args: list[Part]) -> Estimate | None:
    """Equality of Kubernetes' own types, when both sides are of one."""
    left, right = args
    if left.a_type != right.a_type:
        return None
    if left.a_type.name in ("net.IP", "net.CIDR"):
        return Estimate(ONE)
    if left.a_type in (QUANTITY, SEMVER):
        return Estimate(ONE)
    if left.a_type == NAMED_FORMAT:
        return Estimate(Range(1, _MAX_FORMAT_SIZE).scaled(STRING_FACTOR))
    if left.a_type == URL:
        size = right.size if right.size is not None else ONE
        return Estimate(Range(1, size.max).scaled(STRING_FACTOR))
    return None


_BY_FUNCTION: Final[dict[str, _Estimator]] = {
    **{name: _traverse(name) for name in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes")},
    "url": _scan_argument(STRING_FACTOR, keeps_size=True),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _scan_target),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver"), _scan_argument(STRING_FACTOR)
    ),
    "ip.isCanonical": _scan_argument(2 * STRING_FACTOR),
    "validate": _validate,
    **dict.fromkeys(
        ("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
         "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger",
         "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch",
         "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath", "getQuery"),
        _one,
    ),
}  # fmt: skip


def _number(part: Part, default: int) -> int:
    """Return the value of an argument that is a constant int, at least 0; a default for others."""
    if isinstance(part.expr, Literal) and type(part.expr.value) is int:
        return max(part.expr.value, 0)
    return default


def _list_call(factor: float, size: Range) -> Estimate:
    return Estimate(size.scaled(factor).plus(ONE).plus(fixed(LIST_COST)), size)


def _slice(target: Part | None, args: list[Part]) -> Estimate | None:
    if target is None or len(args) != 2:
        return None
    start, end = _number(args[0], 0), _number(args[1], target.best_size().max)
    return _list_call(1, fixed((end - start) % 2**64))


def _range(target: Part | None, args: list[Part]) -> Estimate | None:
    return _list_call(1, fixed(_number(args[0], UINT64_MAX))) if target is None and len(args) == 1 else None


def _reverse(target: Part | None, args: list[Part]) -> Estimate | None:
    return _list_call(1, target.best_size()) if target is not None and not args else None


def _flatten(target: Part | None, args: list[Part]) -> Estimate | None:
    if target is None or len(args) > 1:
        return None
    return _list_call(float(_number(args[0], UINT64_MAX)) if args else 1.0, target.best_size())


def _distinct(target: Part | None, args: list[Part]) -> Estimate | None:
    if target is None or args:
        return None
    size = target.best_size()
    return _list_call(2.0, size.times(size))


def _sort(element: CelType, *, by_keys: bool) -> _Estimator:
    factor = 2.0 + (STRING_FACTOR if element.kind in ("string", "bytes") else 0.0)

    def estimate(target: Part | None, args: list[Part]) -> Estimate | None:
        if target is None or len(args) != int(by_keys):
            return None
        size = (args[0] if by_keys else target).best_size()
        return _list_call(factor, size.times(size))

    return estimate


def _sets(factor: float) -> _Estimator:
    def estimate(_target: Part | None, args: list[Part]) -> Estimate | None:
        if len(args) != 2:
            return None
        return Estimate(args[0].best_size().times(args[1].best_size()).scaled(factor).plus(ONE))

    return estimate


_BY_OVERLOAD: Final[dict[str, _Estimator]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    **{f"list_{kind.name}_sort": _sort(kind, by_keys=False) for _, kind in COMPARABLE},
    **{f"list_{kind.name}_sortByAssociatedKeys": _sort(kind, by_keys=True) for _, kind in COMPARABLE},
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}

"""Calls that are plain Python once the types of their arguments are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from claimsmith.model.quantity import Quantity
from claimsmith.model.semver import Semver


@dataclass(frozen=True, slots=True)
class FastCall:
    """Code for one overload.

    Args:
        types: Run-time name and Python type of each argument.
        template: The code, with {0}, {1}, … for the names of the arguments.
    """

    types: tuple[tuple[str, type], ...]
    template: str


_STRING: Final = ("string", str)
_QUANTITY: Final = ("kubernetes.Quantity", Quantity)
_SEMVER: Final = ("kubernetes.Semver", Semver)

FAST_CALLS: Final[dict[str, FastCall]] = {
    "starts_with_string": FastCall((_STRING, _STRING), "{0}.startswith({1})"),
    "ends_with_string": FastCall((_STRING, _STRING), "{0}.endswith({1})"),
    "contains_string": FastCall((_STRING, _STRING), "{1} in {0}"),
    "quantity_is_greater_than": FastCall((_QUANTITY, _QUANTITY), "{0}.nanos > {1}.nanos"),
    "quantity_is_less_than": FastCall((_QUANTITY, _QUANTITY), "{0}.nanos < {1}.nanos"),
    "quantity_compare_to": FastCall((_QUANTITY, _QUANTITY), "{0}.compare_to({1})"),
    "semver_is_greater_than": FastCall((_SEMVER, _SEMVER), "{0}.precedence > {1}.precedence"),
    "semver_is_less_than": FastCall((_SEMVER, _SEMVER), "{0}.precedence < {1}.precedence"),
    "semver_compare_to": FastCall((_SEMVER, _SEMVER), "{0}.compare_to({1})"),
}
"""Fast code by overload id."""

COMPARISONS: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!="}
"""Python's operator for each comparison."""

SWAPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""The operator that says the same with the sides swapped."""

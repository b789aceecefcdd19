"""semver(), isSemver() and the methods of versions.

Source: pkg/cel/library/semverlib.go, version 1, in k8s.io/apiserver v0.37.2.
"""

from __future__ import annotations

from typing import Final

from claimsmith.cel.declarations import Function, function, method, overload
from claimsmith.cel.types import BOOL, INT, SEMVER, STRING
from claimsmith.errors import CelFault, SemverFormatError
from claimsmith.model.semver import Semver, find_semver, parse_semver


def to_semver(text: str, normalize: bool = False) -> Semver:
    """`semver(text[, normalize])`."""
    try:
        return parse_semver(text, normalize=normalize)
    except SemverFormatError as error:
        raise CelFault(f"version {text!r}: {error.reason}") from error


def is_semver(text: str, normalize: bool = False) -> bool:
    """`isSemver(text[, normalize])`."""
    return find_semver(text, normalize=normalize) is not None


def _as_int64(number: int) -> int:
    """Reinterpret an unsigned number as signed, as upstream's conversion does."""
    return number - 2**64 if number >= 2**63 else number


FUNCTIONS: Final[tuple[Function, ...]] = (
    function(
        "semver",
        overload("string_to_semver", (STRING,), SEMVER, to_semver),
        overload("string_bool_to_semver", (STRING, BOOL), SEMVER, to_semver),
    ),
    function(
        "isSemver",
        overload("is_semver_string", (STRING,), BOOL, is_semver),
        overload("is_semver_string_bool", (STRING, BOOL), BOOL, is_semver),
    ),
    function("isGreaterThan", method("semver_is_greater_than", (SEMVER, SEMVER), BOOL, lambda one, two: one > two)),
    function("isLessThan", method("semver_is_less_than", (SEMVER, SEMVER), BOOL, lambda one, two: one < two)),
    function("compareTo", method("semver_compare_to", (SEMVER, SEMVER), INT, lambda one, two: one.compare_to(two))),
    function("major", method("semver_major", (SEMVER,), INT, lambda value: _as_int64(value.major))),
    function("minor", method("semver_minor", (SEMVER,), INT, lambda value: _as_int64(value.minor))),
    function("patch", method("semver_patch", (SEMVER,), INT, lambda value: _as_int64(value.patch))),
)
"""Functions of versions."""

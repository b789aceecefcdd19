"""What is wrong with a field, in the form in which the API server says it.

Deviates: list-limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from claimsmith.errors import FieldError

__all__ = [
    "FieldIssue",
    "IssueType",
    "duplicate",
    "find_duplicates",
    "forbidden",
    "immutable",
    "invalid",
    "not_supported",
    "required",
    "too_long",
    "too_many",
]

IssueType = Literal[
    "Required", "Invalid", "TooLong", "TooMany", "Duplicate", "NotSupported", "NotFound", "Forbidden", "InternalError"
]

_WORDS: Final[dict[IssueType, str]] = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "TooLong": "Too long",
    "TooMany": "Too many",
    "Duplicate": "Duplicate value",
    "NotSupported": "Unsupported value",
    "NotFound": "Not found",
    "Forbidden": "Forbidden",
    "InternalError": "Internal error",
}
_WITH_VALUE: Final = frozenset({"Invalid", "TooMany", "Duplicate", "NotSupported", "NotFound"})
_MAX_VALUE_CHARACTERS: Final = 12_288


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldIssue:
    """One rule of the API that a field breaks.

    Args:
        type: Which sort of rule.
        path: Field path in Kubernetes' form.
        detail: What is allowed; may be empty.
        value: The value that was found; None when it is absent or does not matter.

    Source: field.Error in k8s.io/apimachinery v0.37.2 pkg/util/validation/field/errors.go.
    """

    type: IssueType
    path: str
    detail: str = ""
    value: Any = None

    @property
    def reason(self) -> str:
        """Machine-readable reason of a cause in a Status, such as `FieldValueInvalid`."""
        return self.type if self.type == "InternalError" else f"FieldValue{self.type}"

    @property
    def message(self) -> str:
        """Text of a cause in a Status, such as `Invalid value: "x": must be …`."""
        parts = [_WORDS[self.type]]
        if self.type in _WITH_VALUE:
            text = json.dumps(self.value, ensure_ascii=False, default=str, separators=(",", ":"))
            parts.append(text if len(text) <= _MAX_VALUE_CHARACTERS else text[:_MAX_VALUE_CHARACTERS] + "…")
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)

    @property
    def cause(self) -> tuple[str, str, str]:
        """Reason, message and field of a cause in a Status."""
        return self.reason, self.message, self.path

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"

    def to_error(self, *, source: str = "") -> FieldError:
        """Return the issue as an exception that can be raised."""
        allowed = self.detail or {"Required": "a value"}.get(self.type, "another value")
        hint = "add the field" if self.type == "Required" else "correct the field"
        return FieldError(self.path, self.value, allowed=allowed, hint=hint, source=source)


def required(path: str, detail: str = "") -> FieldIssue:
    """Return the issue of a field that is absent or empty."""
    return FieldIssue(type="Required", path=path, detail=detail)


def invalid(path: str, value: Any, detail: str) -> FieldIssue:
    """Return the issue of a value that breaks a rule."""
    return FieldIssue(type="Invalid", path=path, detail=detail, value=value)


def immutable(path: str, value: Any) -> FieldIssue:
    """Return the issue of a field that must stay as it is."""
    return invalid(path, value, "field is immutable")


def not_supported(path: str, value: Any, supported: Iterable[str]) -> FieldIssue:
    """Return the issue of a value out of a closed list."""
    detail = "supported values: " + ", ".join(f'"{entry}"' for entry in supported)
    return FieldIssue(type="NotSupported", path=path, detail=detail, value=value)


def too_long(path: str, limit_bytes: int) -> FieldIssue:
    """Return the issue of a text that is too long."""
    return FieldIssue(type="TooLong", path=path, detail=f"may not be more than {limit_bytes} bytes")


def too_many(path: str, found: int, limit: int) -> FieldIssue:
    """Return the issue of a list that is too long."""
    return FieldIssue(type="TooMany", path=path, detail=f"must have at most {limit} items", value=found)


def duplicate(path: str, value: Any) -> FieldIssue:
    """Return the issue of a value that stands twice in a set."""
    return FieldIssue(type="Duplicate", path=path, value=value)


def forbidden(path: str, detail: str) -> FieldIssue:
    """Return the issue of a field that must not be set, or not be changed, in this state."""
    return FieldIssue(type="Forbidden", path=path, detail=detail)


def find_duplicates(keys: Iterable[Any], path: str) -> Iterator[FieldIssue]:
    """Yield an issue for each key that stands before it already."""
    seen: set[Any] = set()
    for i, key in enumerate(keys):
        if key in seen:
            yield duplicate(f"{path}[{i}]", key)
        seen.add(key)

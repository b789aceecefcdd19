"""Selections: which objects a list or watch is about.

Source: k8s.io/apimachinery v0.37.2 pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.embedded.store_faults import bad_request
from claimsmith.embedded.store_labels import LabelRequirement
from claimsmith.embedded.store_records import JsonObject

__all__ = [
    "EVERYTHING",
    "FieldRequirement",
    "Selection",
    "field_value",
    "parse_fields",
]

_PLAIN: Final = {"spec.hostNetwork": "false", "spec.unschedulable": "false"}
"""Fields that are selected by a value while they are not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRequirement:
    """One condition on a field: its text equals, or does not equal, a value."""

    path: str
    value: str
    equal: bool = True

    def matches(self, value: JsonObject) -> bool:
        """Tell whether an object fulfils the condition."""
        return (field_value(value, self.path) == self.value) is self.equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The objects that a list or watch is about.

    Args:
        namespace: Only objects of this namespace; empty for all.
        labels: Conditions on labels, all of which must hold.
        fields: Conditions on fields, all of which must hold.
    """

    namespace: str = ""
    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    def matches(self, value: JsonObject) -> bool:
        """Tell whether an object belongs to the selection."""
        metadata = value["metadata"]
        if self.namespace and metadata.get("namespace") != self.namespace:
            return False
        if self.labels:
            labels = metadata.get("labels") or {}
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all(requirement.matches(value) for requirement in self.fields)

    def find_equal(self, path: str) -> str | None:
        """Return the value that the selection demands of a field; None if it demands none."""
        return next((item.value for item in self.fields if item.equal and item.path == path), None)


EVERYTHING = Selection()
"""Every object of a kind."""


def field_value(value: JsonObject, path: str) -> str:
    """Return a field as the text that field selectors compare; empty when it is absent.

    Args:
        value: The object.
        path: Names joined by dots, such as `spec.nodeName`.
    """
    found: Any = value
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
        if found is None:
            return _PLAIN.get(path, "")
    return str(found).lower() if isinstance(found, bool) else str(found)


def parse_fields(text: str) -> tuple[FieldRequirement, ...]:
    r"""Return the conditions of a field selector.

    Args:
        text: Such as `metadata.name=a,status.phase!=Failed`; `\\`, `\,` and `\=` stand for the character.

    Raises:
        RequestError: The text is no field selector.
    """
    return tuple(_parse_field(term) for term in re.split(r"(?<!\\),", text) if term.strip())


def _parse_field(term: str) -> FieldRequirement:
    match = re.match(r"\s*([^=!\s]+?)\s*(!=|==|=)((?:[^\\=]|\\.)*)$", term, re.DOTALL)
    if match is None:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    value = re.sub(r"\\(.)", r"\1", match[3])
    return FieldRequirement(path=match[1], value=value, equal=match[2] != "!=")

"""Label and field selectors: which objects a list or watch is about.

Source: k8s.io/apimachinery v0.37.2 pkg/labels/selector.go, pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimsmith.embedded.store_faults import bad_request
from claimsmith.embedded.store_records import JsonObject

__all__ = [
    "EVERYTHING",
    "FieldRequirement",
    "LabelRequirement",
    "Selection",
    "field_value",
    "parse_fields",
    "parse_labels",
]

_KEY = re.compile(r"(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SET = re.compile(r"(?P<key>[^\s!=<>(),]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_BINARY = re.compile(r"(?P<key>[^\s!=<>(),]+)\s*(?P<op>==|!=|=|<|>)\s*(?P<value>[^\s=!<>(),]*)")
_EXISTS = re.compile(r"(?P<no>!)?\s*(?P<key>[^\s!=<>(),]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """One condition on a label.

    Args:
        key: The label.
        operator: `in`, `notin`, `exists`, `absent`, `gt` or `lt`.
        values: Values that the operator takes.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether a set of labels fulfils the condition."""
        found = labels.get(self.key)
        match self.operator:
            case "in":
                return found is not None and found in self.values
            case "notin":
                return found is None or found not in self.values
            case "exists":
                return found is not None
            case "absent":
                return found is None
            case _:
                return _compare(found, next(iter(self.values)), self.operator)


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
            return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


def parse_labels(text: str) -> tuple[LabelRequirement, ...]:
    """Return the conditions of a label selector.

    Args:
        text: Such as `app=web,tier in (a, b),!old`; empty for no condition.

    Raises:
        RequestError: The text is no label selector.
    """
    requirements, position, text = [], 0, text.strip()
    while position < len(text):
        requirement, end = _parse_label(text, position)
        requirements.append(requirement)
        position = _skip_comma(text, end)
    return tuple(requirements)


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


def _parse_label(text: str, position: int) -> tuple[LabelRequirement, int]:
    while position < len(text) and text[position] == " ":
        position += 1
    if found := _SET.match(text, position):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _label(text, found["key"], found["op"], values), found.end()
    if found := _BINARY.match(text, position):
        operator = {"=": "in", "==": "in", "!=": "notin", "<": "lt", ">": "gt"}[found["op"]]
        return _label(text, found["key"], operator, frozenset({found["value"]})), found.end()
    if found := _EXISTS.match(text, position):
        return _label(text, found["key"], "absent" if found["no"] else "exists", frozenset()), found.end()
    raise _bad_selector(text, f"found {text[position:]!r}, expected: identifier")


def _label(text: str, key: str, operator: str, values: frozenset[str]) -> LabelRequirement:
    if not _KEY.fullmatch(key):
        raise _bad_selector(text, f"{key!r} is no label key")
    for value in values:
        if not _VALUE.fullmatch(value):
            raise _bad_selector(text, f"{value!r} is no label value")
    if operator in ("gt", "lt") and not re.fullmatch(r"-?\d+", next(iter(values))):
        raise _bad_selector(text, "for '>' and '<' the value must be an integer")
    return LabelRequirement(key=key, operator=operator, values=values)


def _skip_comma(text: str, position: int) -> int:
    rest = text[position:].lstrip()
    if not rest:
        return len(text)
    if rest[0] != "," or not rest[1:].strip():
        raise _bad_selector(text, f"found {rest!r}, expected: ',' and a further requirement")
    return len(text) - len(rest) + 1


def _bad_selector(text: str, why: str) -> Exception:
    return bad_request(f"unable to parse requirement: label selector {text!r}: {why}")


def _compare(found: str | None, limit: str, operator: str) -> bool:
    if found is None or not re.fullmatch(r"-?\d+", found):
        return False
    return int(found) > int(limit) if operator == "gt" else int(found) < int(limit)

"""Check decoded JSON against a wire type: unknown fields, wrong types, too deep nesting; and drop what is unknown.

Nothing here recurses: an object may be nested as deeply as it likes and is refused at MAX_DEPTH.
Null is allowed everywhere and means absent, as in the API server.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from claimsmith.api.shapes import ANY_SHAPE, Form, Shape, WireField, get_shape
from claimsmith.api.spelling import count_edits
from claimsmith.api.wire.base import Wire
from claimsmith.errors import FieldError
from claimsmith.model.quantity import find_quantity

__all__ = ["MAX_DEPTH", "SchemaIssue", "check_object", "find_nearest", "is_time", "prune_object", "render_path"]

MAX_DEPTH: Final = 200
"""Deepest nesting of an object that is read; upstream's types need less than 20, opaque parameters are free."""
MAX_ISSUES: Final = 64
"""Most issues that one check returns."""

_INTEGER_LIMITS: Final = {32: 2**31, 64: 2**63}
_TIME: Final = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T"
    r"([01]?[0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?(Z|[+-]([01][0-9]|2[0-4]):[0-5][0-9])"
)
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCALARS: Final[dict[Form, tuple[type, ...]]] = {
    Form.STRUCT: (dict,),
    Form.MAP: (dict,),
    Form.LIST: (list, tuple),
    Form.STRING: (str,),
    Form.TIME: (str,),
    Form.BYTES: (str,),
    Form.INTEGER: (int,),
    Form.NUMBER: (int, float),
    Form.BOOLEAN: (bool,),
    Form.QUANTITY: (str, int, float),
    Form.INT_OR_STRING: (int, str),
}

# A path is a linked list, (parent, name or index), so that it costs nothing until an issue is found.
_Path = tuple[Any, str | int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaIssue:
    """One place where an object does not have the form of its kind.

    Args:
        kind: `unknown` field, wrong `type`, bad `value` of the right type, or too much `depth`.
        path: Field path, with the unknown field's own name at its end.
        found: The value that was found.
        allowed: What is allowed, in words.
        hint: What to do.
    """

    kind: Literal["unknown", "type", "value", "depth"]
    path: str
    found: object
    allowed: str
    hint: str

    def to_error(self, *, source: str = "") -> FieldError:
        """Return the issue as an exception that can be raised."""
        return FieldError(self.path, self.found, allowed=self.allowed, hint=self.hint, source=source)


def render_path(path: _Path) -> str:
    """Return a linked path in Kubernetes' form, as in `spec.devices.requests[0].capacity.requests[memory]`."""
    parts: list[str] = []
    while path is not None:
        path, part = path
        if isinstance(part, int):
            parts.append(f"[{part}]")
        else:
            parts.append(f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{part}]")
    return "".join(reversed(parts)).removeprefix(".")


def check_object(obj: object, wire_type: type[Wire], *, path: str = "") -> tuple[SchemaIssue, ...]:
    """Return where an object differs from its wire type; empty when it fits.

    Args:
        obj: Decoded JSON.
        wire_type: What it should be.
        path: Path of the object itself, put in front of all paths.

    Returns:
        At most MAX_ISSUES issues, in the order of the fields; unknown fields and wrong types alike.
    """
    issues: list[SchemaIssue] = []
    root: _Path = (None, path) if path else None
    stack: list[tuple[Any, Shape, _Path, int]] = [(obj, get_shape(wire_type), root, 1)]
    while stack and len(issues) < MAX_ISSUES:
        value, shape, where, depth = stack.pop()
        issue = _check_value(value, shape, where, depth)
        if issue is not None:
            issues.append(issue)
        elif isinstance(value, dict):
            children = list(_check_map(value, shape, where, depth, issues))
            stack.extend(reversed(children))
        elif isinstance(value, (list, tuple)):
            items = shape.items or ANY_SHAPE
            size = len(value)
            stack.extend((value[i], items, (where, i), depth + 1) for i in range(size - 1, -1, -1))
    return tuple(issues[:MAX_ISSUES])


def _check_value(value: Any, shape: Shape, where: _Path, depth: int) -> SchemaIssue | None:
    """Check one value without its children."""
    if value is None:
        return None
    form = shape.form
    if depth > MAX_DEPTH and isinstance(value, (dict, list, tuple)):
        return SchemaIssue(
            kind="depth",
            path=render_path(where)[:120] + "…",
            found=f"more than {MAX_DEPTH} levels of nesting",
            allowed=f"at most {MAX_DEPTH} levels",
            hint="flatten the object",
        )
    if form is Form.ANY:
        return None
    if not isinstance(value, _SCALARS[form]) or (isinstance(value, bool) and form is not Form.BOOLEAN):
        return _type_issue(value, form, where)
    return _check_text(value, shape, where)


def _check_text(value: Any, shape: Shape, where: _Path) -> SchemaIssue | None:
    """Check the text or the range of a value of the right type."""
    form = shape.form
    if form is Form.INTEGER:
        limit = _INTEGER_LIMITS[shape.bits or 64]
        good = -limit <= value < limit
        allowed = f"{-limit} to {limit - 1}"
    elif form is Form.QUANTITY:
        good = find_quantity(str(value)) is not None
        allowed = "a quantity such as 4, 500m or 10Gi"
    elif form is Form.TIME:
        good = is_time(value)
        allowed = "an RFC 3339 time such as 2024-05-01T12:00:00Z"
    elif form is Form.BYTES:
        good, allowed = _is_base64(value), "base64 text"
    else:
        return None
    if good:
        return None
    path = render_path(where)
    return SchemaIssue(kind="value", path=path, found=value, allowed=allowed, hint="correct the value")


def is_time(text: str) -> bool:
    """Tell whether a text is an RFC 3339 time as Go reads it. Source: time.Parse with time.RFC3339."""
    return _TIME.fullmatch(text) is not None


def _is_base64(text: str) -> bool:
    """Tell whether a text is standard base64."""
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _type_issue(value: Any, form: Form, where: _Path) -> SchemaIssue:
    """Return the issue of a value of the wrong type."""
    if form in (Form.STRING, Form.TIME, Form.BYTES) and isinstance(value, (bool, int, float)):
        hint = "put the value in quotes"
    elif form in (Form.INTEGER, Form.NUMBER, Form.BOOLEAN) and isinstance(value, str):
        hint = "write the value without quotes"
    elif form is Form.LIST:
        hint = "write a list, each element after a dash or in square brackets"
    else:
        hint = "correct the value"
    return SchemaIssue(kind="type", path=render_path(where), found=value, allowed=form.value, hint=hint)


def _check_map(
    value: dict[Any, Any], shape: Shape, where: _Path, depth: int, issues: list[SchemaIssue]
) -> Iterator[tuple[Any, Shape, _Path, int]]:
    """Yield the children of an object; report unknown fields and keys that are no strings."""
    if shape.form is not Form.STRUCT:
        items = shape.items or ANY_SHAPE
        for key, child in value.items():
            yield child, items, (where, str(key)), depth + 1
        return
    fields = shape.fields
    for key, child in value.items():
        field = fields.get(key)
        if field is not None:
            yield child, field.shape, (where, key), depth + 1
        elif len(issues) < MAX_ISSUES:
            issues.append(_unknown_issue(key, fields, where))


def _unknown_issue(key: object, fields: Mapping[str, WireField], where: _Path) -> SchemaIssue:
    """Return the issue of a field that the type does not have."""
    name = str(key)
    nearest = find_nearest(name, fields)
    below = next((field.name for field in fields.values() if name in field.shape.fields), None)
    if nearest is not None:
        hint = f"write {nearest}"
    elif below is not None:
        hint = f"move it into {below}"
    else:
        hint = "remove it"
    allowed = ", ".join(fields) if len(fields) <= 16 else f"the {len(fields)} fields of this type"
    path = render_path((where, name[:80]))
    return SchemaIssue(kind="unknown", path=path, found=name, allowed=allowed, hint=hint)


def find_nearest(name: str, known: Mapping[str, object] | tuple[str, ...]) -> str | None:
    """Return the known name that a misspelt one probably means; None when none is near."""
    lower = name.lower()
    if len(name) > 64:
        return None
    best, best_distance = None, max(1, min(3, len(name) // 3)) + 1
    for candidate in known:
        if abs(len(candidate) - len(name)) >= best_distance:
            continue
        distance = count_edits(lower, candidate.lower())
        if distance < best_distance:
            best, best_distance = candidate, distance
    return best


def prune_object(obj: Mapping[str, Any], wire_type: type[Wire]) -> dict[str, Any]:
    """Return a copy of an object without unknown fields and without fields that are null.

    A null in a map or a list is the empty value of its type, as for Go's decoder: there it can't be left out.

    Opaque values are kept as they are, by reference. Call `check_object` first: values of a wrong type stay.
    """
    result: dict[str, Any] = {}
    stack: list[tuple[Any, Shape, Any]] = [(obj, get_shape(wire_type), result)]
    while stack:
        source, shape, target = stack.pop()
        for key, value in source.items() if isinstance(source, Mapping) else enumerate(source):
            child = _child_shape(shape, key)
            if child is None or (value is None and shape.form is Form.STRUCT):
                continue
            kept: Any = _EMPTY.get(child.form) if value is None else value
            if isinstance(value, dict) and child.form in (Form.STRUCT, Form.MAP):
                kept = {}
                stack.append((value, child, kept))
            elif isinstance(value, list) and child.form is Form.LIST:
                kept = []
                stack.append((value, child, kept))
            if isinstance(target, dict):
                target[key] = kept
            else:
                target.append(kept)
    return result


_EMPTY: Final[Mapping[Form, Any]] = {
    Form.STRING: "",
    Form.BYTES: "",
    Form.INTEGER: 0,
    Form.NUMBER: 0,
    Form.BOOLEAN: False,
    Form.QUANTITY: "0",
    Form.INT_OR_STRING: 0,
}
"""What null is where a value must be."""


def _child_shape(shape: Shape, key: Any) -> Shape | None:
    """Return the shape of a child; None when the type has no such field."""
    if shape.form is Form.STRUCT:
        field = shape.fields.get(key)
        return None if field is None else field.shape
    return shape.items or ANY_SHAPE

"""Sets of fields, in the form in which `managedFields` keeps them.

A set is a tree of dicts: `f:NAME` is a field, `k:{...}` an element of a list with keys, `v:...` an element of a list
that is a set; an empty dict, or one with `.`, says that the field itself belongs to the set.

Source: sigs.k8s.io/structured-merge-diff fieldpath; FieldsV1, k8s.io/apimachinery v0.37.2 pkg/apis/meta/v1/types.go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.api.shapes import ANY_SHAPE, Form, Shape, WireField

__all__ = [
    "ITSELF",
    "FieldSet",
    "Kept",
    "changed_fields",
    "child_of",
    "field_text",
    "intersect",
    "iter_members",
    "kept_as",
    "list_elements",
    "owned_fields",
    "subtract",
    "union",
]

FieldSet = dict[str, Any]
"""A set of fields: a tree of dicts."""

Path = tuple[str, ...]

ITSELF: Final = "."


@dataclass(frozen=True, slots=True)
class Kept:
    """How a value is owned: as a whole, field by field, or element by element.

    Args:
        how: `atomic`, `fields`, `keys` (list with keys) or `values` (list that is a set).
        keys: Fields that identify an element.
        shape: Shape of the value.
    """

    how: str
    shape: Shape
    keys: tuple[str, ...] = ()


def kept_as(value: Any, shape: Shape, field: WireField | None) -> Kept:
    """Return how a value is owned.

    Args:
        value: The value.
        shape: Its shape.
        field: The field that holds it; None for elements of maps and lists.
    """
    if isinstance(value, dict) and shape.form in (Form.STRUCT, Form.MAP):
        declared = field.map_type if field is not None else ""
        own = shape.wire_type.__map_type__ if shape.wire_type is not None else ""
        return Kept("atomic" if "atomic" in (declared, own) else "fields", shape)
    if isinstance(value, list) and field is not None:
        if field.list_type == "map":
            return Kept("keys", shape, field.list_map_keys)
        if field.list_type == "set":
            return Kept("values", shape)
    return Kept("atomic", shape)


def child_of(shape: Shape, name: str) -> tuple[Shape, WireField | None]:
    """Return the shape of a field of an object, and the field if the type declares it."""
    field = shape.fields.get(name)
    return (field.shape, field) if field is not None else (shape.items or ANY_SHAPE, None)


def _key_of(value: dict[str, Any], keys: list[str], items: Shape) -> dict[str, Any]:
    """Return the fields that identify an element, without those that it neither has nor gets by default."""
    found = {key: _key_value(value, key, items) for key in keys}
    return {key: item for key, item in found.items() if item is not None}


def list_elements(values: list[Any], kept: Kept) -> Iterator[tuple[str, Any]]:
    """Yield the path element and the value of each element of a list that is no whole."""
    items = kept.shape.items or ANY_SHAPE
    for value in values:
        if kept.how == "values":
            yield "v:" + _compact(value), value
        elif isinstance(value, dict):
            yield "k:" + _compact(_key_of(value, sorted(kept.keys), items)), value


def owned_fields(value: Any, shape: Shape, field: WireField | None = None) -> FieldSet:
    """Return the set of all fields that a value sets."""
    kept = kept_as(value, shape, field)
    if kept.how == "fields":
        found: FieldSet = {}
        for name, inner in value.items():
            found["f:" + name] = owned_fields(inner, *child_of(shape, name))
        return found
    if kept.how == "values":
        return {element: {} for element, _ in list_elements(value, kept)}
    if kept.how == "keys":
        items = shape.items or ANY_SHAPE
        return {element: {ITSELF: {}, **owned_fields(inner, items)} for element, inner in list_elements(value, kept)}
    return {}


def changed_fields(old: Any, new: Any, shape: Shape, field: WireField | None = None) -> tuple[FieldSet, FieldSet]:
    """Return the fields that a change sets, and those that it removes; each empty if there are none."""
    kept = kept_as(new, shape, field)
    if kept.how == "atomic" or type(old) is not type(new):
        return {}, {}
    changed: FieldSet = {}
    removed: FieldSet = {}
    for element, before, after, inner, inner_field in _pairs(old, new, kept):
        if before == after:
            continue
        if after is _ABSENT:
            removed[element] = _everything(before, inner, inner_field)
        elif before is _ABSENT:
            changed[element] = _everything(after, inner, inner_field)
        elif _is_whole(before, after, inner, inner_field):
            changed[element] = {}
        else:
            below, gone = changed_fields(before, after, inner, inner_field)
            changed |= {element: below} if below else {}
            removed |= {element: gone} if gone else {}
    return changed, removed


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of either set."""
    merged = {**left}
    if _is_member(left) != _is_member(right) or (not left and right) or (left and not right):
        merged[ITSELF] = {}
    for element, below in right.items():
        merged[element] = union(merged[element], below) if element in merged else below
    return merged if len(merged) > 1 or ITSELF not in merged else {}


def subtract(left: FieldSet, right: FieldSet) -> FieldSet | None:
    """Return the fields of the first set that are not in the second; None if nothing is left."""
    if not left:
        return None if _is_member(right) else {}
    rest: FieldSet = {}
    for element, below in left.items():
        if element == ITSELF:
            if not _is_member(right):
                rest[ITSELF] = {}
        elif element not in right:
            rest[element] = below
        else:
            kept = subtract(below, right[element])
            if kept is not None:
                rest[element] = kept
    return _tidy(rest)


def intersect(left: FieldSet, right: FieldSet) -> FieldSet | None:
    """Return the fields of both sets; None if there are none."""
    if not left or not right:
        return {} if _is_member(left) and _is_member(right) else None
    both: FieldSet = {}
    for element, below in left.items():
        if element == ITSELF:
            if _is_member(right):
                both[ITSELF] = {}
        elif element in right:
            found = intersect(below, right[element])
            if found is not None:
                both[element] = found
    return _tidy(both)


def iter_members(fields: FieldSet, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all members."""
    if path and _is_member(fields):
        yield path
    for element, below in fields.items():
        if element != ITSELF:
            yield from iter_members(below, (*path, element))


def field_text(path: Path) -> str:
    """Return a path as messages write it, such as `.spec.containers[name="web"].image`."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    kind, rest = element[:2], element[2:]
    if kind == "f:":
        return f".{rest}"
    if kind == "v:":
        return f"[={rest}]"
    keys: Mapping[str, Any] = json.loads(rest)
    return "[" + ",".join(f"{key}={_compact(value)}" for key, value in keys.items()) + "]"


_ABSENT: Final = object()


def _pairs(old: Any, new: Any, kept: Kept) -> Iterator[tuple[str, Any, Any, Shape, WireField | None]]:
    """Yield path element, value before, value after and shape of every part of two values."""
    if kept.how == "fields":
        for name in dict.fromkeys((*new, *old)):
            yield f"f:{name}", old.get(name, _ABSENT), new.get(name, _ABSENT), *child_of(kept.shape, name)
        return
    before, after = dict(list_elements(old, kept)), dict(list_elements(new, kept))
    items = kept.shape.items or ANY_SHAPE
    for element in dict.fromkeys((*after, *before)):
        yield element, before.get(element, _ABSENT), after.get(element, _ABSENT), items, None


def _is_whole(before: Any, after: Any, shape: Shape, field: WireField | None) -> bool:
    return type(before) is not type(after) or kept_as(after, shape, field).how == "atomic"


def _everything(value: Any, shape: Shape, field: WireField | None) -> FieldSet:
    """Return all fields of a value, and the value itself."""
    below = owned_fields(value, shape, field)
    return {ITSELF: {}, **below} if below else {}


def _is_member(fields: FieldSet) -> bool:
    return not fields or ITSELF in fields


def _tidy(fields: FieldSet) -> FieldSet | None:
    if not fields:
        return None
    return {} if set(fields) == {ITSELF} else fields


def _key_value(value: dict[str, Any], key: str, items: Shape) -> Any:
    found = value.get(key)
    if found is not None:
        return found
    field = items.fields.get(key)
    default = field.default if field is not None else None
    return json.loads(default) if isinstance(default, str) and default.startswith('"') else default


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)

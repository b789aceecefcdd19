"""The wire types as data: for every field its JSON name, form, format and merge rules, read once per type.

`api.schema` checks objects against shapes; an API server builds OpenAPI and merge patches from them.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from claimsmith.api.wire.base import Wire

__all__ = ["ANY_SHAPE", "Form", "Shape", "WireField", "find_field", "get_fields", "get_shape"]


class Form(Enum):
    """What a JSON value must look like."""

    STRUCT = "an object"
    MAP = "a map"
    LIST = "a list"
    STRING = "a string"
    TIME = "a time"
    BYTES = "base64 text"
    INTEGER = "a whole number"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    QUANTITY = "a quantity"
    INT_OR_STRING = "a whole number or a string"
    ANY = "any value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The form of one JSON value.

    Args:
        form: What it must look like.
        wire_type: The Struct, for Form.STRUCT.
        items: The shape of the values, for Form.LIST and Form.MAP.
        bits: 32 or 64 for Form.INTEGER; 0 for others.
    """

    form: Form
    wire_type: type[Wire] | None = None
    items: Shape | None = None
    bits: Literal[0, 32, 64] = 0

    @property
    def fields(self) -> Mapping[str, WireField]:
        """The fields by JSON name; empty unless the form is STRUCT."""
        return get_fields(self.wire_type) if self.wire_type is not None else _NO_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class WireField:
    """One field of a wire type.

    Args:
        name: JSON name, such as `shareID`.
        attribute: Name in Python, such as `share_id`.
        shape: Form of the value.
        required: Whether the OpenAPI document demands it.
        default: What the API server puts in when the field is absent; None for nothing.
        list_type: atomic, set or map; empty when it is not given.
        list_map_keys: Fields that identify an element, with list type map.
        patch_strategy: merge or retainKeys, joined by commas; empty to replace.
        patch_merge_key: Field that identifies an element in a strategic merge patch.
        map_type: atomic or granular: whether server-side apply owns an object as a whole.

    Source: OpenAPI extensions x-kubernetes-*, k8s.io/kubernetes v1.37.2 api/openapi-spec.
    """

    name: str
    attribute: str
    shape: Shape
    required: bool = False
    default: str | int | Mapping[str, Any] | None = None
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    patch_strategy: str = ""
    patch_merge_key: str = ""
    map_type: str = ""


ANY_SHAPE: Final = Shape(form=Form.ANY)
_NO_FIELDS: Final[Mapping[str, WireField]] = MappingProxyType({})
_PLAIN: Final[Mapping[object, Shape]] = MappingProxyType(
    {
        str: Shape(form=Form.STRING),
        bool: Shape(form=Form.BOOLEAN),
        int: Shape(form=Form.INTEGER, bits=64),
        float: Shape(form=Form.NUMBER),
        Any: ANY_SHAPE,
    }
)
_FORMATS: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "int32": Shape(form=Form.INTEGER, bits=32),
        "int64": Shape(form=Form.INTEGER, bits=64),
        "double": Shape(form=Form.NUMBER),
        "byte": Shape(form=Form.BYTES),
        "date-time": Shape(form=Form.TIME),
        "quantity": Shape(form=Form.QUANTITY),
        "int-or-string": Shape(form=Form.INT_OR_STRING),
    }
)


@lru_cache(maxsize=1024)
def get_shape(wire_type: type[Wire]) -> Shape:
    """Return the shape of a wire type."""
    return Shape(form=Form.STRUCT, wire_type=wire_type)


@lru_cache(maxsize=1024)
def get_fields(wire_type: type[Wire]) -> Mapping[str, WireField]:
    """Return the fields of a wire type by JSON name, in the order of its definition."""
    hints = typing.get_type_hints(wire_type, include_extras=True)
    names = zip(wire_type.__struct_fields__, wire_type.__struct_encode_fields__, strict=True)
    required = set(wire_type.__required__)
    return MappingProxyType(
        {name: _read_field(name, attribute, hints[attribute], name in required) for attribute, name in names}
    )


def find_field(wire_type: type[Wire], path: str) -> WireField | None:
    """Return the field behind a dotted path of JSON names without indexes, as in `spec.devices.requests`."""
    *parents, last = path.split(".")
    for name in parents:
        field = get_fields(wire_type).get(name)
        shape = None if field is None else field.shape
        while shape is not None and shape.items is not None:
            shape = shape.items
        if shape is None or shape.wire_type is None:
            return None
        wire_type = shape.wire_type
    return get_fields(wire_type).get(last)


def _read_field(name: str, attribute: str, hint: Any, required: bool) -> WireField:
    """Read one field from its annotation."""
    extra: dict[str, Any] = {}
    shape = _read_shape(hint, extra)
    type_map = shape.wire_type.__map_type__ if shape.wire_type is not None else ""
    return WireField(
        name=name,
        attribute=attribute,
        shape=shape,
        required=required,
        default=extra.get("default"),
        list_type=extra.get("x-kubernetes-list-type", ""),
        list_map_keys=tuple(extra.get("x-kubernetes-list-map-keys", ())),
        patch_strategy=extra.get("x-kubernetes-patch-strategy", ""),
        patch_merge_key=extra.get("x-kubernetes-patch-merge-key", ""),
        map_type=extra.get("x-kubernetes-map-type", type_map),
    )


def _read_shape(hint: Any, extra: dict[str, Any]) -> Shape:
    """Return the shape of an annotation; what its markers say goes into `extra`."""
    origin = get_origin(hint)
    if origin is typing.Annotated:
        inner, *notes = get_args(hint)
        for note in notes:
            if isinstance(note, msgspec.Meta):
                extra.update(note.extra_json_schema or {})
        known = _FORMATS.get(extra.get("format", ""))
        return known or _read_shape(inner, extra)
    if origin in (UnionType, typing.Union):
        (inner,) = (argument for argument in get_args(hint) if argument is not NoneType)
        return _read_shape(inner, extra)
    if origin is list:
        return Shape(form=Form.LIST, items=_read_shape(get_args(hint)[0], {}))
    if origin is dict:
        return Shape(form=Form.MAP, items=_read_shape(get_args(hint)[1], {}))
    return _PLAIN[hint] if hint in _PLAIN else get_shape(hint)

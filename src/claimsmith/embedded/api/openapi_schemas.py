"""Schemas of the served kinds, made from the wire types.

Source: k8s.io/kubernetes v1.37.2 api/openapi-spec; the x-kubernetes-* extensions of Kubernetes' OpenAPI documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from claimsmith.api.shapes import Form, Shape, WireField
from claimsmith.embedded.api.served import SERVED, ServedKind

__all__ = ["build_schemas"]

Schema = dict[str, Any]

_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_SCALARS: Final[Mapping[Form, Schema]] = MappingProxyType(
    {
        Form.STRING: {"type": "string"},
        Form.BYTES: {"type": "string", "format": "byte"},
        Form.NUMBER: {"type": "number", "format": "double"},
        Form.BOOLEAN: {"type": "boolean"},
        Form.INT_OR_STRING: {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
        Form.ANY: {"type": "object"},
    }
)
_NAMED_SCALARS: Final[Mapping[str, Schema]] = MappingProxyType(
    {
        _QUANTITY: {
            "description": "A number with a unit, such as 500m or 10Gi.",
            "oneOf": [{"type": "string"}, {"type": "number"}],
        },
        _TIME: {"description": "A time as RFC 3339 text.", "type": "string", "format": "date-time"},
    }
)


def build_schemas(kinds: Iterable[ServedKind], *, prefix: str) -> dict[str, Schema]:
    """Return the schemas of kinds, of their lists, and of all types inside them, by name.

    Args:
        kinds: The kinds.
        prefix: Where references point to, such as `#/components/schemas/`.
    """
    builder = _Builder(prefix)
    for served in kinds:
        builder.add(served.shape)
        if served.kind.is_listable:
            builder.add(Shape(form=Form.STRUCT, wire_type=served.kind.wire_list_type))
    return dict(sorted(builder.schemas.items()))


class _Builder:
    """Collects schemas along the references of the types."""

    def __init__(self, prefix: str) -> None:
        self.schemas: dict[str, Schema] = dict(_NAMED_SCALARS)
        self._prefix = prefix
        self._kinds = {served.wire_type: (served, served.kind.kind) for served in SERVED}
        for served in SERVED:
            if served.kind.is_listable:
                self._kinds[served.kind.wire_list_type] = (served, served.kind.list_kind)

    def add(self, shape: Shape) -> str:
        """Add the schema of a struct and of everything in it; return its name."""
        wire_type = shape.wire_type
        assert wire_type is not None
        name = wire_type.__openapi_name__ or wire_type.__name__
        if name in self.schemas:
            return name
        schema: Schema = {"type": "object", "description": (wire_type.__doc__ or name).strip().split("\n")[0]}
        self.schemas[name] = schema
        schema["properties"] = {field.name: self._property(field) for field in shape.fields.values()}
        required = sorted(field.name for field in shape.fields.values() if field.required)
        if required:
            schema["required"] = required
        if wire_type.__map_type__ == "atomic":
            schema["x-kubernetes-map-type"] = "atomic"
        if wire_type in self._kinds:
            served, kind = self._kinds[wire_type]
            found = {"group": served.kind.group, "version": served.kind.version, "kind": kind}
            schema["x-kubernetes-group-version-kind"] = [found]
        return name

    def _property(self, field: WireField) -> Schema:
        inner = self._schema(field.shape)
        if "$ref" in inner:
            inner = {"allOf": [inner]}
        extensions = {
            "x-kubernetes-list-type": field.list_type,
            "x-kubernetes-list-map-keys": list(field.list_map_keys),
            "x-kubernetes-patch-strategy": field.patch_strategy,
            "x-kubernetes-patch-merge-key": field.patch_merge_key,
            "x-kubernetes-map-type": field.map_type if field.shape.wire_type is None else "",
        }
        if field.default is not None:
            inner = {**inner, "default": _default_of(field.default)}
        return {**inner, **{name: found for name, found in extensions.items() if found and found != "granular"}}

    def _schema(self, shape: Shape) -> Schema:
        if shape.form is Form.STRUCT:
            return {"$ref": self._prefix + self.add(shape)}
        if shape.form in (Form.QUANTITY, Form.TIME):
            return {"$ref": self._prefix + (_QUANTITY if shape.form is Form.QUANTITY else _TIME)}
        if shape.form is Form.LIST and shape.items is not None:
            return {"type": "array", "items": self._schema(shape.items)}
        if shape.form is Form.MAP and shape.items is not None:
            return {"type": "object", "additionalProperties": self._schema(shape.items)}
        if shape.form is Form.INTEGER:
            return {"type": "integer", "format": f"int{shape.bits}"}
        return dict(_SCALARS[shape.form])


def _default_of(default: str | int | Mapping[str, Any]) -> Any:
    return json.loads(default) if isinstance(default, str) and default.startswith('"') else default

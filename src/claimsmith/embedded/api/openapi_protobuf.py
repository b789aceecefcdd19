"""The OpenAPI document of version 2 as protobuf: the only form of it that kubectl reads.

kubectl checks a `v1 List` by it, and finds out by it that a kind is unknown.

Source: openapiv2/OpenAPIv2.proto of github.com/google/gnostic-models v0.7.0; kube-openapi pkg/util/proto/document.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["OPENAPI_PROTOBUF_TYPE", "encode_document", "takes_protobuf"]

OPENAPI_PROTOBUF_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ASKED_TYPES: Final = frozenset(
    {OPENAPI_PROTOBUF_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"},
)
_LENGTH_DELIMITED: Final = 2
_TEXTS: Final[Mapping[str, int]] = MappingProxyType({"$ref": 1, "format": 2, "title": 3, "description": 4})
"""Numbers of the texts of a schema."""


def takes_protobuf(accept: str) -> bool:
    """Tell whether an `Accept` header names the document's protobuf form."""
    return any(part.partition(";")[0].strip() in _ASKED_TYPES for part in accept.split(","))


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Return a document of version 2 with its info and definitions; paths are left out.

    Args:
        document: The document as JSON.
    """
    info = document["info"]
    return b"".join(
        (
            _text(1, document["swagger"]),
            _field(2, _text(1, info["title"]) + _text(2, info["version"])),
            _field(8, b""),
            _field(9, _named_schemas(document["definitions"])),
        )
    )


def _named_schemas(schemas: Mapping[str, Any]) -> bytes:
    """Return `Definitions`, or `Properties`, which look the same."""
    return b"".join(_field(1, _text(1, name) + _field(2, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Mapping[str, Any]) -> bytes:
    """Return a schema. A lone `allOf` is a reference with something beside it, which readers know as a plain one."""
    beside: Mapping[str, Any] = schema.get("allOf", ({},))[0]
    schema = {**schema, **beside}
    parts = [_text(number, schema[name]) for name, number in _TEXTS.items() if name in schema]
    if "default" in schema:
        parts.append(_field(5, _any(schema["default"])))
    parts.extend(_text(19, name) for name in schema.get("required", ()))
    if "additionalProperties" in schema:
        parts.append(_field(21, _field(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_field(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_field(23, _field(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(_field(25, _named_schemas(schema["properties"])))
    extensions = [(name, value) for name, value in schema.items() if name.startswith("x-")]
    parts.extend(_field(31, _text(1, name) + _field(2, _any(value))) for name, value in extensions)
    return b"".join(parts)


def _any(value: Any) -> bytes:
    """Return any value: its YAML, of which JSON is a part."""
    return _text(2, json.dumps(value))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)

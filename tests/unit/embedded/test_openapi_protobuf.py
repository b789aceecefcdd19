"""The protobuf form of OpenAPI version 2, read by protobuf's own library."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from claimsmith.embedded.api.openapi_protobuf import encode_document, takes_protobuf

TEXT, MESSAGE = "TYPE_STRING", "TYPE_MESSAGE"
MESSAGES = {
    "Document": [("swagger", 1, TEXT), ("info", 2, "Info"), ("paths", 8, "Empty"), ("definitions", 9, "Schemas")],
    "Empty": [],
    "Info": [("title", 1, TEXT), ("version", 2, TEXT)],
    "Schemas": [("entries", 1, "*NamedSchema")],
    "NamedSchema": [("name", 1, TEXT), ("value", 2, "Schema")],
    "Any": [("yaml", 2, TEXT)],
    "NamedAny": [("name", 1, TEXT), ("value", 2, "Any")],
    "Types": [("value", 1, "*" + TEXT)],
    "Inner": [("schema", 1, "Schema")],
    "Schema": [
        ("ref", 1, TEXT),
        ("format", 2, TEXT),
        ("description", 4, TEXT),
        ("default", 5, "Any"),
        ("required", 19, "*" + TEXT),
        ("additional", 21, "Inner"),
        ("type", 22, "Types"),
        ("items", 23, "Inner"),
        ("properties", 25, "Schemas"),
        ("extensions", 31, "*NamedAny"),
    ],
}


def read(body: bytes) -> Any:
    """Read a body by the message definitions above."""
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", package="o", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, form in fields:
            plain = form.removeprefix("*")
            found = message.field.add(name=field, number=number)
            found.label = found.LABEL_REPEATED if form.startswith("*") else found.LABEL_OPTIONAL
            found.type = found.TYPE_STRING if plain == TEXT else found.TYPE_MESSAGE
            if plain != TEXT:
                found.type_name = f".o.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    document = message_factory.GetMessageClass(pool.FindMessageTypeByName("o.Document"))()
    document.ParseFromString(body)
    return document


def encode(schema: dict[str, Any]) -> Any:
    """Return a schema after a trip through protobuf."""
    info = {"title": "Kubernetes", "version": "v1"}
    body = encode_document({"swagger": "2.0", "info": info, "paths": {}, "definitions": {"a.B": schema}})
    (entry,) = read(body).definitions.entries
    return entry.value


def test_a_document_has_its_info_and_its_definitions_by_name() -> None:
    info = {"title": "Kubernetes", "version": "v1"}
    document = read(encode_document({"swagger": "2.0", "info": info, "paths": {}, "definitions": {"a.B": {}}}))

    assert (document.swagger, document.info.title, document.info.version) == ("2.0", "Kubernetes", "v1")
    assert [entry.name for entry in document.definitions.entries] == ["a.B"]


def test_a_long_text_survives() -> None:
    text = "ü" * 20_000

    assert encode({"description": text}).description == text


def test_properties_with_their_types_and_what_is_required_survive() -> None:
    schema = encode({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "format": "int32"}}})
    (entry,) = schema.properties.entries

    assert (list(schema.type.value), list(schema.required)) == (["object"], ["a"])
    assert (entry.name, list(entry.value.type.value), entry.value.format) == ("a", ["integer"], "int32")


def test_lists_and_maps_say_what_they_hold() -> None:
    items = encode({"type": "array", "items": {"$ref": "#/definitions/C"}}).items
    values = encode({"type": "object", "additionalProperties": {"type": "string"}}).additional

    assert (items.schema.ref, list(values.schema.type.value)) == ("#/definitions/C", ["string"])


def test_a_reference_with_a_default_beside_it_is_a_reference() -> None:
    schema = encode({"allOf": [{"$ref": "#/definitions/C"}], "default": {}})

    assert (schema.ref, schema.default.yaml) == ("#/definitions/C", "{}")


def test_extensions_are_yaml() -> None:
    (extension,) = encode({"x-kubernetes-list-map-keys": ["name"]}).extensions

    assert (extension.name, extension.value.yaml) == ("x-kubernetes-list-map-keys", '["name"]')


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", True),
        ("application/json, application/com.github.proto-openapi.spec.v2.v1.0+protobuf;q=0.5", True),
        ("application/json", False),
        ("", False),
    ],
)
def test_clients_name_the_form_in_two_ways(accept: str, taken: bool) -> None:
    assert takes_protobuf(accept) is taken

"""Objects of any kind and version, made from the shapes of the wire types."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from claimsmith.api.kinds import Kind
from claimsmith.api.shapes import Form, Shape, WireField, get_shape

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)
QUANTITIES = st.sampled_from(["0", "1", "500m", "10Gi", "1536Mi", "3e3", "1.5", "7n"])
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9) | TEXTS
JSON = st.recursive(SCALARS, lambda child: st.lists(child, max_size=3) | st.dictionaries(TEXTS, child, max_size=3))

PLAIN: dict[Form, st.SearchStrategy[Any]] = {
    Form.STRING: TEXTS,
    Form.TIME: st.just("2024-05-01T00:00:00Z"),
    Form.BYTES: st.just("aGVsbG8="),
    Form.INTEGER: st.integers(-(2**31), 2**31 - 1),
    Form.NUMBER: st.floats(0, 1),
    Form.BOOLEAN: st.booleans(),
    Form.QUANTITY: QUANTITIES,
    Form.INT_OR_STRING: st.integers(0, 65535) | NAMES,
    Form.ANY: st.dictionaries(NAMES, JSON, max_size=2),
}


def values(shape: Shape, depth: int) -> st.SearchStrategy[Any]:
    """Values that have a shape; the tree thins out with depth."""
    if shape.form is Form.STRUCT:
        return st.deferred(lambda: objects(shape.fields.values(), depth))
    if shape.form is Form.LIST:
        assert shape.items is not None
        return st.lists(values(shape.items, depth + 1), max_size=2)
    if shape.form is Form.MAP:
        assert shape.items is not None
        return st.dictionaries(NAMES, values(shape.items, depth + 1), max_size=2)
    return PLAIN[shape.form]


def objects(fields: Any, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of the fields, and all that are required."""

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        chosen: list[WireField] = [field for field in fields if field.required or draw(st.integers(0, 1 + depth)) == 0]
        return {field.name: draw(values(field.shape, depth + 1)) for field in chosen}

    return build()


def object_of(kind: Kind) -> st.SearchStrategy[dict[str, Any]]:
    """Objects of a kind, with its name and version."""
    fields = list(get_shape(kind.wire_type).fields.values())
    named = {"apiVersion": kind.api_version, "kind": kind.kind}
    return objects(fields, 0).map(lambda obj: {**obj, **named})


def without_empty(value: Any) -> Any:
    """Required fields that are absent come back as zero, and the other way round; the rest must be equal."""
    if isinstance(value, dict):
        pairs = {key: without_empty(child) for key, child in value.items()}
        return {key: child for key, child in pairs.items() if child not in ({}, [], "", None) and child != 0}
    return [without_empty(child) for child in value] if isinstance(value, list) else value

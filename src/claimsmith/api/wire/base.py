"""What the generated wire modules share: the base Struct, scalar types and list markers.

The wire types are plain carriers of JSON: lists, dicts and strings as they stand in a request.
Every optional field is None when it is absent. A required field that is absent becomes the zero
value of its type, as in Go; whether that is allowed is for `validate` to say.
"""

from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta, Struct


class Wire(Struct, gc=False, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all wire types.

    Attributes:
        __openapi_name__: Name of the schema in upstream's OpenAPI, `io.k8s.api.core.v1.Pod`.
        __required__: JSON names of the fields that must be present.
        __map_type__: `atomic` when server-side apply owns the object as a whole, else `granular`.
    """

    __openapi_name__: ClassVar[str] = ""
    __required__: ClassVar[tuple[str, ...]] = ()
    __map_type__: ClassVar[str] = "granular"


def _format(name: str) -> Meta:
    return Meta(extra_json_schema={"format": name})


Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, extra_json_schema={"format": "int32"})]
Int64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"format": "int64"})]
Double: TypeAlias = Annotated[float, _format("double")]
Bytes: TypeAlias = Annotated[str, _format("byte")]
"""Base64 text."""
Time: TypeAlias = Annotated[str, _format("date-time")]
"""RFC 3339 text, kept as it was sent."""
Quantity: TypeAlias = Annotated[str | int | float, _format("quantity")]
"""A string as a rule; a bare JSON number is allowed on the way in."""
IntOrString: TypeAlias = Annotated[int | str, _format("int-or-string")]
RawExtension: TypeAlias = Annotated[Any, Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
"""Any JSON value, carried through unread."""


def zero_quantity() -> str:
    """Return the value of a required quantity that is absent, as in Go."""
    return "0"


def listed(kind: str, *keys: str, merge: str | None = None, strategy: str | None = None) -> Meta:
    """Return the marker that tells how a list field is merged.

    Args:
        kind: x-kubernetes-list-type (`atomic`, `set`, `map`), or "" when it is not given.
        keys: x-kubernetes-list-map-keys.
        merge: x-kubernetes-patch-merge-key.
        strategy: x-kubernetes-patch-strategy.
    """
    schema: dict[str, Any] = {}
    if kind:
        schema["x-kubernetes-list-type"] = kind
    if keys:
        schema["x-kubernetes-list-map-keys"] = list(keys)
    if merge:
        schema["x-kubernetes-patch-merge-key"] = merge
    if strategy:
        schema["x-kubernetes-patch-strategy"] = strategy
    return Meta(extra_json_schema=schema)


def mapped(kind: str) -> Meta:
    """Return the marker of an object field that overrides its type's x-kubernetes-map-type."""
    return Meta(extra_json_schema={"x-kubernetes-map-type": kind})


def defaulted(value: str | int | dict[str, Any]) -> Meta:
    """Return the marker of the value that the API server puts in when the field is absent."""
    return Meta(extra_json_schema={"default": value})


ATOMIC = listed("atomic")
SET = listed("set")

"""From JSON text or decoded JSON to wire types: fast when all is well, exact about the field when it is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from claimsmith.api.jsontext import read_json
from claimsmith.api.schema import MAX_DEPTH, check_object, prune_object
from claimsmith.api.wire.base import Wire
from claimsmith.errors import FieldError, InputError, ManifestError

__all__ = ["Source", "TypeMeta", "check_kind", "convert", "decode_wire", "find_type_meta", "to_json_value"]

Source: TypeAlias = Mapping[str, Any] | bytes | str | Wire
"""What a converter reads: decoded JSON, JSON text, or the wire type itself."""

_W = TypeVar("_W", bound=Wire)
_V = TypeVar("_V")


@lru_cache(maxsize=256)
def _get_decoder(wire_type: type[_W]) -> msgspec.json.Decoder[_W]:
    return msgspec.json.Decoder(wire_type)


def decode_wire(obj: Source, wire_type: type[_W], *, source: str = "") -> _W:
    """Return the wire type of an object. Unknown fields are left out, as an older server does.

    Args:
        obj: Decoded JSON, JSON text, or the wire type itself.
        wire_type: What it should be.
        source: Where the object stands, for messages.

    Raises:
        FieldError: A field has the wrong type; `path` names it.
        ManifestError: The text is no JSON.
    """
    if isinstance(obj, wire_type):
        return obj
    try:
        if isinstance(obj, (bytes, str)):
            decoded: _W = _get_decoder(wire_type).decode(obj)
            return decoded
        return msgspec.convert(obj, wire_type)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(obj, wire_type, source)


def _decode_slowly(obj: Source, wire_type: type[_W], source: str) -> _W:
    """Decode with nulls where the API allows them; otherwise raise the error that names the field."""
    value: Any = obj
    if isinstance(obj, (bytes, str)):
        text = obj.decode(errors="replace") if isinstance(obj, bytes) else obj
        values = [document.value for document in read_json(text, source=source or "object")]
        if len(values) != 1 or not isinstance(values[0], dict):
            reason = f"found {len(values)} JSON values, allowed one object"
            raise ManifestError(source or "object", reason, hint="send one object")
        value = values[0]
    issues = check_object(value, wire_type)
    if issues:
        wrong = next((issue for issue in issues if issue.kind != "unknown"), None)
        if wrong is not None:
            raise wrong.to_error(source=source)
    try:
        return msgspec.convert(prune_object(value, wire_type), wire_type)
    except msgspec.ValidationError as error:
        path = str(error).rpartition("`$.")[2].rstrip("`") if "`$." in str(error) else ""
        raise FieldError(
            path, None, allowed="a value", hint="write a value or leave the field out", source=source
        ) from error


def convert(
    obj: Source, wire_type: type[_W], build: Callable[[_W], _V], *, source: str = "", api_version: str = ""
) -> _V:
    """Return what `build` makes of an object, with errors that name the field.

    Args:
        obj: Decoded JSON, JSON text, or the wire type itself.
        wire_type: The wire type of `obj`.
        build: Turns the wire type into a value of the model.
        source: Where the object stands, for messages.
        api_version: What `apiVersion` must say if it says anything; empty to leave that open.

    Raises:
        FieldError: A field holds what is not allowed.
        ManifestError: The text is no JSON.
    """
    if api_version:
        check_kind(obj, wire_type.__name__, api_version, source=source)
    wire = decode_wire(obj, wire_type, source=source)
    try:
        return build(wire)
    except FieldError as error:
        if error.source or not source:
            raise
        raise FieldError(error.path, error.found, allowed=error.allowed, hint=error.hint, source=source) from error
    except RecursionError as error:
        levels = f"at most {MAX_DEPTH} levels"
        raise FieldError("", "too deep nesting", allowed=levels, hint="flatten the object", source=source) from error
    except InputError as error:
        for issue in check_object(msgspec.to_builtins(wire), wire_type):
            raise issue.to_error(source=source) from error
        raise


class TypeMeta(msgspec.Struct, gc=False, rename="camel"):
    """The two fields that say how to read the rest."""

    api_version: str | None = None
    kind: str | None = None


_TYPE_META_DECODER: Final = msgspec.json.Decoder(TypeMeta)


def find_type_meta(obj: Source) -> TypeMeta:
    """Return kind and version of an object; empty when they are absent or unreadable, which its decoder will say."""
    if isinstance(obj, Mapping):
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        return TypeMeta(
            api_version=None if api_version is None else str(api_version), kind=None if kind is None else str(kind)
        )
    if isinstance(obj, (bytes, str)):
        try:
            return _TYPE_META_DECODER.decode(obj)
        except (msgspec.DecodeError, RecursionError):
            return TypeMeta()
    return TypeMeta(api_version=getattr(obj, "api_version", None), kind=getattr(obj, "kind", None))


def check_kind(obj: Source, kind: str, api_version: str, *, source: str = "") -> None:
    """Refuse an object of another kind or version; one that names neither passes.

    Raises:
        FieldError: `kind` or `apiVersion` says something else.
    """
    meta = find_type_meta(obj)
    for path, found, allowed in (("kind", meta.kind, kind), ("apiVersion", meta.api_version, api_version)):
        if found is not None and found != allowed:
            raise FieldError(
                path, found, allowed=allowed, hint=f"give an object of {api_version} {kind}", source=source
            )


def to_json_value(wire: Wire) -> dict[str, Any]:
    """Return a wire type as decoded JSON; absent fields are left out."""
    result: dict[str, Any] = msgspec.to_builtins(wire)
    return result

"""JSON to a vendor's own types, strictly: unknown fields and wrong types are errors that name field and line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

import msgspec

from claimsmith.api.schema import find_nearest
from claimsmith.errors import FieldError

__all__ = ["field_names", "parse_strictly"]

T = TypeVar("T")
_EXPECTED: Final = re.compile(
    r"(?:Expected|Object missing required field) `(?P<what>.*?)`(?P<rest>.*?)(?: - at `\$(?P<path>.*)`)?$"
)
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_WORDS: Final = {
    "str": "text", "int": "a whole number", "float": "a number", "bool": "true or false", "array": "a list",
    "object": "an object", "null": "nothing",
}  # fmt: skip


def parse_strictly(value: object, into: type[T], *, path: str = "", locate: Callable[[str], str] | None = None) -> T:
    """Return a JSON value as a msgspec Struct or a dataclass.

    Args:
        value: Decoded JSON.
        into: The type; types within it are followed.
        path: Path of the value itself, put in front of all paths.
        locate: Gives where a path stands, such as `gpus.yaml, line 7`, for messages.

    Raises:
        FieldError: A field is unknown, missing, or holds what its type does not allow.
    """
    where = locate or (lambda _: "")
    for name, known in _unknown_fields(value, _type_info(cast(Any, into)), ()):
        full = _join(path, name)
        nearest = find_nearest(str(name[-1]), tuple(known))
        hint = f"write {nearest}" if nearest else "remove it"
        allowed = ", ".join(known) or "no field"
        raise FieldError(full, "an unknown field", allowed=allowed, hint=hint, source=where(full))
    try:
        return msgspec.convert(value, into, strict=True)
    except msgspec.ValidationError as error:
        raise _explain(error, value, path=path, where=where) from error


@lru_cache(maxsize=256)
def _type_info(into: Any) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(into)


def field_names(into: type[object]) -> frozenset[str]:
    """Return the JSON names of the fields of a msgspec Struct or a dataclass; none for other types."""
    info = _type_info(cast(Any, into))
    if isinstance(info, (msgspec.inspect.StructType, msgspec.inspect.DataclassType)):
        return frozenset(field.encode_name for field in info.fields)
    return frozenset()


def _unknown_fields(
    value: object, info: msgspec.inspect.Type, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], Sequence[str]]]:
    """Yield the path of each field that a type does not have, with the fields that it has."""
    if isinstance(info, msgspec.inspect.Metadata):
        yield from _unknown_fields(value, info.type, path)
    elif isinstance(info, msgspec.inspect.UnionType):
        for option in info.types:
            if isinstance(value, Mapping) == isinstance(option, _OBJECTS):
                yield from _unknown_fields(value, option, path)
    elif isinstance(info, (msgspec.inspect.StructType, msgspec.inspect.DataclassType)) and isinstance(value, Mapping):
        fields = {field.encode_name: field for field in info.fields}
        for name, child in value.items():
            if name not in fields:
                yield (*path, str(name)), tuple(fields)
            else:
                yield from _unknown_fields(child, fields[name].type, (*path, str(name)))
    elif isinstance(info, msgspec.inspect.DictType) and isinstance(value, Mapping):
        for name, child in value.items():
            yield from _unknown_fields(child, info.value_type, (*path, str(name)))
    elif isinstance(info, _LISTS) and isinstance(value, Sequence) and not isinstance(value, str):
        for index, child in enumerate(value):
            yield from _unknown_fields(child, info.item_type, (*path, index))


_OBJECTS: Final = (msgspec.inspect.StructType, msgspec.inspect.DataclassType, msgspec.inspect.DictType)
_LISTS: Final = (msgspec.inspect.ListType, msgspec.inspect.VarTupleType, msgspec.inspect.SetType)


def _join(base: str, steps: Sequence[str | int]) -> str:
    text = base
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


def _explain(error: msgspec.ValidationError, value: object, *, path: str, where: Callable[[str], str]) -> FieldError:
    """Return msgspec's error in the words of this product."""
    match = _EXPECTED.fullmatch(str(error))
    if match is None:
        reason, _, place = str(error).partition(" - at `$")
        full = f"{path}{place.rstrip('`')}".removeprefix(".")
        return FieldError(full, _find(value, place), allowed=reason, hint="correct the value", source=where(full))
    place = match["path"] or ""
    if "missing" in str(error):
        full = _join(f"{path}{place}", (match["what"],))
        return FieldError(full, None, allowed="a value", hint="add the field", source=where(full))
    full, found = f"{path}{place}".removeprefix("."), _find(value, place)
    allowed = " or ".join(_WORDS.get(word.strip(), word.strip()) for word in match["what"].split("|"))
    rest = match["rest"].partition(", got")[0].strip()
    quotes = "str" in match["what"] and isinstance(found, (bool, int, float))
    hint = "put the value in quotes" if quotes else "correct the value"
    return FieldError(full, found, allowed=f"{allowed} {rest}".strip(), hint=hint, source=where(full))


def _find(value: Any, place: str) -> object:
    """Return the part of a JSON value at msgspec's path; the nearest parent where it can't be followed."""
    for name, index in _STEP.findall(place):
        try:
            value = value[name] if name else value[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return value
    return value

"""YAML read as Kubernetes reads it: the scalar rules of go-yaml v2 on the events of libyaml, turned into JSON values.

Other than in YAML 1.2 and in PyYAML: y, n, on and off are booleans, 0777 and 0o777 are octal, 1_000 is a number,
12:30:45 and times are text, 1e3 is a number. A duplicate key is an error, where go-yaml lets the last one win.

Source: go.yaml.in/yaml/v2 v2.4.4 resolve.go and decode.go; sigs.k8s.io/yaml (conversion to JSON).

Deviates: duplicate-keys, merge-after-key, aliases, not-a-number, timestamp.
"""

from __future__ import annotations

import base64
import binascii
import copy
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from claimsmith.api.jsontext import Document
from claimsmith.api.schema import MAX_DEPTH, render_path
from claimsmith.errors import ManifestError

__all__ = ["MAX_ALIASED_VALUES", "Place", "find_place", "read_yaml", "resolve_plain"]

_KNOWN_DOCUMENTS: Final = 4
MAX_ALIASED_VALUES: Final = 100_000
"""Most values that the aliases of one document may stand for."""

_LOADER: Final[Any] = getattr(yaml, "CLoader", yaml.Loader)
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))",
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LOOSE_UNDERSCORE: Final = re.compile(r"(?<![0-9])_|_(?![0-9])")
_NUMBER_START: Final = frozenset("0123456789+-.")
_LARGEST_PLAIN_FLOAT: Final = 1e21
_UNSET: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value stands: line from 1, and its text if it is an unquoted scalar (else empty)."""

    line: int
    text: str = ""


def resolve_plain(text: str) -> str | int | float | bool | None:
    """Return what an unquoted scalar stands for; NaN and infinities come out as floats.

    Source: resolve in go-yaml v2 resolve.go, then the number format of Go's encoding/json.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    if text[0] == "." and _LOOSE_UNDERSCORE.search(text):
        return text
    plain = text.replace("_", "")
    match = _INTEGER.fullmatch(plain) if len(plain) <= 68 else None
    if match is not None:
        number = _read_integer(match)
        if -(2**63) <= number < 2**64 and not (number >= 2**63 and match[1]):
            return number
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        return text if math.isinf(value) else _plain_number(value)
    return text


def _read_integer(match: re.Match[str]) -> int:
    """Return the number of one of Go's integer forms."""
    sign, hexadecimal, binary, octal, decimal = match.groups()
    for digits, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)):
        if digits is not None:
            return -int(digits, base) if sign == "-" else int(digits, base)
    raise AssertionError("one alternative of the pattern matched")


def _plain_number(value: float) -> int | float:
    """Return a float as it comes out of JSON: without fraction it is a whole number there."""
    if value.is_integer() and abs(value) < _LARGEST_PLAIN_FLOAT:
        return int(Decimal(repr(value)))
    return value


class _Frame:
    """A map or list that is being built."""

    __slots__ = ("anchor", "height", "key", "merged", "sequence", "size_before", "value")

    def __init__(self, value: Any, *, anchor: str | None, size_before: int) -> None:
        self.value, self.anchor, self.size_before = value, anchor, size_before
        self.sequence = isinstance(value, list)
        self.key: Any = _UNSET
        self.merged: set[str] | None = None
        self.height = 1


class _Builder:
    """Builds the value of one document from events, with a stack instead of recursion."""

    def __init__(self, source: str, number: int) -> None:
        self.source, self.number = source, number
        self.frames: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int, int] | None] = {}
        self.size = 0
        self.aliased = 0
        self.result: Any = None
        self.line = 1

    def fail(self, event: Any, reason: str, hint: str) -> ManifestError:
        """Return the error for a place in the text."""
        path: Any = None
        for frame in self.frames:
            part = len(frame.value) if frame.sequence else frame.key
            if part is not _UNSET:
                path = (path, part)
        where = f"{render_path(path)}: " if path is not None else ""
        line = event.start_mark.line + 1
        return ManifestError(self.source, where + reason, hint=hint, document=self.number, line=line)

    def open(self, event: Any, value: Any) -> None:
        """Begin a map or list."""
        if self.frames and not self.frames[-1].sequence and self.frames[-1].key is _UNSET:
            raise self.fail(event, "found a map or list as a key, allowed text", "write the key as text")
        if len(self.frames) >= MAX_DEPTH:
            raise ManifestError(
                self.source,
                f"found more than {MAX_DEPTH} levels of nesting, allowed {MAX_DEPTH}",
                hint="flatten the document",
                document=self.number,
                line=event.start_mark.line + 1,
            )
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.size += 1
        self.frames.append(_Frame(value, anchor=event.anchor, size_before=self.size - 1))

    def close(self, event: Any) -> None:
        """End a map or list."""
        frame = self.frames.pop()
        if frame.anchor is not None:
            self.anchors[frame.anchor] = (frame.value, self.size - frame.size_before, frame.height)
        self.add(event, frame.value, frame.height)

    def add(self, event: Any, value: Any, height: int = 0) -> None:
        """Put a finished value into the map or list that is being built."""
        if not self.frames:
            self.result = value
            return
        frame = self.frames[-1]
        if frame.height <= height:
            frame.height = height + 1
        if frame.sequence:
            frame.value.append(value)
        elif frame.key is _UNSET:
            self._set_key(event, frame, value)
        elif frame.key is _MERGE:
            frame.key = _UNSET
            self._merge(event, frame, value)
        else:
            frame.value[frame.key] = value
            frame.key = _UNSET

    def scalar(self, event: Any) -> None:
        """Add a scalar."""
        self.size += 1
        value: Any = event.value
        if not event.style or event.tag is not None:
            is_key = self.frames and not self.frames[-1].sequence and self.frames[-1].key is _UNSET
            if is_key and value == "<<" and event.tag in (None, f"{_TAG_PREFIX}merge") and not event.style:
                value = _MERGE
            else:
                value = self._resolve(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1, 0)
        self.add(event, value)

    def alias(self, event: Any) -> None:
        """Add a copy of an anchored value."""
        name = event.anchor
        if name not in self.anchors:
            raise self.fail(event, f"found the alias *{name} without an anchor", f"define &{name} before it")
        anchored = self.anchors[name]
        if anchored is None:
            raise self.fail(event, f"found the alias *{name} within its own anchor", "write the value out")
        value, size, height = anchored
        self.aliased += size
        self.size += size
        if self.aliased > MAX_ALIASED_VALUES:
            reason = f"found aliases for more than {MAX_ALIASED_VALUES} values, allowed {MAX_ALIASED_VALUES}"
            raise self.fail(event, reason, "write the values out")
        if len(self.frames) + height > MAX_DEPTH:
            reason = f"found more than {MAX_DEPTH} levels of nesting through aliases, allowed {MAX_DEPTH}"
            raise self.fail(event, reason, "flatten the document")
        self.add(event, copy.deepcopy(value), height)

    def _set_key(self, event: Any, frame: _Frame, value: Any) -> None:
        """Take a scalar as the key of the next value."""
        if value is _MERGE:
            frame.key = _MERGE
            return
        if isinstance(value, (dict, list)) or value is None:
            found = "null" if value is None else "a map or list"
            raise self.fail(event, f"found {found} as a key, allowed text", "write the key in quotes")
        key = value if isinstance(value, str) else _key_text(value)
        if key in frame.value:
            if frame.merged is None or key not in frame.merged:
                raise self.fail(event, f"found a duplicate key {key[:80]!r}, allowed one", "remove one of the two")
            frame.merged.discard(key)
        frame.key = key

    def _merge(self, event: Any, frame: _Frame, value: Any) -> None:
        """Take over the entries of one map, or of several of which earlier ones win."""
        maps = value if isinstance(value, list) else [value]
        if not all(isinstance(entry, dict) for entry in maps):
            raise self.fail(event, "found << without a map, allowed a map or a list of maps", "name an anchored map")
        merged = frame.merged if frame.merged is not None else set()
        for entry in maps:
            for key, child in entry.items():
                if key in merged:
                    continue
                if key in frame.value:
                    reason = f"found << after the key {key[:80]!r}, which it sets too, allowed before it"
                    raise self.fail(event, reason, "write << first in its map")
                frame.value[key] = child
                merged.add(key)
        frame.merged = merged

    def _resolve(self, event: Any) -> Any:
        """Return the value of a scalar that is unquoted or tagged."""
        tag, text = event.tag, event.value
        short = tag.removeprefix(_TAG_PREFIX) if tag is not None else ""
        if tag is None or tag == "!":
            value = resolve_plain(text) if not event.style and tag is None else text
        elif short == "str" or short not in _TAG_TYPES:
            value = self._decode_binary(event) if short == "binary" else text
        else:
            value = resolve_plain(text)
            if short == "float" and isinstance(value, int) and not isinstance(value, bool):
                return value
            if not isinstance(value, _TAG_TYPES[short]) or (short != "bool" and isinstance(value, bool)):
                raise self.fail(event, f"found {text[:80]!r} tagged !!{short}", f"write a {short} or remove the tag")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.fail(event, f"found {text}, allowed a finite number", "put it in quotes or write a number")
        return value

    def _decode_binary(self, event: Any) -> str:
        """Return the text of a !!binary scalar."""
        try:
            return base64.b64decode("".join(event.value.split()), validate=True).decode()
        except (binascii.Error, ValueError) as error:
            reason = "found !!binary text that is no base64 of UTF-8 text"
            raise self.fail(event, reason, "correct the text or remove the tag") from error


_MERGE: Final = object()
_TAB_FIRST: Final = re.compile(r"[ -]*\t")
_PLAIN_IN_BRACKETS: Final = re.compile(r"\[([A-Za-z_][A-Za-z0-9_]*)\]")
_TAG_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "int": (int,),
    "float": (float,),
    "bool": (bool,),
    "null": (type(None),),
    "timestamp": (str,),
}


def _key_text(value: bool | int | float) -> str:
    """Return a key that is no text as sigs.k8s.io/yaml spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    try:
        packed = struct.pack("f", value)
    except OverflowError:
        return repr(value)
    shortest = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next((text for text in shortest if struct.pack("f", float(text)) == packed), repr(value))


def read_yaml(text: str, *, source: str) -> Iterator[Document]:
    """Yield the documents of a text, empty ones included.

    Args:
        text: YAML, possibly several documents.
        source: Name of the text for messages, such as a file name.

    Raises:
        ManifestError: The text is no YAML, has a duplicate key, an unbounded alias, a number that JSON can't
            carry, or more than MAX_DEPTH levels.
    """
    builder = _Builder(source, 0)
    number = 0
    try:
        for event in _parse_events(text):
            kind = type(event)
            if kind is ScalarEvent:
                builder.scalar(event)
            elif kind is MappingStartEvent:
                builder.open(event, {})
            elif kind is SequenceStartEvent:
                builder.open(event, [])
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                builder.close(event)
            elif kind is AliasEvent:
                builder.alias(event)
            elif kind is DocumentStartEvent:
                number += 1
                builder = _Builder(source, number)
                builder.line = event.end_mark.line + 1
            elif kind is DocumentEndEvent:
                yield Document(value=builder.result, number=number, line=builder.line)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, source=source, number=max(number, 1)) from error


def _parse_events(text: str) -> Iterator[Any]:
    """Yield libyaml's events of a text."""
    yield from yaml.parse(text, Loader=_LOADER)


def _syntax_error(error: yaml.YAMLError, text: str, *, source: str, number: int) -> ManifestError:
    """Return the error for a text that is no YAML."""
    if isinstance(error, yaml.MarkedYAMLError):
        context = f" {error.context}" if error.context else ""
        problem = f"{error.problem or 'broken syntax'}{context}"
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        if _begins_with_tab(text, line):
            problem = "a tab in the indentation"
    else:
        problem, line = " ".join(str(error).split()), 0
    reason = f"found broken YAML ({problem}), allowed YAML 1.1 or JSON"
    hint = "flatten the document" if "nesting" in problem else "correct the syntax"
    hint = "write spaces instead of tabs" if problem.startswith("a tab") else hint
    return ManifestError(source, reason, hint=hint, document=number, line=line)


def _begins_with_tab(text: str, line: int) -> bool:
    """Whether a line, from 1, begins with a tab, behind spaces and dashes at most."""
    lines = text.splitlines()
    return 0 < line <= len(lines) and bool(_TAB_FIRST.match(lines[line - 1]))


def find_place(text: str, path: str, *, document: int = 1) -> Place | None:
    """Return where a field stands in a text, or its nearest parent that is there; None when the text is no YAML.

    Args:
        text: The text that `read_yaml` read.
        path: Field path in Kubernetes' form.
        document: Number of the document, from 1.
    """
    places = _find_places(text, document)
    path = _PLAIN_IN_BRACKETS.sub(r".\1", path)  # which validation writes so in maps
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return places.get(path)


@lru_cache(maxsize=_KNOWN_DOCUMENTS)
def _find_places(text: str, document: int) -> Mapping[str, Place]:
    """Return all fields of a document by their paths; of twins, and where the text is broken, the first ones."""
    places: dict[str, Place] = {}
    number = 0
    frames: list[list[Any]] = []  # [path, next index or None in a map, key or _UNSET]
    try:
        for event in _parse_events(text):
            kind = type(event)
            if kind is DocumentStartEvent:
                number += 1
            if number != document or kind is DocumentStartEvent:
                continue
            if kind is MappingEndEvent or kind is SequenceEndEvent:
                frames.pop()
            elif kind in (ScalarEvent, MappingStartEvent, SequenceStartEvent, AliasEvent):
                here = _next_path(frames, event)
                if here is not None:
                    raw = event.value if kind is ScalarEvent and not event.style else ""
                    places.setdefault(here, Place(line=event.start_mark.line + 1, text=raw))
                if kind is MappingStartEvent or kind is SequenceStartEvent:
                    frames.append([here or "", 0 if kind is SequenceStartEvent else None, _UNSET])
            elif kind is DocumentEndEvent:
                break
    except yaml.YAMLError:
        pass
    return places


def _next_path(frames: list[list[Any]], event: Any) -> str | None:
    """Return the path of the value that an event begins; None when it is a key."""
    if not frames:
        return ""
    frame = frames[-1]
    if frame[1] is not None:
        frame[1] += 1
        return f"{frame[0]}[{frame[1] - 1}]"
    if frame[2] is _UNSET:
        frame[2] = getattr(event, "value", "")
        return None
    part = render_path((None, frame[2]))
    frame[2] = _UNSET
    return f"{frame[0]}{part}" if part.startswith("[") or not frame[0] else f"{frame[0]}.{part}"

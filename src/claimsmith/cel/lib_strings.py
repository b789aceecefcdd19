"""Functions on strings: the standard ones and the strings extension, version 2.

Source: common/stdlib/standard.go and ext/strings.go in cel-go v0.29.2.
"""

from __future__ import annotations

from typing import Final

from claimsmith.cel.declarations import Function, Overload, function, method, overload
from claimsmith.cel.lib_format import format_text
from claimsmith.cel.types import BOOL, DYN, INT, STRING, list_of
from claimsmith.cel.values import Value, format_value
from claimsmith.errors import CelFault

_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = str.maketrans({chr(code): chr(code + 32) for code in range(65, 91)})
_UPPER: Final = str.maketrans({chr(code): chr(code - 32) for code in range(97, 123)})
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _check_strings(*values: Value) -> None:
    if not all(type(value) is str for value in values):
        raise CelFault("no such overload")


def string_contains(text: Value, part: Value) -> bool:
    """`text.contains(part)`."""
    _check_strings(text, part)
    return part in text


def starts_with(text: Value, prefix: Value) -> bool:
    """`text.startsWith(prefix)`."""
    _check_strings(text, prefix)
    return bool(text.startswith(prefix))


def ends_with(text: Value, suffix: Value) -> bool:
    """`text.endsWith(suffix)`."""
    _check_strings(text, suffix)
    return bool(text.endswith(suffix))


def char_at(text: str, index: int) -> str:
    """`text.charAt(index)`; empty just behind the end."""
    if not 0 <= index <= len(text):
        raise CelFault(f"index out of range: {index}")
    return text[index : index + 1]


def index_of(text: str, part: str, offset: int = 0) -> int:
    """`text.indexOf(part[, offset])`; -1 when the part is not there."""
    if offset < 0:
        raise CelFault(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.find(part, offset)


def last_index_of(text: str, part: str) -> int:
    """`text.lastIndexOf(part)`."""
    return text.rfind(part)


def last_index_of_before(text: str, part: str, offset: int) -> int:
    """`text.lastIndexOf(part, offset)`: the last place that is not behind the offset."""
    if offset < 0:
        raise CelFault(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """`text.replace(old, new[, count])`; a negative count replaces all."""
    return text.replace(old, new, count if count >= 0 else -1)


def split(text: str, separator: str, count: int = -1) -> list[str]:
    """`text.split(separator[, count])`: at most `count` parts; all when negative, none when 0."""
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    """`text.substring(start[, end])`."""
    if end is not None and start > end:
        raise CelFault(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if index is not None and not 0 <= index <= len(text):
            raise CelFault(f"index out of range: {index}")
    return text[start:end]


def trim(text: str) -> str:
    """`text.trim()`: without white space at both ends."""
    return text.strip(_WHITE_SPACE)


def lower_ascii(text: str) -> str:
    """`text.lowerAscii()`."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """`text.upperAscii()`."""
    return text.translate(_UPPER)


def quote(text: str) -> str:
    """`strings.quote(text)`: as a literal of the language."""
    return f'"{text.translate(_QUOTED)}"'


def join(parts: list[Value], separator: str = "") -> str:
    """`parts.join([separator])`."""
    for part in parts:
        if type(part) is not str:
            raise CelFault(f"join: invalid input: {format_value(part)}")
    return separator.join(parts)


def _unguarded(overload_id: str, run: object) -> Overload:
    """Declare a test of two strings that judges the types itself, as upstream does."""
    assert callable(run)
    return Overload(id=overload_id, args=(STRING, STRING), result=BOOL, is_method=True, run=run, is_guarded=False)


_STRINGS: Final = list_of(STRING)

FUNCTIONS: Final[tuple[Function, ...]] = (
    function("contains", _unguarded("contains_string", string_contains)),
    function("endsWith", _unguarded("ends_with_string", ends_with)),
    function("startsWith", _unguarded("starts_with_string", starts_with)),
    function("charAt", method("string_char_at_int", (STRING, INT), STRING, char_at)),
    function(
        "indexOf",
        method("string_index_of_string", (STRING, STRING), INT, index_of),
        method("string_index_of_string_int", (STRING, STRING, INT), INT, index_of),
    ),
    function(
        "lastIndexOf",
        method("string_last_index_of_string", (STRING, STRING), INT, last_index_of),
        method("string_last_index_of_string_int", (STRING, STRING, INT), INT, last_index_of_before),
    ),
    function("lowerAscii", method("string_lower_ascii", (STRING,), STRING, lower_ascii)),
    function("upperAscii", method("string_upper_ascii", (STRING,), STRING, upper_ascii)),
    function(
        "replace",
        method("string_replace_string_string", (STRING, STRING, STRING), STRING, replace),
        method("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, replace),
    ),
    function(
        "split",
        method("string_split_string", (STRING, STRING), _STRINGS, split),
        method("string_split_string_int", (STRING, STRING, INT), _STRINGS, split),
    ),
    function(
        "substring",
        method("string_substring_int", (STRING, INT), STRING, substring),
        method("string_substring_int_int", (STRING, INT, INT), STRING, substring),
    ),
    function("trim", method("string_trim", (STRING,), STRING, trim)),
    function("format", method("string_format", (STRING, list_of(DYN)), STRING, format_text)),
    function("strings.quote", overload("strings_quote", (STRING,), STRING, quote)),
    function(
        "join",
        method("list_join", (_STRINGS,), STRING, join),
        method("list_join_string", (_STRINGS, STRING), STRING, join),
    ),
)
"""Functions on strings."""

"""`"…".format([…])`: clauses %s %d %f %e %b %x %X %o, in the way of version 2 of the strings extension.

Source: ext/formatting.go in cel-go v0.29.2, with the locale en_US.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from claimsmith.cel.conversions import double_to_text, text_to_double, to_text
from claimsmith.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    Value,
    from_key,
    is_list,
    is_map,
    type_name,
)  # fmt: skip
from claimsmith.errors import CelFault

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.([0-9]*))?(.)?)", re.DOTALL)
VERBS: Final = "sdfebxXo"
"""The clauses, by the letter behind %."""

_DEFAULT_PRECISION: Final = 6
_SPECIAL_DOUBLES: Final = ("NaN", "Infinity", "-Infinity")
_MAX_PRECISION: Final = 1000
_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip
_SUPERSCRIPTS: Final = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause of a format text: the text before it, its verb and its precision in digits."""

    before: str
    verb: str
    precision: int


def parse_clauses(text: str, argument_count: int) -> tuple[tuple[Clause, ...], str]:
    """Return the clauses of a format text and the text behind the last one.

    Raises:
        CelFault: A clause is not known or not complete, or there are more clauses than arguments.
    """
    clauses, before, position = list[Clause](), "", 0
    while match := _CLAUSE.search(text, position):
        before += text[position : match.start()]
        position = match.end()
        percent, precision, verb = match.groups()
        if percent:
            before += "%"
            continue
        if len(clauses) >= argument_count:
            raise CelFault(f"index {len(clauses)} out of range")
        if verb is None:
            raise CelFault("unexpected end of string")
        if verb not in VERBS:
            raise CelFault(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')
        clauses.append(Clause(before, verb, _parse_precision(precision)))
        before = ""
    return tuple(clauses), before + text[position:]


def format_text(text: str, args: Value) -> str:
    """Return the text with each clause replaced by its argument.

    Raises:
        CelFault: A clause is unknown, has no argument, or doesn't fit its argument.
    """
    clauses, rest = parse_clauses(text, len(args))
    parts = [clause.before + _format_clause(clause, value) for clause, value in zip(clauses, args, strict=False)]
    return "".join(parts) + rest


def _format_clause(clause: Clause, value: Value) -> str:
    if clause.verb == "s":
        return _format_string(value)
    if clause.verb == "d":
        return _format_decimal(value)
    if clause.verb in "fe":
        return _format_double(clause.verb, clause.precision, value)
    return _format_base(clause.verb, value)


def _parse_precision(precision: str | None) -> int:
    if precision is None:
        return _DEFAULT_PRECISION
    if not precision or len(precision) > 6 or int(precision) > _MAX_PRECISION:
        raise CelFault(f"could not parse formatting clause: precision {precision!r}, allowed 0 to {_MAX_PRECISION}")
    return int(precision)


def _wrong(clause: str, wanted: str, value: Value) -> CelFault:
    return CelFault(
        f"error during formatting: {clause} clause can only be used on {wanted}, was given {type_name(value)}"
    )


def _format_string(value: Value) -> str:
    """The %s clause."""
    if value is None:
        return "null"
    if is_list(value):
        return "[" + ", ".join(_format_inner(item) for item in value) + "]"
    if is_map(value):
        entries = sorted((_format_key(from_key(key)), _format_inner(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}:{item}" for key, item in entries) + "}"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, (bool, int, float, str, bytes, Duration, Timestamp)):
        return to_text(value)
    wanted = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
    raise _wrong("string", wanted, value)


def _format_inner(value: Value) -> str:
    """A value inside a list or map: as a literal of the language."""
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, bytes):
        return "b" + _quote(to_text(value))
    if isinstance(value, float):
        plain = math.isfinite(value)
        return f"{value:.{_DEFAULT_PRECISION}f}" if plain else f'"{double_to_text(value)}"'
    if isinstance(value, (Duration, Timestamp)):
        return f'{"duration" if isinstance(value, Duration) else "timestamp"}("{to_text(value)}")'
    return _format_string(value)


def _quote(text: str) -> str:
    """Return a text as Go quotes it. Source: strconv.Quote."""
    return '"' + "".join(_quote_character(character) for character in text) + '"'


def _quote_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _format_key(key: Value) -> str:
    if isinstance(key, float):
        raise CelFault("error during formatting: no formatting function for map key of type double")
    return _format_inner(key)


def _format_decimal(value: Value) -> str:
    """The %d clause."""
    if isinstance(value, int) and value is not True and value is not False:
        return str(int(value))
    raise _wrong("decimal", "integers", value)


def _format_double(verb: str, digits: int, value: Value) -> str:
    """The %f and %e clauses."""
    clause = "fixed-point" if verb == "f" else "scientific"
    number = text_to_double(value) if type(value) is str and value in _SPECIAL_DOUBLES else value
    if not isinstance(number, float):
        raise _wrong(clause, "doubles", value)
    written = _write_double(verb, digits, number)
    return written if verb == "f" else written.rjust(digits)


def _write_double(verb: str, digits: int, number: float) -> str:
    """Print a double; %e always has six digits, and takes the precision for a width, as upstream does."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    number = number or 0.0
    if verb == "f":
        return f"{number:,.{digits}f}"
    mantissa, exponent = f"{number:.{_DEFAULT_PRECISION}e}".split("e")
    return f"{mantissa}×10{exponent.lstrip('+').translate(_SUPERSCRIPTS)}"


def _format_base(verb: str, value: Value) -> str:
    """The %b, %x, %X and %o clauses."""
    if verb == "b" and (value is True or value is False):
        return "1" if value else "0"
    if isinstance(value, int) and value is not True and value is not False:
        return format(int(value), verb)
    if verb in "xX" and isinstance(value, (str, bytes)):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if verb == "X" else text
    clause, wanted = {
        "b": ("binary", "integers and bools"),
        "o": ("octal", "integers"),
    }.get(verb, ("hex", "integers, byte buffers, and strings"))
    raise _wrong(clause, wanted, value)

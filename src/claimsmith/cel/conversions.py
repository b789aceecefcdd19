"""Conversions between types: int(), string(), double(), bool(), bytes(), uint(), type(), dyn().

Source: common/stdlib/standard.go and ConvertToType of common/types in cel-go v0.29.2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

from claimsmith.cel.declarations import Function, Overload, function, overload
from claimsmith.cel.lib_time import format_duration, format_timestamp, parse_duration, parse_timestamp
from claimsmith.cel.operators import check_int, check_timestamp, check_uint
from claimsmith.cel.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    STRING,
    TIMESTAMP,
    UINT,
    CelType,
    param,
    type_of,
)  # fmt: skip
from claimsmith.cel.values import (
    INT64_MAX,
    INT64_MIN,
    UINT64_MAX,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)  # fmt: skip
from claimsmith.errors import CelFault

_INT: Final = re.compile(r"[+-]?[0-9]{1,40}")
_UINT: Final = re.compile(r"[0-9]{1,40}")
_DIGITS: Final = "[0-9]+(?:_[0-9]+)*"
_DOUBLE: Final = re.compile(rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX_DOUBLE: Final = re.compile(r"[+-]?0[xX]_?[0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+")
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_LARGEST_PLAIN_EXPONENT: Final = 5


def _refuse(value: Value, wanted: str) -> CelFault:
    return CelFault(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def text_to_int(text: str) -> int:
    """Return the int64 that a text stands for."""
    if _INT.fullmatch(text) and INT64_MIN <= int(text) <= INT64_MAX:
        return int(text)
    raise _refuse(text, "int")


def text_to_uint(text: str) -> Uint:
    """Return the uint64 that a text stands for."""
    if _UINT.fullmatch(text) and int(text) <= UINT64_MAX:
        return Uint(text)
    raise _refuse(text, "uint")


def text_to_double(text: str) -> float:
    """Return the double that a text stands for. Source: strconv.ParseFloat."""
    if text.lower().lstrip("+-") in ("inf", "infinity", "nan") and len(text) - len(text.lstrip("+-")) <= 1:
        return float(text)
    try:
        if _DOUBLE.fullmatch(text):
            number = float(text)
        elif _HEX_DOUBLE.fullmatch(text):
            number = float.fromhex(text.replace("_", ""))
        else:
            raise _refuse(text, "double")
    except (OverflowError, ValueError) as error:
        raise _refuse(text, "double") from error
    if math.isinf(number):
        raise _refuse(text, "double")
    return number


def text_to_bool(text: str) -> bool:
    """Return the bool that a text stands for. Source: strconv.ParseBool."""
    if text in _BOOLS:
        return _BOOLS[text]
    raise _refuse(text, "bool")


def double_to_int(number: float) -> int:
    """Return a double without its fraction as int64."""
    if math.isnan(number) or math.isinf(number) or not float(INT64_MIN) < number < float(INT64_MAX):
        raise CelFault("integer overflow")
    return int(number)


def double_to_uint(number: float) -> Uint:
    """Return a double without its fraction as uint64."""
    if math.isnan(number) or math.isinf(number) or not 0 <= number < float(UINT64_MAX):
        raise CelFault("unsigned integer overflow")
    return Uint(number)


def bytes_to_text(data: bytes) -> str:
    """Return the text of UTF-8 bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CelFault("invalid UTF-8 in bytes, cannot convert to string") from error


def double_to_text(number: float) -> str:
    """Return the shortest text of a double. Source: %g of package fmt."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0:
        return "-0" if math.copysign(1.0, number) < 0 else "0"
    sign, digits, _ = Decimal(repr(number)).normalize().as_tuple()
    exponent = Decimal(repr(number)).adjusted()
    head = "-" if sign else ""
    if -4 <= exponent <= _LARGEST_PLAIN_EXPONENT:
        return head + format(Decimal(repr(abs(number))).normalize(), "f")
    written = "".join(map(str, digits))
    mantissa = written[0] + ("." + written[1:] if len(written) > 1 else "")
    return f"{head}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def to_text(value: Value) -> str:
    """Return the text of a number, bool, bytes, duration or timestamp."""
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return double_to_text(value)
    if isinstance(value, bytes):
        return bytes_to_text(value)
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, Timestamp):
        return format_timestamp(value)
    raise _refuse(value, "string")


def to_type(value: Value) -> TypeValue:
    """Return the type of a value, as a value."""
    return TypeValue(type_name(value))


def _same(value: Value) -> Value:
    return value


def _conversion(name: str, result: CelType, *sources: tuple[str, CelType, Callable[[Value], Value]]) -> Function:
    overloads: list[Overload] = [overload(name_of, (source,), result, run) for name_of, source, run in sources]
    return function(name, *overloads)


_A = param("A")

FUNCTIONS: Final[tuple[Function, ...]] = (
    function("type", overload("type", (_A,), type_of(_A)), run=to_type),
    function("dyn", overload("to_dyn", (_A,), DYN), run=_same),
    _conversion("bool", BOOL, ("bool_to_bool", BOOL, _same), ("string_to_bool", STRING, text_to_bool)),
    _conversion("bytes", BYTES, ("bytes_to_bytes", BYTES, _same), ("string_to_bytes", STRING, str.encode)),
    _conversion(
        "double",
        DOUBLE,
        ("double_to_double", DOUBLE, _same),
        ("int64_to_double", INT, float),
        ("string_to_double", STRING, text_to_double),
        ("uint64_to_double", UINT, float),
    ),
    _conversion(
        "duration", DURATION, ("duration_to_duration", DURATION, _same), ("string_to_duration", STRING, parse_duration)
    ),
    _conversion(
        "int",
        INT,
        ("int64_to_int64", INT, _same),
        ("double_to_int64", DOUBLE, double_to_int),
        ("duration_to_int64", DURATION, lambda value: value.nanos),
        ("string_to_int64", STRING, text_to_int),
        ("timestamp_to_int64", TIMESTAMP, lambda value: value.nanos // 10**9),
        ("uint64_to_int64", UINT, lambda value: check_int(int(value))),
    ),
    _conversion(
        "string",
        STRING,
        ("string_to_string", STRING, _same),
        ("bool_to_string", BOOL, to_text),
        ("bytes_to_string", BYTES, to_text),
        ("double_to_string", DOUBLE, to_text),
        ("duration_to_string", DURATION, to_text),
        ("int64_to_string", INT, to_text),
        ("timestamp_to_string", TIMESTAMP, to_text),
        ("uint64_to_string", UINT, to_text),
        ("ip_to_string", IP, lambda value: str(value.address)),
        ("cidr_to_string", CIDR, lambda value: str(value.interface)),
    ),
    _conversion(
        "timestamp",
        TIMESTAMP,
        ("timestamp_to_timestamp", TIMESTAMP, _same),
        ("int64_to_timestamp", INT, lambda value: check_timestamp(value * 10**9)),
        ("string_to_timestamp", STRING, parse_timestamp),
    ),
    _conversion(
        "uint",
        UINT,
        ("uint64_to_uint64", UINT, _same),
        ("double_to_uint64", DOUBLE, double_to_uint),
        ("int64_to_uint64", INT, check_uint),
        ("string_to_uint64", STRING, text_to_uint),
    ),
)
"""The conversions of the standard library, and string() of IP addresses and networks."""

CONVERSION_NAMES: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
"""Functions that upstream runs once, when the program is made, if their argument is a constant."""

"""Durations and timestamps: reading, printing and their parts.

Source: common/stdlib/standard.go, common/types/duration.go and timestamp.go in cel-go v0.29.2; package time of Go.

Deviates: time-zone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from claimsmith.cel.declarations import Function, function, method
from claimsmith.cel.operators import check_timestamp
from claimsmith.cel.types import DURATION, INT, STRING, TIMESTAMP
from claimsmith.cel.values import INT64_MAX, Duration, Timestamp, Value
from claimsmith.errors import CelFault

_UNIT_NANOS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_DURATION_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))"
)
_OFFSET: Final = re.compile(r"([+-]?[0-9]{1,9}):([+-]?[0-9]{1,9})")
_EPOCH: Final = date(1970, 1, 1).toordinal()
_NANOS: Final = 10**9
_DAY_S: Final = 86400
_DAYS_PER_ERA: Final = 146097
_FIRST_DAY_OF_ERA: Final = date(400, 1, 1).toordinal()
_DAYS_TO_EPOCH: Final = _EPOCH - date(1, 1, 1).toordinal() + 366
_MAX_DURATION_TEXT: Final = 256


def parse_duration(text: str) -> Duration:
    """Return the duration of a text such as `1h30m` or `-1.5s`. Source: time.ParseDuration."""
    error = CelFault("type conversion error from 'string' to 'google.protobuf.Duration'")
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return Duration(0)
    if not body or len(body) > _MAX_DURATION_TEXT:
        raise error
    nanos, position = 0, 0
    while position < len(body):
        match = _DURATION_PART.match(body, position)
        if match is None or not (match.group(1) or match.group(2)):
            raise error
        whole, fraction, unit = match.groups()
        nanos += int(whole or "0") * _UNIT_NANOS[unit]
        if fraction:
            nanos += int(Fraction(int(fraction), int(10 ** len(fraction))) * _UNIT_NANOS[unit])
        position = match.end()
    if nanos > INT64_MAX + (text[0] == "-"):
        raise error
    return Duration(-nanos if text[0] == "-" else nanos)


def format_duration(value: Duration) -> str:
    """Return a duration in seconds, such as `5400s` or `0.5s`, as precise as a double."""
    seconds, rest = divmod(abs(value.nanos), _NANOS)
    as_double = float(seconds) + float(rest) / 1e9
    written = format(Decimal(repr(as_double)), "f").removesuffix(".0")
    return f"{'-' if value.nanos < 0 else ''}{written}s"


def parse_timestamp(text: str) -> Timestamp:
    """Return the point in time of an RFC 3339 text."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise CelFault("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, _, sign, zone_hour, zone_minute = match.groups()[6:]
    zone_s = 0
    if sign:
        zone_s = (int(zone_hour) * 3600 + int(zone_minute) * 60) * (-1 if sign == "-" else 1)
    try:
        days = date(year, month, day).toordinal() - _EPOCH if year else -719528
    except ValueError as error:
        raise CelFault("type conversion error from 'string' to 'google.protobuf.Timestamp'") from error
    if hour > 23 or minute > 59 or second > 59 or abs(zone_s) > _DAY_S:
        raise CelFault("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    nanos = int((fraction or "0").ljust(9, "0")[:9])
    seconds = days * _DAY_S + hour * 3600 + minute * 60 + second - zone_s
    return check_timestamp(seconds * _NANOS + nanos, zone_s)


class CivilTime(NamedTuple):
    """A point in time by the calendar of one zone; months and days count from 1, weekdays from Sunday as 0."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int
    day_of_year: int


def _local(value: Timestamp, zone_s: int) -> CivilTime:
    """Return the calendar time in a zone; any year is possible, since a zone can lead out of 1 to 9999."""
    days, rest = divmod(value.nanos // _NANOS + zone_s, _DAY_S)
    eras, day_of_era = divmod(days + _DAYS_TO_EPOCH, _DAYS_PER_ERA)
    moved = date.fromordinal(day_of_era + _FIRST_DAY_OF_ERA)
    year = moved.year + 400 * eras - 400
    return CivilTime(
        year, moved.month, moved.day, rest // 3600, rest // 60 % 60, rest % 60, (days + 4) % 7,
        moved.timetuple().tm_yday,
    )  # fmt: skip


def format_timestamp(value: Timestamp) -> str:
    """Return an RFC 3339 text in the zone that the timestamp was written in."""
    local = _local(value, value.zone_s)
    rest = value.nanos % _NANOS
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    zone = "Z"
    if value.zone_s:
        hours, minutes = divmod(abs(value.zone_s) // 60, 60)
        zone = f"{'-' if value.zone_s < 0 else '+'}{hours:02d}:{minutes:02d}"
    day = f"{local.year:04d}-{local.month:02d}-{local.day:02d}"
    return f"{day}T{local.hour:02d}:{local.minute:02d}:{local.second:02d}{fraction}{zone}"


def _parse_zone(text: str) -> int:
    """Return the seconds east of UTC of a zone: UTC, or an offset such as +02:00.

    Zones by name are not known, because they would need files.
    """
    if text in ("", "UTC"):
        return 0
    match = _OFFSET.fullmatch(text)
    if match is None:
        raise CelFault(f"unknown time zone {text}")
    hours, minutes = int(match.group(1)), int(match.group(2))
    return (hours * 60 + (-minutes if text[0] == "-" else minutes)) * 60


_Part = Callable[[CivilTime, Timestamp], int]


def _getter(name: str, suffix: str, part: _Part, *, nanos: int | None = None) -> Function:
    """Declare a getter of timestamps, and of durations where a unit is given."""

    def in_utc(value: Timestamp) -> int:
        return part(_local(value, 0), value)

    def in_zone(value: Timestamp, zone: str) -> int:
        return part(_local(value, _parse_zone(zone)), value)

    overloads = [
        method(f"timestamp_to_{suffix}", (TIMESTAMP,), INT, in_utc),
        method(f"timestamp_to_{suffix}_with_tz", (TIMESTAMP, STRING), INT, in_zone),
    ]
    if nanos is not None:
        unit = nanos

        def of_duration(value: Duration) -> int:
            return abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)

        overloads.append(method(f"duration_to_{suffix}", (DURATION,), INT, of_duration))
    return function(name, *overloads)


def _milliseconds(_local_time: CivilTime, value: Value) -> int:
    return int(value.nanos % _NANOS // 10**6)


FUNCTIONS: Final[tuple[Function, ...]] = (
    _getter("getFullYear", "year", lambda local, _: local.year),
    _getter("getMonth", "month", lambda local, _: local.month - 1),
    _getter("getDayOfYear", "day_of_year", lambda local, _: local.day_of_year - 1),
    _getter("getDayOfMonth", "day_of_month", lambda local, _: local.day - 1),
    _getter("getDate", "day_of_month_1_based", lambda local, _: local.day),
    _getter("getDayOfWeek", "day_of_week", lambda local, _: local.weekday),
    _getter("getHours", "hours", lambda local, _: local.hour, nanos=3600 * _NANOS),
    _getter("getMinutes", "minutes", lambda local, _: local.minute, nanos=60 * _NANOS),
    _getter("getSeconds", "seconds", lambda local, _: local.second, nanos=_NANOS),
    _getter("getMilliseconds", "milliseconds", _milliseconds, nanos=10**6),
)
"""The getters of timestamps and durations."""

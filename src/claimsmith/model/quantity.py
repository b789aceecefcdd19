"""Exact Kubernetes quantities: parsed strictly, compared by value, printed as the API server prints them.

A quantity is a whole number of nano units, so comparing, hashing and adding are integer operations.
Next to the value it keeps how upstream would store it (a 64-bit mantissa with a decimal scale, or an
arbitrary-precision decimal), because `isInteger()` and `asInteger()` of the selector language depend on it.

Source: k8s.io/apimachinery v0.37.2, pkg/api/resource (quantity.go, amount.go, suffix.go).

Deviates: big-quantity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

from claimsmith.errors import QuantityFormatError

NANO_EXPONENT: Final = -9
"""The smallest power of ten that a quantity can tell apart."""

MAX_QUANTITY_TEXT: Final = 512
"""Longest accepted text, in characters; upstream has no limit."""

MAX_EXPONENT: Final = 512
"""Largest accepted power of ten after `e` or `E`; upstream takes any 32-bit number."""

_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_NANO: Final = 10**9
_MAX_FAST_DIGITS: Final = 18


class QuantityFormat(Enum):
    """How a quantity is printed: `12M`, `12Mi` or `12e6`."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_NAMES: Final = {exponent: name for name, exponent in _DECIMAL_SUFFIXES.items()}
_BINARY_NAMES: Final = {0: "", 1: "Ki", 2: "Mi", 3: "Gi", 4: "Ti", 5: "Pi", 6: "Ei"}
_TEXT: Final = re.compile(r"([+-]?)(0*+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Quantity:
    """An amount of a resource, exact to a nano unit; equal and hashed by value.

    Args:
        nanos: The value in nano units (10^-9 of the base unit), of any size.
        format: How the value is printed.
        text: The text to print when the author's own text is already canonical; empty otherwise.
        exponent: Power of ten of upstream's stored mantissa.
        is_wide: True when upstream holds the value as an arbitrary-precision decimal.

    Source: Quantity in k8s.io/apimachinery v0.37.2, pkg/api/resource/quantity.go.
    """

    nanos: int
    format: QuantityFormat = QuantityFormat.DECIMAL_SI
    text: str = ""
    exponent: int = field(default=0)
    is_wide: bool = field(default=False)

    @classmethod
    def from_int(cls, value: int, *, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Quantity:
        """Return the quantity of a whole number of base units.

        Source: NewQuantity in quantity.go.
        """
        return cls(nanos=value * _NANO, format=format, is_wide=not _INT64_MIN <= value <= _INT64_MAX)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos

    def __add__(self, other: Quantity) -> Quantity:
        return self.add(other)

    def __sub__(self, other: Quantity) -> Quantity:
        return self.sub(other)

    def __neg__(self) -> Quantity:
        return Quantity(nanos=-self.nanos, format=self.format, exponent=self.exponent, is_wide=self.is_wide)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __str__(self) -> str:
        return self.text or _canonical(self)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self.nanos > 0) - (self.nanos < 0)

    @property
    def is_integer(self) -> bool:
        """True when the value is a whole number of base units, whatever its size."""
        return self.nanos % _NANO == 0

    def compare_to(self, other: Quantity) -> int:
        """Return -1, 0 or 1: how this value relates to the other.

        Source: Cmp in quantity.go.
        """
        return (self.nanos > other.nanos) - (self.nanos < other.nanos)

    def value(self) -> int:
        """Return the value in base units, rounded away from zero.

        The result has any size; upstream's wraps beyond 64 bits. Source: Value in quantity.go.
        """
        return _divide_away_from_zero(self.nanos, _NANO)

    def milli_value(self) -> int:
        """Return the value in thousandths of the base unit, rounded away from zero.

        Source: MilliValue in quantity.go.
        """
        return _divide_away_from_zero(self.nanos, 10**6)

    def as_int64(self) -> int | None:
        """Return the value if upstream converts it to an int64 without loss; None otherwise.

        Upstream refuses more than the value tells: `1.0`, `1000m` and `1Ei` are None too.
        Source: AsInt64 in quantity.go, amount.go.
        """
        if self.is_wide or self.exponent < 0:
            return None
        whole = self.nanos // _NANO
        return whole if _INT64_MIN <= whole <= _INT64_MAX else None

    def as_approximate_float(self) -> float:
        """Return the nearest float that upstream computes: mantissa times a power of ten.

        Source: AsApproximateFloat64 in quantity.go.
        """
        mantissa = self._mantissa()
        try:
            base = float(mantissa)
        except OverflowError:
            return float("inf") if mantissa > 0 else float("-inf")
        return base if self.exponent == 0 else base * _float_power_of_ten(self.exponent)

    def add(self, other: Quantity) -> Quantity:
        """Return the exact sum; a zero takes the format of the other operand.

        Source: Add in quantity.go.
        """
        return self._combine(other, self.nanos + other.nanos)

    def sub(self, other: Quantity) -> Quantity:
        """Return the exact difference; a zero takes the format of the other operand.

        Upstream subtracts the smallest 64-bit number by adding it, because it has no positive counterpart.

        Source: Sub in quantity.go and amount.go.
        """
        if not self.is_wide and not other.is_wide and other._mantissa() == _INT64_MIN:
            added = self.add(other)
            if not added.is_wide:
                return added
        return self._combine(other, self.nanos - other.nanos)

    def _mantissa(self) -> int:
        """The number that upstream stores beside `exponent`."""
        shift = self.exponent - NANO_EXPONENT
        return self.nanos // _power_of_ten(shift) if shift >= 0 else self.nanos * _power_of_ten(-shift)

    def _combine(self, other: Quantity, nanos: int) -> Quantity:
        """Give a sum the format and the storage that upstream gives it."""
        chosen = self.format if self.nanos else other.format
        exponent, is_wide = min(self.exponent, other.exponent), self.is_wide or other.is_wide
        if not is_wide:
            if not other.nanos:
                exponent = self.exponent
            elif not self.nanos:
                exponent = other.exponent
            else:
                is_wide = not _fits_scaled((self, other), nanos, exponent)
        return Quantity(nanos=nanos, format=chosen, exponent=exponent, is_wide=is_wide)


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Quantity:
    """Return the quantity that a text stands for, read as strictly as the API server reads it.

    Values below one nano unit round up (away from zero) to one; binary values beyond ±(2^63 - 1) are capped.

    Args:
        text: A number with an optional suffix n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e6.

    Raises:
        QuantityFormatError: The text is not a quantity, or longer or larger than this program accepts.

    Source: ParseQuantity in quantity.go.
    """
    if len(text) > MAX_QUANTITY_TEXT:
        raise QuantityFormatError(text[:32] + "…", reason=f"{len(text)} characters, allowed {MAX_QUANTITY_TEXT}")
    match = _TEXT.fullmatch(text)
    if match is None or not text:
        raise QuantityFormatError(text, reason="not a number with a suffix")
    sign, zeros, digits, fraction, suffix = match.groups()
    base, exponent, format = _parse_suffix(text, suffix)
    whole = digits or "0"
    parts = _Parts(sign=-1 if sign == "-" else 1, whole=whole, fraction=fraction or "", base=base, exponent=exponent)
    if parts.is_fast:
        return _parse_fast(text, parts, format)
    if not (zeros or digits or fraction):
        raise QuantityFormatError(text, reason="it has no digit before its suffix")
    return _parse_wide(parts, format)


def format_milli(amount: int) -> str:
    """Return an amount in thousandths as a quantity is written: `2`, or `1500m`."""
    return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"


def find_quantity(text: str) -> Quantity | None:
    """Return the quantity of a text; None when it is not one."""
    try:
        return parse_quantity(text)
    except QuantityFormatError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The pieces of a quantity's text, before they become a number."""

    sign: int
    whole: str
    fraction: str
    base: int
    exponent: int

    @property
    def shifted(self) -> str:
        """All digits, without the decimal point."""
        return self.whole + self.fraction

    @property
    def is_fast(self) -> bool:
        """True when upstream reads the number into an int64 at once."""
        if self.base == 2:
            digits = 15 - len(self.whole) - self.exponent * 3 // 10 - 1
            return not self.fraction and digits >= 0
        scale = self.exponent - len(self.fraction)
        return len(self.shifted) <= _MAX_FAST_DIGITS and scale >= NANO_EXPONENT


def _parse_suffix(text: str, suffix: str) -> tuple[int, int, QuantityFormat]:
    """Return base, exponent and format of a suffix."""
    if suffix in _DECIMAL_SUFFIXES:
        return 10, _DECIMAL_SUFFIXES[suffix], QuantityFormat.DECIMAL_SI
    if suffix in _BINARY_SUFFIXES:
        return 2, _BINARY_SUFFIXES[suffix], QuantityFormat.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityFormatError(text, reason=f"unknown suffix {suffix!r}")
    exponent = int(match.group(1))
    if abs(exponent) > MAX_EXPONENT:
        raise QuantityFormatError(text, reason=f"exponent {exponent}, allowed -{MAX_EXPONENT} to {MAX_EXPONENT}")
    return 10, exponent, QuantityFormat.DECIMAL_EXPONENT


def _parse_fast(text: str, parts: _Parts, format: QuantityFormat) -> Quantity:
    """Read a number that fits an int64; keep its text when that is canonical already."""
    number = int(parts.shifted)
    if parts.base == 2:
        keep = number & 7 != 0
        return Quantity(nanos=parts.sign * (number << parts.exponent) * _NANO, format=format, text=text if keep else "")
    scale = parts.exponent - len(parts.fraction)
    keep = scale % 3 == 0 and not parts.shifted.endswith("000") and parts.shifted[0] != "0"
    nanos = parts.sign * number * _power_of_ten(scale - NANO_EXPONENT)
    return Quantity(nanos=nanos, format=format, text=text if keep else "", exponent=scale)


def _parse_wide(parts: _Parts, format: QuantityFormat) -> Quantity:
    """Read a number of any size, rounded up to nano units and, when binary, capped."""
    number = int(parts.shifted)
    power = -len(parts.fraction)
    if parts.base == 2:
        number <<= parts.exponent
    else:
        power += parts.exponent
    shift = power - NANO_EXPONENT
    nanos = number * _power_of_ten(shift) if shift >= 0 else -(-number // _power_of_ten(-shift))
    exponent = NANO_EXPONENT if number else power
    if format is QuantityFormat.BINARY_SI and nanos > _INT64_MAX * _NANO:
        nanos, exponent = _INT64_MAX * _NANO, 0
    if format is QuantityFormat.BINARY_SI and 0 < nanos < _NANO:
        format = QuantityFormat.DECIMAL_SI
    return Quantity(nanos=parts.sign * nanos, format=format, exponent=exponent, is_wide=True)


def _fits_scaled(operands: tuple[Quantity, Quantity], nanos: int, exponent: int) -> bool:
    """True when upstream adds the operands at the smaller scale without leaving int64."""
    unit = _power_of_ten(exponent - NANO_EXPONENT)
    return all(_INT64_MIN <= amount // unit <= _INT64_MAX for amount in (operands[0].nanos, operands[1].nanos, nanos))


def _divide_away_from_zero(number: int, divisor: int) -> int:
    """Divide by a positive number and round away from zero."""
    return -(-number // divisor) if number >= 0 else number // divisor


def _power_of_ten(exponent: int) -> int:
    """10 to a power that is not negative."""
    return int(10**exponent)


def _float_power_of_ten(exponent: int) -> float:
    """10 to a power as a float; infinite or zero beyond its range."""
    return float(f"1e{exponent}")


def _canonical(quantity: Quantity) -> str:
    """Print a value with the largest suffix that needs no fraction. Source: CanonicalizeBytes in quantity.go."""
    if not quantity.nanos:
        return "0"
    binary = quantity.format is QuantityFormat.BINARY_SI
    if binary and abs(quantity.nanos) >= 1024 * _NANO and quantity.is_integer:
        return _canonical_binary(quantity.nanos // _NANO)
    exponent_form = quantity.format is QuantityFormat.DECIMAL_EXPONENT
    return _canonical_decimal(quantity.nanos, exponent_form=exponent_form)


def _canonical_binary(value: int) -> str:
    """Print a whole number with the largest power of 1024 that divides it."""
    power = 0
    while power < 6 and value % 1024 == 0:
        value //= 1024
        power += 1
    return f"{value}{_BINARY_NAMES[power]}"


def _canonical_decimal(nanos: int, *, exponent_form: bool) -> str:
    """Print nano units with the largest power of 1000 that divides them.

    Upstream drops the suffix of decimal values beyond 10^18 that need one; here they print as an exponent.
    """
    exponent = NANO_EXPONENT
    while nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    if not exponent_form and exponent in _DECIMAL_NAMES:
        return f"{nanos}{_DECIMAL_NAMES[exponent]}"
    return f"{nanos}e{exponent}" if exponent else str(nanos)

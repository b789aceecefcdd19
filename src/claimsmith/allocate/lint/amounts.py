"""The amount that a text or number probably stands for, which is no quantity as Kubernetes writes it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Final

from claimsmith.model.quantity import Quantity, QuantityFormat, find_quantity

__all__ = ["guess_quantity"]

_TEXT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")
_UNIT: Final = re.compile(r"([kmgtpe]?)(i?)b?(?:ytes?)?")
_WORDS: Final = {"kilo": "k", "mega": "m", "giga": "g", "tera": "t", "peta": "p", "exa": "e"}
_DECIMAL: Final = {"k": "k", "m": "M", "g": "G", "t": "T", "p": "P", "e": "E"}
_FAR: Final = 1000
"""A plain number that is this many times below all amounts counts in another unit."""


def guess_quantity(text: str, published: Collection[Quantity]) -> str:
    """Return the amount that is probably meant, as Kubernetes writes it; empty when nobody can tell.

    What is a quantity stays as it is, unless it is a plain number far below all that is published: `40` beside amounts
    of 40Gi and 80Gi stands for 40Gi. So does `40GB`; beside amounts of 80G it stands for 40G.

    Args:
        text: As an expression has it.
        published: The amounts that devices have.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        return text if find_quantity(text) is not None else ""
    number, unit = found.groups()
    amounts = [amount for amount in published if amount.nanos > 0]
    if not unit:
        return _guess_unit(number, amounts)
    if find_quantity(text) is not None:
        return text
    lower = unit.lower()
    for word, letter in _WORDS.items():
        lower = lower.replace(word, letter)
    parts = _UNIT.fullmatch(lower)
    if parts is None:
        return ""
    if not parts[1]:
        return number
    return _choose(_spell(number, parts[1]), amounts, is_binary=bool(parts[2]))


def _spell(number: str, letter: str) -> tuple[str, str]:
    """Return an amount with a unit of powers of ten, and with one of powers of two."""
    return f"{number}{_DECIMAL[letter]}", f"{number}{letter.upper()}i"


def _choose(spelled: tuple[str, str], amounts: Collection[Quantity], *, is_binary: bool) -> str:
    """Return one of two units: powers of two if they are meant, or if something is published with them."""
    decimal, binary = spelled
    if is_binary or any(amount.format is QuantityFormat.BINARY_SI for amount in amounts):
        return binary
    return decimal


def _guess_unit(number: str, amounts: Collection[Quantity]) -> str:
    """Return a plain number with the unit that brings it next to what is published; as it is when it is near."""
    value = float(number)
    if not amounts or value <= 0 or min(amount.nanos for amount in amounts) / 1e9 < value * _FAR:
        return number
    is_binary = any(amount.format is QuantityFormat.BINARY_SI for amount in amounts)
    spelled = [_spell(number, letter)[is_binary] for letter in _DECIMAL]
    return min(spelled, key=lambda text: min(_distance(text, amount) for amount in amounts))


def _distance(text: str, amount: Quantity) -> float:
    """Return by how many powers of e two amounts differ."""
    found = find_quantity(text)
    return math.inf if found is None or found.nanos <= 0 else abs(math.log(found.nanos) - math.log(amount.nanos))

"""Texts as parts of label keys and as label values: valid, and different for different texts. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

__all__ = ["LABEL_MAX", "as_label_value", "fact_key", "name_parts"]

LABEL_MAX: Final = 63
"""Longest value of a label, and longest name in its key, in characters. Source: pkg/util/validation of apimachinery."""

_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_ENDS: Final = "-_."
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_HASH_LENGTH: Final = 6


def as_label_value(text: str, *, length_max: int = LABEL_MAX) -> str:
    """Return a text as a label value: `+` becomes `.`, other characters that are not allowed `-`; may be empty."""
    plain = _NOT_ALLOWED.sub("-", text.replace("+", "."))
    return plain.strip(_ENDS)[:length_max].rstrip(_ENDS)


def name_parts(texts: Iterable[str], *, length_max: int) -> Mapping[str, str]:
    """Return for each text a part of a label key; different texts have different parts.

    Where two texts would look alike, and where one is too long or has no letter at all, a few digits that stand for
    the whole text are added.

    Args:
        texts: The texts; their order does not matter.
        length_max: Longest part in characters; > 7.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for text in set(texts):
        # Without case: "a100" beside "A100" would be told apart by machines alone.
        alike[as_label_value(text, length_max=10_000).lower()].append(text)
    return {
        text: _name(text, length_max, is_alone=len(found) == 1)
        for found in alike.values()
        for text in found
    }  # fmt: skip


def fact_key(attribute: str, *, length_max: int = LABEL_MAX) -> str:
    """Return an attribute's name as the end of a label key: `driverVersion` becomes `driver-version`."""
    name = _CAMEL.sub("-", attribute.rpartition("/")[2]).lower()
    plain = as_label_value(name, length_max=10_000)
    return plain if len(plain) <= length_max else _shorten(plain, attribute, length_max)


def _name(text: str, length_max: int, *, is_alone: bool) -> str:
    plain = as_label_value(text, length_max=10_000)
    return plain if is_alone and 0 < len(plain) <= length_max else _shorten(plain, text, length_max)


def _shorten(plain: str, text: str, length_max: int) -> str:
    digest = sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
    start = plain[: length_max - _HASH_LENGTH - 1].rstrip(_ENDS)
    return f"{start}-{digest}" if start else f"x{digest}"

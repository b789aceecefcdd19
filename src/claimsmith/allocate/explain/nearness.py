"""How near a text is to another one, as names of models, profiles and the like are meant."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final

__all__ = ["find_similarity", "is_near", "rank_text"]

_NUMBER: Final = re.compile(r"\d+")
_NEAR: Final = 0.7
"""Least similarity of texts that are likely to be meant for each other."""


def rank_text(wanted: str, value: str) -> tuple[object, ...]:
    """Return a key by which texts are sorted, the nearest to the wanted one first.

    Texts that differ in their numbers alone come first, such as profiles of devices: of them the next lower one, since
    asking for less is likelier to be granted, down to the lowest, then the next higher one and so on. Others follow
    by how much of them is alike.
    """
    if _form_of(wanted) == _form_of(value):
        numbers, asked = _numbers_of(value), _numbers_of(wanted)
        if numbers < asked:
            return (0, 0, tuple(-number for number in numbers))
        return (0, 1, numbers)
    return (1, -find_similarity(wanted, value))


def is_near(wanted: str, value: str) -> bool:
    """Tell whether one text may well do for another: it differs in numbers alone, or is spelled much the same."""
    return _form_of(wanted) == _form_of(value) or find_similarity(wanted, value) >= _NEAR


def find_similarity(wanted: str, value: str) -> float:
    """Return how much of two texts is alike, from 0 to 1, whatever the case of letters; a common beginning counts."""
    one, two = wanted.casefold(), value.casefold()
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))
    return max(start / max(len(one), 1), SequenceMatcher(None, one, two, autojunk=False).ratio())


def _form_of(text: str) -> str:
    return _NUMBER.sub("#", text)


def _numbers_of(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(text))

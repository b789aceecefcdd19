"""Small damages to the text of an expression."""

from __future__ import annotations

import re
from typing import Final

from tests.conformance.fuzz.words import LITERALS, STRINGS, Chance

__all__ = ["mutate", "split_words"]

_WORD: Final = re.compile(r'b?"(?:\\.|[^"\\])*"|[A-Za-z_][A-Za-z0-9_]*|[0-9][0-9A-Za-z.]*|&&|\|\||[=!<>]=|\s+|.')
_SIGNS: Final = (
    "&&",
    "||",
    "==",
    "!=",
    "<",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "in",
    "?",
    ":",
    ".",
    ",",
    "(",
    ")",
    "[",
    "]",
    "!",
)
_NAMES: Final = (
    "size",
    "contains",
    "matches",
    "orValue",
    "compareTo",
    "includes",
    "device",
    "has",
    "dyn",
    "type",
    "v1",
    "max",
)


def split_words(text: str) -> list[str]:
    """Return the words of an expression, white space included; joined they are the text."""
    return _WORD.findall(text)


def mutate(text: str, chance: Chance) -> str:
    """Return the text with one word exchanged, dropped, doubled or swapped with the next."""
    words = split_words(text)
    places = [place for place, word in enumerate(words) if not word.isspace()]
    if not places:
        return text
    place = chance.pick(places)
    match chance.weigh({"exchange": 6, "drop": 1, "double": 1, "swap": 1}):
        case "exchange":
            words[place] = _exchange(words[place], chance)
        case "drop":
            del words[place]
        case "double":
            words.insert(place, words[place])
        case _:
            other = chance.pick(places)
            words[place], words[other] = words[other], words[place]
    return "".join(words)


def _exchange(word: str, chance: Chance) -> str:
    """Return another word of the same kind."""
    if word.endswith('"'):
        return f'"{chance.pick(STRINGS[chance.pick(sorted(STRINGS))])}"'
    if word[0].isdigit():
        return chance.pick(LITERALS[chance.pick(("int", "uint", "double"))])
    if word[0].isalpha() and word != "in":
        return chance.pick(_NAMES)
    return chance.pick(_SIGNS)

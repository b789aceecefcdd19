"""Whether an explanation says what a case wants said, in sense and not letter by letter.

The rule: every significant word and every number of the wanted phrase stands in ONE sentence of the explanation, as
often as in the phrase. Significant is all but articles, prepositions and forms of "to be"; a negation counts. Upper and
lower case, order and punctuation at the ends of words don't count; names such as `gpu.example.test/rail` and forms such
as "requested" are compared as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_FILLERS = frozenset(
    ("a", "an", "and", "are", "as", "at", "be", "been", "by", "for", "from", "has", "have", "in", "is", "it", "its",
     "of", "on", "or", "per", "that", "the", "their", "there", "to", "was", "were", "with")
)  # fmt: skip
_PUNCTUATION = ".,:;()[]{}'\"`"


def significant_words(text: str) -> Counter[str]:
    """Return the words of a text that count."""
    words = (word.strip(_PUNCTUATION).lower() for word in text.split())
    return Counter(word for word in words if word and word not in _FILLERS)


def find_unsaid(phrases: Iterable[str], sentences: Iterable[str]) -> list[str]:
    """Return the phrases that no sentence says."""
    said = [significant_words(sentence) for sentence in sentences]
    return [phrase for phrase in phrases if not any(significant_words(phrase) <= words for words in said)]

"""An explanation says a phrase when one of its sentences has every significant word of it."""

from __future__ import annotations

import pytest

from tests.cases.words import find_unsaid

SAID = ["counter u of set cs: 1 of 4 left, 2 needed", "gpu-1 in use by default/other"]


@pytest.mark.parametrize(
    "phrase",
    [
        "gpu-1 in use by default/other",
        "default/other has gpu-1 in use",
        "set cs: 4 of 1 left",
        "The counter u, 2 needed",
    ],
)
def test_order_case_punctuation_and_small_words_do_not_count(phrase: str) -> None:
    assert find_unsaid([phrase], SAID) == []


@pytest.mark.parametrize(
    "phrase",
    ["gpu-0 in use", "counter u: 3 left", "2 left, 2 needed", "no counter u left", "gpu-1 of set cs"],
    ids=["another name", "another number", "a number twice", "a negation", "words of two sentences"],
)
def test_another_word_or_number_is_not_said(phrase: str) -> None:
    assert find_unsaid([phrase], SAID) == [phrase]

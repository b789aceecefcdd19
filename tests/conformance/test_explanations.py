"""Explanations of recorded problems: irreducible sets, reasons that name something, fixes that help.

A sample of them; `python -m tests.conformance.explained` judges all.
"""

from __future__ import annotations

import pytest

from tests.conformance.explained import judge_explanations

SAMPLES = {"allocator": 40, "probes": 2, "hard": 6, "upstream-table": 16, "drawn": 24}
"""Of how many problems of each file one is judged."""


@pytest.mark.parametrize(("file", "every"), SAMPLES.items(), ids=list(SAMPLES))
def test_reasons_are_irreducible_and_fixes_help(file: str, every: int) -> None:
    judged = list(judge_explanations(file, every=every, start=every // 2))

    assert {item.name: item.faults for item in judged if item.faults} == {}
    assert sum(item.reasons for item in judged) >= len(judged) > 5

"""Recorded upstream answers: the committed list names every case that agrees, no more and no fewer.

After a change that lets more cases agree, write the lists anew with `python -m tests.conformance.agreeing`.
"""

from __future__ import annotations

import pytest

from claimsmith.testing.conformance import run_file
from tests.conformance.agreeing import FILES, LIST_NAMES, find_data, read_list


@pytest.mark.parametrize(("file", "like_upstream"), LIST_NAMES)
def test_exactly_the_listed_cases_agree(file: str, like_upstream: bool) -> None:
    report = run_file(find_data(file), like_upstream=like_upstream)

    differing = {outcome.name: outcome.differences for outcome in report.differing}
    listed = read_list(file, like_upstream=like_upstream)
    stopped = {name: differing.get(name, ("not in the file",)) for name in listed if name not in report.agreeing}
    assert stopped == {}
    assert set(report.agreeing) - set(listed) == set()


@pytest.mark.parametrize(("file", "count"), FILES.items())
def test_every_line_of_a_recorded_file_is_judged(file: str, count: int) -> None:
    report = run_file(find_data(file))

    assert len(report.outcomes) == count

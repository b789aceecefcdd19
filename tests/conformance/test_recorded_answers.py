"""Recorded upstream answers: like upstream, nothing differs; by default, what is meant to and nothing else.

After a change that lets more or fewer cases deviate, write the list anew with `python -m tests.conformance.recorded`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from claimsmith.testing.conformance import FileReport, run_file
from tests.conformance.recorded import FILES, PART_LINES, find_data, list_reasons, read_deviating, read_lines

PARTS: Final = [(file, start) for file, count in FILES.items() for start in range(0, count, PART_LINES)]
IDS: Final = [f"{file}-{start}" for file, start in PARTS]
LACKING: Final = {"table": ["table-098", "table-106", "table-114", "table-132", "table-225"]}
"""Cases whose record is not whole; table/test_table.py completes them."""


def judge(folder: Path, file: str, start: int, *, like_upstream: bool) -> FileReport:
    part = folder / f"{file}.jsonl"
    part.write_bytes(b"".join(read_lines(file)[start : start + PART_LINES]))
    return run_file(part, like_upstream=like_upstream)


def named(file: str, start: int) -> set[str]:
    return {json.loads(line)["name"] for line in read_lines(file)[start : start + PART_LINES]}


@pytest.mark.parametrize(("file", "start"), PARTS, ids=IDS)
def test_like_upstream_nothing_differs(tmp_path: Path, file: str, start: int) -> None:
    report = judge(tmp_path, file, start, like_upstream=True)

    assert {outcome.name: outcome.differences for outcome in report.differing} == {}
    assert list_reasons(report) == {}
    lacking = named(file, start).intersection(LACKING.get(file, ()))
    assert set(report.agreeing) == named(file, start) - lacking


@pytest.mark.parametrize(("file", "start"), PARTS, ids=IDS)
def test_by_default_what_is_listed_deviates_and_nothing_else_differs(tmp_path: Path, file: str, start: int) -> None:
    report = judge(tmp_path, file, start, like_upstream=False)

    assert {outcome.name: outcome.differences for outcome in report.differing} == {}
    listed = {case: reasons for case, reasons in read_deviating()[file].items() if case in named(file, start)}
    assert list_reasons(report) == listed


@pytest.mark.parametrize(("file", "count"), FILES.items())
def test_every_line_of_a_recorded_file_has_a_name_of_its_own(file: str, count: int) -> None:
    assert len({json.loads(line)["name"] for line in read_lines(file)}) == len(read_lines(file)) == count


def test_every_case_of_a_file_is_in_its_report() -> None:
    report = run_file(find_data("probes"))

    assert len(report.outcomes) == FILES["probes"]

"""Upstream's own table test of its allocator: every case, with all that it was given, for all implementations."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from claimsmith.testing.conformance import run_file
from claimsmith.testing.conformance.errorkinds import ERROR_KINDS
from tests.conformance.table.record import ERROR_KINDS as GO_KINDS
from tests.conformance.table.record import RECORDED, RUNS

FIRST: Final = RECORDED.with_name("table.jsonl.gz")
"""The same table as it was first recorded: without shares in use, and with numbers that lost their suffix."""
LACKING: Final = {
    "table-098": "consumable-capacity-multi-allocatable-device-with-allocated-capacity-next-device",
    "table-106": "consumable-capacity-multi-allocatable-device-with-no-available-consumable-capacity",
    "table-114": "consumable-capacity-requests-are-not-modified",
    "table-132": "consumable-capacity-multi-allocatable-device-allocation-mode-all-in-use-insufficient",
    "table-225": "allow-multiple-allocations-with-shared-device-counter-cross-cycle",
}
"""Rows that are not whole, and the case of upstream's source that each comes from."""

Json = dict[str, Any]


@cache
def read(path: Path) -> tuple[Json, ...]:
    with gzip.open(path) as lines:
        return tuple(json.loads(line) for line in lines)


def test_every_case_is_recorded_for_every_implementation() -> None:
    asked = Counter(line["implementation"] for line in read(RECORDED))
    answered = Counter(line["upstream"]["impl"] for line in read(RECORDED) if line["implementation"] == "selected")

    assert asked == {"selected": 275, "stable": 158, "incubating": 234, "experimental": 279}
    assert answered == {"stable": 158, "incubating": 72, "experimental": 45}


def test_like_upstream_every_case_agrees() -> None:
    report = run_file(RECORDED, like_upstream=True)

    assert {outcome.name: outcome.differences for outcome in report.differing} == {}
    assert len(report.agreeing) == len(read(RECORDED)) == 946


def test_by_default_errors_that_need_not_be_are_all_that_differs() -> None:
    report = run_file(RECORDED)

    found = Counter(str(reason.deviation) for outcome in report.deviating for reason in outcome.deviations)
    assert report.differing == ()
    assert found == {"selector-error": 36, "invalid-pool": 28, "all-with-constraint": 8, "all-while-incomplete": 4}


def test_rows_as_first_recorded_agree_unless_they_are_not_whole() -> None:
    report = run_file(FIRST, like_upstream=True)

    assert report.differing == ()
    assert [outcome.name for outcome in report.lacking] == list(LACKING)
    assert len(report.agreeing) + len(report.lacking) == len(read(FIRST)) == 180


@pytest.mark.parametrize(("row", "case"), LACKING.items())
def test_a_row_that_is_not_whole_agrees_when_it_is_completed_from_upstreams_source(
    tmp_path: Path, row: str, case: str
) -> None:
    first = next(line for line in read(FIRST) if line["name"] == row)
    whole = next(line for line in read(RECORDED) if line["name"] == f"{case}/selected")
    completed = {**first, **{key: whole[key] for key in ("state", "slices", "claims")}}
    completed["results"] = whole["upstream"]["results"][0].get("allocation")
    (tmp_path / "row.jsonl").write_text(json.dumps(completed))

    assert _drop_losses(completed) == _drop_losses(first)
    assert run_file(tmp_path / "row.jsonl", like_upstream=True).agreeing == (row,)


def _drop_losses(row: Json) -> Json:
    """Return a row without what the first record lost: shares in use, suffixes beyond exa; and random share ids."""
    kept = json.loads(json.dumps({key: value for key, value in row.items() if key != "state"}).replace('"1e21"', '"1"'))
    for allocation in kept["results"] or ():
        for result in allocation["devices"]["results"]:
            result.pop("shareID", None)
    return {key: value or None for key, value in kept.items()}


def test_a_row_that_is_whole_but_wrong_is_no_record_that_lacks_something(tmp_path: Path) -> None:
    right = next(line for line in read(FIRST) if line["results"] and not line["allocated"])
    (tmp_path / "row.jsonl").write_text(json.dumps({**right, "results": None}))
    report = run_file(tmp_path / "row.jsonl", like_upstream=True)

    assert (len(report.differing), report.lacking) == (1, ())


def test_the_kinds_of_errors_are_those_of_the_go_program() -> None:
    source = GO_KINDS.read_text(encoding="utf-8")

    assert [f'{{"{kind}", regexp.MustCompile(`{pattern}`)}},' for kind, pattern in ERROR_KINDS] == [
        line.strip() for line in source.splitlines() if line.strip().startswith('{"')
    ]


def test_each_run_is_of_a_package_of_upstreams_tests() -> None:
    assert {line["name"].rpartition("/")[2] for line in read(RECORDED)} == set(RUNS)

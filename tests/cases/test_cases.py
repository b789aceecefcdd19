"""Each case file comes out as it says: reported faults of others, each with the right result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.casefile import DATA
from tests.cases.judges import judge, sort_cases
from tests.cases.not_yet import NOT_YET
from tests.cases.plugin import find_folder


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each file that can be judged."""
    if "case_path" in metafunc.fixturenames:
        folder = find_folder(metafunc.config)
        judged, _ = sort_cases(folder)
        if not judged:
            raise pytest.UsageError(f"--cases {folder}: found no case file that can be judged; correct the path")
        metafunc.parametrize("case_path", judged, ids=[path.stem for path in judged])


async def test_a_case_comes_out_right(case_path: Path) -> None:
    differences = await judge(case_path)

    known = NOT_YET.get(case_path.stem, {})
    assert [text for text in differences if not text.startswith(tuple(known))] == []
    repaired = [part for part in known if not any(text.startswith(part) for text in differences)]
    assert repaired == [], "they come out right now: take them off NOT_YET"


def test_what_is_known_to_fail_is_a_case_that_is_run() -> None:
    judged, _ = sort_cases(DATA)

    assert set(NOT_YET) <= {path.stem for path in judged}

"""Tests of one folder share a process, in an inner run of pytest that has two."""

from __future__ import annotations

import pytest

TESTS = "import os, pathlib\n\n" + "\n\n".join(
    f"def test_{number}(): pathlib.Path(f\"{{os.environ['PYTEST_XDIST_WORKER']}}-{number}\").touch()"
    for number in range(6)
)


@pytest.mark.parametrize(("folder", "processes"), [("tests/cluster", 1), ("tests/unit", 2)])
def test_tests_of_the_cluster_share_a_process(pytester: pytest.Pytester, folder: str, processes: int) -> None:
    pytester.makeconftest("from tests.grouping import pytest_xdist_make_scheduler\n")
    pytester.mkdir("tests")
    pytester.mkdir(folder).joinpath("test_it.py").write_text(TESTS)
    plain = ("-p", "no:cacheprovider", "-p", "no:asyncio", "-n", "2")
    pytester.runpytest_inprocess(*plain).assert_outcomes(passed=6)
    workers = {path.name.split("-")[0] for path in pytester.path.glob("gw*")}

    assert len(workers) == processes

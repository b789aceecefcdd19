"""Under CI=true nothing is skipped: a skip of a test or a whole module counts as a failure."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest


def is_strict() -> bool:
    """Tell whether a skip is a failure in this run."""
    return os.environ.get("CI") == "true"


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    # An expected failure is reported as skipped, with the reason in `wasxfail`.
    if not report.skipped or hasattr(report, "wasxfail") or not is_strict():
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"{report.nodeid}: skipped under CI=true ({reason}); install what it needs"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test into a failure."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a module into a failure."""
    report = yield
    _refuse_skip(report)
    return report

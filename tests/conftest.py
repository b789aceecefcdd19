"""What every run shares: strictness about skips, Hypothesis profiles, the option for cases, short folders."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from tests.cases.plugin import pytest_addoption, pytest_terminal_summary
from tests.cluster.place import pytest_report_header
from tests.grouping import pytest_xdist_make_scheduler
from tests.strictness import pytest_make_collect_report, pytest_runtest_makereport

__all__ = [
    "pytest_addoption",
    "pytest_make_collect_report",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "pytest_terminal_summary",
    "pytest_xdist_make_scheduler",
]

# A shell that starts the tests in the background has them ignore SIGINT, and so would the programs that they end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# And nohup has them ignore that their terminal is gone.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What commands print does not depend on where the tests run.
for _name in ("CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TTY_COMPATIBLE"):
    os.environ.pop(_name, None)

# No deadline: two processes share two cores, and a slow example says nothing about the code.
UNHEEDED = (HealthCheck.too_slow,)
settings.register_profile("fast", max_examples=25, deadline=None, suppress_health_check=UNHEEDED)
settings.register_profile("default", max_examples=100, deadline=None, suppress_health_check=UNHEEDED)
# The same examples in every run, so that a red run says something about the change, and shows the same at home.
settings.register_profile("ci", parent=settings.get_profile("default"), max_examples=200, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") == "true" else "default"))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder for one test, with a short name.

    The path of a unix socket has at most 107 bytes, and pytest's own folders take 80 when several processes run.
    """
    with TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)

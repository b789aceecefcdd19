"""Where the tests of a real cluster run: on Linux, as root; with CI=true everywhere, so that they can't be missed."""

from __future__ import annotations

import os
import sys

from tests.strictness import is_strict

__all__ = ["find_obstacle", "pytest_report_header"]


def find_obstacle() -> str:
    """Return why a real cluster can't run here; nothing if it can."""
    if sys.platform != "linux":
        return f"found {sys.platform}, allowed Linux"
    if os.geteuid() != 0:
        return f"found user {os.geteuid()}, allowed root"
    return ""


def is_left_out() -> bool:
    """Tell whether the tests are not even collected; under CI=true they always are, and fail where they can't run."""
    return bool(find_obstacle()) and not is_strict()


def pytest_report_header() -> str:
    """Say whether the tests of a real cluster are in the run."""
    reason = find_obstacle()
    return f"tests/cluster: left out ({reason})" if is_left_out() else "tests/cluster: a real Kubernetes, run as root"

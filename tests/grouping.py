"""Which tests share one process when several run.

The marks of `--dist loadgroup` are not heeded: pytest-xdist 3.8 writes them into names of tests that pytest 9.2 reads
elsewhere, without a word. Folders can't be missed.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

__all__ = ["find_group", "pytest_xdist_make_scheduler"]

TOGETHER: Final = ("tests/cluster/",)
"""Folders whose tests run in one process, one after the other: a real cluster wants the machine."""


def find_group(nodeid: str) -> str:
    """Return the group of a test: tests of one group run in one process."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand tests out by their groups, the largest group first."""
    from xdist.scheduler import LoadScopeScheduling

    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = find_group
    return scheduling

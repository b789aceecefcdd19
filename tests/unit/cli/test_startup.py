"""What `claimsmith --help` loads: little, so that it is quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "asyncio", "google", "grpc", "http", "httpx", "lightkube", "logging", "markdown_it", "msgspec", "pygments", "rich",
    "sqlite3", "ssl", "starlette", "tempfile", "uvicorn", "yaml",
)  # fmt: skip
ALL_MAX = 260
"""Modules in all; a bare typer loads about 220."""


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    """Return the modules that are loaded after `claimsmith --help`."""
    script = (
        "import sys, runpy\n"
        "sys.argv = ['claimsmith', '--help']\n"
        "try: runpy.run_module('claimsmith.cli.main', run_name='__main__')\n"
        "finally: print(*sys.modules, file=sys.stderr)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200)
    return frozenset(ended.stderr.split())


@pytest.mark.parametrize("name", HEAVY)
def test_help_does_not_load(name: str, loaded: frozenset[str]) -> None:
    assert name not in loaded


def test_help_loads_only_what_names_the_commands(loaded: frozenset[str]) -> None:
    own = {name for name in loaded if name.startswith("claimsmith.")}
    others = {name for name in own if not f"{name}.".startswith("claimsmith.cli.")}

    assert "claimsmith.cli.exits" in own
    assert others <= {"claimsmith.errors"}


def test_help_loads_few_modules_in_all(loaded: frozenset[str]) -> None:
    assert len(loaded) <= ALL_MAX

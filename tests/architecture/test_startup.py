"""What a process loads when it starts: the command line and a node's agent stay small."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("grpc", "ortools", "numpy", "pandas", "starlette", "uvicorn", "lightkube", "textual")
TOO_MUCH_FOR_A_NODE = ("ortools", "numpy", "pandas", "starlette", "uvicorn", "rich", "typer", "textual")


def find_loaded(*arguments: str) -> set[str]:
    """Return the top-level packages that a Python process imports."""
    finished = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    lines = [line for line in finished.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in lines}


def test_an_import_is_seen() -> None:
    loaded = find_loaded("-c", "import json.decoder")

    assert "json" in loaded
    assert "xmlrpc" not in loaded


@pytest.mark.parametrize("package", HEAVY)
def test_help_does_not_load(package: str, help_packages: set[str]) -> None:
    assert package not in help_packages


@pytest.fixture(scope="module")
def help_packages() -> set[str]:
    return find_loaded("-m", "claimsmith.cli.main", "--help")


@pytest.mark.parametrize("package", TOO_MUCH_FOR_A_NODE)
def test_agent_does_not_load(package: str, agent_packages: set[str]) -> None:
    assert package not in agent_packages


@pytest.fixture(scope="module")
def agent_packages() -> set[str]:
    return find_loaded("-c", "import claimsmith.daemons.agent")

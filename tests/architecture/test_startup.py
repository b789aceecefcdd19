"""What a process loads when it starts: the command line and a node's agent stay small."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

HEAVY = ("grpc", "ortools", "numpy", "pandas", "starlette", "uvicorn", "lightkube", "textual")
TOO_MUCH_FOR_A_NODE = (
    "ortools", "numpy", "pandas", "starlette", "uvicorn", "rich", "typer", "textual", "pydantic", "lightkube", "httpx2",
    "prometheus_client",
)  # fmt: skip
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


def find_loaded(*arguments: str) -> set[str]:
    """Return the top-level packages that a Python process imports."""
    finished = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True, timeout=200
    )
    return read_packages(finished.stderr.splitlines())


def read_packages(lines: Iterable[str]) -> set[str]:
    """Return the top-level packages that `-X importtime` tells of."""
    found = (line for line in lines if line.startswith("import time:"))
    return {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in found}


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


def test_an_agent_loads_what_it_serves_with(agent_packages: set[str]) -> None:
    assert {"claimsmith", "grpc", "asyncio"} <= agent_packages


@pytest.mark.parametrize("package", TOO_MUCH_FOR_A_NODE)
def test_agent_does_not_load(package: str, agent_packages: set[str]) -> None:
    assert package not in agent_packages


@pytest.fixture(scope="module")
def agent_packages() -> Iterator[set[str]]:
    """What the real command has loaded once it serves a driver; nobody listens where it looks for an API server."""
    with tempfile.TemporaryDirectory(prefix="cs-") as name:
        folder = Path(name)
        (folder / "kubeconfig").write_text(KUBECONFIG)
        (folder / "devices.yaml").write_text("gpus: [{model: T4}]")
        command = [
            sys.executable, "-X", "importtime", "-m", "claimsmith", "agent", "--plugin", "simulated",
            "--node-name", "n", "--settings", f"{name}/devices.yaml", "--kubeconfig", f"{name}/kubeconfig",
            "--kubelet-root", f"{name}/k", "--device-plugin-dir", f"{name}/d", "--cdi-dir", f"{name}/c",
        ]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "Agent runs" in line:
                process.terminate()
        assert process.wait(timeout=200) == 0, "".join(lines[-20:])
        yield read_packages(lines)

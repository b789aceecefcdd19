"""Setting up .venv says in one line what is missing, and does nothing when there is nothing to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ("sh", "dirname", "cat", "cksum", "tr", "mkdir", "rm", "flock")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the script and a lock, and a PATH of its own that has no Python yet."""
    for name in ("scripts/bootstrap.sh", "locks/run.txt", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        if found := shutil.which(tool):
            (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def add_python(checkout: Path, name: str, *, version: str, lacks: str = "") -> None:
    """Put a pretended interpreter on PATH; it fails when the code it is asked to run mentions what it lacks."""
    too_old = tuple(map(int, version.split("."))) < (3, 11)
    script = f"""#!/bin/sh
case "$*" in
    --version) echo "Python {version}" ;;
    *version_info*) exit {int(too_old)} ;;
    *{lacks or "nothing"}*) exit 1 ;;
    *"-m venv"*) echo "made by {name}" >&2; exit 1 ;;
esac
"""
    path = checkout / "bin" / name
    path.write_text(script)
    path.chmod(0o755)


def bootstrap(checkout: Path, tier: str = "run") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts" / "bootstrap.sh", tier],
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_no_python_is_one_clear_line(checkout: Path) -> None:
    finished = bootstrap(checkout)

    assert finished.returncode == 1
    assert finished.stderr.splitlines() == [
        "claimsmith: found no Python; install Python 3.11 or newer with its venv module, or set PYTHON to one"
    ]


def test_old_python_is_one_clear_line(checkout: Path) -> None:
    add_python(checkout, "python3", version="3.10.2")

    finished = bootstrap(checkout)

    assert finished.returncode == 1
    assert finished.stderr.splitlines() == [
        "claimsmith: found Python 3.10.2, need Python 3.11 or newer; install one or set PYTHON to one"
    ]


def test_python_without_venv_is_one_clear_line(checkout: Path) -> None:
    add_python(checkout, "python3", version="3.12.1", lacks="ensurepip")

    finished = bootstrap(checkout)

    assert finished.returncode == 1
    assert finished.stderr.splitlines() == [
        "claimsmith: Python 3.12.1 lacks the venv module; install it (Debian and Ubuntu: apt install python3-venv)"
    ]


def test_a_good_python_behind_an_old_one_is_used(checkout: Path) -> None:
    add_python(checkout, "python3", version="3.10.2")
    add_python(checkout, "python3.12", version="3.12.1")

    assert "made by python3.12" in bootstrap(checkout).stderr


def test_unknown_tier_is_bad_input(checkout: Path) -> None:
    finished = bootstrap(checkout, "demo")

    assert finished.returncode == 2
    assert finished.stderr == "claimsmith: no lock file locks/demo.txt; the tiers are run and dev\n"


def test_second_call_does_nothing(checkout: Path) -> None:
    checksum = subprocess.run(
        "cat locks/run.txt pyproject.toml | cksum | tr ' ' -",
        shell=True,
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to("/bin/false")
    (checkout / ".venv" / f".claimsmith-run-{checksum}").touch()

    finished = bootstrap(checkout)

    assert (finished.returncode, finished.stderr) == (0, "")

"""The package as it is built and installed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import claimsmith
from tests.architecture.tree import ROOT

IMPORT_ALL = """
import importlib, pkgutil, claimsmith

for module in pkgutil.walk_packages(claimsmith.__path__, "claimsmith."):
    if not module.name.endswith(".__main__"):
        importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=200)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        return set(archive.namelist())


def test_wheel_holds_every_file_of_the_package(wheel: set[str]) -> None:
    source = ROOT / "src"
    files = {
        str(path.relative_to(source))
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }

    assert files <= wheel


def test_wheel_holds_licence_and_notice(wheel: set[str]) -> None:
    assert {Path(name).name for name in wheel if ".dist-info/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_installed_version_is_that_of_the_source() -> None:
    assert version("claimsmith") == claimsmith.__version__


def test_every_module_imports_in_a_process_of_its_own() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False, timeout=200
    )

    assert finished.returncode == 0, finished.stderr


def test_every_driver_entry_point_loads() -> None:
    found = {entry.name: entry.load() for entry in entry_points(group="claimsmith.drivers")}

    assert "simulated" in found


def test_extra_all_holds_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]

    assert set(everything.partition("[")[2].rstrip("]").split(",")) == set(extras) - {"all"}

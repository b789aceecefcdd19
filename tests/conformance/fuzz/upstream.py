"""The real upstream as a child process: built once for each version of its sources, then asked line by line."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

from tests.toolchain import CACHE, ToolchainError, hash_files, run_go

__all__ = ["MODES", "Upstream", "UpstreamError", "build_upstream"]

SOURCES: Final = Path(__file__).resolve().parents[1] / "upstream"
MODULE: Final = "k8s.io/dynamic-resource-allocation"

Mode = Literal["alloc", "cel", "bench"]
MODES: Final[Mapping[str, Mode]] = {"problems": "alloc", "expressions": "cel"}
"""In which mode the program answers which kind of question."""


class UpstreamError(Exception):
    """The upstream program can't be built, or does not answer."""


class Upstream:
    """The program in one mode; use it in a `with` statement."""

    def __init__(self, program: Path, mode: Mode) -> None:
        self._child = subprocess.Popen([program, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Upstream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.communicate()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._child.pid

    def ask(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one record.

        Raises:
            UpstreamError: The program has ended, or it does not understand the record.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps(record).encode() + b"\n")
            self._child.stdin.flush()
        except BrokenPipeError as error:
            raise UpstreamError(f"upstream has ended with status {self._child.wait()}") from error
        line = self._child.stdout.readline()
        if not line:
            raise UpstreamError(f"upstream has ended with status {self._child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "failure" in answer:
            raise UpstreamError(f"upstream does not understand {record.get('name')}: {answer['failure']}")
        return answer


def build_upstream() -> Path:
    """Return the program for the present sources, built if nobody has built it before.

    Raises:
        UpstreamError: It can't be built.
    """
    version = _find_version()
    folder = CACHE / f"upstream-{version}-{hash_files(_list_sources())}"
    program = folder / "upstream"
    if program.exists():
        return program
    print(f"building {MODULE} {version}, which takes some minutes the first time", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        built = Path(scratch) / "upstream"
        try:
            run_go(["build", "-o", built, "."], folder=SOURCES)
        except ToolchainError as error:
            raise UpstreamError(str(error)) from error
        built.replace(program)
    return program


def _find_version() -> str:
    words = (SOURCES / "go.mod").read_text(encoding="utf-8").split()
    return words[words.index(MODULE) + 1]


def _list_sources() -> list[Path]:
    return [*sorted(SOURCES.glob("go.*")), *sorted(SOURCES.glob("*.go"))]

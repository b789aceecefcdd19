"""Go for the tests that build upstream's programs: the one on PATH, or one out of a wheel where there is none.

    run_go(["build", "-o", program, "."], folder=sources)

The wheel that locks/go.txt names is kept in the cache, as is what is built; a Go that is too old for a module fetches
the one that the module's go.mod asks for.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

__all__ = ["CACHE", "ToolchainError", "find_go", "hash_files", "run_go"]

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "claimsmith"
"""Where programs are kept between runs."""
GO_LOCK: Final = Path(__file__).resolve().parents[1] / "locks" / "go.txt"
"""Names the wheel that brings Go."""
OLDEST: Final = (1, 21)
"""The first Go that can fetch a newer one."""
SETTINGS: Final = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "auto"}
"""An older Go fetches the one that go.mod asks for; no C compiler is needed."""
_FOREIGN: Final = ("GOROOT", "GOTOOLDIR", "GOOS", "GOARCH", "GOWORK", "GOENV")
"""Settings of a user that would let Go build something else, or nothing."""


class ToolchainError(Exception):
    """There is no Go, or it can't build a program; the message says what to do."""


def run_go(arguments: Sequence[str | Path], *, folder: Path, settings: Mapping[str, str] | None = None) -> str:
    """Run one of Go's commands and return what it printed.

    Args:
        folder: Where it runs, which is in the module that it is about.
        settings: Environment variables that it gets beyond those of every build.

    Raises:
        ToolchainError: There is no Go, or the command failed.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    run = subprocess.run(
        [find_go(), *arguments],
        check=False,
        cwd=folder,
        env=inherited | SETTINGS | dict(settings or {}),
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise ToolchainError(
            f"go {arguments[0]} in {folder}: found {_shorten(run.stderr)}, allowed a build that succeeds; "
            "modules, and a newer Go if go.mod asks for one, come from GOPROXY, which must be reachable"
        )
    return run.stdout


def find_go(*, cache: Path = CACHE, lock: Path = GO_LOCK) -> Path:
    """Return Go's command: the one on PATH if it is new enough, else one out of a wheel, which is kept in the cache.

    Raises:
        ToolchainError: There is neither.
    """
    on_path = shutil.which("go")
    problem = _find_problem(on_path)
    if on_path and not problem:
        return Path(on_path)
    folder = cache / f"go-{hash_files([lock])}"
    command = folder / "go" / "bin" / "go"
    if not command.exists():
        _install(lock, folder, problem=problem)
    return command


def hash_files(paths: Iterable[Path]) -> str:
    """Return a mark of the names and contents of files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _find_problem(command: str | None) -> str:
    """Return what is wrong with a command; nothing if it can be used."""
    if command is None:
        return "no go on PATH"
    said = subprocess.run([command, "version"], check=False, capture_output=True, text=True).stdout
    version = re.search(r"\bgo(\d+)\.(\d+)", said)
    if version is None:
        return f"{command}, which does not tell its version"
    if tuple(map(int, version.groups())) < OLDEST:
        return f"{command} with {version[0]}"
    return ""


def _install(lock: Path, folder: Path, *, problem: str) -> None:
    """Put the wheel into a folder: all of it or nothing, whoever else does the same."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "-q", "install"]
    print(f"claimsmith: found {problem}; installing {lock.name} into {folder}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / folder.name
        wheel: list[str | Path] = ["--no-deps", "--require-hashes", "--only-binary=:all:", "-r", lock, "--target", made]
        run = subprocess.run([*pip, *wheel], check=False, capture_output=True, text=True)
        if run.returncode or not (made / "go" / "bin" / "go").exists():
            raise ToolchainError(
                f"Go: found {problem}, and {lock} can't be installed ({_shorten(run.stderr)}), allowed Go "
                f"{'.'.join(map(str, OLDEST))} or newer; install Go from your distribution, or let pip reach an index"
            )
        if not folder.exists():
            made.rename(folder)


def _shorten(text: str, length: int = 2000) -> str:
    """Return the end of what a command wrote, where the reason is."""
    stripped = text.strip()
    return stripped if len(stripped) <= length else f"…{stripped[-length:]}"

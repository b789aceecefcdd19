"""`make mutation`: break each listed rule, one at a time, in a copy of the sources, and see the named tests fail.

Arguments choose mutants: names of lists (`cel`), or parts of titles (`"verify 12"`); without any, all run.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory
from typing import Final

from tests.mutation.mutants import ROOT, Mutant, Verdict, find_faults, judge, mutate, read_mutants

MUTANT_TIMEOUT_S: Final = 60
"""Longest run of the tests of one mutant."""
BASELINE_TIMEOUT_S: Final = 240
"""Longest run of all named tests on the sources as they are."""
RUN_TIMEOUT_S: Final = 15 * 60
"""Longest run of all; mutants that it leaves out have no answer."""

_PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "--assert=plain", "-p", "no:cacheprovider")
_COPIED: Final = ("src", "tests", "pyproject.toml")


def main(words: Sequence[str]) -> int:
    """Run the chosen mutants; return 0 when all are caught, 1 when one is not, 2 when they can't be run."""
    mutants = [mutant for mutant in read_mutants() if not words or any(word in mutant.title for word in words)]
    faults = [fault for mutant in mutants for fault in find_faults(mutant)]
    if faults or not mutants:
        print("\n".join(faults or [f"no mutant has any of {', '.join(words)} in its title"]), file=sys.stderr)
        return 2
    with TemporaryDirectory(prefix="mutation") as folder:
        copy = Path(folder)
        _copy_sources(copy)
        if not _passes_unchanged(copy, mutants):
            return 2
        verdicts = [*_try_all(copy, mutants)]
    caught = verdicts.count(Verdict.CAUGHT)
    print(f"{len(verdicts)} mutants, {caught} caught, {len(verdicts) - caught} not")
    return 0 if caught == len(verdicts) else 1


def _copy_sources(copy: Path) -> None:
    """Copy what the tests need; compiled modules carry a hash of their source, so that no change goes unseen."""
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
        else:
            shutil.copy(ROOT / name, copy / name)
    for name in ("src", "tests"):
        compileall.compile_dir(copy / name, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def _passes_unchanged(copy: Path, mutants: Iterable[Mutant]) -> bool:
    """Tell whether the named tests pass, on the copy and not on the checkout, before anything is broken."""
    where = _run(copy, (sys.executable, "-c", "import claimsmith; print(claimsmith.__file__)"), BASELINE_TIMEOUT_S)
    if where is None or not where.stdout.startswith(str(copy.resolve())):
        print(f"the tests would not read the copy in {copy}: {where and where.stdout}", file=sys.stderr)
        return False
    names = sorted({name for mutant in mutants for name in mutant.tests})
    answer = _run(copy, (*_PYTEST, *names), BASELINE_TIMEOUT_S)
    if answer is None or answer.returncode:
        print("without any mutant the named tests do not pass", answer and answer.stdout + answer.stderr, sep="\n")
        return False
    return True


def _try_all(copy: Path, mutants: Iterable[Mutant]) -> Iterable[Verdict]:
    end = time.monotonic() + RUN_TIMEOUT_S
    for mutant in mutants:
        verdict, blind = _try_one(copy, mutant) if time.monotonic() < end else (Verdict.NO_ANSWER, ())
        print(f"{verdict.value:9} {mutant.title}", flush=True)
        for name in blind:
            print(f"          unnoticed by {name}", flush=True)
        yield verdict


def _try_one(copy: Path, mutant: Mutant) -> tuple[Verdict, tuple[str, ...]]:
    path = copy / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(mutate(mutant, original), encoding="utf-8")
    try:
        answer = _run(copy, (*_PYTEST, *mutant.tests), MUTANT_TIMEOUT_S)
    finally:
        path.write_text(original, encoding="utf-8")
    return (Verdict.NO_ANSWER, ()) if answer is None else judge(mutant, answer.returncode, answer.stdout)


def _run(copy: Path, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str] | None:
    """Run a command in the copy, with lines wide enough for whole reports; None when it takes too long."""
    settings = {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "1000"}
    try:
        return subprocess.run(
            command,
            cwd=copy,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

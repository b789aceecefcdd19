"""The lists of recorded cases that agree; run as a program, it writes them anew."""

from __future__ import annotations

import itertools
from pathlib import Path

from claimsmith.testing.conformance import run_file

DATA = Path(__file__).parent / "data"
FILES = {"allocator": 2000, "probes": 72, "hard": 86, "waste": 16, "cel": 300}
LIST_NAMES = tuple(itertools.product(FILES, (False, True)))


def find_data(file: str) -> Path:
    """Return the path of a recorded file."""
    return DATA / f"{file}.jsonl.gz"


def _list_path(file: str, like_upstream: bool) -> Path:
    return DATA / "agree" / f"{file}{'.like-upstream' if like_upstream else ''}.txt"


def read_list(file: str, *, like_upstream: bool) -> tuple[str, ...]:
    """Return the names of the cases that must agree."""
    return tuple(_list_path(file, like_upstream).read_text(encoding="utf-8").split())


def write_lists() -> None:
    """Run all files in both modes and write down what agrees."""
    for file, like_upstream in LIST_NAMES:
        report = run_file(find_data(file), like_upstream=like_upstream)
        path = _list_path(file, like_upstream)
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{name}\n" for name in report.agreeing), encoding="utf-8")
        print(f"{path.name}: {len(report.agreeing)} agree, {len(report.differing)} differ")


if __name__ == "__main__":
    write_lists()

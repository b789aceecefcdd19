"""The recorded files and what differs in them on purpose; run as a program, it writes the latter down anew.

python -m tests.conformance.recorded
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Final

from claimsmith.testing.conformance import FileReport, run_file

__all__ = ["FILES", "PART_LINES", "find_data", "list_reasons", "read_deviating", "read_lines"]

DATA: Final = Path(__file__).parent / "data"
DEVIATING: Final = DATA / "deviating.json"
FILES: Final = {
    "allocator": 2000, "probes": 72, "hard": 86, "waste": 16, "cel": 300, "cel-more": 2864, "table": 180,
    "upstream-table": 946, "drawn": 468,
}  # fmt: skip
"""Recorded files, and how many cases each has."""
PART_LINES: Final = 250
"""Lines of a file that one test judges, so that none takes long."""


def find_data(file: str) -> Path:
    """Return the path of a recorded file."""
    return DATA / f"{file}.jsonl.gz"


@cache
def read_lines(file: str) -> tuple[bytes, ...]:
    """Return the lines of a recorded file."""
    with gzip.open(find_data(file)) as lines:
        return tuple(lines)


@cache
def read_deviating() -> dict[str, dict[str, list[str]]]:
    """Return, by file and case, the ids of the deviations that show when nothing else is asked for."""
    found: dict[str, dict[str, list[str]]] = json.loads(DEVIATING.read_text(encoding="utf-8"))
    return found


def list_reasons(report: FileReport) -> dict[str, list[str]]:
    """Return the ids of the deviations of each case that deviates, each once and in order."""
    return {outcome.name: sorted({str(r.deviation) for r in outcome.deviations}) for outcome in report.deviating}


def main() -> None:
    """Write down what deviates in each file."""
    found = {file: list_reasons(run_file(find_data(file))) for file in FILES}
    DEVIATING.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for file, cases in found.items():
        print(f"{file}: {len(cases)} of {FILES[file]} deviate")


if __name__ == "__main__":
    main()

"""Reads recorded files and lets each line be judged by its kind."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from claimsmith.errors import ClaimsmithError, InputError
from claimsmith.testing.conformance.allocator import judge_problem, judge_table
from claimsmith.testing.conformance.expressions import judge_expression
from claimsmith.testing.conformance.outcome import CaseOutcome, FileReport
from claimsmith.testing.conformance.sequences import judge_sequence

__all__ = ["run_file"]


def run_file(path: Path, *, like_upstream: bool = False) -> FileReport:
    """Judge every line of a file; a line that is not understood counts as differing.

    Args:
        path: JSON lines, gzip'd when the name ends in `.gz`.
        like_upstream: Ask for exactly upstream's answers, devices included.

    Raises:
        InputError: The file can't be read.
    """
    outcomes = tuple(_judge_line(number, line, like_upstream) for number, line in _read_lines(path))
    return FileReport(source=str(path), outcomes=outcomes)


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError) as error:
        raise InputError(
            f"{path}: can't be read: {error}, allowed JSON lines, gzip'd or not; check the file"
        ) from error


def _judge_line(number: int, line: bytes, like_upstream: bool) -> CaseOutcome:
    name = f"line {number}"
    started = time.perf_counter()
    try:
        record = msgspec.json.decode(line)
        if not isinstance(record, dict):
            raise InputError("found no object")
        name = str(record.get("name") or name)
        outcome = _judge(record, name, like_upstream)
    except (ClaimsmithError, msgspec.DecodeError) as error:
        outcome = CaseOutcome(name=name, differences=(f"not understood: {error}",))
    return _timed(outcome, time.perf_counter() - started)


def _timed(outcome: CaseOutcome, seconds: float) -> CaseOutcome:
    return CaseOutcome(
        name=outcome.name, differences=outcome.differences, steps=outcome.steps, seconds=outcome.seconds or seconds
    )


def _judge(record: dict[str, Any], name: str, like_upstream: bool) -> CaseOutcome:
    if "expression" in record:
        return judge_expression(record, name)
    if "sequence" in record:
        return judge_sequence(record, name)
    if "results" in record:
        return judge_table(record, name, like_upstream=like_upstream)
    if "claims" in record and "upstream" in record:
        return judge_problem(record, name, like_upstream=like_upstream)
    raise InputError(f"found fields {sorted(record)}, allowed those of a recorded problem, table row or expression")

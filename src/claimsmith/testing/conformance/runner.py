"""Reads recorded files and lets each line be judged by its kind."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from claimsmith.errors import ClaimsmithError, InputError
from claimsmith.testing.conformance.allocator import judge_problem
from claimsmith.testing.conformance.expressions import judge_expression
from claimsmith.testing.conformance.outcome import CaseOutcome, FileReport
from claimsmith.testing.conformance.sequences import judge_sequence
from claimsmith.testing.conformance.tables import judge_table

__all__ = ["run_file"]


def run_file(path: Path, *, like_upstream: bool = False) -> FileReport:
    """Judge every line of a file; a line that is not understood counts as differing, if others are.

    Args:
        path: JSON lines, gzip'd when the name ends in `.gz`.
        like_upstream: Ask for exactly upstream's answers, devices included.

    Raises:
        InputError: The file can't be read, or none of its lines is a recorded case.
    """
    if path.is_dir():
        raise InputError(f"{path}: can't be read: found a folder, allowed JSON lines, gzip'd or not; name a file in it")
    judged = [_judge_line(number, line, like_upstream) for number, line in _read_lines(path)]
    if not judged:
        raise InputError(f"{path}: found no case, allowed one or more JSON lines; name a recorded file")
    problems = [item for item in judged if isinstance(item, _NotUnderstood)]
    if len(problems) == len(judged):
        raise InputError(f"{path}: {problems[0].text}, allowed recorded cases, one for each line; name a recorded file")
    outcomes = (item.as_outcome() if isinstance(item, _NotUnderstood) else item for item in judged)
    return FileReport(source=str(path), outcomes=tuple(outcomes))


class _NotUnderstood(NamedTuple):
    """A line that is no recorded case."""

    name: str
    reason: str

    @property
    def text(self) -> str:
        return f"{self.name}: not understood: {self.reason}"

    def as_outcome(self) -> CaseOutcome:
        return CaseOutcome(name=self.name, differences=(f"not understood: {self.reason}",))


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{path}: can't be read: {error}, allowed JSON lines, gzip'd or not; check the file"
        ) from error


def _judge_line(number: int, line: bytes, like_upstream: bool) -> CaseOutcome | _NotUnderstood:
    name = f"line {number}"
    started = time.perf_counter()
    try:
        record = msgspec.json.decode(line)
        if not isinstance(record, dict):
            raise InputError("found no object")
        name = str(record.get("name") or name)
        outcome = _judge(record, name, like_upstream)
    except (ClaimsmithError, msgspec.DecodeError) as error:
        return _NotUnderstood(name, str(error))
    return _timed(outcome, time.perf_counter() - started)


def _timed(outcome: CaseOutcome, seconds: float) -> CaseOutcome:
    return replace(outcome, seconds=outcome.seconds or seconds)


def _judge(record: dict[str, Any], name: str, like_upstream: bool) -> CaseOutcome:
    if "expression" in record:
        return judge_expression(record, name)
    if "sequence" in record:
        return judge_sequence(record, name, like_upstream=like_upstream)
    if "results" in record:
        return judge_table(record, name, like_upstream=like_upstream)
    if "claims" in record and "upstream" in record:
        return judge_problem(record, name, like_upstream=like_upstream)
    raise InputError(f"found fields {sorted(record)}, allowed those of a recorded problem, table row or expression")

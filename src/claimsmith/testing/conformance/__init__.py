"""Our answers against recorded upstream answers: readers and judges of recorded cases.

A file holds JSON lines, gzip'd or not. Each line is an allocation problem (`claims`), a row of upstream's own test
table (`results` beside `allocated`), a sequence of pods (`sequence`) or an expression (`expression`), with what
upstream answered.
"""

from __future__ import annotations

from claimsmith.testing.conformance.outcome import CaseOutcome, FileReport
from claimsmith.testing.conformance.runner import run_file

__all__ = ["CaseOutcome", "FileReport", "run_file"]

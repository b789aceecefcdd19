"""Judges recorded expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimsmith.testing.conformance.outcome import CaseOutcome


def judge_expression(record: Mapping[str, Any], name: str) -> CaseOutcome:
    raise NotImplementedError

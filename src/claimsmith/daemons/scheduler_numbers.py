"""What a scheduler has done, in numbers."""

from __future__ import annotations

from collections.abc import Iterable

from claimsmith.daemons.scheduler_claims import Unplaced
from claimsmith.telemetry import SCHEDULER_BINDINGS, SCHEDULER_DECISION_SECONDS, SCHEDULER_DECISIONS, Meter

__all__ = ["SchedulerNumbers"]


class SchedulerNumbers:
    """Counts decisions and writes; all numbers are there from the start, as zero.

    Args:
        meter: Keeps the numbers.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        meter.add(SCHEDULER_DECISION_SECONDS, 0)
        for result in ("placed", "unplaced", "error"):
            meter.add(SCHEDULER_DECISIONS, 0, result=result)
        for result in ("ok", "error"):
            meter.add(SCHEDULER_BINDINGS, 0, result=result)

    def count_decisions(self, outcomes: Iterable[object], seconds: float) -> None:
        """Count what was decided for pods and gangs, and how long it took together."""
        self._meter.add(SCHEDULER_DECISION_SECONDS, seconds)
        for outcome in outcomes:
            self._meter.add(SCHEDULER_DECISIONS, result=_name_result(outcome))

    def count_bindings(self, *, bound: int = 0, failed: int = 0) -> None:
        """Count pods that are bound, and those for which that failed."""
        self._meter.add(SCHEDULER_BINDINGS, bound, result="ok")
        self._meter.add(SCHEDULER_BINDINGS, failed, result="error")


def _name_result(outcome: object) -> str:
    if not isinstance(outcome, Unplaced):
        return "placed"
    return "error" if outcome.reason == "SchedulerError" else "unplaced"

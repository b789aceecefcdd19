"""What a recorded case and a whole file came to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CaseOutcome", "FileReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """One recorded case.

    Args:
        differences: What is not as recorded; none when all agrees.
        seconds: Wall time that our answer took.
        steps: Steps of our search.
    """

    name: str
    differences: tuple[str, ...] = ()
    seconds: float = 0.0
    steps: int = 0

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """All cases of one file, in order."""

    source: str
    outcomes: tuple[CaseOutcome, ...]

    @property
    def agreeing(self) -> tuple[str, ...]:
        """Names of the cases that agree."""
        return tuple(outcome.name for outcome in self.outcomes if outcome.agrees)

    @property
    def differing(self) -> tuple[CaseOutcome, ...]:
        """Cases that differ, or that could not be understood."""
        return tuple(outcome for outcome in self.outcomes if not outcome.agrees)

    @property
    def slowest(self) -> CaseOutcome | None:
        """The case that took longest; None in an empty file."""
        return max(self.outcomes, key=lambda outcome: outcome.seconds, default=None)

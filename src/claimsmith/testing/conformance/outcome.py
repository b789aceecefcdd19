"""What a recorded case and a whole file came to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from claimsmith.testing.conformance.deviations import Explained

__all__ = ["CaseOutcome", "FileReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """One recorded case.

    Args:
        differences: What is neither as recorded nor meant; none when all agrees.
        deviations: What is not as recorded because it is meant to be otherwise.
        lacks: What the record does not hold, so that nobody could answer it as recorded; empty for a whole record.
        seconds: Wall time that our answer took.
        steps: Steps of our search.
    """

    name: str
    differences: tuple[str, ...] = ()
    deviations: tuple[Explained, ...] = ()
    lacks: str = ""
    seconds: float = 0.0
    steps: int = 0

    @property
    def agrees(self) -> bool:
        """Whether nothing differs but what is meant to."""
        return not self.differences and not self.lacks

    def join(self, other: CaseOutcome) -> CaseOutcome:
        """Return this outcome with what another node of the case came to."""
        return replace(
            self,
            differences=self.differences + other.differences,
            deviations=self.deviations + other.deviations,
            steps=self.steps + other.steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """All cases of one file, in order."""

    source: str
    outcomes: tuple[CaseOutcome, ...]

    @property
    def agreeing(self) -> tuple[str, ...]:
        """Names of the cases that agree, or differ as they are meant to."""
        return tuple(outcome.name for outcome in self.outcomes if outcome.agrees)

    @property
    def deviating(self) -> tuple[CaseOutcome, ...]:
        """Cases in which something differs as it is meant to, and nothing else does."""
        return tuple(outcome for outcome in self.outcomes if outcome.agrees and outcome.deviations)

    @property
    def lacking(self) -> tuple[CaseOutcome, ...]:
        """Cases whose record is not whole."""
        return tuple(outcome for outcome in self.outcomes if outcome.lacks)

    @property
    def differing(self) -> tuple[CaseOutcome, ...]:
        """Cases that differ, or that could not be understood."""
        return tuple(outcome for outcome in self.outcomes if outcome.differences)

    @property
    def slowest(self) -> CaseOutcome | None:
        """The case that took longest; None in an empty file."""
        return max(self.outcomes, key=lambda outcome: outcome.seconds, default=None)

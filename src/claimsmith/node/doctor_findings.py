"""What a check of the doctor says. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Severity", "good", "problem", "unknown", "warning"]

Severity = Literal["good", "unknown", "warning", "problem"]
"""All is well · it can't be told · it will be trouble, or is somebody else's · devices do not get to pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Args:
        check: Name of the check, such as `cdi-folder`.
        severity: How bad it is.
        found: What was found.
        allowed: What it must be; empty when all is well.
        hint: What to do; empty when all is well.
    """

    check: str
    severity: Severity
    found: str
    allowed: str = ""
    hint: str = ""

    def __str__(self) -> str:
        if self.severity == "good":
            return f"{self.check}: {self.found}"
        return f"{self.check}: found {self.found}, allowed {self.allowed}; {self.hint}"


def good(check: str, found: str) -> Finding:
    """Return that all is well."""
    return Finding(check=check, severity="good", found=found)


def unknown(check: str, found: str, *, allowed: str, hint: str) -> Finding:
    """Return that it can't be told from here."""
    return Finding(check=check, severity="unknown", found=found, allowed=allowed, hint=hint)


def warning(check: str, found: str, *, allowed: str, hint: str) -> Finding:
    """Return what will be trouble."""
    return Finding(check=check, severity="warning", found=found, allowed=allowed, hint=hint)


def problem(check: str, found: str, *, allowed: str, hint: str) -> Finding:
    """Return what keeps devices from pods."""
    return Finding(check=check, severity="problem", found=found, allowed=allowed, hint=hint)

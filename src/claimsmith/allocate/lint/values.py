"""What lint finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Fault", "Finding", "Rule", "Severity"]

Severity = Literal["error", "warning"]
"""An error keeps pods from getting what they ask for; a warning is worth a look."""

Rule = Literal[
    "api",
    "unknown-field",
    "unknown-kind",
    "unknown-attribute",
    "type-mismatch",
    "version-as-string",
    "quantity",
    "foreign-device",
    "selector-fails",
    "class-never-matches",
    "request-never-matches",
    "unknown-class",
    "constraint-attribute",
    "never-tolerated",
    "count",
    "unknown-capacity",
    "capacity-amount",
    "missing-reference",
    "rule-selects-nothing",
    "unknown-node",
    "pool-incomplete",
    "pool-invalid",
    "counter-amount",
    "device-capacity",
]
"""Which rule is broken; docs/lint.md tells each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with one part of an object.

    Args:
        path: Field path within the object; empty when the caller knows it.
        text: One sentence.
        corrected: What to write in place of the field; empty when no correction is known. A selector given here
            compiles, fails on no published device, and does not have the fault.
    """

    rule: Rule
    severity: Severity
    text: str
    corrected: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fault with the object that has it.

    Args:
        kind: Kind of the object, such as `DeviceClass`.
        namespace: Empty for kinds without namespaces.
        source: Text, document and line of the field; empty for objects that come from no text.
    """

    kind: str
    namespace: str
    name: str
    fault: Fault
    source: str = ""

    @property
    def target(self) -> str:
        """The object for people: `DeviceClass gpu`, `ResourceClaim default/train`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

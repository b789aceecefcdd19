"""Taints, and which of them are accepted: of nodes by pods, of devices by requests; the rules are the same."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Taint", "Toleration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """Why something should not be used."""

    key: str
    effect: str
    value: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """Key, value and effect: what it is, whenever it was added."""
        return self.key, self.value, self.effect

    def __str__(self) -> str:
        """Return it as kubectl writes it: `key=value:effect`, or `key:effect`."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Accepts taints; an empty key or effect stands for all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether the taint is accepted.

        Source: ToleratesTaint in core/v1 toleration.go and resource/v1 devicetaint.go, v0.37.2.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value

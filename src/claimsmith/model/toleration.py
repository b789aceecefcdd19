"""Which taints are accepted: of nodes by pods, of devices by requests; the rule is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Toleration"]


class _Taint(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def effect(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Accepts taints; an empty key or effect stands for all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: _Taint) -> bool:
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

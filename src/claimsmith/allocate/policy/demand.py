"""What pods typically ask for: counted as they arrive, or known beforehand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.prepared.eligibility import RequestShape
from claimsmith.allocate.prepared.plan import PodPlan

__all__ = ["DemandCounter", "DemandProfile", "Need", "TypicalPod", "read_needs"]

KNOWN_PODS_MAX: Final = 4_096
"""Kinds of pods that a counter keeps; beyond that the rarer half is forgotten."""


@dataclass(frozen=True, slots=True)
class Need:
    """Devices of one request: so many that the shape accepts."""

    shape: RequestShape
    count: int


TypicalPod = tuple[Need, ...]
"""What the claims of a pod ask for: for each request its first alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandProfile:
    """Kinds of pods with how many of them there are; the most frequent first."""

    pods: tuple[tuple[TypicalPod, int], ...] = ()

    @property
    def total(self) -> int:
        """Number of pods."""
        return sum(count for _, count in self.pods)

    def keep_share(self, percent: int) -> DemandProfile:
        """Return the most frequent kinds which together make up at least so much of all pods."""
        kept, seen, total = list[tuple[TypicalPod, int]](), 0, self.total
        for pod, count in self.pods:
            if seen * 100 >= total * percent:
                break
            kept.append((pod, count))
            seen += count
        return DemandProfile(pods=tuple(kept))


def read_needs(plan: PodPlan) -> TypicalPod:
    """Return what a pod asks for; requests for all devices and with admin access take nothing from others."""
    plans = (group.alternatives[0] for claim in plan.claims for group in claim.groups if group.alternatives)
    return tuple(Need(item.shape, item.count) for item in plans if not item.takes_all and not item.shape.admin)


@dataclass(slots=True, eq=False)
class DemandCounter:
    """Counts the pods that were seen."""

    total: int = 0
    _counts: dict[TypicalPod, int] = field(default_factory=dict)

    def add(self, plan: PodPlan, count: int = 1) -> None:
        """Count a pod, or several alike; call it once for each."""
        needs = read_needs(plan)
        self._counts[needs] = self._counts.get(needs, 0) + count
        self.total += count
        if len(self._counts) > KNOWN_PODS_MAX:
            self._counts = dict(self._sort()[: KNOWN_PODS_MAX // 2])

    def add_all(self, plans: Iterable[PodPlan]) -> None:
        """Count several pods."""
        for plan in plans:
            self.add(plan)

    def profile(self) -> DemandProfile:
        """Return what was counted so far; equal counts in the order in which they were first seen."""
        return DemandProfile(pods=tuple(self._sort()))

    def _sort(self) -> list[tuple[TypicalPod, int]]:
        return sorted(self._counts.items(), key=lambda item: -item[1])

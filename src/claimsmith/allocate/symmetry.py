"""Which devices are equal for the rest of a search, and which states of a search are equal.

Two devices are equal when every request of the pod sees them alike and the state of the search does too: when one has
failed, so will the other. Skipping it can't hide the first solution, because the solution that has the two devices
swapped comes earlier in upstream's order.
"""

from __future__ import annotations

from collections.abc import Callable

from claimsmith.allocate.attempt import Attempt
from claimsmith.allocate.plan import PodPlan, RequestPlan
from claimsmith.allocate.records import DeviceRecord
from claimsmith.allocate.screening import Candidate, Screened

__all__ = ["Symmetry"]


class Symmetry:
    """Keys of devices and states during one search."""

    __slots__ = ("_attempt", "_find_all", "_find_candidates", "_member", "_plan", "_static")

    def __init__(
        self,
        plan: PodPlan,
        attempt: Attempt,
        *,
        find_candidates: Callable[[RequestPlan], Screened],
        find_all: Callable[[RequestPlan], Screened],
    ) -> None:
        self._plan = plan
        self._attempt = attempt
        self._find_candidates = find_candidates
        self._find_all = find_all
        self._member: list[dict[DeviceRecord, Candidate]] | None = None
        self._static: dict[DeviceRecord, object] = {}

    def key(self, candidate: Candidate, plan: RequestPlan) -> object:
        """Return a key that equal devices share now."""
        return (self._find_static(candidate), self._dynamic(candidate.record))

    def state_key(self, plan: RequestPlan) -> object:
        """Return a key that states share which leave the same to the rest of the search, from this request on."""
        return None

    def _dynamic(self, record: DeviceRecord) -> object:
        return None

    def _find_static(self, candidate: Candidate) -> object:
        return candidate.record

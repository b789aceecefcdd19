"""Replays the arrivals of a trace one by one, or in small batches of which the best of some random orders counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import process_time
from typing import Final

from claimsmith.errors import ReplayError
from claimsmith.replay.arrivals import read_curve
from claimsmith.replay.bound import find_bound
from claimsmith.replay.cluster import ReplayCluster
from claimsmith.replay.trace import TracePod

__all__ = ["MARKS", "Journal", "Run", "replay_online"]

MARKS: Final = (95, 98, 100, 130)
"""Rates of arrival, in percent, at which results are shown."""
TOLERANCE: Final = 1e-6
"""Percent by which the bound may be off, since it is computed in floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one replay.

    Args:
        rates: Allocated GPUs in percent of all, by what had arrived, in percent.
        bounds: The most that any allocation of what had arrived could have filled, at the marks; empty without the
            extra `[solver]`.
        fragments: The share of all GPUs that lies idle where a typical pod can't use it, at the end, in percent.
        final: Allocated GPUs in percent of all, at the end, after moves.
        final_bound: The bound for all that arrived; None without the extra `[solver]`.
        moves: Pods that were moved.
        seconds: Processor time of the run, without the bounds.
        placed, refused: Numbers of pods.
        verified: Number of allocations that were checked; each of them was.
    """

    rates: Mapping[int, float]
    bounds: Mapping[int, float]
    fragments: float
    placed: int
    refused: int
    verified: int
    final: float
    final_bound: float | None
    moves: int = 0
    seconds: float = 0.0


def replay_online(cluster: ReplayCluster, arrivals: tuple[TracePod, ...]) -> Run:
    """Place the pods as they arrive; what does not fit is dropped.

    Raises:
        ReplayError: An allocation breaks a rule, or more was allocated than is possible.
    """
    journal = Journal(cluster)
    for pod in arrivals:
        cluster.observe(pod)
        cluster.place(pod)
        journal.add(pod)
    return journal.finish()


class Journal:
    """Notes what arrives, and how much is allocated then."""

    def __init__(self, cluster: ReplayCluster) -> None:
        self._cluster = cluster
        self._start = process_time()
        self._pods: list[TracePod] = []
        self._arrived: list[int] = []
        self._allocated: list[int] = []

    def add(self, pod: TracePod) -> None:
        """Note that a pod has arrived and was decided."""
        self._pods.append(pod)
        self._arrived.append((self._arrived[-1] if self._arrived else 0) + pod.total_milli)
        self._allocated.append(self._cluster.allocated_milli)

    def finish(self, *, moves: int = 0) -> Run:
        """Return the outcome, checked against the bounds.

        Args:
            moves: Pods that were moved after the last arrival, which is what `final` counts and `rates` don't.
        """
        cluster, seconds = self._cluster, process_time() - self._start
        capacity = cluster.trace.capacity_milli
        rates = read_curve(self._arrived, self._allocated, capacity)
        bounds = self._find_bounds(rates)
        final = 100 * cluster.allocated_milli / capacity
        final_bound = self._find_bound(len(self._pods))
        if final_bound is not None and final > final_bound + TOLERANCE:
            raise ReplayError(f"trace {cluster.trace.name}: {final} % allocated in the end, bound {final_bound} %")
        for mark, bound in bounds.items():
            if rates[mark] > bound + TOLERANCE:
                raise ReplayError(f"trace {cluster.trace.name}: {rates[mark]} % allocated at {mark} %, bound {bound} %")
        idle = sum(cluster.placer.fragments(node) for node in cluster.nodes)
        return Run(
            rates=rates,
            bounds=bounds,
            fragments=100 * idle / capacity,
            placed=len(cluster.placed),
            refused=len(self._pods) - len(cluster.placed),
            verified=cluster.verified,
            final=final,
            final_bound=final_bound,
            moves=moves,
            seconds=seconds,
        )

    def _find_bounds(self, rates: Mapping[int, float]) -> dict[int, float]:
        """The bounds at the marks, each for all pods up to the last that counts for the mark."""
        capacity, found = self._cluster.trace.capacity_milli, {}
        for mark in (mark for mark in MARKS if mark in rates):
            ends = [place for place, asked in enumerate(self._arrived) if round(100 * asked / capacity) == mark]
            bound = self._find_bound(ends[-1] + 1)
            if bound is not None:
                found[mark] = bound
        return found

    def _find_bound(self, count: int) -> float | None:
        """The bound for the first pods that arrived, in percent."""
        bound = find_bound(self._cluster.trace, self._pods[:count])
        return None if bound is None else 100 * bound.allocated_milli / self._cluster.trace.capacity_milli

"""Replays the arrivals of a trace one by one, or in small batches of which the best of some random orders counts."""

from __future__ import annotations

from dataclasses import dataclass

from claimsmith.replay.arrivals import read_curve
from claimsmith.replay.cluster import ReplayCluster
from claimsmith.replay.trace import TracePod

__all__ = ["Run", "replay_online"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one replay.

    Args:
        rates: Allocated GPUs in percent of all, by what had arrived, in percent.
        fragments: The share of all GPUs that lies idle where a typical pod can't use it, at the end, in percent.
        placed, refused: Numbers of pods.
        verified: Number of allocations that were checked; each of them was.
    """

    rates: dict[int, float]
    placed: int
    refused: int
    verified: int


def replay_online(cluster: ReplayCluster, arrivals: tuple[TracePod, ...]) -> Run:
    """Place the pods as they arrive; what does not fit is dropped."""
    arrived, allocated, asked, refused = list[int](), list[int](), 0, 0
    for pod in arrivals:
        cluster.observe(pod)
        refused += cluster.place(pod) is None
        asked += pod.total_milli
        arrived.append(asked)
        allocated.append(cluster.allocated_milli)
    return Run(
        rates=read_curve(arrived, allocated, cluster.trace.capacity_milli),
        placed=len(cluster.placed),
        refused=refused,
        verified=cluster.verified,
    )

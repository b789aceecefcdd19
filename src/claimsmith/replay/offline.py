"""All pods known beforehand: a linear program says which to refuse, the policy places, and moves mend the rest."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from time import process_time
from typing import Final

from claimsmith.errors import ReplayError
from claimsmith.replay.bound import Bound, find_bound
from claimsmith.replay.cluster import ReplayCluster
from claimsmith.replay.migrate import migrate
from claimsmith.replay.online import TOLERANCE
from claimsmith.replay.trace import TracePod

__all__ = ["OfflineResult", "replay_offline"]

MOVES_MAX: Final = 300
"""Moves of the search at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineResult:
    """What came of it, in percent of all GPUs.

    Args:
        bound: No allocation of these pods can be larger.
        moves: Changes that were made after the policy had placed the pods.
        seconds: Processor time of the run, with the program.
    """

    rate: float
    bound: float
    placed: int
    refused: int
    moves: int
    verified: int
    seconds: float


def replay_offline(cluster: ReplayCluster, *, seed: int) -> OfflineResult | None:
    """Return the best allocation found for the trace once; None without the extra `[solver]`.

    The program refuses no pod without GPU.

    Raises:
        ReplayError: An allocation breaks a rule, or is larger than the bound.
    """
    trace, capacity, start = cluster.trace, cluster.trace.capacity_milli, process_time()
    bound = find_bound(trace, trace.pods, keep_plain=True)
    if bound is None:
        return None
    kept = _choose_kept(trace.pods, bound)
    random.Random(seed).shuffle(kept)
    waiting = [pod for pod in kept if cluster.place(pod) is None]
    moves = migrate(cluster, waiting, most=MOVES_MAX)
    left = Counter(trace.pods) - Counter(placed.pod for placed in cluster.placed.values())
    moves += migrate(cluster, list(left.elements()), most=MOVES_MAX - moves)
    rate, limit = 100 * cluster.allocated_milli / capacity, 100 * bound.allocated_milli / capacity
    if rate > limit + TOLERANCE:
        raise ReplayError(f"trace {trace.name}: {rate} % allocated, bound {limit} %")
    return OfflineResult(
        rate=rate,
        bound=limit,
        placed=len(cluster.placed),
        refused=len(trace.pods) - len(cluster.placed),
        moves=moves,
        verified=cluster.verified,
        seconds=process_time() - start,
    )


def _choose_kept(pods: tuple[TracePod, ...], bound: Bound) -> list[TracePod]:
    """The pods that the program keeps; of a kind of which it keeps a part, as many as the whole number below."""
    kept: list[TracePod] = []
    for pod, count in Counter(pods).items():
        kept.extend([pod] * min(count, int(bound.kept[pod] + 1e-6)))
    return kept

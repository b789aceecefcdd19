"""Decides arrivals in small batches: of some random orders of a batch the one that leaves most is carried out."""

from __future__ import annotations

import random
from typing import Final

from claimsmith.replay.cluster import ReplayCluster
from claimsmith.replay.online import Journal, Run
from claimsmith.replay.trace import TracePod

__all__ = ["replay_batches"]

ORDERS: Final = 6
"""Random orders of one batch that are looked at."""


def replay_batches(cluster: ReplayCluster, arrivals: tuple[TracePod, ...], *, size: int, seed: int) -> Run:
    """Place the pods batch by batch; the rate at a mark is read as if they had arrived one by one.

    Args:
        size: Pods of one batch.
        seed: For the random orders.
    """
    chance = random.Random(f"batches {seed}")
    journal = Journal(cluster)
    for start in range(0, len(arrivals), size):
        batch = list(arrivals[start : start + size])
        for pod in batch:
            cluster.observe(pod)
        orders = [chance.sample(batch, len(batch)) for _ in range(ORDERS)]
        for pod in max(orders, key=cluster.foresee):
            cluster.place(pod)
            journal.add(pod)
    return journal.finish()

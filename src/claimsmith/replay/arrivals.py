"""The order in which pods arrive, and how the outcome is read.

Protocol: the trace's pods in random order, then pods drawn from the trace with replacement as long as they ask for no
more than a given share of the cluster's GPUs together. They arrive one at a time, none leaves, and one that does not
fit is dropped. The allocation rate at x % is the mean over the arrivals at which the pods so far ask for x % of the
cluster, rounded.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from claimsmith.replay.trace import Trace, TracePod

__all__ = ["draw_arrivals", "permute", "read_curve"]

T = TypeVar("T")


def draw_arrivals(trace: Trace, *, seed: int, to_percent: int = 130) -> tuple[TracePod, ...]:
    """Return the pods of one run in the order in which they arrive.

    Args:
        to_percent: What they ask for together at most, in percent of the cluster's GPUs; the trace itself is whole.
    """
    chance = random.Random(seed)
    pods = list(trace.pods)
    chance.shuffle(pods)
    most, total = trace.capacity_milli * to_percent // 100, sum(pod.total_milli for pod in pods)
    while any(pod.total_milli for pod in trace.pods):
        pod = chance.choice(trace.pods)
        if total + pod.total_milli > most:
            break
        pods.append(pod)
        total += pod.total_milli
    return tuple(pods)


def permute(items: Sequence[T], seed: int) -> tuple[T, ...]:
    """Return the items in a random order of their own, the same for the same seed."""
    order = list(items)
    random.Random(f"order {seed}").shuffle(order)
    return tuple(order)


def read_curve(arrived: Sequence[int], allocated: Sequence[int], capacity: int) -> dict[int, float]:
    """Return the allocation rate by the rate of arrival, both in percent of the capacity.

    Args:
        arrived, allocated: Sums after each arrival, in thousandths of GPUs.
    """
    sums: dict[int, list[int]] = {}
    for asked, got in zip(arrived, allocated, strict=True):
        sums.setdefault(round(100 * asked / capacity), []).append(got)
    return {percent: 100 * sum(values) / len(values) / capacity for percent, values in sums.items()}

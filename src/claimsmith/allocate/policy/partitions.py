"""Partitions that a cluster can still be cut into, and how much rarer each size becomes when some of them are lost.

A device that takes counters of its pool is a partition: taking one takes others away. Partitions of one size are
equally good, wherever they lie. The worth of a cluster is the sum, over the sizes, of the logarithm of how many
partitions of the size can still be had, plus one: losing one of few counts more than losing one of many, and no size
has to be known to be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Final

from claimsmith.allocate.policy.nodestates import FREE, DeviceKind, NodeState, PoolState

__all__ = ["UNIT", "Losses", "PartitionSizes", "PartitionTotals", "measure_loss"]

UNIT: Final = 1_000_000
"""What losing all but one in e of the partitions of one size costs."""

Losses = tuple[tuple[int, int], ...]
"""How many partitions of a size can no longer be had, by the number of the size; only those that differ from 0."""


class PartitionSizes:
    """The sizes of partitions, numbered as they are met."""

    __slots__ = ("_numbers", "_of_kind")

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._of_kind: dict[DeviceKind, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, kind: DeviceKind) -> int:
        """Return the number of the kind's size: what it has, and how much of how many counters it takes."""
        known = self._of_kind.get(kind)
        if known is None:
            amounts = tuple(sorted(nanos for _, nanos in kind.record.consumption))
            key = (kind.record.id.driver, kind.names, kind.totals, amounts)
            known = self._of_kind[kind] = self._numbers.setdefault(key, len(self._numbers))
        return known

    def count(self, pool: PoolState) -> tuple[tuple[int, int], ...]:
        """Return how many partitions of each size can be had of the pool, each on its own."""
        if pool.partitions is None:
            pool.partitions = tuple(self._count(pool).items()) if pool.left else ()
        return pool.partitions

    def _count(self, pool: PoolState) -> dict[int, int]:
        found: dict[int, int] = {}
        for kind, use in pool.items:
            if kind.record.consumption and use == FREE and pool.has_counters(kind):
                size = self.find(kind)
                found[size] = found.get(size, 0) + 1
        return found

    def find_losses(self, before: NodeState, after: NodeState) -> Losses:
        """Return how many partitions of each size are lost between two states of a node."""
        lost: dict[int, int] = {}
        for old, new in zip(before.pools, after.pools, strict=True):
            if old is new:
                continue
            for size, number in self.count(old):
                lost[size] = lost.get(size, 0) + number
            for size, number in self.count(new):
                lost[size] = lost.get(size, 0) - number
        return tuple([(size, number) for size, number in lost.items() if number])


class PartitionTotals:
    """How many partitions of each size can be had in all pools together; it follows the pools."""

    __slots__ = ("_pools", "numbers", "sizes")

    def __init__(self, sizes: PartitionSizes) -> None:
        self.sizes = sizes
        self._pools: dict[object, PoolState] = {}
        self.numbers: list[int] = []
        """By the number of the size."""

    def clear(self) -> None:
        """Forget all pools."""
        self._pools.clear()
        self.numbers.clear()

    def follow(self, pools: Iterable[tuple[object, PoolState]]) -> None:
        """Take in the states that pools are in now.

        Args:
            pools: Each with what identifies it.
        """
        for key, state in pools:
            old = self._pools.get(key)
            if old is state:
                continue
            self._pools[key] = state
            if old is not None:
                self._add(old, -1)
            self._add(state, 1)

    def _add(self, state: PoolState, sign: int) -> None:
        counts = self.sizes.count(state)
        if len(self.numbers) < len(self.sizes):
            self.numbers.extend([0] * (len(self.sizes) - len(self.numbers)))
        for size, number in counts:
            self.numbers[size] += sign * number


def measure_loss(losses: Losses, totals: Sequence[int]) -> int:
    """Return what losing partitions costs, in millionths; negative when more can be had than before.

    Args:
        totals: How many of each size can be had before.
    """
    worth = 0.0
    for size, number in losses:
        total = totals[size] if size < len(totals) else 0
        worth += log((1 + total) / (1 + max(0, total - number)))
    return round(UNIT * worth)

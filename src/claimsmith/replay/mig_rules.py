"""Rules to compare with: where published heuristics put a partition.

A rule names a node and a device; the decision itself, as any other, is made by the search of the allocator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.plan import RequestPlan
from claimsmith.allocate.prepared.screening import Screened
from claimsmith.allocate.search.decide import NodeSearch
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Decision
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.replay.mig_arrivals import BOARD_SLICES, PROFILES, Mix
from claimsmith.replay.mig_boards import read_profiles

__all__ = ["Board", "Held", "Pick", "decide_picked", "pick_best_fit", "pick_by_fragments"]

Held = frozenset[str]
"""Names of the devices of a board that are in use."""
Pick = tuple[str, str]
"""A node, and a device of its board."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Board:
    """What all boards have in common.

    Args:
        profiles: Size of each partition by name, in the order in which they are published.
        takes: What each partition takes of each counter.
        counters: What there is of each.
    """

    profiles: Mapping[str, str]
    takes: Mapping[str, Mapping[str, int]]
    counters: Mapping[str, int]

    @classmethod
    def of(cls, slices: tuple[ResourceSlice, ...]) -> Board:
        """Return the board that a node's slices show."""
        profiles = {name: size for name, size in read_profiles(slices).items() if size in PROFILES}
        devices = {device.name: device for item in slices for device in item.devices if device.name in profiles}
        return cls(
            profiles=profiles,
            takes={
                name: {
                    counter: amount.value()
                    for use in device.consumes_counters
                    for counter, amount in use.counters.items()
                }
                for name, device in devices.items()
            },
            counters={
                counter: amount.value()
                for item in slices
                for counter_set in item.shared_counters
                for counter, amount in counter_set.counters.items()
            },
        )

    @lru_cache(maxsize=100_000)  # noqa: B019 - boards live as long as the replay
    def find_free(self, held: Held) -> Mapping[str, tuple[str, ...]]:
        """Return the partitions that can still be had, by size, each on its own."""
        left = dict(self.counters)
        for name in held:
            for counter, amount in self.takes[name].items():
                left[counter] -= amount
        found: dict[str, tuple[str, ...]] = {}
        for name, size in self.profiles.items():
            if all(amount <= left[counter] for counter, amount in self.takes[name].items()):
                found[size] = (*found.get(size, ()), name)
        return found

    def count_slices(self, held: Held) -> int:
        """Return how many compute slices are in use."""
        return sum(PROFILES[self.profiles[name]] for name in held)

    def count_memory(self, held: Held) -> int:
        """Return how many memory slices are in use."""
        return sum(counter.startswith("memory-slice") for name in held for counter in self.takes[name])


def pick_best_fit(board: Board, held: Mapping[str, Held], profile: str) -> Pick | None:
    """Return the first free place on the fullest board that has one: by compute slices, then by memory slices."""
    best: tuple[tuple[int, int], Pick] | None = None
    for node, used in held.items():
        free = board.find_free(used).get(profile)
        if free:
            key = (-board.count_slices(used), -board.count_memory(used))
            if best is None or key < best[0]:
                best = key, (node, free[0])
    return None if best is None else best[1]


def pick_by_fragments(mix: Mix) -> Callable[[Board, Mapping[str, Held], str], Pick | None]:
    """Return the rule that lets fragments grow least: free compute slices that a request of the mix can't use.

    Source: Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent,
    USENIX ATC 2023, with partitions in the place of shares of a GPU.
    """
    shares = dict(zip(PROFILES, mix.shares, strict=True))
    known: dict[Held, int] = {}

    def count_fragments(board: Board, used: Held) -> int:
        found = known.get(used)
        if found is None:
            free = board.find_free(used)
            wasted = sum(share for size, share in shares.items() if size not in free)
            found = known[used] = wasted * (BOARD_SLICES - board.count_slices(used))
        return found

    def pick(board: Board, held: Mapping[str, Held], profile: str) -> Pick | None:
        best: tuple[int, Pick] | None = None
        tried: set[Held] = set()
        for node, used in held.items():
            if used in tried:
                continue
            tried.add(used)
            before = count_fragments(board, used)
            for name in board.find_free(used).get(profile, ()):
                grown = count_fragments(board, used | {name}) - before
                if best is None or grown < best[0]:
                    best = grown, (node, name)
        return None if best is None else best[1]

    return pick


def decide_picked(cluster: PreparedCluster, claim: ResourceClaim, node: Node, device: str) -> Decision:
    """Return the search's decision on a node, with one device tried first."""

    def prefer(_: RequestPlan, screened: Screened) -> Screened:
        ordered = sorted(screened.candidates, key=lambda candidate: candidate.record.id.device != device)
        return replace(screened, candidates=tuple(ordered))

    return NodeSearch(cluster, cluster.plan((claim,)), node, SearchLimits(), prefer).decide(str)

"""Partitions of GPUs in the manner of MIG: which sizes there are, where they may lie, and what they take.

A card is a counter set: one counter for each memory slice, and one for each kind of engine. The whole card takes all
of it; a partition takes its memory slices and its engines, so that exactly the layouts that hardware allows fit.

Source: NVIDIA MIG user guide (profiles, engines), nvmlDeviceGetGpuInstancePossiblePlacements (placements), KEP-4815.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from claimsmith.sdk import CounterSet, Quantity, parse_quantity

__all__ = ["BOARDS", "Board", "Profile", "iter_placements", "list_consumption", "list_counters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One size of partition.

    Args:
        name: As the vendor's tools print it, such as `1g.5gb`.
        compute_slices: Compute slices, for people.
        starts: Memory slices at which it may begin.
        size: Memory slices that it takes.
        memory_mib: Memory in MiB.
        multiprocessors, copy_engines, decoders, jpeg_engines, ofa_engines: Engines that it takes.
    """

    name: str
    compute_slices: int
    starts: tuple[int, ...]
    size: int
    memory_mib: int
    multiprocessors: int
    copy_engines: int
    decoders: int = 0
    jpeg_engines: int = 0
    ofa_engines: int = 0

    @property
    def engines(self) -> Mapping[str, int]:
        """Engines by counter name; those that it does not have are left out."""
        amounts = {
            "multiprocessors": self.multiprocessors,
            "copy-engines": self.copy_engines,
            "decoders": self.decoders,
            "jpeg-engines": self.jpeg_engines,
            "ofa-engines": self.ofa_engines,
        }
        return {name: amount for name, amount in amounts.items() if amount}


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A card that can be cut.

    Args:
        memory_slices: Number of memory slices.
        profiles: From small to large: the order in which the allocator tries them.
    """

    memory_slices: int
    profiles: tuple[Profile, ...]


def _seven_slices(rows: tuple[tuple[str, int, int, int, int, int, int], ...]) -> Board:
    """Return a board of seven compute and eight memory slices.

    Args:
        rows: Name, memory in MiB, multiprocessors, copy engines, decoders, JPEG and OFA engines, in the order of
            `_SEVEN_SLICE_PLACES`.
    """
    profiles = (
        Profile(
            name=name,
            compute_slices=compute,
            starts=starts,
            size=size,
            memory_mib=memory_mib,
            multiprocessors=multiprocessors,
            copy_engines=copies,
            decoders=decoders,
            jpeg_engines=jpeg,
            ofa_engines=ofa,
        )
        for (name, memory_mib, multiprocessors, copies, decoders, jpeg, ofa), (compute, starts, size) in zip(
            rows, _SEVEN_SLICE_PLACES, strict=True
        )
    )
    return Board(memory_slices=8, profiles=tuple(profiles))


_EVERY: Final = (0, 1, 2, 3, 4, 5, 6)
_SEVEN_SLICE_PLACES: Final = (
    (1, _EVERY, 1),
    (1, _EVERY, 1),
    (1, (0, 2, 4, 6), 2),
    (2, (0, 2, 4), 2),
    (3, (0, 4), 4),
    (4, (0,), 4),
    (7, (0,), 8),
)

BOARDS: Final[Mapping[str, Board]] = {
    "a100-40gb": _seven_slices(
        (
            ("1g.5gb", 4_864, 14, 1, 0, 0, 0),
            ("1g.5gb+me", 4_864, 14, 1, 1, 1, 1),
            ("1g.10gb", 9_856, 14, 1, 1, 0, 0),
            ("2g.10gb", 9_856, 28, 2, 1, 0, 0),
            ("3g.20gb", 19_968, 42, 3, 2, 0, 0),
            ("4g.20gb", 19_968, 56, 4, 2, 0, 0),
            ("7g.40gb", 40_192, 98, 7, 5, 1, 1),
        )
    ),
    "a100-80gb": _seven_slices(
        (
            ("1g.10gb", 9_856, 14, 1, 0, 0, 0),
            ("1g.10gb+me", 9_856, 14, 1, 1, 1, 1),
            ("1g.20gb", 19_968, 14, 1, 1, 0, 0),
            ("2g.20gb", 19_968, 28, 2, 1, 0, 0),
            ("3g.40gb", 40_192, 42, 3, 2, 0, 0),
            ("4g.40gb", 40_192, 56, 4, 2, 0, 0),
            ("7g.80gb", 80_384, 98, 7, 5, 1, 1),
        )
    ),
    "h100-80gb": _seven_slices(
        (
            ("1g.10gb", 9_984, 16, 1, 1, 1, 0),
            ("1g.10gb+me", 9_984, 16, 1, 1, 1, 1),
            ("1g.20gb", 20_096, 26, 1, 1, 1, 0),
            ("2g.20gb", 20_096, 32, 2, 2, 2, 0),
            ("3g.40gb", 40_448, 60, 3, 3, 3, 0),
            ("4g.40gb", 40_448, 64, 4, 4, 4, 0),
            ("7g.80gb", 81_152, 132, 8, 7, 7, 1),
        )
    ),
    "a30-24gb": Board(
        memory_slices=4,
        profiles=(
            Profile(
                name="1g.6gb", compute_slices=1, starts=(0, 1, 2, 3), size=1, memory_mib=5_952, multiprocessors=14,
                copy_engines=1,
            ),
            Profile(
                name="1g.6gb+me", compute_slices=1, starts=(0, 1, 2, 3), size=1, memory_mib=5_952, multiprocessors=14,
                copy_engines=1, decoders=1, jpeg_engines=1, ofa_engines=1,
            ),
            Profile(
                name="2g.12gb", compute_slices=2, starts=(0, 2), size=2, memory_mib=11_968, multiprocessors=28,
                copy_engines=2, decoders=2,
            ),
            Profile(
                name="2g.12gb+me", compute_slices=2, starts=(0, 2), size=2, memory_mib=11_968, multiprocessors=28,
                copy_engines=2, decoders=2, jpeg_engines=1, ofa_engines=1,
            ),
            Profile(
                name="4g.24gb", compute_slices=4, starts=(0,), size=4, memory_mib=24_000, multiprocessors=56,
                copy_engines=4, decoders=4, jpeg_engines=1, ofa_engines=1,
            ),
        ),
    ),
}  # fmt: skip
"""Boards by the key that `GpuModel.partitions` holds."""


def iter_placements(board: Board) -> Iterator[tuple[Profile, int]]:
    """Yield each profile with each start, in the order in which an allocator should try them.

    Small before large; a profile of half a card or more from the far end, so that the small ones that begin at the
    front leave it room.
    """
    for profile in board.profiles:
        is_large = 2 * profile.size >= board.memory_slices
        for start in sorted(profile.starts, reverse=is_large):
            yield profile, start


def list_counters(board: Board, name: str) -> CounterSet:
    """Return the counter set of a card: its memory slices, and of each engine the most that a profile takes."""
    counters = {f"memory-slice-{index}": _count(1) for index in range(board.memory_slices)}
    for profile in board.profiles:
        for engine, amount in profile.engines.items():
            counters[engine] = max(counters.get(engine, _count(0)), _count(amount))
    return CounterSet(name=name, counters=counters)


def list_consumption(profile: Profile, start: int) -> dict[str, Quantity]:
    """Return the counters that a partition takes."""
    slices = {f"memory-slice-{index}": _count(1) for index in range(start, start + profile.size)}
    return {**slices, **{engine: _count(amount) for engine, amount in profile.engines.items()}}


def _count(amount: int) -> Quantity:
    return parse_quantity(str(amount))

"""Finds out how little of what speaks against claims is enough: a set from which nothing more can be taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from claimsmith.allocate.explain.relaxations import Relaxation

__all__ = ["Shrunk", "shrink"]

Judge = Callable[[dict[Relaxation, int]], bool | None]
"""Tells whether the problem is impossible with these levels kept; None when that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """What is left of the relaxations.

    Args:
        levels: Pieces that are kept of each; what is relaxed as a whole is left out.
        is_irreducible: Whether it is known that with any one piece fewer the claims fit.
    """

    levels: dict[Relaxation, int]
    is_irreducible: bool


def shrink(relaxations: Iterable[Relaxation], judge: Judge) -> Shrunk:
    """Return an irreducible part of the relaxations that keeps the problem impossible as it is with all of them.

    What is so for the moment is tried to be done without as a whole first. Then they are gone through kind by kind, in
    the order of their ranks, in halves: k that are needed among n cost about k log n judgements. Where relaxing one
    thing can make another harder (requests for all devices), what is left is gone through until nothing changes.
    """
    ordered = sorted(relaxations, key=lambda relaxation: relaxation.rank)
    shrinker = _Shrinker(judge, {relaxation: relaxation.levels for relaxation in ordered})
    shrinker.drop_at_once([relaxation for relaxation in ordered if relaxation.is_passing])
    for _, group in groupby(ordered, key=lambda relaxation: relaxation.rank):
        shrinker.drop(list(group))
    shrinker.settle()
    kept = {relaxation: keep for relaxation, keep in shrinker.levels.items() if keep}
    return Shrunk(levels=kept, is_irreducible=all(shrinker.is_needed(relaxation) for relaxation in kept))


@dataclass(slots=True, eq=False)
class _Shrinker:
    judge: Judge
    levels: dict[Relaxation, int]
    _known: dict[tuple[int, ...], bool | None] = field(default_factory=dict)

    def drop_at_once(self, block: Sequence[Relaxation]) -> None:
        """Do without the whole block, if that is possible."""
        if self._is_enough(dict.fromkeys(block, 0)):
            self.levels.update(dict.fromkeys(block, 0))

    def drop(self, block: Sequence[Relaxation]) -> None:
        """Do without as much of the block as possible."""
        if self._is_enough(dict.fromkeys(block, 0)):
            self.levels.update(dict.fromkeys(block, 0))
        elif len(block) == 1:
            self._lower(block[0])
        else:
            middle = len(block) // 2
            self.drop(block[:middle])
            self.drop(block[middle:])

    def settle(self) -> None:
        """See that each piece that is kept is needed beside the others that are."""
        changed = True
        while changed:
            changed = False
            for relaxation, keep in self.levels.items():
                if keep and self._is_enough({relaxation: keep - 1}):
                    self.levels[relaxation] = keep - 1
                    changed = True

    def _lower(self, relaxation: Relaxation) -> None:
        """Keep the fewest pieces that are enough; none of them is not."""
        low, high = 0, self.levels[relaxation]
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_enough({relaxation: middle}):
                high = middle
            else:
                low = middle
        self.levels[relaxation] = high

    def is_needed(self, relaxation: Relaxation) -> bool:
        """Tell whether it is known that one piece fewer is not enough."""
        return self._judge({relaxation: self.levels[relaxation] - 1}) is False

    def _is_enough(self, changed: dict[Relaxation, int]) -> bool:
        """Tell whether the problem stays impossible; what is not known counts as no."""
        return self._judge(changed) is True

    def _judge(self, changed: dict[Relaxation, int]) -> bool | None:
        trial = {**self.levels, **changed}
        key = tuple(trial.values())
        if key not in self._known:
            self._known[key] = self.judge(trial)
        return self._known[key]

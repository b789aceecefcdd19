"""The cheapest set that is enough, where more is never worse: exact while that is quick, irreducible in any case.

Every set that is not enough, made as large as possible, shows elements of which one is needed. A cheapest set that has
one of each shown so far is either enough, and then nothing cheaper is, or shows the next. Known as implicit hitting
sets; source: Chandrasekaran, Karp, Moreno-Centeno, Vempala: Algorithms for Implicit Hitting Set Problems (2011).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["CheapestSet", "find_cheapest_set"]

Chosen = frozenset[int]
"""Elements by their numbers."""
Cost = tuple[int, ...]
"""Compared in order; never less for a larger set, and larger for each element that is added."""

TRIALS_MAX = 2_000
"""Most sets that are tried."""
_BRANCHES_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestSet:
    """A set that is enough.

    Args:
        chosen: The elements; without any one of them it is not enough.
        is_optimal: Whether no cheaper set is enough; else trying ended first.
        trials: How many sets were tried.
    """

    chosen: Chosen
    is_optimal: bool
    trials: int


def find_cheapest_set(
    order: Sequence[int],
    *,
    is_enough: Callable[[Chosen], bool],
    cost: Callable[[Chosen], Cost],
    trials_max: int = TRIALS_MAX,
    at_most: Cost | None = None,
) -> CheapestSet | None:
    """Return the cheapest set of elements that is enough; None when not even all of them are, or it costs too much.

    Args:
        order: The elements, those first that are best spared.
        is_enough: Tells whether a set is enough; every set that contains one that is enough must be so too.
        cost: Cost of a set.
        trials_max: Most sets to try; an irreducible set is found even if that takes more.
        at_most: The most that a set may cost; None for any cost.
    """
    search = _Search(order=tuple(order), ask=is_enough, cost=cost, trials_max=trials_max, at_most=at_most)
    return search.run()


@dataclass(slots=True, kw_only=True)
class _Search:
    order: tuple[int, ...]
    ask: Callable[[Chosen], bool]
    cost: Callable[[Chosen], Cost]
    trials_max: int
    at_most: Cost | None
    trials: int = 0
    _known: dict[Chosen, bool] = field(default_factory=dict)
    _branches: int = 0

    def run(self) -> CheapestSet | None:
        everything = frozenset(self.order)
        if not self._is_enough(everything):
            return None
        best = self._reduce(everything)
        shown: list[Chosen] = []
        while self.trials < self.trials_max:
            self._branches = 0
            cheapest = self._hit(tuple(shown), best)
            if cheapest is None:
                break
            if self.at_most is not None and self.cost(cheapest) > self.at_most:
                return None  # none is cheaper than this one, whether it is enough or not
            if cheapest == best or self._is_enough(cheapest):
                return CheapestSet(chosen=cheapest, is_optimal=True, trials=self.trials)
            shown.append(everything - self._grow(cheapest, everything))
        if self.at_most is not None and self.cost(best) > self.at_most:
            return None
        return CheapestSet(chosen=best, is_optimal=False, trials=self.trials)

    def _is_enough(self, chosen: Chosen) -> bool:
        known = self._known.get(chosen)
        if known is None:
            self.trials += 1
            known = self._known[chosen] = self.ask(chosen)
        return known

    def _reduce(self, chosen: Chosen) -> Chosen:
        """Spare elements in order, whole runs of them at once where that can be done."""
        stack = [self.order]
        while stack:
            run = stack.pop()
            spared = chosen.difference(run)
            if self._is_enough(spared):
                chosen = spared
            elif len(run) > 1:
                middle = len(run) // 2
                stack += [run[middle:], run[:middle]]
        return self._reduce_singly(chosen)

    def _reduce_singly(self, chosen: Chosen) -> Chosen:
        """Make sure that none can be spared, also where a smaller set was enough and a larger one was not."""
        for number in (item for item in self.order if item in chosen):
            if self._is_enough(chosen - {number}):
                return self._reduce_singly(chosen - {number})
        return chosen

    def _grow(self, chosen: Chosen, everything: Chosen) -> Chosen:
        """Return a set around one that is not enough to which nothing can be added without making it enough."""
        stack = [tuple(number for number in self.order if number in everything - chosen)]
        while stack:
            run = stack.pop()
            larger = chosen.union(run)
            if not self._is_enough(larger):
                chosen = larger
            elif len(run) > 1:
                middle = len(run) // 2
                stack += [run[middle:], run[:middle]]
        return chosen

    def _hit(self, shown: tuple[Chosen, ...], best: Chosen) -> Chosen | None:
        """Return the cheapest set with an element of each shown set; `best` if none is cheaper, None if it gave up."""
        found, found_cost = best, self.cost(best)
        stack: list[tuple[Chosen, Chosen]] = [(frozenset(), frozenset())]
        while stack:
            chosen, excluded = stack.pop()
            self._branches += 1
            if self._branches > _BRANCHES_MAX:
                return None
            if self.cost(chosen) >= found_cost:
                continue
            missing = [part - excluded for part in shown if not part & chosen]
            if not missing:
                found, found_cost = chosen, self.cost(chosen)
                continue
            smallest = min(missing, key=len)
            tried = excluded
            branches = []
            for number in sorted(smallest, key=lambda item: self.cost(chosen | {item})):
                branches.append((chosen | {number}, tried))
                tried = tried | {number}
            stack += reversed(branches)
        return found

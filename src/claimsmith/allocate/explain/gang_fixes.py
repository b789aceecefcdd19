"""The nearest changes with which a gang fits: each is made for all of its pods, and solved for all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from claimsmith.allocate.explain.context import SolveGang
from claimsmith.allocate.explain.fixes import (
    FIXES_MAX,
    FREE_RANK,
    HOLDERS_MAX,
    NODE_RANK,
    NodeSet,
    list_kept,
    word_choice,
    word_together,
)
from claimsmith.allocate.explain.ladders import build_fix, find_ladder
from claimsmith.allocate.explain.values import Change, Fix
from claimsmith.model.names import ClaimRef

__all__ = ["ADDED_MAX", "GangFixFinder"]

ADDED_MAX: Final = 16
"""Nodes of one kind that are proposed at most."""
_KINDS_MAX: Final = 8


@dataclass(slots=True, eq=False)
class GangFixFinder:
    """Looks for fixes for a gang.

    Args:
        sets: Why the pod that is left over fits on no node beside the others.
        kinds: Names of nodes, one of each kind, the most frequent kinds first.
        solve: Solves changes for the whole gang.
    """

    sets: Sequence[NodeSet]
    kinds: Sequence[str]
    solve: SolveGang

    def find(self) -> tuple[Fix, ...]:
        """Return fixes, those first that ask for the least."""
        found = [*self._climb(), *self._free(), *self._add_nodes()]
        found.sort(key=lambda entry: entry[0])
        return tuple({fix.text: fix for _, fix in found}.values())[:FIXES_MAX]

    def _climb(self) -> Iterator[tuple[int, Fix]]:
        """Give the first step of each ladder with which the gang fits."""
        for relaxation, sets in list_kept(self.sets):
            ladder = find_ladder(relaxation, [item.finding for item in sets])
            for step in ladder.steps if ladder else ():
                nodes = self.solve((step.change,))
                if nodes and ladder is not None:
                    rank = ladder.rank if step.rank is None else step.rank
                    yield rank, build_fix(step.text, nodes, (step.change,), sets[0].finding.case.context)
                    break

    # --- devices in use -----------------------------------------------------------------------------------------------

    def _free(self) -> Iterator[tuple[int, Fix]]:
        """Give claims of others of which one has to go, or else the fewest that have to go together."""
        everybody = list(dict.fromkeys(self._list_holders()))
        holders = everybody[:HOLDERS_MAX]
        nodes_of = {holder: self.solve((_free([holder]),)) for holder in holders}
        single = [holder for holder, nodes in nodes_of.items() if nodes]
        if single:
            names = [str(holder) for holder in single]
            text = word_choice(names, untried=len(everybody) - len(holders))
            choices = tuple(_free([holder]) for holder in single) if single[1:] else ()
            yield FREE_RANK, Fix(text=text, nodes=nodes_of[single[0]], changes=(_free(single[:1]),), choices=choices)
            return
        together = self._find_together(holders) if holders[1:] else []
        if together:
            text = word_together([str(holder) for holder in together])
            change = _free(together)
            yield FREE_RANK, Fix(text=text, nodes=self.solve((change,)), changes=(change,))

    def _list_holders(self) -> Iterator[ClaimRef]:
        for item in self.sets:
            beside = item.finding.case.context.beside
            if any(relaxation.part == "use" for relaxation in item.finding.kept):
                holders = (part.holder for part in item.finding.case.uses)
                yield from (holder for holder in holders if holder is not None and holder not in beside)

    def _find_together(self, holders: Iterable[ClaimRef]) -> list[ClaimRef]:
        """The claims whose going is enough, and of which none may stay; empty when even all are not enough."""
        kept = list(holders)
        if not self.solve((_free(kept),)):
            return []
        for holder in list(kept):
            fewer = [other for other in kept if other != holder]
            if fewer and self.solve((_free(fewer),)):
                kept = fewer
        return kept

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _add_nodes(self) -> Iterator[tuple[int, Fix]]:
        """Give the kind of node of which the fewest more are needed."""
        best, fewest = "", ADDED_MAX + 1
        for name in list(dict.fromkeys(self.kinds))[:_KINDS_MAX]:
            count = self._count_needed(name, below=fewest)
            if count < fewest:
                best, fewest = name, count
        if best:
            change = _add(best, fewest)
            text = f"add one node like {best}" if fewest == 1 else f"add {fewest} nodes like {best}"
            yield NODE_RANK, Fix(text=text, nodes=(), changes=(change,))

    def _count_needed(self, name: str, *, below: int) -> int:
        """The fewest nodes like one with which the gang fits; `below` if it takes as many, or more."""
        if below <= 1 or not self.solve((_add(name, below - 1),)):
            return below
        low, high = 0, below - 1
        while high - low > 1:
            middle = min((low + high) // 2, 2 * low + 1)
            if self.solve((_add(name, middle),)):
                high = middle
            else:
                low = middle
        return high


def _free(claims: Sequence[ClaimRef]) -> Change:
    return Change(op="free-claims", value=[str(claim) for claim in claims])


def _add(name: str, count: int) -> Change:
    return Change(op="add-node", name=name, value=count if count > 1 else None)

"""Ways to make room for a pod that fits nowhere by moving pods that run, the cheapest first.

A plan is found on plain numbers. It is a list of steps, and the pods of one step leave their places together before
they arrive at their new ones: two pods that change places could not do so otherwise. The pod for which it is all done
arrives with the last step. After each step every pod has a place, and nobody but the pods of a step is without one
while it lasts.

One holder that moves so that a pending claim fits, rated by the policy, is `allocate.policy.moves`. Here up to two pods
move on up to three nodes, and each of some ten thousand questions must take microseconds, hence the plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from claimsmith.replay.rooms import Kind, Left, Rooms, Runner, Site

__all__ = ["WAYS", "Plan", "Step", "Way"]

Step = tuple[tuple[Runner, Site], ...]
"""Runners that leave together, each with the node that it goes to."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the pod goes, and who moves for it, step by step."""

    site: Site
    steps: tuple[Step, ...] = ()

    @property
    def moves(self) -> int:
        """How many pods are moved."""
        return sum(map(len, self.steps))


Way = Callable[[Rooms, Kind], Iterator[Plan]]
"""Yields plans for a pod of a kind; each is possible when it is yielded, whatever was done since the one before."""


def plan_none(rooms: Rooms, kind: Kind) -> Iterator[Plan]:
    """Yield nodes on which the pod fits."""
    while (site := rooms.find_target(kind)) is not None:
        yield Plan(site)


def plan_single(rooms: Rooms, kind: Kind) -> Iterator[Plan]:
    """Yield plans in which one runner leaves for another node, or for another GPU of its own."""
    for other, site in _list_places(rooms, kind):
        runner = _find_runner(rooms, kind, other, site)
        if runner is None:
            continue
        target = rooms.find_target(other, (site,))
        if target is None and site.fits_without(other, (runner,), kind):
            target = site
        if target is not None:
            yield Plan(site, (((runner, target),),))


def plan_pairs(rooms: Rooms, kind: Kind) -> Iterator[Plan]:
    """Yield plans in which two runners of one node leave."""
    found: list[tuple[int, int, Site, tuple[Runner, Runner]]] = []
    for site in rooms.sites:
        leaving = [runner for runner in site.runners.values() if rooms.find_fitting(runner.kind)]
        for pair in combinations(leaving, 2):
            cpu = sum([runner.kind.cpu_milli for runner in pair])
            if site.cpu_milli + cpu >= kind.cpu_milli and site.fits_without(kind, pair):
                found.append((sum([runner.kind.total_milli for runner in pair]), cpu, site, pair))
    for _, _, site, pair in sorted(found, key=lambda entry: entry[:2]):
        if all(runner.placed.number in site.runners for runner in pair) and site.fits_without(kind, pair):
            steps = _find_leaving(rooms, site, pair)
            if steps:
                yield Plan(site, steps)


def plan_swaps(rooms: Rooms, kind: Kind) -> Iterator[Plan]:
    """Yield plans in which a runner changes places with a smaller one of another node."""
    smaller: dict[Kind, list[Kind]] = {}
    for other, site in _list_places(rooms, kind):
        runner = _find_runner(rooms, kind, other, site)
        left = None if runner is None else site.find_left(runner, kind)
        if runner is None or left is None:
            continue
        if other not in smaller:
            smaller[other] = _list_smaller(rooms, other)
        found = _find_partner(rooms, other, site, left=left, kinds=smaller[other])
        if found is not None:
            middle, partner = found
            yield Plan(site, (((partner, site), (runner, middle)),))


def plan_chains(rooms: Rooms, kind: Kind) -> Iterator[Plan]:
    """Yield plans in which a runner leaves for a place that another one leaves for a third node."""
    for other, site in _list_places(rooms, kind):
        runner = _find_runner(rooms, kind, other, site)
        step = None if runner is None else _find_chain(rooms, other, site)
        if runner is not None and step is not None:
            middle, last, end = step
            yield Plan(site, (((last, end),), ((runner, middle),)))


WAYS: Final[tuple[tuple[int, Way], ...]] = (
    (0, plan_none),
    (1, plan_single),
    (2, plan_pairs),
    (2, plan_swaps),
    (2, plan_chains),
)
"""All ways with the number of pods that each moves, the cheapest first."""


def _list_places(rooms: Rooms, kind: Kind) -> list[tuple[Kind, Site]]:
    """In whose place the pod would fit, those with the least GPUs first."""
    found = [(other, site) for other, places in rooms.find_replaceable(kind).items() for site in places]
    found.sort(key=lambda entry: (entry[0].total_milli, entry[0].cpu_milli, entry[1].node.name))
    return found


def _find_runner(rooms: Rooms, kind: Kind, other: Kind, site: Site) -> Runner | None:
    """The runner of a kind in whose place the pod would fit now."""
    return rooms.find_replaceable(kind).get(other, {}).get(site)


def _find_leaving(rooms: Rooms, site: Site, pair: Sequence[Runner]) -> tuple[Step, ...]:
    """Two runners' ways to other nodes; none when there is no place for both."""
    first, second = pair
    target = rooms.find_target(first.kind, (site,))
    if target is None:
        return ()
    if target.fits_without(second.kind, (), first.kind):
        return (((first, target), (second, target)),)
    other = rooms.find_target(second.kind, (site, target))
    return () if other is None else (((first, target), (second, other)),)


def _list_smaller(rooms: Rooms, kind: Kind) -> list[Kind]:
    """Kinds in whose place a pod would fit, with no more GPUs and fewer processors; those with the fewest first."""
    found = [
        other
        for other in rooms.find_replaceable(kind)
        if other.total_milli <= kind.total_milli and other.cpu_milli < kind.cpu_milli
    ]
    return sorted(found, key=lambda other: (other.cpu_milli, other.memory_mib, other.number))


def _find_partner(
    rooms: Rooms, kind: Kind, site: Site, *, left: Left, kinds: Sequence[Kind]
) -> tuple[Site, Runner] | None:
    """A runner of another node in whose place a pod would fit, and which fits into what is left of this node."""
    places = rooms.find_replaceable(kind)
    for other in kinds:
        if other.cpu_milli > left.cpu_milli:
            break
        if left.fits(other) and site.accepts(other):
            for middle, runner in places[other].items():
                if middle is not site:
                    return middle, runner
    return None


def _find_chain(rooms: Rooms, kind: Kind, site: Site) -> tuple[Site, Runner, Site] | None:
    """A runner of another node in whose place a pod would fit, and the third node that it can go to."""
    for other, places in rooms.find_replaceable(kind).items():
        if not rooms.find_fitting(other):
            continue
        for middle, runner in places.items():
            end = None if middle is site else rooms.find_target(other, (site, middle))
            if end is not None:
                return middle, runner, end
    return None

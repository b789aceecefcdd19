"""Which of the free devices a container should rather get: those close to each other, so that they talk fast. Pure.

How close two devices are is the sum of what they have in common: a link, the PCIe root, the NUMA node. Of all choices
the one is best whose devices are closest to each other in sum; then the one that leaves the closest devices to others;
then the first one in the order of the devices. Up to some thousand choices all are tried, alike devices being one;
beyond that a choice is grown from each device in turn and then improved by exchange.

Source: GetPreferredAllocation of device plugin v1beta1; the best-effort policy of go-gpuallocator for the idea.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import comb, prod
from typing import Final

from claimsmith.node.deviceplugin_rules import OfferedDevice, PreferencePolicy, ResourceRule, card_of, find_attribute

__all__ = ["LINK_WEIGHT", "NUMA_WEIGHT", "ROOT_WEIGHT", "Place", "closeness", "find_places", "plan_preferred"]

LINK_WEIGHT: Final = 100
"""For each direct link between two devices."""
ROOT_WEIGHT: Final = 20
"""For a PCIe root in common."""
NUMA_WEIGHT: Final = 10
"""For a NUMA node in common."""
_CHOICES_MAX: Final = 5_000
"""Enough to try all halves of 14 devices that are all unlike; takes a quarter of a second."""
_STARTS_MAX: Final = 8
_EXCHANGES_MAX: Final = 64
_PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device sits. Devices of one place are alike, but for their names.

    Args:
        group: Devices with the same text are all linked with each other; empty: none.
        links: How many links it has to which other devices, by their names.
        name: Its own name, where others may name it in their links; else empty.
        roots: PCIe roots.
        numa_nodes: NUMA nodes.
    """

    group: str = ""
    links: tuple[tuple[str, int], ...] = ()
    name: str = ""
    roots: frozenset[str] = frozenset()
    numa_nodes: frozenset[int] = frozenset()


def closeness(one: Place, other: Place) -> int:
    """Return how close two devices are; 0 when they have nothing in common."""
    links = int(bool(one.group) and one.group == other.group)
    links += max(dict(one.links).get(other.name, 0), dict(other.links).get(one.name, 0))
    near = ROOT_WEIGHT * bool(one.roots & other.roots) + NUMA_WEIGHT * bool(one.numa_nodes & other.numa_nodes)
    return LINK_WEIGHT * links + near


def find_places(driver: str, rule: ResourceRule, offered: Iterable[OfferedDevice]) -> Mapping[str, Place]:
    """Return where each card sits, by its id.

    Args:
        driver: Name of the driver, the domain of attributes without one.
        rule: Names the attribute that tells of links.
        offered: What the rule offers; replicas of a card are in the same place.
    """
    return {device.card: _place(driver, rule, device) for device in offered}


def _place(driver: str, rule: ResourceRule, offered: OfferedDevice) -> Place:
    link = find_attribute(driver, offered.source, rule.link_attribute) if rule.link_attribute else None
    root = offered.source.attributes.get(_PCIE_ROOT)
    roots = () if root is None else root.value if isinstance(root.value, tuple) else (root.value,)
    listed = isinstance(link, tuple)
    return Place(
        group="" if listed or link is None else str(link),
        links=tuple(sorted(Counter(map(str, link)).items())) if isinstance(link, tuple) else (),
        name=offered.source.name if listed else "",
        roots=frozenset(str(item) for item in roots),
        numa_nodes=frozenset(offered.numa_nodes),
    )


def plan_preferred(
    available: Sequence[str],
    *,
    must_include: Sequence[str],
    size: int,
    places: Mapping[str, Place],
    policy: PreferencePolicy,
) -> tuple[str, ...]:
    """Return the ids that a container should get; empty when there are not as many.

    Args:
        available: Ids to choose from, in order of preference.
        must_include: Ids that it gets anyway, counted in `size`.
        size: How many ids it gets; >= 0.
        places: Where each device sits, by its id. Ids that are not there are replicas of cards.
        policy: `topology`: close to each other, then leave close ones to others. `packed`: the other way round.
            `spread`: far from each other. Replicas of cards: `packed` fills cards that are in use, else the emptiest
            cards are taken, no card twice as long as there are others.
    """
    must = tuple(dict.fromkeys(must_include))
    free = tuple(id_ for id_ in dict.fromkeys(available) if id_ not in must)
    missing = size - len(must)
    if missing < 0 or missing > len(free):
        return ()
    if missing == 0:
        return must
    if any(id_ not in places for id_ in (*must, *free)):
        return (*must, *_choose_replicas(must, free, missing, policy))
    return (*must, *_choose_devices(must, free, missing, places=places, policy=policy))


def _choose_replicas(
    must: tuple[str, ...], free: tuple[str, ...], missing: int, policy: PreferencePolicy
) -> Iterator[str]:
    """Yield ids one after the other: each from the card that then suits best."""
    left: dict[str, list[str]] = {}
    for id_ in free:
        left.setdefault(card_of(id_), []).append(id_)
    taken = Counter(card_of(id_) for id_ in must)
    order = {card: number for number, card in enumerate(left)}
    for _ in range(missing):
        sign = 1 if policy == "packed" else -1
        card = min(left, key=lambda card: (*_times(taken[card], policy), sign * len(left[card]), order[card]))
        taken[card] += 1
        yield left[card].pop(0)
        if not left[card]:
            del left[card]


def _times(taken: int, policy: PreferencePolicy) -> tuple[int, ...]:
    """How often a card was taken for this container counts first, unless cards are to be filled."""
    return () if policy == "packed" else (taken,)


# --- whole devices ----------------------------------------------------------------------------------------------------

_Rating = tuple[int, int]


def _choose_devices(
    must: tuple[str, ...],
    free: tuple[str, ...],
    missing: int,
    *,
    places: Mapping[str, Place],
    policy: PreferencePolicy,
) -> tuple[str, ...]:
    classes: dict[Place, list[str]] = {}
    for id_ in free:
        classes.setdefault(places[id_], []).append(id_)
    taken = Counter(places[id_] for id_ in must)
    limits = [len(ids) for ids in classes.values()] + [0] * len(taken.keys() - classes.keys())
    known = (*classes, *(place for place in taken if place not in classes))
    table = _Table([[closeness(a, b) for b in known] for a in known], [taken[place] for place in known], policy)
    counts = _best_counts(table, limits, missing)
    chosen = [id_ for ids, count in zip(classes.values(), counts, strict=False) for id_ in ids[:count]]
    order = {id_: number for number, id_ in enumerate(free)}
    return tuple(sorted(chosen, key=lambda id_: order[id_]))


@dataclass(frozen=True, slots=True)
class _Table:
    """How close devices are by their class, and how many of each class the container has anyway."""

    matrix: list[list[int]]
    fixed: list[int]
    policy: PreferencePolicy

    def rate(self, limits: Sequence[int], counts: Sequence[int]) -> _Rating:
        """Return how good a choice is; more is better."""
        inside = self._sum([count + fixed for count, fixed in zip(counts, self.fixed, strict=True)])
        outside = self._sum([limit - count for limit, count in zip(limits, counts, strict=True)])
        return self.weigh(inside, outside)

    def weigh(self, inside: int, outside: int) -> _Rating:
        """Return what closeness among the chosen devices, and among those left, is worth."""
        match self.policy:
            case "topology":
                return (inside, outside)
            case "packed":
                return (outside, inside)
            case "spread":
                return (-inside, -outside)

    def near(self, counts: Sequence[int]) -> list[int]:
        """Return for each class how close one device of it is to so many of each."""
        return [sum(map(operator.mul, row, counts)) for row in self.matrix]

    def _sum(self, counts: Sequence[int]) -> int:
        """Return the closeness of all pairs."""
        used = [(index, count) for index, count in enumerate(counts) if count]
        total = sum(self.matrix[index][index] * count * (count - 1) // 2 for index, count in used)
        for position, (index, count) in enumerate(used):
            row = self.matrix[index]
            total += sum(row[other] * count * number for other, number in used[position + 1 :])
        return total


def _best_counts(table: _Table, limits: Sequence[int], missing: int) -> tuple[int, ...]:
    """Return how many devices to take of each class; of equally good choices the first in the order of the devices."""
    if min(comb(sum(limits), missing), prod(min(limit, missing) + 1 for limit in limits)) <= _CHOICES_MAX:
        choices = _all_counts(limits, missing)
    else:
        starts = [index for index, limit in enumerate(limits) if limit][:_STARTS_MAX]
        choices = (_grow(table, limits, missing, start) for start in starts)
    return max(choices, key=lambda counts: (table.rate(limits, counts), counts))


def _all_counts(limits: Sequence[int], missing: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to take so many devices from classes of so many."""
    if not limits:
        if missing == 0:
            yield ()
        return
    rest = sum(limits[1:])
    for count in range(min(limits[0], missing), max(0, missing - rest) - 1, -1):
        for counts in _all_counts(limits[1:], missing - count):
            yield (count, *counts)


def _grow(table: _Table, limits: Sequence[int], missing: int, start: int) -> tuple[int, ...]:
    """Return a good choice that begins with a device of one class: the best one is added, then the best exchanged."""
    counts = [int(index == start) for index in range(len(limits))]
    while sum(counts) < missing:
        inside, outside = _near(table, limits, counts)
        takers = [index for index, limit in enumerate(limits) if counts[index] < limit]
        best = max(takers, key=lambda t: table.weigh(inside[t], table.matrix[t][t] - outside[t]))
        counts[best] += 1
    for _ in range(_EXCHANGES_MAX):
        move = _find_exchange(table, limits, counts)
        if move is None:
            break
        counts[move[0]] -= 1
        counts[move[1]] += 1
    return tuple(counts)


def _near(table: _Table, limits: Sequence[int], counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return for each class how close one device of it is to the chosen ones, and to those left."""
    chosen = [count + fixed for count, fixed in zip(counts, table.fixed, strict=True)]
    left = [limit - count for limit, count in zip(limits, counts, strict=True)]
    return table.near(chosen), table.near(left)


def _find_exchange(table: _Table, limits: Sequence[int], counts: Sequence[int]) -> tuple[int, int] | None:
    """Return the exchange of one device that makes a choice best; None when none makes it better."""
    inside, outside = _near(table, limits, counts)
    best, best_gain = None, table.weigh(0, 0)
    for giver, taker in product(range(len(counts)), repeat=2):
        if giver == taker or not counts[giver] or counts[taker] >= limits[taker]:
            continue
        between = table.matrix[giver][taker]
        gain = table.weigh(
            inside[taker] - between - (inside[giver] - table.matrix[giver][giver]),
            outside[giver] - (outside[taker] - table.matrix[taker][taker]) - between,
        )
        if gain > best_gain:
            best, best_gain = (giver, taker), gain
    return best

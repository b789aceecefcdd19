"""What is left of a node is worth to the demand: its value, and how much of it lies idle in fragments.

The value of a node is the number of devices that the demand could still fill: 1 for each idle device; for a shared
device in use what its room is worth under the dual prices of the packing by patterns, times the chance that the rest
of a typical pod (processors, memory, bandwidth) still fits on the node beside its idle devices; 1 for each partition
that the counters still allow. What a placement takes from the value beyond need is its regret.

Source of the fragments: Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent, USENIX ATC 2023.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from math import gcd
from operator import le
from typing import Final

from claimsmith.allocate.policy.demand import DemandProfile, Need, TypicalPod
from claimsmith.allocate.policy.dualprices import find_dual_prices, value_rooms
from claimsmith.allocate.policy.nodestates import DEDICATED, FREE, DeviceKind, NodeState, NodeStates, Use
from claimsmith.allocate.prepared.eligibility import RequestShape

__all__ = ["WHOLE", "Potential"]

WHOLE: Final = 1000
"""Value of an idle device."""
TYPICAL_PERCENT: Final = 95
"""Share of all pods that the typical ones make up, when fragments are counted."""
HEAVY_PERCENT: Final = 105
"""What a pod needs besides a device, of what the most frequent one does, beyond which it is heavy."""
RARE_PERCENT: Final = 2
"""Share of all pods below which pods for several devices are rare."""
SCARCE_PERCENT: Final = 70
"""Share of the devices of a kind that pods which accept only some kinds ask for, from which on it is scarce."""
UNITS_MAX: Final = 1_000
"""Finest division of a device when its parts are packed."""


@dataclass(frozen=True, slots=True)
class _Typical:
    """A typical pod: the need that takes most of a device, and what it needs besides."""

    prime: Need | None
    beside: tuple[Need, ...]
    count: int


_Weighted = tuple[tuple[tuple[Need, ...], int], ...]
"""What pods need, each with a weight: their number, or a bit."""


@dataclass(frozen=True, slots=True)
class _KindValue:
    """What a kind of devices is worth.

    Args:
        main: Place of the capacity that is shared out; -1 for devices that are had as a whole.
        unit: Nano units of it in one unit of `values`.
        values: What so much room is worth.
        guests: What pods that take a part of such a device need besides, with the number of such pods.
    """

    main: int
    unit: int = 1
    values: tuple[int, ...] = ()
    guests: _Weighted = ()


class Potential:
    """The value of nodes under a demand.

    Args:
        states: The states of the cluster's nodes; their kinds of devices must have been met.
        profile: The demand.
        counts_rare: Pods for several devices are typical like all others. Otherwise they are not as long as they are
            rare: how many of them a sample has is chance, and they would keep all others from every idle node.
    """

    def __init__(self, states: NodeStates, profile: DemandProfile, *, counts_rare: bool = False) -> None:
        self._states = states
        self._companions: frozenset[DeviceKind] = frozenset()
        self._companions = self._find_companions(profile)
        self._pods = tuple(self._read(pod, count) for pod, count in profile.pods)
        self._typical = self._choose_typical(profile, counts_rare=counts_rare)
        self._typical_total = sum(pod.count for pod in self._typical)
        self._several = [
            (place, pod.prime.count)
            for place, pod in enumerate(self._typical)
            if pod.prime is not None and pod.prime.count > 1
        ]
        self._hosts = tuple(
            [(pod.beside, 1 << place) for place, pod in enumerate(self._typical) if pod.prime is not None]
        )
        self._amounts: dict[int, dict[DeviceKind, tuple[int, ...] | None]] = {}
        self._peaks: dict[tuple[int, DeviceKind], list[tuple[tuple[int, ...], int]]] = {}
        self._profile = profile
        self._chances: dict[object, int] = {}
        self._hosted: dict[object, int] = {}
        self._served: dict[tuple[DeviceKind, Use], int] = {}
        self._weights: dict[int, int] = {}
        self._values: dict[DeviceKind, _KindValue] = {}
        self._prices = self._price_kinds()
        self._scarce = frozenset(kind for kind, price in self._prices.items() if price >= SCARCE_PERCENT)
        self._reserve = self._find_reserve()
        self._reserved = {
            kind: amounts
            for need in self._reserve
            for kind in self._companions
            if (amounts := states.find_amounts(kind, need.shape)) is not None
        }

    def value(self, state: NodeState) -> int:
        """Return what the node is worth, in thousandths of a device."""
        known = state.rated.get("value")
        if not isinstance(known, int):
            known = state.rated["value"] = self._value(state)
        return known

    def fragments(self, state: NodeState) -> int:
        """Return how much of the node a typical pod can't use on average, in thousandths of a device."""
        known = state.rated.get("fragments")
        if not isinstance(known, int):
            known = state.rated["fragments"] = self._count_fragments(state)
        return known

    def price(self, kind: DeviceKind) -> int:
        """Return how much the demand that can't do without the kind asks for, in hundredths of what there is."""
        return self._prices.get(kind, 0)

    def count_scarce(self, taken: Iterable[tuple[DeviceKind, RequestShape]]) -> int:
        """Return how many of the devices are of scarce kinds: pods that accept nothing else ask for most of them.

        A pod that needs more besides than the most frequent one has no choice, so that none counts.
        """
        if not self._scarce:
            return 0
        count = 0
        for kind, shape in taken:
            most = self._reserved.get(kind)
            amounts = self._states.find_amounts(kind, shape) if most else None
            if most and amounts and any(a * 100 > b * HEAVY_PERCENT for a, b in zip(amounts, most, strict=True)):
                return 0
            count += kind in self._scarce
        return count

    def is_companion(self, kind: DeviceKind) -> bool:
        """Tell whether pods have the device beside another one that they take more of."""
        return kind in self._companions

    def is_idle(self, state: NodeState) -> bool:
        """Tell whether nothing of the node's main devices is in use."""
        return all(use == FREE for pool in state.pools for kind, use in pool.items if kind not in self._companions)

    def find_room(self, kind: DeviceKind, use: Use) -> int:
        """Return what is left of a device, in thousandths."""
        if use == FREE:
            return WHOLE
        if use is DEDICATED or not kind.shareable:
            return 0
        main = self._find_value(kind).main
        return WHOLE * (kind.totals[main] - use[main]) // kind.totals[main] if main >= 0 and kind.totals[main] else 0

    def _value(self, state: NodeState) -> int:
        total, idle = 0, 0
        parts: dict[DeviceKind, int] = {}
        for pool in state.pools:
            for kind, use in pool.items:
                if kind in self._companions or use is DEDICATED:
                    continue
                if use == FREE:
                    if pool.has_counters(kind):
                        total += WHOLE
                        idle += not kind.record.consumption
                    continue
                found = self._find_value(kind)
                if found.values:
                    room = kind.totals[found.main] - use[found.main]
                    parts[kind] = parts.get(kind, 0) + found.values[room // found.unit]
        for kind, worth in parts.items():
            if worth:
                total += worth * self._find_chance(state, kind, idle) // WHOLE
        return total

    def _find_chance(self, state: NodeState, kind: DeviceKind, idle: int) -> int:
        """How many of the pods that take a part of such a device find the rest of their needs, in thousandths."""
        guests = self._find_value(kind).guests
        total = sum(count for _, count in guests)
        if not total:
            return WHOLE
        key = (kind, idle, self._list_companions(state))
        known = self._chances.get(key)
        if known is None:
            rooms = self._find_rooms(state, idle)
            fitting = self._sum_hosted(rooms, guests)
            known = self._chances[key] = WHOLE * fitting // total
        return known

    def _list_companions(self, state: NodeState) -> tuple[tuple[DeviceKind, Use], ...]:
        return tuple([item for pool in state.pools for item in pool.items if item[0] in self._companions])

    def _find_rooms(self, state: NodeState, idle: int) -> list[tuple[DeviceKind, list[int]]]:
        """What the companions have left when so many idle devices keep what a pod needs besides a whole one."""
        rooms = []
        for pool in state.pools:
            for kind, use in pool.items:
                if kind in self._companions and use is not DEDICATED:
                    room = [
                        total - used for total, used in zip(kind.totals, use or [0] * len(kind.totals), strict=True)
                    ]
                    rooms.append((kind, room))
        for need in self._reserve if idle else ():
            fitting = [item for item in rooms if self._states.find_amounts(item[0], need.shape) is not None]
            for kind, room in fitting:
                amounts = self._states.find_amounts(kind, need.shape) or ()
                for place, amount in enumerate(amounts):
                    room[place] -= idle * need.count * amount // len(fitting)
        return rooms

    def _sum_hosted(self, rooms: list[tuple[DeviceKind, list[int]]], pods: _Weighted) -> int:
        """The sum of the weights of those pods whose needs find room."""
        if len(rooms) != 1:
            return sum([weight for needs, weight in pods if self._has_room(rooms, needs)])
        kind, room = rooms[0]
        peaks = self._peaks.get((id(pods), kind))
        if peaks is None:
            peaks = self._peaks[id(pods), kind] = self._list_peaks(pods, kind)
        return sum([weight for amounts, weight in peaks if all(map(le, amounts, room))])

    def _list_peaks(self, pods: _Weighted, kind: DeviceKind) -> list[tuple[tuple[int, ...], int]]:
        """The most of each capacity that a need of a pod takes of a companion, for those whose needs it can serve."""
        peaks: list[tuple[tuple[int, ...], int]] = []
        for needs, weight in pods:
            amounts = [self._states.find_amounts(kind, need.shape) for need in needs]
            served = [found for found in amounts if found is not None]
            if len(served) == len(needs):
                peaks.append((tuple(map(max, zip(*served, strict=True))), weight))
        return peaks

    def _has_room(self, rooms: list[tuple[DeviceKind, list[int]]], needs: Iterable[Need]) -> bool:
        """Whether each need finds a companion with enough room; needs of one pod are looked at one by one."""
        for need in needs:
            amounts_of = self._amounts.get(id(need)) or self._read_amounts(need)
            for kind, room in rooms:
                amounts = amounts_of[kind]
                if amounts is not None and all(map(le, amounts, room)):
                    break
            else:
                return False
        return True

    def _read_amounts(self, need: Need) -> dict[DeviceKind, tuple[int, ...] | None]:
        """What the need takes of each companion, by the identity of the need, which the profile keeps alive."""
        amounts = {kind: self._states.find_amounts(kind, need.shape) for kind in self._companions}
        self._amounts[id(need)] = amounts
        return amounts

    def _count_fragments(self, state: NodeState) -> int:
        idle, spread = self._sum_idle(state)
        if not idle or not self._typical_total:
            return 0
        hosted = self._find_hosted(state)
        masks = [(self._find_served(kind, use), room, number) for kind, use, room, number in spread]
        for place, needed in self._several:
            if hosted >> place & 1 and sum(number for mask, _, number in masks if mask >> place & 1) < needed:
                hosted &= ~(1 << place)
        usable = sum(self._weigh(mask & hosted) * room * number for mask, room, number in masks)
        return (self._typical_total * idle - usable) // self._typical_total

    def _find_hosted(self, state: NodeState) -> int:
        """Which typical pods, one bit each, find on the node what they need besides the main device."""
        key = self._list_companions(state)
        known = self._hosted.get(key)
        if known is None:
            rooms = self._find_rooms(state, 0)
            known = self._hosted[key] = self._sum_hosted(rooms, self._hosts)
        return known

    def _find_served(self, kind: DeviceKind, use: Use) -> int:
        """Which typical pods, one bit each, can have the device."""
        known = self._served.get((kind, use))
        if known is None:
            known = self._served[kind, use] = _set_bits(
                pod.prime is not None and self._serves(kind, use, pod.prime) for pod in self._typical
            )
        return known

    def _weigh(self, mask: int) -> int:
        """How many typical pods the bits stand for."""
        known = self._weights.get(mask)
        if known is None:
            known = sum(pod.count for place, pod in enumerate(self._typical) if mask >> place & 1)
            self._weights[mask] = known
        return known

    def _sum_idle(self, state: NodeState) -> tuple[int, list[tuple[DeviceKind, Use, int, int]]]:
        """What lies idle of the main devices, and where: kind, use, room in thousandths, number of such devices."""
        counts: dict[tuple[DeviceKind, Use], int] = {}
        for pool in state.pools:
            for item in pool.items:
                if item[0] not in self._companions and not item[0].record.consumption:
                    counts[item] = counts.get(item, 0) + 1
        spread = [(kind, use, self.find_room(kind, use), number) for (kind, use), number in counts.items()]
        spread = [item for item in spread if item[2]]
        return sum(room * number for _, _, room, number in spread), spread

    def _serves(self, kind: DeviceKind, use: Use, need: Need) -> bool:
        amounts = self._states.find_amounts(kind, need.shape)
        if amounts is None:
            return False
        return not use or all(a + b <= total for a, b, total in zip(use, amounts, kind.totals, strict=True))

    def _find_companions(self, profile: DemandProfile) -> frozenset[DeviceKind]:
        """The kinds of which pods take less than of another device that they need as well, in most cases."""
        balance: dict[DeviceKind, int] = {}
        for pod, count in profile.pods:
            if len(pod) < 2:
                continue
            largest = max(pod, key=self._find_share)
            for need in pod:
                for kind in self._states.kinds:
                    if self._states.find_amounts(kind, need.shape) is not None:
                        balance[kind] = balance.get(kind, 0) + (count if need is not largest else -count)
        return frozenset(kind for kind, count in balance.items() if count > 0 and kind.shareable)

    def _find_share(self, need: Need) -> float:
        """Which share of a device the need takes, on the mean over the kinds that it accepts."""
        shares = []
        for kind in self._states.kinds:
            amounts = self._states.find_amounts(kind, need.shape)
            if amounts is not None:
                shares.append(_share(kind, amounts))
        return sum(shares) / len(shares) if shares else 0.0

    def _read(self, pod: TypicalPod, count: int) -> _Typical:
        main = [need for need in pod if any(self._accepts_main(need))]
        prime = max(main, key=self._find_share) if main else None
        return _Typical(prime, tuple(need for need in pod if need not in main), count)

    def _choose_typical(self, profile: DemandProfile, *, counts_rare: bool) -> tuple[_Typical, ...]:
        """The most frequent pods."""
        several = sum(pod.count for pod in self._pods if _wants_several(pod))
        typical = [self._read(pod, count) for pod, count in profile.keep_share(TYPICAL_PERCENT).pods]
        if counts_rare or several * 100 >= RARE_PERCENT * profile.total:
            return tuple(typical)
        return tuple(pod for pod in typical if not _wants_several(pod))

    def _accepts_main(self, need: Need) -> list[DeviceKind]:
        return [
            kind
            for kind in self._states.kinds
            if kind not in self._companions and self._states.find_amounts(kind, need.shape) is not None
        ]

    def _find_reserve(self) -> tuple[Need, ...]:
        """What the most frequent pod with one whole device needs besides."""
        found: dict[tuple[Need, ...], int] = {}
        for pod in self._pods:
            if pod.prime is not None and pod.prime.count == 1 and pod.beside:
                kind = next(iter(self._accepts_main(pod.prime)))
                if _share(kind, self._states.find_amounts(kind, pod.prime.shape) or ()) >= 1:
                    found[pod.beside] = found.get(pod.beside, 0) + pod.count
        return max(found, key=lambda needs: found[needs]) if found else ()

    def _find_value(self, kind: DeviceKind) -> _KindValue:
        known = self._values.get(kind)
        if known is None:
            known = self._values[kind] = self._value_kind(kind)
        return known

    def _value_kind(self, kind: DeviceKind) -> _KindValue:
        if not kind.shareable or not kind.totals:
            return _KindValue(-1)
        sizes: dict[int, dict[int, int]] = {}
        guests: dict[tuple[Need, ...], int] = {}
        for pod in self._pods:
            amounts = None if pod.prime is None else self._states.find_amounts(kind, pod.prime.shape)
            if pod.prime is None or amounts is None or kind in self._companions:
                continue
            main = _find_main(kind, amounts)
            if 0 < amounts[main] < kind.totals[main]:
                sizes.setdefault(main, {})
                sizes[main][amounts[main]] = sizes[main].get(amounts[main], 0) + pod.count * pod.prime.count
                guests[pod.beside] = guests.get(pod.beside, 0) + pod.count
        if not sizes:
            return _KindValue(0)
        main = max(sizes, key=lambda place: sum(sizes[place].values()))
        unit, values = _value_parts(sizes[main], kind.totals[main])
        return _KindValue(main, unit, values, tuple(guests.items()))

    def _price_kinds(self) -> dict[DeviceKind, int]:
        """How scarce kinds are: which part of the demand accepts some kinds only, against their part of the devices.

        It is spread over the kinds that are accepted; in hundredths, as if the demand filled the cluster once.
        """
        wanted: dict[DeviceKind, float] = {}
        total = 0.0
        everyone = {kind for pod in self._pods if pod.prime is not None for kind in self._accepts_main(pod.prime)}
        for pod in self._pods:
            accepted = self._accepts_main(pod.prime) if pod.prime is not None else []
            if pod.prime is None or not accepted:
                continue
            number = sum(kind.count for kind in accepted)
            for kind in accepted:
                share = _share(kind, self._states.find_amounts(kind, pod.prime.shape) or ())
                amount = pod.count * pod.prime.count * share * kind.count / max(1, number)
                total += amount
                if len(accepted) < len(everyone):
                    wanted[kind] = wanted.get(kind, 0.0) + amount
        devices = sum(kind.count for kind in everyone)
        return {
            kind: int(100 * amount * devices / (kind.count * total))
            for kind, amount in wanted.items()
            if kind.count and total
        }


def _wants_several(pod: _Typical) -> bool:
    return pod.prime is not None and pod.prime.count > 1


def _set_bits(answers: Iterable[bool]) -> int:
    return sum(1 << place for place, answer in enumerate(answers) if answer)


def _share(kind: DeviceKind, amounts: tuple[int, ...]) -> float:
    """Which share of a device is taken: 1 for one that is had as a whole."""
    if not kind.shareable:
        return 1.0
    return max((a / total for a, total in zip(amounts, kind.totals, strict=True) if total), default=0.0)


def _find_main(kind: DeviceKind, amounts: tuple[int, ...]) -> int:
    """The capacity of which most is taken."""
    shares = [a / total if total else 0.0 for a, total in zip(amounts, kind.totals, strict=True)]
    return shares.index(max(shares))


def _value_parts(sizes: dict[int, int], total: int) -> tuple[int, tuple[int, ...]]:
    """What room is worth: the unit in nano units, and the value of each number of units, in thousandths of a device."""
    unit = reduce(gcd, sizes, total)
    if total // unit > UNITS_MAX:
        unit = -(-total // UNITS_MAX)
    room, demand = total // unit, dict[int, int]()
    for size, count in sizes.items():
        units = min(room, -(-size // unit))
        demand[units] = demand.get(units, 0) + count
    values = value_rooms(find_dual_prices(demand, room), room)
    return unit, tuple([round(WHOLE * value) for value in values])

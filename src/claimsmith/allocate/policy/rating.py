"""How good a node is for a pod: the devices that a policy would choose there, and what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp
from typing import Final

from claimsmith.allocate.policy.nodestates import CLOSE_ATTRIBUTES, DeviceKind, NodeState, NodeStates, Place
from claimsmith.allocate.policy.objective import DeviceScale, Policy, Term
from claimsmith.allocate.policy.partitions import Losses, PartitionSizes, PartitionTotals, measure_loss
from claimsmith.allocate.policy.potential import WHOLE, Potential
from claimsmith.allocate.prepared.eligibility import RequestShape
from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan

__all__ = ["Rater", "Rating"]

REGRET_STEP: Final = 100
"""Regrets that differ by less, in thousandths of a device, are equal."""
FRAGMENTS_STEP: Final = 110
"""The same for fragments."""
REGRET: Final = 2
"""Place of the regret among the numbers of the term `fragmentation`."""

_RequestKey = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Rating:
    """What a pod costs on a node, the lower the better, and which devices it should get there.

    Args:
        cost: Compared lexicographically. The first number is 1 when the policy's choice did not work out, although
            each request finds enough devices; search may still find others.
        picks: The devices for each request, by the places of claim, request and alternative.
        after: The node's state then; None when the choice did not work out, or is not known.
        losses: Partitions that can no longer be had then; what that costs depends on the cluster, see `settle`.
        others: Further choices of devices on the node, which may be better when partitions are dear.
    """

    cost: tuple[int, ...]
    picks: Mapping[_RequestKey, tuple[Place, ...]]
    after: NodeState | None = None
    losses: Losses = ()
    others: tuple[Rating, ...] = ()

    @property
    def choices(self) -> tuple[Rating, ...]:
        """All choices of devices, one by one."""
        return (self, *self.others)


@dataclass(slots=True, eq=False)
class _Choice:
    """What was chosen for a pod on a node so far."""

    before: NodeState
    after: NodeState
    rank: int
    picks: dict[_RequestKey, tuple[Place, ...]]
    taken: list[tuple[DeviceKind, RequestShape]]


class Rater:
    """Rates nodes by a policy under one demand.

    Args:
        partitions: How many partitions of each size can be had, which says what it costs to lose some.
    """

    def __init__(
        self, policy: Policy, states: NodeStates, potential: Potential, partitions: PartitionTotals | None = None
    ) -> None:
        self._policy = policy
        self._levels = policy.levels()
        self._partitions = partitions or PartitionTotals(PartitionSizes())
        self._loss = _find_loss_place(self._levels)
        self._states = states
        self.potential = potential
        self._scale = DeviceScale.of(kind.record for kind in states.kinds)
        self._prices: dict[DeviceKind, int] = {}
        self._numbers: dict[object, int] = {}
        self._measures = {
            "rank": lambda choice: choice.rank,
            "waste": self._measure_waste,
            "pack": self._measure_pack,
            "tightness": lambda choice: self._sum_room(choice.after),
            "spread": lambda choice: -self._sum_room(choice.after),
            "closeness": self._measure_distance,
            "gradient": self._measure_gradient,
        }

    def settle(self, rating: Rating) -> Rating:
        """Return the best of a rating's choices of devices, with what losing partitions costs now."""
        if not rating.losses and not rating.others:
            return rating
        return min(map(self._charge, rating.choices), key=lambda choice: choice.cost)

    def _charge(self, rating: Rating) -> Rating:
        cost = self.charge(rating.cost, rating.losses)
        return rating if cost is rating.cost else Rating(cost, rating.picks, rating.after)

    def charge(self, cost: tuple[int, ...], losses: Losses) -> tuple[int, ...]:
        """Return the cost of a rating with what losing partitions costs now."""
        return self._add_loss(cost, losses, start=1)

    def rate_change(
        self, before: NodeState, after: NodeState, taken: Iterable[tuple[DeviceKind, RequestPlan]]
    ) -> Rating:
        """Return the rating of devices that somebody has: of the node's state with them, from that without them."""
        found = list(taken)
        rank = sum(item.alternative for item in {id(item): item for _, item in found}.values())
        choice = _Choice(before, after, rank, {}, [(kind, item.shape) for kind, item in found])
        losses = () if self._loss is None else self._find_losses(choice)
        return Rating((0, *self._find_cost(choice)), {}, after, losses)

    def _add_loss(self, cost: tuple[int, ...], losses: Losses, *, start: int) -> tuple[int, ...]:
        """Put the price of losses into a cost, of which `start` numbers come before the policy's terms."""
        if self._loss is None or not losses:
            return cost
        place, weight = self._loss
        loss = weight * measure_loss(losses, self._partitions.numbers)
        place += start
        return (*cost[:place], cost[place] + loss, *cost[place + 1 :])

    def number_plan(self, plan: PodPlan) -> int:
        """Return the number of pods that are rated alike: equal ones get equal numbers."""
        key = tuple([(item.claim, item.request, item.alternative, item.shape, item.count) for item in plan.requests])
        return self._numbers.setdefault(key, len(self._numbers))

    @property
    def plan_count(self) -> int:
        """How many pods that differ have got a number."""
        return len(self._numbers)

    def rate(self, plan: PodPlan, state: NodeState, number: int) -> Rating | None:
        """Return the rating; None when some request finds too few devices, whatever else is chosen.

        Args:
            number: Of the plan.
        """
        known = state.rated.get(number, self)
        if known is self:
            known = state.rated[number] = self._rate(plan, state)
        return known if isinstance(known, Rating) else None

    def _rate(self, plan: PodPlan, state: NodeState) -> Rating | None:
        requests, rank = self._choose_alternatives(plan, state)
        if requests is None:
            return None
        choice = _Choice(state, state, rank, {}, [])
        if self._loss is not None and len(requests) == 1 and requests[0][1].count == 1:
            return self._rate_options(choice, requests[0][1])
        for _, item in requests:
            if not self._choose_devices(choice, item):
                return Rating((1, *[0] * len(self._levels)), {})
        losses = () if self._loss is None else self._find_losses(choice)
        return Rating((0, *self._find_cost(choice)), choice.picks, choice.after, losses)

    def _rate_options(self, choice: _Choice, item: RequestPlan) -> Rating:
        """Rate each device that a pod for one device may get; without partitions only the best one is kept."""
        key = (item.claim, item.request, item.alternative)
        ratings: list[Rating] = []
        spots = {Place(p, kind, use): None for p, pool in enumerate(choice.before.pools) for kind, use in pool.items}
        for spot in spots:
            if self._fits(choice.before, spot, item.shape):
                tried = self._try(choice, spot, item.shape)
                cost, losses = (0, *self._find_cost(tried)), self._find_losses(tried)
                ratings.append(Rating(cost, {key: (spot,)}, tried.after, losses))
        ratings.sort(key=lambda rating: rating.cost)
        if not any(rating.losses for rating in ratings):
            return ratings[0]
        return replace(ratings[0], others=tuple(ratings[1:]))

    def _find_losses(self, choice: _Choice) -> Losses:
        return self._partitions.sizes.find_losses(choice.before, choice.after)

    def _choose_alternatives(self, plan: PodPlan, state: NodeState) -> tuple[list[tuple[int, RequestPlan]] | None, int]:
        """For each request the first alternative with enough devices, those with the least choice first."""
        chosen: list[tuple[int, RequestPlan]] = []
        rank = 0
        for claim in plan.claims:
            for group in claim.groups:
                for item in group.alternatives:
                    options = self._count_options(state, item)
                    if options:
                        chosen.append((options, item))
                        rank += item.alternative
                        break
                else:
                    return None, 0
        chosen.sort(key=lambda entry: entry[0])
        return chosen, rank

    def _count_options(self, state: NodeState, item: RequestPlan) -> int:
        """How many devices that differ the request may choose from; 0 when there are too few devices."""
        options, devices, last = 0, 0, None
        for pool in state.pools:
            for entry in pool.items:
                if entry != last:
                    last, fits = entry, self._states.fits(pool, entry, item.shape)
                    options += fits
                devices += fits
        return options if devices >= item.count else 0

    def _choose_devices(self, choice: _Choice, item: RequestPlan) -> bool:
        """Choose one device after the other, each the best one; False when none is left."""
        if item.count == 1:
            return self._choose_device(choice, item)
        start = choice.after
        free: dict[Place, int] = {}
        for place, pool in enumerate(start.pools):
            for kind, use in pool.items:
                spot = Place(place, kind, use)
                free[spot] = free.get(spot, 0) + 1
        picks: list[Place] = []
        for _ in range(item.count):
            options = [spot for spot, count in free.items() if count and self._fits(choice.after, spot, item.shape)]
            if not options:
                return False
            spot = options[0] if len(options) == 1 else self._find_best(choice, options, item.shape)
            choice.after = self._take(choice.after, spot, item.shape)
            choice.taken.append((spot.kind, item.shape))
            free[spot] -= 1
            picks.append(spot)
        choice.picks[item.claim, item.request, item.alternative] = tuple(picks)
        return True

    def _choose_device(self, choice: _Choice, item: RequestPlan) -> bool:
        """Choose the best device for a request that wants one; False when there is none."""
        options: list[Place] = []
        for place, pool in enumerate(choice.after.pools):
            last = None
            for entry in pool.items:
                if entry != last:
                    last = entry
                    if self._states.fits(pool, entry, item.shape):
                        options.append(Place(place, *entry))
        if not options:
            return False
        spot = options[0] if len(options) == 1 else self._find_best(choice, options, item.shape)
        choice.after = self._take(choice.after, spot, item.shape)
        choice.taken.append((spot.kind, item.shape))
        choice.picks[item.claim, item.request, item.alternative] = (spot,)
        return True

    def _fits(self, state: NodeState, spot: Place, shape: RequestShape) -> bool:
        return self._states.fits(state.pools[spot.pool], (spot.kind, spot.use), shape)

    def _take(self, state: NodeState, spot: Place, shape: RequestShape) -> NodeState:
        pools = list(state.pools)
        pools[spot.pool] = self._states.take(pools[spot.pool], (spot.kind, spot.use), shape)
        return self._states.join(tuple(pools))

    def _find_best(self, choice: _Choice, options: Iterable[Place], shape: RequestShape) -> Place:
        costs: list[tuple[tuple[int, ...], Place]] = []
        for spot in options:
            tried = self._try(choice, spot, shape)
            cost = self._find_cost(tried)
            if self._loss is not None:
                cost = self._add_loss(cost, self._find_losses(tried), start=0)
            costs.append((cost, spot))
        return min(costs, key=lambda entry: entry[0])[1]

    def _try(self, choice: _Choice, spot: Place, shape: RequestShape) -> _Choice:
        """Return the choice with one device more."""
        after = self._take(choice.after, spot, shape)
        return _Choice(choice.before, after, choice.rank, {}, [*choice.taken, (spot.kind, shape)])

    def _find_cost(self, choice: _Choice) -> tuple[int, ...]:
        cost: list[int] = []
        for level in self._levels:
            if len(level) == 1:
                cost.extend(self._measure(level[0][0], choice))
            else:
                cost.append(
                    sum(
                        weight * self._measure(term, choice)[REGRET if term == "fragmentation" else 0]
                        for term, weight in level
                    )
                )
        return tuple(cost)

    def _measure(self, term: Term, choice: _Choice) -> tuple[int, ...]:
        if term == "fragmentation":
            return self._measure_fragmentation(choice)
        return (self._measures[term](choice),)

    def _measure_fragmentation(self, choice: _Choice) -> tuple[int, ...]:
        """Place of what losing partitions costs, scarce devices, regret, scarcity, what the demand can't use."""
        before, after, potential = choice.before, choice.after, self.potential
        scarce = potential.count_scarce(choice.taken)
        regret = potential.value(before) - potential.value(after)
        scarcity = sum(potential.price(kind) for kind, _ in choice.taken)
        fragments = potential.fragments(after) - potential.fragments(before)
        return 0, scarce, (regret + REGRET_STEP // 2) // REGRET_STEP, scarcity, fragments // FRAGMENTS_STEP

    def _measure_waste(self, choice: _Choice) -> int:
        """The price of the devices, of shared ones in proportion to what is taken; companions cost nothing."""
        return sum(self._price(kind, shape) for kind, shape in choice.taken if not self.potential.is_companion(kind))

    def _price(self, kind: DeviceKind, shape: RequestShape) -> int:
        price = self._prices.get(kind)
        if price is None:
            price = self._prices[kind] = self._policy.price_device(kind.record, self._scale)
        amounts = self._states.find_amounts(kind, shape) or ()
        if not kind.shareable or not amounts:
            return price
        return max((price * a // total for a, total in zip(amounts, kind.totals, strict=True) if total), default=price)

    def _measure_pack(self, choice: _Choice) -> int:
        uses_main = any(not self.potential.is_companion(kind) for kind, _ in choice.taken)
        return int(uses_main and self.potential.is_idle(choice.before))

    def _sum_room(self, state: NodeState) -> int:
        known = state.rated.get("room")
        if not isinstance(known, int):
            find_room, is_companion = self.potential.find_room, self.potential.is_companion
            rooms = [find_room(kind, use) for pool in state.pools for kind, use in pool.items if not is_companion(kind)]
            known = state.rated["room"] = sum(rooms)
        return known

    def _measure_distance(self, choice: _Choice) -> int:
        """How many values too many the devices have of attributes that say where they are."""
        distance = 0
        for name in CLOSE_ATTRIBUTES:
            values = {
                attribute.value
                for kind, _ in choice.taken
                for key, attribute in kind.record.device.attributes.items()
                if key.rpartition("/")[2] == name
            }
            distance += max(0, len(values) - 1)
        return distance

    def _measure_gradient(self, choice: _Choice) -> int:
        """The score of FGD, whole percents of a sigmoid, the lower the better."""
        delta = self.potential.fragments(choice.before) - self.potential.fragments(choice.after)
        return -int(100 / (1 + exp(-delta / WHOLE)))


def _find_loss_place(levels: tuple[tuple[tuple[Term, int], ...], ...]) -> tuple[int, int] | None:
    """Where in a cost the loss of partitions counts, and how much; None when the policy does not look at it."""
    for place, level in enumerate(levels):
        for term, weight in level:
            if term == "fragmentation":
                return place, weight
    return None

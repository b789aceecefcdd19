"""The levels of the objective as sums over the variables of the model; each comes to what the objective measures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from claimsmith.allocate.cpsat.linear import Expression, add_up
from claimsmith.allocate.cpsat.model import Chosen, PlacementModel, Use
from claimsmith.allocate.cpsat.objective import Objective, find_places, is_local
from claimsmith.allocate.cpsat.offers import Cell
from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.cpsat.patterns import BatchKind
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.model.names import CounterId, PoolId

Consumption = tuple[tuple[CounterId, int], ...]

__all__ = ["Level", "express_levels", "find_traits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A cost to be made small.

    Args:
        expression: The sum.
        constant: What is added to it whatever is decided.
        places: The level counts members.
        full: The least that the sum can come to when all members are placed.
        variables, rows: How many of the model's, from the first on, this level and those before it need.
    """

    expression: Expression
    constant: int = 0
    places: bool = False
    full: int = 0
    variables: int
    rows: int


def find_traits(objective: Objective) -> Callable[[DeviceRecord], Hashable]:
    """Return what tells devices apart for the objective."""
    terms = set(objective.policy.terms)
    priced, close = bool(terms & {"waste", "fragmentation", "tightness"}), "closeness" in terms

    def read(record: DeviceRecord) -> Hashable:
        return (objective.price(record) if priced else 0, find_places(record) if close else ())

    return read


def express_levels(model: PlacementModel, objective: Objective, *, close: bool = True) -> list[Level]:
    """Return the levels of the objective, the most important first.

    Args:
        close: Whether claims of several devices are kept apart, so that it can be told how close their devices are;
            else the levels end before that.


    Members that the model does not place cost as much whether they can be placed or not.
    """
    levels = [_express_unplaced(model, priority) for priority in objective.priorities]
    for _, parts in objective.levels[len(levels) :]:
        if not close and any(term == "closeness" for term, _ in parts):
            break
        cost = add_up((_express(model, objective, term), weight) for term, weight in parts)
        full = sum(_find_least(model, objective, term) * weight for term, weight in parts)
        levels.append(_build_level(model, cost, full=full))
    return levels


def _build_level(model: PlacementModel, expression: Expression, *, full: int) -> Level:
    linear = model.linear
    return Level(expression=expression, full=full, variables=len(linear.upper), rows=len(linear.rows))


def _find_least(model: PlacementModel, objective: Objective, term: str) -> int:
    """Return the least that a term comes to when all members are placed, each where it costs least."""
    if term not in ("rank", "waste"):
        return 0
    least: dict[tuple[Part, int], dict[Cell, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for chosen in model.chosen:
        request = chosen.choice.request
        cost = request.alternative if term == "rank" else _find_cheapest(model, objective, chosen)
        requests = least[chosen.offer.part, chosen.cell.claim][chosen.cell]
        requests[request.request] = min(cost, requests.get(request.request, cost))
    return sum(part.count * min(sum(costs.values()) for costs in cells.values()) for (part, _), cells in least.items())


def _express(model: PlacementModel, objective: Objective, term: str) -> Expression:
    match term:
        case "rank":
            return add_up((chosen.expression, chosen.choice.request.alternative) for chosen in model.chosen)
        case "waste":
            return _express_waste(model, objective)
        case "fragmentation":
            return _express_fragmentation(model, objective)
        case "pack":
            return _express_opened(model, lambda node: int(objective.is_idle(node)))
        case "tightness":
            return _express_opened(model, objective.sum_room)
        case "spread":
            return _express_spread(model, objective)
        case _:
            return _express_closeness(model)


def _express_unplaced(model: PlacementModel, priority: int) -> Level:
    members = model.layout.members
    parts = [
        part for part in model.parts.values() if part.claim is None and members[part.members[0]].priority == priority
    ]
    placed = add_up((model.total(part), -1) for part in parts)
    count = sum(member.priority == priority for member in members)
    level = _build_level(model, placed, full=-sum(part.count for part in parts))
    return replace(level, places=True, constant=count)


def _express_waste(model: PlacementModel, objective: Objective) -> Expression:
    return add_up((use.expression, _price(use, objective)) for use in model.uses if not use.is_admin)


def _find_cheapest(model: PlacementModel, objective: Objective, chosen: Chosen) -> int:
    """The least price of the devices of an alternative, however many there are of the cheapest."""
    uses, choice = model.uses_of[chosen], chosen.choice
    if choice.request.shape.admin:
        return 0
    prices = [(_price(use, objective), use.kind.size) for use in uses]
    return sum(price * size for price, size in prices) if choice.fixed else choice.count * min(prices)[0]


def _price(use: Use, objective: Objective) -> int:
    record = use.kind.first
    return objective.price_share(record, use.nanos) if use.kind.shareable else objective.price(record)


def _express_fragmentation(model: PlacementModel, objective: Objective) -> Expression:
    """The price of free partitions that are taken, or that what is left of the counters doesn't admit any more."""
    pools: dict[PoolId, dict[BatchKind, list[Use]]] = defaultdict(lambda: defaultdict(list))
    for use in model.uses:
        if not use.is_admin and use.kind.first.consumption and not use.kind.first.use.shares:
            pools[use.kind.view.id][use.kind].append(use)
    return add_up((_express_pool(model, objective, kinds), 1) for kinds in pools.values())


def _express_pool(model: PlacementModel, objective: Objective, kinds: dict[BatchKind, list[Use]]) -> Expression:
    taken = {kind: _count_taken(model, kind, uses) for kind, uses in kinds.items()}
    kind_of = {record: kind for kind in kinds for record in kind.records}
    prices: dict[tuple[Consumption, BatchKind | None], int] = defaultdict(int)
    for record in objective.list_partitions(next(iter(kinds)).view):
        prices[record.consumption, kind_of.get(record)] += objective.price(record)
    lost = {consumption: _add_loss(model, consumption, taken) for consumption in {key[0] for key in prices}}
    parts: list[tuple[Expression, int]] = []
    for (consumption, kind), price in prices.items():
        if kind is None:
            parts.append(({lost[consumption]: 1}, price))
            continue
        gone = model.linear.add_variable(kind.size)
        model.linear.add_row(add_up([(taken[kind], 1), ({gone: 1}, -1)]), upper=0)
        model.linear.add_row({lost[consumption]: kind.size, gone: -1}, upper=0)
        parts.append(({gone: 1}, objective.price(kind.first)))
    return add_up(parts)


def _count_taken(model: PlacementModel, kind: BatchKind, uses: Iterable[Use]) -> Expression:
    """How many devices of the kind are taken; a device that gives shares counts once."""
    total = add_up((use.expression, 1) for use in uses)
    if not kind.shareable:
        return total
    return {_add_flag(model, total): 1}


def _add_loss(model: PlacementModel, consumption: Consumption, taken: dict[BatchKind, Expression]) -> int:
    """Return a variable that is 1 when what is left of some counter is too little for a device."""
    lost = model.linear.add_variable(1)
    left = model.layout.cluster.find_counters(next(iter(taken)).view).left
    for counter, nanos in consumption:
        drawn = [(amount, dict(kind.first.consumption).get(counter, 0)) for kind, amount in taken.items()]
        model.add_limit([*drawn, ({lost: 1}, -nanos)], left[counter] - nanos, f"counter {counter}")
    return lost


def _express_opened(model: PlacementModel, price: Callable[[str], int]) -> Expression:
    """The price of the nodes of which devices are taken.

    One row bounds all devices that are taken whole, which tells how many nodes are needed at least.
    """
    opened: dict[int, int] = {}
    for node, uses in _group_local(model.uses).items():
        if not price(node):
            continue
        flag = model.linear.add_variable(1)
        whole = [use for use in uses if not use.kind.shareable and not use.is_admin]
        rows = [[use] for use in uses if use not in whole]
        for its in (whole, *rows):
            total = add_up((use.expression, 1) for use in its)
            size = sum(kind.size for kind in {use.kind for use in whole})
            most = size if its is whole else model.linear.find_range(total)[1]
            model.linear.add_row({**total, flag: -most}, upper=0)
        opened[flag] = price(node)
    return opened


def _express_spread(model: PlacementModel, objective: Objective) -> Expression:
    """The growth of the squares of the numbers of devices in use: a line through each two neighbouring points."""
    costs = []
    for node, uses in _group_local(use for use in model.uses if not use.is_admin).items():
        load = add_up((use.expression, 1) for use in uses)
        most = min(model.linear.find_range(load)[1], sum({use.kind: _most(use.kind, uses) for use in uses}.values()))
        used = objective.count_used(node)
        cost = model.linear.add_variable(most * (most + 2 * used))
        for step in range(most):
            slope = 2 * step + 1 + 2 * used
            model.linear.add_row(add_up([(load, slope), ({cost: 1}, -1)]), upper=step * (step + 1))
        costs.append(cost)
    return dict.fromkeys(costs, 1)


def _most(kind: BatchKind, uses: Iterable[Use]) -> int:
    """How many times devices of the kind can be had at most."""
    return len(list(uses)) * 256 if kind.shareable else kind.size


def _express_closeness(model: PlacementModel) -> Expression:
    parts = [({cost: 1}, 1) for cost in _add_claim_costs(model)]
    parts += [({cost: 1}, 1) for cost in _add_gang_costs(model)]
    return add_up(parts)


def _add_claim_costs(model: PlacementModel) -> Iterable[int]:
    """For each claim and attribute how many values its devices have beyond the first."""
    values: dict[tuple[int, int, int], dict[str, list[Use]]] = defaultdict(lambda: defaultdict(list))
    for use in model.uses:
        if use.part.count == 1:
            for attribute, found in enumerate(find_places(use.kind.first)):
                for value in found:
                    values[use.part.number, use.chosen.cell.claim, attribute][value].append(use)
    for by_value in values.values():
        if len(by_value) > 1:
            totals = (add_up((use.expression, 1) for use in uses) for uses in by_value.values())
            flags = [_add_flag(model, total) for total in totals]
            yield _add_excess(model, flags)


def _add_gang_costs(model: PlacementModel) -> Iterable[int]:
    """For each gang how many values of its label its nodes have beyond the first."""
    for name in model.gangs:
        gang, places = model.layout.gangs[name]
        if not gang.close_by:
            continue
        by_value: dict[str | None, list[int]] = defaultdict(list)
        for part in model.parts.values():
            if part.claim is None and part.members[0] in places:
                for node, variable in model.placed[part.number].items():
                    by_value[model.layout.nodes[node].labels.get(gang.close_by)].append(variable)
        flags = [_add_flag(model, dict.fromkeys(variables, 1)) for variables in by_value.values()]
        if len(flags) > 1:
            yield _add_excess(model, flags)


def _add_flag(model: PlacementModel, total: Expression) -> int:
    """Return a variable that is 1 when the sum is not 0."""
    flag = model.linear.add_variable(1)
    model.linear.add_row({**total, flag: -model.linear.find_range(total)[1]}, upper=0)
    return flag


def _add_excess(model: PlacementModel, flags: list[int]) -> int:
    """Return a variable that is as many as the flags beyond the first."""
    cost = model.linear.add_variable(len(flags) - 1)
    model.linear.add_row({**dict.fromkeys(flags, 1), cost: -1}, upper=1)
    return cost


def _group_local(uses: Iterable[Use]) -> dict[str, list[Use]]:
    """The uses of devices that belong to their node alone, by node."""
    found: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        if is_local(use.kind.first, use.node):
            found[use.node].append(use)
    return found

"""The model of a batch: which part goes where, by which alternatives, and how many devices of each kind it takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.linear import Expression, LinearModel, add_up, scale
from claimsmith.allocate.cpsat.offers import Cell, Choice, Offer, find_elements
from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.cpsat.patterns import BatchKind
from claimsmith.model.claim import ALLOCATION_RESULTS_MAX

__all__ = ["Chosen", "PlacementModel", "Use", "build_placement"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """How often an alternative is chosen in a cell."""

    offer: Offer
    cell: Cell
    choice: Choice
    variable: int

    @property
    def expression(self) -> Expression:
        """The same as a sum."""
        return {self.variable: 1}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Use:
    """How many devices of a kind an alternative takes in a cell.

    Args:
        variable: Counts them; None when they follow from how often the alternative is chosen.
    """

    chosen: Chosen
    kind: BatchKind
    expression: Expression
    variable: int | None = None

    @property
    def part(self) -> Part:
        """Whose devices they are."""
        return self.chosen.offer.part

    @property
    def node(self) -> str:
        """The node on which they are used."""
        return self.chosen.offer.node

    @property
    def is_admin(self) -> bool:
        """Whether they are looked at by an administrator, so that they count for nobody else."""
        return self.chosen.choice.request.shape.admin

    @property
    def nanos(self) -> Mapping[str, int]:
        """What one share takes of each capacity, in nano units."""
        request = self.chosen.choice.request
        plan = self.kind.answers[self.node, request.shape, request.takes_all].plan
        return {} if plan is None else {name: amount for name, amount, _ in plan.nanos}


@dataclass(slots=True, eq=False, kw_only=True)
class PlacementModel:
    """Variables of the placement, and all that is taken by it.

    Args:
        parts: The parts that are offered something, by number.
        placed: How often a part is placed on each node, by its number.
        cells: How often a claim is served by a cell.
        narrowed: What the model forbids although it may be possible.
    """

    layout: Layout
    linear: LinearModel = field(default_factory=LinearModel)
    parts: dict[int, Part] = field(default_factory=dict)
    placed: dict[int, dict[str, int]] = field(default_factory=dict)
    cells: dict[Cell, int] = field(default_factory=dict)
    chosen: list[Chosen] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    uses_of: dict[Chosen, list[Use]] = field(default_factory=dict)
    gangs: dict[str, int] = field(default_factory=dict)
    narrowed: list[str] = field(default_factory=list)

    def add_use(self, use: Use) -> None:
        """Note that an alternative takes devices."""
        self.uses.append(use)
        self.uses_of.setdefault(use.chosen, []).append(use)

    def total(self, part: Part) -> Expression:
        """Return how often a part is placed on all nodes."""
        return dict.fromkeys(self.placed.get(part.number, {}).values(), 1)

    def add_limit(self, parts: Iterable[tuple[Expression, int]], limit: int, what: str) -> None:
        """Demand that amounts stay within a limit, all in one unit."""
        expression = add_up(parts)
        if not expression:
            return
        amounts, scaled, exact = scale(expression, limit)
        if not exact:
            self.narrowed.append(f"{what} in rounded amounts")
        self.linear.add_row(amounts, upper=scaled)


def build_placement(layout: Layout, offers: Iterable[Offer]) -> PlacementModel:
    """Return the model of placing parts on nodes, without the limits of devices."""
    model = PlacementModel(layout=layout)
    for offer in offers:
        model.parts[offer.part.number] = offer.part
        _add_offer(model, offer)
    uses: dict[Part, list[Use]] = {part: [] for part in model.parts.values()}
    for use in model.uses:
        uses[use.part].append(use)
    for part, mine in uses.items():
        model.linear.add_row(model.total(part), upper=part.count)
        _add_claim_limits(model, part, mine)
    _add_gangs(model)
    _add_room(model)
    return model


def _add_offer(model: PlacementModel, offer: Offer) -> None:
    placed = model.linear.add_variable(offer.part.count)
    model.placed.setdefault(offer.part.number, {})[offer.node] = placed
    for cells in offer.claims:
        if len(cells) == 1:
            model.cells[cells[0]] = placed
        else:
            model.cells.update((cell, model.linear.add_variable(offer.part.count)) for cell in cells)
            served = add_up(({model.cells[cell]: 1}, 1) for cell in cells)
            model.linear.add_row(served | {placed: -1}, lower=0, upper=0)
        for cell in cells:
            for group in cell.groups:
                _add_group(model, offer, cell, group)


def _add_group(model: PlacementModel, offer: Offer, cell: Cell, group: tuple[Choice, ...]) -> None:
    served, count = model.cells[cell], offer.part.count
    if len(group) == 1:
        _add_choice(model, Chosen(offer=offer, cell=cell, choice=group[0], variable=served))
        return
    variables = [model.linear.add_variable(count) for _ in group]
    model.linear.add_row(dict.fromkeys(variables, 1) | {served: -1}, lower=0, upper=0)
    for choice, variable in zip(group, variables, strict=True):
        _add_choice(model, Chosen(offer=offer, cell=cell, choice=choice, variable=variable))


def _add_choice(model: PlacementModel, chosen: Chosen) -> None:
    """Add what an alternative takes: every device, those of the one kind there is, or some of each kind."""
    choice, often = chosen.choice, chosen.offer.part.count
    model.chosen.append(chosen)
    if choice.fixed or len(choice.kinds) == 1:
        for kind in choice.kinds:
            each = kind.size if choice.fixed else choice.count
            taken = add_up([(chosen.expression, each)])
            model.add_use(Use(chosen=chosen, kind=kind, expression=taken))
        return
    total: dict[int, int] = {}
    for kind in choice.kinds:
        most = often if kind.shareable else min(kind.size, choice.count * often)
        variable = model.linear.add_variable(most)
        total[variable] = 1
        model.add_use(Use(chosen=chosen, kind=kind, expression={variable: 1}, variable=variable))
        if choice.count > 1:
            each = 1 if kind.shareable else min(kind.size, choice.count)
            model.linear.add_row(add_up([({variable: 1}, 1), (chosen.expression, -each)]), upper=0)
    model.linear.add_row(add_up([(total, 1), (chosen.expression, -choice.count)]), lower=0, upper=0)


def _add_claim_limits(model: PlacementModel, part: Part, uses: Iterable[Use]) -> None:
    """Demand what holds within one claim: values that differ, and the most devices that a claim can have."""
    for place, claim in enumerate(part.plan.claims):
        mine = [use for use in uses if use.chosen.cell.claim == place]
        for position, constraint in enumerate(claim.constraints):
            if constraint.kind == "distinct":
                _add_distinct(model, mine, position)
        most = sum(max(plan.count for plan in group.alternatives) for group in claim.groups if group.alternatives)
        if most > ALLOCATION_RESULTS_MAX or any(use.chosen.choice.fixed for use in mine):
            total = add_up((use.expression, 1) for use in mine)
            model.linear.add_row(total, upper=ALLOCATION_RESULTS_MAX * part.count)


def _add_distinct(model: PlacementModel, uses: Iterable[Use], position: int) -> None:
    by_value: dict[object, list[tuple[Expression, int]]] = defaultdict(list)
    for use in uses:
        request = use.chosen.choice.request
        if position in request.constraints:
            claim = use.part.plan.claims[request.claim]
            for element in find_elements(claim, request, use.kind, position):
                by_value[element].append((use.expression, 1))
    for same in by_value.values():
        model.linear.add_row(add_up(same), upper=1)


def _add_gangs(model: PlacementModel) -> None:
    members: dict[str, list[Part]] = defaultdict(list)
    for part in model.parts.values():
        gang = model.layout.members[part.members[0]].gang
        if gang and part.claim is None:
            members[gang].append(part)
    for name, its in members.items():
        runs = model.gangs[name] = model.linear.add_variable(1)
        least = model.layout.gangs[name][0].min_count
        everybody = add_up((model.total(part), 1) for part in its)
        model.linear.add_row(everybody | {runs: -least}, lower=0)
        for part in its:
            model.linear.add_row({**model.total(part), runs: -part.count}, upper=0)


def _add_room(model: PlacementModel) -> None:
    """Demand that nodes have room for what the members take besides devices."""
    free = model.layout.batch.free
    if free is None:
        return
    wanted: dict[tuple[str, str], list[tuple[Expression, int]]] = defaultdict(list)
    for part in model.parts.values():
        demand = {} if part.claim is not None else model.layout.members[part.members[0]].demand
        for node, variable in model.placed[part.number].items():
            for name, nanos in demand.items():
                if nanos > 0:
                    wanted[node, name].append(({variable: 1}, nanos))
    for (node, name), amounts in wanted.items():
        model.add_limit(amounts, free.get(node, {}).get(name, 0), f"{name} of node {node}")

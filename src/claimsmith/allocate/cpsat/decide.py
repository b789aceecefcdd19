"""Looks for an answer for a batch that is better than search's, and for the proof that none is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from claimsmith.allocate.batch import JointLimits
from claimsmith.allocate.cpsat.assignment import assign
from claimsmith.allocate.cpsat.hint import FirstFit, OneByOne, count_devices, list_units
from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.cpsat.ledger import BatchLedger
from claimsmith.allocate.cpsat.linear import LinearModel, evaluate
from claimsmith.allocate.cpsat.model import PlacementModel, build_placement
from claimsmith.allocate.cpsat.nodes import choose_nodes, preselect_nodes
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.offers import Offer, find_offer
from claimsmith.allocate.cpsat.parts import Part, find_parts, restrict
from claimsmith.allocate.cpsat.patterns import Patterns, find_patterns
from claimsmith.allocate.cpsat.realise import Realiser
from claimsmith.allocate.cpsat.resources import add_resources
from claimsmith.allocate.cpsat.sharing import add_sharing
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.cpsat.solver import Answer, solve_levels
from claimsmith.allocate.cpsat.terms import Level, express_levels, find_traits

__all__ = ["BatchModel", "Solved", "Solver", "model_batch", "solve_batch"]

VARIABLES_MAX: Final = 200_000
"""Variables above which a model is not tried."""

APART_MAX: Final = 2_000
"""Places (claims times nodes) above which equal claims of several devices are counted, however close their devices."""


class Solver(Protocol):
    """Finds values for the variables of a model."""

    def __call__(
        self, linear: LinearModel, levels: Sequence[Level], *, start: Sequence[int], effort: float, seed: int
    ) -> Answer:
        """Return the best values that were found, from a start on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchModel:
    """The model of a batch with its levels.

    Args:
        left_out: Places of members that it does not decide about, with the reason.
        narrowed: What it forbids although it may be possible; with any, it proves nothing.
    """

    placement: PlacementModel
    levels: tuple[Level, ...]
    left_out: dict[int, str] = field(default_factory=dict)
    narrowed: tuple[str, ...] = ()

    @property
    def linear(self) -> LinearModel:
        """Its variables and rows."""
        return self.placement.linear

    def measure(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return what each level comes to."""
        return tuple(evaluate(level.expression, values) for level in self.levels)

    def describe_gaps(self, layout: Layout) -> tuple[str, ...]:
        """Return what the model does not say about the batch."""
        left_out = (f"member {layout.members[place].name}: {why}" for place, why in sorted(self.left_out.items()))
        return (*left_out, *dict.fromkeys(self.narrowed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """What came of the solver.

    Args:
        solution: Its answer; None when it is no better than the one to start from, or of no use.
        bounds: The least cost of each level that is possible, as far as it is proven; ends after the first open one.
        problem: Why there is no answer although the solver gave one: a fault of the model; empty when there is none.
    """

    solution: Solution | None
    bounds: tuple[int, ...] = ()
    gaps: tuple[str, ...] = ()
    problem: str = ""
    effort: float = 0.0


def model_batch(
    layout: Layout, objective: Objective, *, preferred: frozenset[str] = frozenset(), nodes_max: int = 1 << 30
) -> BatchModel:
    """Return the model of a batch.

    Args:
        preferred: Nodes to keep where one of several equal ones is enough.
        nodes_max: Nodes that the model looks at.
    """
    apart = "closeness" in objective.policy.terms and _may_keep_apart(layout)
    found = find_parts(layout, apart=apart)
    parts, gaps = found.parts, list[str]()
    some = preselect_nodes(layout, parts, preferred=preferred)
    if some is not None:
        parts = tuple(restrict(part, some) for part in parts)
        gaps.append(f"{len(layout.nodes) - len(some)} of {len(layout.nodes)} nodes")
    patterns = find_patterns(layout, parts, traits=find_traits(objective))
    nodes, missing = choose_nodes(objective, parts, patterns, preferred=preferred, most=nodes_max)
    if missing:
        gaps.append(f"{missing} nodes that differ from all others")
    left_out = dict(found.left_out)
    offers: list[Offer] = []
    for part in parts:
        obstacle, its = _list_offers(patterns, restrict(part, nodes))
        if obstacle:
            left_out.update(dict.fromkeys(part.members, obstacle))
        offers += its
    left_out = _spread_gaps(layout, parts, left_out)
    placement = build_placement(layout, (offer for offer in offers if not left_out.keys() & set(offer.part.members)))
    add_resources(placement)
    add_sharing(placement)
    levels = tuple(express_levels(placement, objective, close=apart))
    narrowed = (*gaps, *placement.narrowed)
    return BatchModel(placement=placement, levels=levels, left_out=left_out, narrowed=narrowed)


def solve_batch(
    layout: Layout,
    objective: Objective,
    *,
    floor: Solution,
    limits: JointLimits,
    share_ids: Callable[[], str],
    solve: Solver = solve_levels,
) -> Solved:
    """Return the solver's answer for a batch, made real and checked.

    Args:
        floor: The answer to start from.
        solve: The solver; it is not trusted.
    """
    preferred = frozenset(placed.node for placed in floor.placed if placed is not None)
    batch = model_batch(layout, objective, preferred=preferred, nodes_max=limits.nodes_max)
    gaps = batch.describe_gaps(layout)
    if len(batch.linear.upper) > VARIABLES_MAX:
        return Solved(solution=None, gaps=(*gaps, f"a model of {len(batch.linear.upper)} variables"))
    start = assign(batch.placement, floor)
    if batch.linear.find_broken(start) is not None:
        start = batch.linear.complete({})
    answer = solve(
        batch.linear,
        batch.levels,
        start=start,
        effort=limits.solver_effort,
        seed=limits.seed,
    )
    bounds = tuple(bound + level.constant for bound, level in zip(answer.bounds, batch.levels, strict=False))
    solution, problem = None, ""
    if batch.measure(answer.values) != batch.measure(start) or batch.left_out:
        solution, problem = _realise(layout, batch, answer.values, limits=limits, share_ids=share_ids)
    if gaps:
        bounds = ()
    return Solved(solution=solution, bounds=bounds, gaps=gaps, problem=problem, effort=answer.effort)


def _may_keep_apart(layout: Layout) -> bool:
    """Whether there are so few places for claims of several devices that each can be looked at on its own."""
    return (
        sum(
            len(names)
            for member, names in zip(layout.members, layout.allowed, strict=True)
            if any(count_devices(claim) > 1 for claim in member.claims)
        )
        <= APART_MAX
    )


def _list_offers(patterns: Patterns, part: Part) -> tuple[str, list[Offer]]:
    """What the nodes offer to a part, or why the model can't tell."""
    obstacle, offers = patterns.obstacles.get(part.number, ""), []
    for node in part.nodes:
        offer = find_offer(patterns, part, node)
        if isinstance(offer, str):
            obstacle = obstacle or offer
        elif offer is not None:
            offers.append(offer)
    return obstacle, offers


def _spread_gaps(layout: Layout, parts: tuple[Part, ...], left_out: dict[int, str]) -> dict[int, str]:
    """Leave out whoever shares a claim or a gang with a member that is left out."""
    bonds = [set(part.members) for part in parts if part.claim is not None]
    bonds += [set(places) for _, places in layout.gangs.values()]
    found, grown = dict(left_out), True
    while grown:
        grown = False
        for bond in bonds:
            if bond & found.keys() and bond - found.keys():
                why = found[min(bond & found.keys())]
                found.update(dict.fromkeys(bond - found.keys(), why))
                grown = True
    return found


def _realise(
    layout: Layout,
    batch: BatchModel,
    values: tuple[int, ...],
    *,
    limits: JointLimits,
    share_ids: Callable[[], str],
) -> tuple[Solution | None, str]:
    """Allocate what the model chose, and search for devices for the members that it leaves out."""
    if batch.linear.find_broken(values) is not None:
        return None, "the solver's answer breaks the rows of its model"
    ledger = BatchLedger(layout)
    try:
        problem = Realiser(batch.placement, ledger, share_ids).realise(values)
        if problem:
            return None, problem
        units = [unit for unit in list_units(layout) if batch.left_out.keys() & set(unit)]
        OneByOne(layout, FirstFit(layout, limits.search, share_ids), ledger=ledger).extend(units)
        return ledger.conclude(), ""
    finally:
        ledger.undo(0)

"""The irreducible set of reasons on one node, as relaxations of which nothing more can be given up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from claimsmith.allocate.explain.case import ClauseBook, NodeCase, build_case
from claimsmith.allocate.explain.comparisons import Constant
from claimsmith.allocate.explain.oracle import BUDGET_STEPS, TOTAL_STEPS, Levels, Oracle
from claimsmith.allocate.explain.profiles import ProfileBook
from claimsmith.allocate.explain.relaxations import CLAIM_SOURCES, Relaxation, Source
from claimsmith.allocate.explain.shrink import shrink
from claimsmith.allocate.explain.supply import SUPPLY_SOURCES, find_uses
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.node import Node

__all__ = ["Asked", "FindVariants", "NodeFinding", "Variant", "find_reasons", "open_node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Nodes of a group that are alike in what a clause compares as well.

    Args:
        values: What it comes to for the devices of all of them, and for how many; only what a constant can be.
        reopen: Gives one of the nodes with the claims, to be solved.
    """

    nodes: tuple[str, ...]
    values: Mapping[Constant, int]
    reopen: Callable[[], NodeFinding]


FindVariants = Callable[[str], Sequence[Variant]]
"""Tells nodes of a group apart by what a part of a clause comes to for their devices, the largest variants first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFinding:
    """Why the claims don't fit on one node.

    Args:
        relaxations: All that could be relaxed.
        kept: What is enough to keep the claims from the node, with the pieces of each; empty when they fit, or when
            that could not be found out.
        fits: Whether the claims fit after all; None when the search gave up.
        is_irreducible: Whether it is known that with any one piece fewer the claims fit.
        find_variants: Tells apart the nodes for which the finding stands; None where it is for its own node alone.
    """

    case: NodeCase
    oracle: Oracle
    relaxations: tuple[Relaxation, ...]
    kept: Levels
    fits: bool | None
    is_irreducible: bool
    find_variants: FindVariants | None = None

    def relax(self, levels: Levels) -> AllocationProblem:
        """Return the problem made of these pieces alone: everything else is relaxed."""
        return self.oracle.draft({**dict.fromkeys(self.relaxations, 0), **levels}).build()


@dataclass(slots=True, eq=False)
class Asked:
    """What is asked about one set of claims, whatever the node.

    Args:
        sources: Further kinds of relaxations.
        budget_steps: Steps after which one search gives up.
        total_steps: Steps after which all searches about one node give up.
    """

    book: ClauseBook
    sources: tuple[Source, ...] = ()
    budget_steps: int = BUDGET_STEPS
    total_steps: int = TOTAL_STEPS
    should_stop: Callable[[], bool] | None = None
    profiles: ProfileBook = field(init=False)

    def __post_init__(self) -> None:
        self.profiles = ProfileBook(self.book)

    def list_relaxations(self, case: NodeCase) -> tuple[Relaxation, ...]:
        """Return everything that could be relaxed about a case."""
        sources: Iterable[Source] = (*CLAIM_SOURCES, *SUPPLY_SOURCES, *self.sources)
        found = [relaxation for source in sources for relaxation in source(case)]
        return (*found, *find_uses(case, self.profiles))


def find_reasons(asked: Asked, node: Node) -> NodeFinding:
    """Return an irreducible set of reasons on a node.

    Where an expression can only be judged as a whole, its clauses are not told apart.
    """
    finding = _find(asked, node)
    if finding.fits and not asked.book.whole:
        whole = replace(asked.book, whole=True)
        again = Asked(whole, asked.sources, asked.budget_steps, asked.total_steps, asked.should_stop)
        return _find(again, node)
    return finding


def open_node(asked: Asked, node: Node) -> NodeFinding:
    """Return a node with the claims, without looking for reasons: to be solved with changes."""
    case = build_case(asked.book, node)
    oracle = Oracle(case, asked.budget_steps, asked.total_steps, asked.should_stop)
    return NodeFinding(case=case, oracle=oracle, relaxations=(), kept={}, fits=None, is_irreducible=False)


def _find(asked: Asked, node: Node) -> NodeFinding:
    case = build_case(asked.book, node)
    oracle = Oracle(case, asked.budget_steps, asked.total_steps, asked.should_stop)
    relaxations = asked.list_relaxations(case)
    infeasible = oracle.is_infeasible(oracle.draft({}).build())
    if not infeasible:
        fits = None if infeasible is None or oracle.refused else True
        return NodeFinding(case=case, oracle=oracle, relaxations=relaxations, kept={}, fits=fits, is_irreducible=False)
    shrunk = shrink(relaxations, lambda levels: oracle.is_infeasible(oracle.draft(levels).build()))
    return NodeFinding(
        case=case,
        oracle=oracle,
        relaxations=relaxations,
        kept=shrunk.levels,
        fits=False,
        is_irreducible=shrunk.is_irreducible,
    )

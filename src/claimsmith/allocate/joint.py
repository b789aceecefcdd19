"""Decides for a batch of pods at once: which of them get devices, on which nodes, and which devices.

The answer is never worse than that of deciding one by one. With the extra `[solver]` CP-SAT looks for a better one and
proves how good it is; without it, and for what the model can't express, search decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from claimsmith.allocate.batch import Batch, Gang, JointDecision, JointLimits, Member
from claimsmith.allocate.cpsat.closing import close_nodes
from claimsmith.allocate.cpsat.decide import Solved, solve_batch
from claimsmith.allocate.cpsat.hint import search_batch
from claimsmith.allocate.cpsat.layout import Layout, lay_out
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.cpsat.solver import is_installed
from claimsmith.allocate.policy.objective import PACK, Policy
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.node import Node

__all__ = ["Batch", "Gang", "JointDecision", "JointLimits", "Member", "allocate_jointly"]


def allocate_jointly(
    cluster: PreparedCluster,
    batch: Batch,
    *,
    nodes: Iterable[Node],
    share_ids: Callable[[], str],
    policy: Policy = PACK,
    limits: JointLimits | None = None,
) -> JointDecision:
    """Return a decision for each member of the batch, the best one that is found for all of them together.

    The cluster is as before when it returns: nothing is held for the members.

    Args:
        cluster: The cluster as it stands; the claims of the batch that are allocated must be counted in it.
        nodes: In order of preference among equals.
        share_ids: Gives a new uid for each share of a device that allows several allocations.
    """
    limits = limits or JointLimits()
    layout = lay_out(cluster, batch, nodes)
    objective = Objective.of(layout, policy)
    floor = search_batch(layout, objective, limits=limits.search, share_ids=share_ids)
    reason = _find_reason(limits)
    if reason:
        floor = close_nodes(layout, objective, floor, limits=limits.search, share_ids=share_ids)
        return _conclude(layout, objective, floor, Solved(solution=None), reason=reason)
    solved = solve_batch(layout, objective, floor=floor, limits=limits, share_ids=share_ids)
    return _conclude(layout, objective, floor, solved)


def _find_reason(limits: JointLimits) -> str:
    """Why the solver is not asked; empty when it is."""
    if limits.solver_effort <= 0:
        return "the limits leave the solver no effort"
    if not is_installed():
        return "the solver is not installed; install claimsmith[solver]"
    return ""


def _conclude(
    layout: Layout, objective: Objective, floor: Solution, solved: Solved, *, reason: str = ""
) -> JointDecision:
    """Return the better of the two answers, with what is known about it."""
    costs, best, found = objective.measure(floor), floor, False
    if solved.solution is not None:
        theirs = objective.measure(solved.solution)
        if theirs < costs:
            costs, best, found = theirs, solved.solution, True
    optimal = bool(solved.bounds) and solved.bounds == costs
    decided = found or optimal
    if not decided and not reason:
        reason = solved.problem or "the solver found nothing better, and did not prove that there is nothing"
    return JointDecision(
        decisions=best.decisions(layout),
        status="optimal" if optimal else "searched" if not solved.bounds and not found else "feasible",
        objective=objective.describe(costs),
        bound=objective.describe(solved.bounds),
        decided_by="cpsat" if decided else "search",
        reason="" if decided else reason,
        unmodelled=solved.gaps,
        fallbacks=int(bool(solved.problem)),
        solver_effort=solved.effort,
    )

"""Decides for a batch of pods at once: which of them get devices, on which nodes, and which devices.

The answer is never worse than that of deciding one by one. With the extra `[solver]` CP-SAT looks for a better one and
proves how good it is; without it, and for what the model can't express, search decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from claimsmith.allocate.batch import Batch, Gang, JointDecision, JointLimits, Member
from claimsmith.allocate.cpsat.hint import search_batch
from claimsmith.allocate.cpsat.layout import lay_out
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.index import PreparedCluster
from claimsmith.allocate.objective import PACK, Policy
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
    found = search_batch(layout, objective, limits=limits.search, share_ids=share_ids)
    return JointDecision(
        decisions=found.decisions(layout),
        status="searched",
        objective=objective.describe(objective.measure(found)),
        reason="no solver is used",
    )

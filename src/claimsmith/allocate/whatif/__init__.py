"""What would be: changes of a cluster as values, and the questions that people ask of the cluster after them."""

from __future__ import annotations

from claimsmith.allocate.whatif.changes import Change, NodeTemplate, change_snapshot
from claimsmith.allocate.whatif.draining import DrainOutcome, drain_nodes
from claimsmith.allocate.whatif.fitting import FitCount, count_fitting
from claimsmith.allocate.whatif.nodes import NodePurchase, find_cheapest_nodes

__all__ = [
    "Change",
    "DrainOutcome",
    "FitCount",
    "NodePurchase",
    "NodeTemplate",
    "change_snapshot",
    "count_fitting",
    "drain_nodes",
    "find_cheapest_nodes",
]

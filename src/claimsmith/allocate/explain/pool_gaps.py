"""Why a pool gives no devices at all, in the words that all explanations use."""

from __future__ import annotations

from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.model.decision import ReasonKind
from claimsmith.model.names import PoolId

__all__ = ["describe_obsolete", "find_pool_gap"]


def find_pool_gap(pool: PoolView) -> tuple[ReasonKind, str] | None:
    """Return the kind of reason and a sentence; None when the pool gives devices."""
    where = f"pool {pool.id} generation {pool.generation}"
    if pool.incomplete:
        return "pool-incomplete", f"{where}: {pool.found} of {pool.expected} slices"
    return ("pool-invalid", f"{where}: {pool.invalid}") if pool.invalid else None


def describe_obsolete(pool: PoolId | str) -> str:
    """Return the sentence for a pool of which a node has older slices alone."""
    return f"pool {pool}: its slices for this node are older than the newest generation"

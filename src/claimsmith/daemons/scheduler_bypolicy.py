"""Pods placed by a policy: the best node and the best devices among those that can take them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from claimsmith.allocate.policy.objective import Policy
from claimsmith.allocate.policy.placing import Placer
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision
from claimsmith.model.node import Node
from claimsmith.model.workload import Pod
from claimsmith.schedule.claims import make_share_id

__all__ = ["PolicyPlacer"]

_LIMITS: Final = SearchLimits(budget_steps=100_000)
_SEEN_MAX: Final = 16_384
"""Pods that are remembered as counted for the demand."""


class PolicyPlacer:
    """Places pods one after the other by one policy, and learns what pods ask for.

    Args:
        cluster: The allocator's view, which follows the cache.
        policy: What counts.
    """

    def __init__(self, cluster: PreparedCluster, policy: Policy) -> None:
        self._placer = Placer(cluster, policy)
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._nodes: tuple[Node, ...] = ()

    def place(
        self,
        pod: Pod,
        claims: Sequence[ResourceClaim],
        *,
        nodes: Mapping[str, Node],
        all_nodes: Mapping[str, Node],
        fits: Callable[[Allocation], bool],
    ) -> Decision:
        """Return the best node and devices for the claims of a pod (see `Placer.place`).

        Args:
            pod: The pod, which counts once for the demand.
            claims: Its claims without allocation.
            nodes: Those that can take it, by name.
            all_nodes: All nodes, which settle the order of equal ones.
            fits: Tells whether a node has room for what the devices take of it besides.
        """
        if pod.uid not in self._seen:
            self._seen[pod.uid] = None
            self._placer.observe(claims)
            if len(self._seen) > _SEEN_MAX:
                self._seen.popitem(last=False)
        return self._placer.place(
            claims, nodes=self._order(nodes, all_nodes), share_ids=make_share_id, limits=_LIMITS, fits=fits
        )

    def _order(self, nodes: Mapping[str, Node], all_nodes: Mapping[str, Node]) -> tuple[Node, ...]:
        """The nodes in an order that stays; the same tuple while they are the same, so that they are ranked once."""
        ordered = tuple(node for name, node in all_nodes.items() if name in nodes)
        known = self._nodes
        if len(known) != len(ordered) or any(one is not other for one, other in zip(known, ordered, strict=True)):
            self._nodes = ordered
        return self._nodes

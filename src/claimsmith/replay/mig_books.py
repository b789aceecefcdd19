"""Who holds which partition, apart from the allocator's own books; every allocation is checked against them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from claimsmith.allocate.policy.moves import Holder
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.errors import ReplayError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.features import Features
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.replay.mig_rules import Board, Held

__all__ = ["Books"]


class Books:
    """The claims that hold partitions.

    Args:
        snapshot: The boards, one to a node.

    Attributes:
        nodes: The nodes by name.
        board: What all boards have in common.
        held: Names of the devices in use, by node.
        verified: Number of allocations that were checked.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot, self._features = snapshot, Features()
        self.nodes: dict[str, Node] = dict(snapshot.nodes)
        self._slices: dict[str, tuple[ResourceSlice, ...]] = dict.fromkeys(self.nodes, ())
        for item in snapshot.slices:
            self._slices[str(item.node_name)] += (item,)
        self.board = Board.of(next(iter(self._slices.values())))
        self.held: dict[str, Held] = dict.fromkeys(self.nodes, frozenset())
        self._claims: dict[ClaimRef, tuple[ResourceClaim, str]] = {}
        self._on: dict[str, dict[ClaimRef, ResourceClaim]] = {name: {} for name in self.nodes}
        self.verified = 0

    def add(self, claim: ResourceClaim, decision: Allocation) -> ResourceClaim:
        """Return the claim with its allocation, which is checked and counted.

        Raises:
            ReplayError: The allocation breaks a rule.
        """
        node, (result,) = decision.node, decision.results
        case = VerifyCase(
            node=self.nodes[node],
            claims=(claim,),
            slices=self._slices[node],
            classes=self._snapshot.classes,
            allocated=tuple(self._on[node].values()),
            features=self._features,
        )
        self.verified += 1
        for violation in verify_allocation(case, (result,)):
            raise ReplayError(f"claim {claim.ref}: its allocation breaks a rule: {violation}")
        allocated = replace(claim, allocation=result)
        self._claims[claim.ref] = allocated, node
        self._on[node][claim.ref] = allocated
        self._count(node)
        return allocated

    def remove(self, ref: ClaimRef) -> ResourceClaim:
        """Return the claim with what it held until now."""
        claim, node = self._claims.pop(ref)
        del self._on[node][ref]
        self._count(node)
        return claim

    def list_holders(self) -> Iterator[Holder]:
        """Yield who holds partitions, the oldest first on each node."""
        for node, claims in self._on.items():
            for claim in claims.values():
                yield Holder(claim=claim, node=node)

    def _count(self, node: str) -> None:
        self.held[node] = frozenset(
            result.device
            for claim in self._on[node].values()
            if claim.allocation is not None
            for result in claim.allocation.results
        )

"""A batch laid out for deciding: which claims are to be allocated, who has them, and where each member may go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from claimsmith.allocate.batch import Batch, Gang, Member
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.model.claim import AllocationResult
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node

__all__ = ["Layout", "has_room", "lay_out", "reaches"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """The batch with what follows from it at once.

    Args:
        nodes: By name, in order of preference.
        allowed: For each member the names of the nodes that it may go to, in order of preference.
        users: Places of the members that have a claim which is to be allocated, by the claim.
        gangs: By name, each with the places of its members.
    """

    cluster: PreparedCluster
    batch: Batch
    nodes: Mapping[str, Node]
    allowed: tuple[tuple[str, ...], ...]
    users: Mapping[ClaimRef, tuple[int, ...]]
    gangs: Mapping[str, tuple[Gang, tuple[int, ...]]]

    @property
    def members(self) -> tuple[Member, ...]:
        """The members in the order of the batch."""
        return self.batch.members


def lay_out(cluster: PreparedCluster, batch: Batch, nodes: Iterable[Node]) -> Layout:
    """Return the batch laid out on the nodes."""
    by_name = {node.name: node for node in nodes}
    users: dict[ClaimRef, list[int]] = {}
    for place, member in enumerate(batch.members):
        for ref in dict.fromkeys(claim.ref for claim in member.claims if claim.allocation is None):
            users.setdefault(ref, []).append(place)
    return Layout(
        cluster=cluster,
        batch=batch,
        nodes=by_name,
        allowed=tuple(tuple(_find_allowed(batch, member, by_name)) for member in batch.members),
        users={ref: tuple(places) for ref, places in users.items()},
        gangs={
            gang.name: (gang, tuple(place for place, member in enumerate(batch.members) if member.gang == gang.name))
            for gang in batch.gangs
        },
    )


def has_room(batch: Batch, node: str, demand: Mapping[str, int], *, taken: Mapping[str, int]) -> bool:
    """Tell whether a node has room for a demand besides what the batch has taken of it; all in nano units."""
    if batch.free is None:
        return True
    free = batch.free.get(node, {})
    return all(nanos <= free.get(name, 0) - taken.get(name, 0) for name, nanos in demand.items() if nanos > 0)


def reaches(allocation: AllocationResult, node: Node) -> bool:
    """Tell whether an allocated claim can be used on a node."""
    return allocation.node_selector is None or matches_node(allocation.node_selector, node)


def _find_allowed(batch: Batch, member: Member, nodes: Mapping[str, Node]) -> Iterator[str]:
    """The nodes that the member's own conditions, its allocated claims and the free room leave to it."""
    allocations = [claim.allocation for claim in member.claims if claim.allocation is not None]
    for name, node in nodes.items():
        if member.nodes is not None and name not in member.nodes:
            continue
        if all(reaches(allocation, node) for allocation in allocations) and has_room(
            batch, name, member.demand, taken={}
        ):
            yield name

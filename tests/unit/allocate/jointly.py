"""Short ways to ask for joint allocations in tests; every answer is checked independently, member by member."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from claimsmith.allocate.batch import Batch, JointDecision, Member
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.names import ClaimRef
from claimsmith.model.node import Node

__all__ = ["check_jointly", "list_devices"]


def list_devices(decision: JointDecision) -> dict[str, list[str]]:
    """Return for each member the devices that it has, `node: device, …` as one text each."""
    return {
        name: [item.device for part in found.results for item in part.results]
        for name, found in decision.decisions.items()
        if isinstance(found, Allocation)
    }


def check_jointly(cluster: PreparedCluster, batch: Batch, decision: JointDecision, *, nodes: Iterable[Node]) -> None:
    """Replay the answer: gangs, nodes and room, claims that are shared, and each allocation by the checker.

    Raises:
        AssertionError: The answer breaks a rule, or there is no order in which its allocations can be made.
    """
    by_name = {node.name: node for node in nodes}
    placed = {m.name: found for m in batch.members if isinstance(found := decision.decisions[m.name], Allocation)}
    if decision.decisions.keys() != {member.name for member in batch.members}:
        raise AssertionError("not every member has a decision")
    _check_gangs(batch, placed)
    _check_room(batch, placed)
    known: dict[ClaimRef, ResourceClaim] = {}
    waiting = [member for member in batch.members if member.name in placed]
    for member in waiting:
        if member.nodes is not None and placed[member.name].node not in member.nodes:
            raise AssertionError(f"{member.name} is on node {placed[member.name].node}")
    while waiting:
        done = [m for m in waiting if _allocate(cluster, m, placed[m.name], by_name[placed[m.name].node], known)]
        if not done:
            raise AssertionError(
                f"{waiting[0].name} can't be allocated: {_explain(cluster, waiting[0], placed, known)}"
            )
        waiting = [member for member in waiting if member not in done]


def _check_gangs(batch: Batch, placed: Mapping[str, Allocation]) -> None:
    counts = Counter(member.gang for member in batch.members if member.name in placed)
    for gang in batch.gangs:
        if 0 < counts[gang.name] < gang.min_count:
            raise AssertionError(f"gang {gang.name} has {counts[gang.name]} members of {gang.min_count}")


def _check_room(batch: Batch, placed: Mapping[str, Allocation]) -> None:
    if batch.free is None:
        return
    taken: Counter[tuple[str, str]] = Counter()
    for member in batch.members:
        if member.name in placed:
            taken.update({(placed[member.name].node, name): nanos for name, nanos in member.demand.items()})
    for (node, name), nanos in taken.items():
        if nanos > batch.free.get(node, {}).get(name, 0):
            raise AssertionError(f"{nanos} of {name} on node {node}")


def _allocate(
    cluster: PreparedCluster, member: Member, found: Allocation, node: Node, known: dict[ClaimRef, ResourceClaim]
) -> bool:
    """Count the member's claims when they can be allocated beside the known ones."""
    if _find_broken(cluster, member, found, node, known):
        return False
    for claim, result in zip(member.claims, found.results, strict=True):
        if claim.allocation is None:
            known[claim.ref] = replace(claim, allocation=result)
    return True


def _find_broken(
    cluster: PreparedCluster,
    member: Member,
    found: Allocation,
    node: Node,
    known: Mapping[ClaimRef, ResourceClaim],
) -> list[str]:
    broken: list[str] = []
    wanted: dict[ClaimRef, tuple[ResourceClaim, AllocationResult]] = {}
    for claim, result in zip(member.claims, found.results, strict=True):
        had = claim.allocation or (known[claim.ref].allocation if claim.ref in known else None)
        if had is None:
            wanted[claim.ref] = (claim, result)
        elif had != result:
            broken.append(f"claim {claim.ref} has two allocations")
        elif had.node_selector is not None and not matches_node(had.node_selector, node):
            broken.append(f"claim {claim.ref} is not to be used on node {node.name}")
    case = VerifyCase(
        node=node,
        claims=tuple(claim for claim, _ in wanted.values()),
        slices=cluster.find_node_slices(node),
        classes=cluster.classes,
        allocated=tuple(known.values()),
        taken=frozenset(device for device, use in cluster.uses.items() if use.dedicated),
        shared={device: use.consumed for device, use in cluster.uses.items() if use.shares},
        features=cluster.features,
        deviations=cluster.deviations,
        history=cluster.history,
    )
    broken += [str(item) for item in verify_allocation(case, [result for _, result in wanted.values()])]
    return broken


def _explain(
    cluster: PreparedCluster, member: Member, placed: Mapping[str, Allocation], known: Mapping[ClaimRef, ResourceClaim]
) -> str:
    found = placed[member.name]
    node = Node(metadata=replace(member.claims[0].metadata, name=found.node)) if member.claims else None
    return "; ".join(_find_broken(cluster, member, found, node, known)) if node else "it has no claims"

"""Which changes in a cluster can help a pod that got no node: pure."""

from __future__ import annotations

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.node import Node
from claimsmith.model.workload import Pod
from claimsmith.schedule.queue import Change

__all__ = ["find_claim_change", "find_node_change", "find_pod_change"]


def find_claim_change(old: ResourceClaim | None, new: ResourceClaim | None) -> Change:
    """Return what a change of a claim means: `claim-freed` when devices came free, else `claim`."""
    claim = new if new is not None else old
    key = "" if claim is None else str(claim.ref)
    held = old is not None and old.allocation is not None
    holds = new is not None and new.allocation is not None
    return Change("claim-freed" if held and not holds else "claim", key)


def find_node_change(old: Node | None, new: Node | None) -> Change | None:
    """Return the change of a node; None for what can't help, such as a heartbeat or a node that goes."""
    if new is None:
        return None
    if old is not None and _offer(old) == _offer(new):
        return None
    return Change("node", new.name)


def find_pod_change(old: Pod | None, new: Pod | None) -> Change | None:
    """Return `pod-freed` when a pod leaves room on a node; None for other changes."""
    had = old is not None and old.node_name and not old.finished
    has = new is not None and new.node_name and not new.finished
    if old is not None and had and not has:
        return Change("pod-freed", old.node_name)
    return None


def _offer(node: Node) -> tuple[object, ...]:
    return (
        node.ready,
        node.unschedulable,
        node.taints,
        node.allocatable,
        node.labels,
        node.declared_features,
        node.metadata.deletion_timestamp,
    )

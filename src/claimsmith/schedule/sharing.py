"""Pods that share a claim whose devices belong to one node: whether any node has room for all of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.quantity import Quantity, QuantityFormat
from claimsmith.model.workload import Pod
from claimsmith.schedule.usage import NodeUsage, plan_requests

__all__ = ["describe_shortage", "find_roomy_nodes", "sum_requests"]

_DECIMAL: Final = QuantityFormat.DECIMAL_SI
_BINARY: Final = QuantityFormat.BINARY_SI


def sum_requests(pods: Iterable[Pod]) -> dict[str, int]:
    """Return what pods take of a node together, in thousandths by resource name."""
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(plan_requests(pod))
    return dict(total)


def find_roomy_nodes(wanted: Mapping[str, int], usages: Mapping[str, NodeUsage]) -> frozenset[str]:
    """Return the nodes that have room for the wanted amounts, in thousandths."""
    return frozenset(name for name, usage in usages.items() if not usage.find_missing(wanted))


def describe_shortage(claim: ResourceClaim, pods: Sequence[Pod], usages: Mapping[str, NodeUsage]) -> str:
    """Return which amount no node offers to all pods of a claim; empty when none is short on every node without room.

    Args:
        claim: What the pods share.
        pods: The pods, which must go to one node.
        usages: The nodes that could take one of them, by name.
    """
    wanted = sum_requests(pods)
    roomy = find_roomy_nodes(wanted, usages)
    short = Counter(name for node, usage in usages.items() if node not in roomy for name in usage.find_missing(wanted))
    if not short:
        return ""
    scarce = max(sorted(short), key=lambda name: short[name])
    parts = (part for request in claim.spec.requests for part in request.alternatives)
    kind = " or ".join(dict.fromkeys(part.device_class for part in parts)) or "device"
    names = ", ".join(pod.ref.name for pod in pods)
    amount = Quantity(nanos=wanted[scarce] * 1_000_000, format=_DECIMAL if scarce in ("cpu", "pods") else _BINARY)
    return f"pods {names} share claim {claim.ref}: no node offers {amount} {scarce} next to a free {kind}"

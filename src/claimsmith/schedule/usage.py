"""What pods take from nodes besides devices: cpu, memory, pods and whatever else nodes offer in amounts.

Source: PodRequests in k8s.io/component-helpers v0.37.2 resource/helpers.go; NodeInfo of kube-scheduler v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.model.node import Node
from claimsmith.model.quantity import Quantity, QuantityFormat, format_milli
from claimsmith.model.workload import Container, NodeAllocatableClaim, Pod

__all__ = ["NodeUsage", "UsageIndex", "plan_aggregate", "plan_requests"]

_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"

Amounts = dict[str, int]
"""Amounts by resource name, in thousandths."""


def plan_requests(pod: Pod) -> Amounts:
    """Return what a pod takes from its node, in thousandths by resource name; each pod takes one of `pods`.

    Requests of the pod as a whole replace those of its containers and devices, for cpu, memory and huge pages.
    """
    running = plan_aggregate(pod)
    for name, amount in pod.limits.items():
        if _is_pod_level(name) and name not in pod.requests:
            running.setdefault(name, amount.milli_value())
    for name, amount in pod.requests.items():
        if _is_pod_level(name):
            running[name] = amount.milli_value()
    _add(running, {name: amount.milli_value() for name, amount in pod.overhead.items()})
    running["pods"] = 1000
    return running


def plan_aggregate(pod: Pod) -> Amounts:
    """Return what a pod's containers and the devices of its claims take together, in thousandths by resource name.

    Init containers run one after another before the others, sidecars stay: the larger of the two phases counts. What
    devices take of the node's resources comes on top of both.

    Source: AggregateContainerRequests, addDRANodeAllocatableClaimResources.
    """
    running: Amounts = {}
    starting: Amounts = {}
    for container in pod.init_containers:
        needs = _requests(container)
        if container.restart_policy == "Always":
            _add(running, needs)
            _raise(starting, running)
        else:
            _raise(starting, _sum(running, needs))
    for container in pod.containers:
        _add(running, _requests(container))
    _raise(running, starting)
    for claim in pod.node_allocatable:
        _add(running, _taken_by(claim))
    return running


def _taken_by(claim: NodeAllocatableClaim) -> Amounts:
    taken = {name: amount.milli_value() for name, amount in claim.mapping.items()}
    for name, overhead in claim.overhead.items():
        if overhead.per_pod is not None:
            _add(taken, {name: overhead.per_pod.milli_value()})
        if overhead.per_container is not None:
            _add(taken, {name: overhead.per_container.milli_value() * len(claim.containers)})
    return taken


def _is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or name.startswith(_HUGE_PAGES)


def _requests(container: Container) -> Amounts:
    """Requests of a container; a limit without a request is a request, as the API server defaults it."""
    wanted = {**container.limits, **container.requests}
    return {name: amount.milli_value() for name, amount in wanted.items()}


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _sum(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    total = dict(left)
    _add(total, right)
    return total


def _raise(total: Amounts, least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


@dataclass(slots=True)
class NodeUsage:
    """What a node offers and what its pods take together, in thousandths by resource name.

    Args:
        offered: Allocatable amounts; empty when the node reports none at all, and is then not judged by them.
        amounts: What the pods take.
    """

    offered: Mapping[str, int] = field(default_factory=dict)
    amounts: Amounts = field(default_factory=dict)

    def find_missing(self, wanted: Mapping[str, int]) -> tuple[str, ...]:
        """Return the resources of which the node has too little left for the wanted amounts, in order of name.

        A resource that the node does not offer counts as zero, but for `pods`, which then has no limit.
        """
        offered, amounts = self.offered, self.amounts
        if not offered:
            return ()
        missing = [
            name
            for name, amount in wanted.items()
            if amount > 0
            and amount + amounts.get(name, 0) > offered.get(name, 0)
            and (name != "pods" or name in offered)
        ]
        return tuple(sorted(missing))

    def describe_shortage(self, name: str, wanted: int) -> str:
        """Return how much of a resource is wanted, in thousandths, and how much of it the node has left."""
        offered = self.offered.get(name, 0)
        left = max(offered - self.amounts.get(name, 0), 0)
        amounts = (_format(name, amount) for amount in (wanted, left, offered))
        return "{}: {} wanted, {} of {} left".format(name, *amounts)

    @property
    def fullness(self) -> float:
        """The fullest of the node's cpu, memory and pods: 0 empty, 1 full."""
        parts = [
            self.amounts.get(name, 0) / self.offered[name]
            for name in ("cpu", "memory", "pods")
            if self.offered.get(name, 0) > 0
        ]
        return max(parts, default=0.0)


def _format(name: str, milli: int) -> str:
    """Return an amount in thousandths as people write it: bytes in powers of 1024."""
    is_size = name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
    if is_size and milli % 1000 == 0:
        return str(Quantity(nanos=milli * 10**6, format=QuantityFormat.BINARY_SI))
    return format_milli(milli)


class UsageIndex:
    """Usage per node that follows the pods as they come, move and go."""

    def __init__(self) -> None:
        self._by_pod: dict[str, tuple[str, Amounts]] = {}
        self._amounts: dict[str, Amounts] = {}
        self._known: dict[str, tuple[Node, NodeUsage]] = {}

    def see_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of a pod."""
        if old is not None and (new is None or new.uid != old.uid):
            self._remove(old.uid)
        if new is not None:
            node = "" if new.finished else new.node_name
            grown = old is not None and old.node_allocatable != new.node_allocatable
            if grown or self._by_pod.get(new.uid, ("", {}))[0] != node:
                self._remove(new.uid)
                self._place(new, node)

    def find(self, node: Node) -> NodeUsage:
        """Return what a node offers and its pods take; the same object while the node stays as it is."""
        known = self._known.get(node.name)
        if known is None or known[0] is not node:
            offered = {name: amount.milli_value() for name, amount in node.allocatable.items()}
            usage = NodeUsage(offered=offered, amounts=self._amounts.setdefault(node.name, {}))
            known = self._known[node.name] = (node, usage)
        return known[1]

    @classmethod
    def of_pods(cls, pods: Iterable[Pod]) -> UsageIndex:
        """Return the usage of some pods."""
        index = cls()
        for pod in pods:
            index.see_pod(None, pod)
        return index

    def _place(self, pod: Pod, node: str) -> None:
        if not node:
            return
        amounts = plan_requests(pod)
        self._by_pod[pod.uid] = (node, amounts)
        _add(self._amounts.setdefault(node, {}), amounts)

    def _remove(self, uid: str) -> None:
        node, amounts = self._by_pod.pop(uid, ("", {}))
        taken = self._amounts.get(node, {})
        for name, amount in amounts.items():
            left = taken.get(name, 0) - amount
            if left:
                taken[name] = left
            else:
                taken.pop(name, None)

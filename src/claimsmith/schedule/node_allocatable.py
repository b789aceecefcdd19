"""What devices take of a node's cpu, memory and the like, on top of a pod's requests. Pure.

Source: nodeallocatabledynamicresources.go in kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources;
addDRANodeAllocatableClaimResources in k8s.io/component-helpers v0.37.2; KEP-5517.

Deviates: node-allocatable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.model.claim import AllocationResult, DeviceResult, ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.device import Device, NodeAllocatableResource
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.quantity import Quantity
from claimsmith.model.workload import NodeAllocatableClaim, NodeAllocatableOverhead, Pod
from claimsmith.schedule.usage import NodeUsage, plan_aggregate, plan_requests

__all__ = [
    "MappingDevices",
    "NodeAllocatablePlan",
    "find_mapping_devices",
    "find_shortages",
    "is_mapped",
    "plan_node_allocatable",
]

_NANO: Final = 10**9
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES: Final = "hugepages-"

FindDevice = Callable[[DeviceId], Device | None]
"""Gives a device that takes of the node's resources; None for all others."""


class MappingDevices:
    """The published devices that take of a node's resources; of several slices the newest generation counts."""

    def __init__(self) -> None:
        self._slices: Sequence[ResourceSlice] = ()
        self._devices: Mapping[DeviceId, Device] = {}

    def update(self, slices: Sequence[ResourceSlice]) -> None:
        """Take over all slices of the cluster; the same sequence again costs nothing."""
        if slices is not self._slices:
            self._slices, self._devices = slices, find_mapping_devices(slices)

    def find(self, device: DeviceId) -> Device | None:
        """Return a device that takes of the node's resources; None for all others."""
        return self._devices.get(device)


def find_mapping_devices(slices: Iterable[ResourceSlice]) -> dict[DeviceId, Device]:
    """Return the devices that take of a node's resources."""
    found: dict[DeviceId, tuple[int, Device]] = {}
    for item in slices:
        for device in item.devices:
            if device.node_allocatable_resources:
                device_id = DeviceId(item.driver, item.pool, device.name)
                if item.generation >= found.get(device_id, (item.generation, device))[0]:
                    found[device_id] = (item.generation, device)
    return {device_id: device for device_id, (_, device) in found.items()}


def is_mapped(allocation: AllocationResult, find_device: FindDevice) -> bool:
    """Tell whether a claim got a device that stands for resources of its node; then pods can't share the claim.

    Source: validateNodeAllocatableDRAClaimSharing.
    """
    devices = (find_device(result.device_id) for result in allocation.results)
    return any(
        entry.is_mapping
        for device in devices
        if device is not None
        for entry in device.node_allocatable_resources.values()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAllocatablePlan:
    """What a pod's claims take of a node.

    Args:
        claims: One entry per claim that takes something, in order of name.
        problems: Why that can't be told: the pod does not fit then.
    """

    claims: tuple[NodeAllocatableClaim, ...] = ()
    problems: tuple[str, ...] = ()


def plan_node_allocatable(
    pod: Pod,
    claims: Iterable[tuple[ResourceClaim, AllocationResult]],
    find_device: FindDevice,
    *,
    containers_of: Callable[[ResourceClaim], tuple[str, ...]] | None = None,
) -> NodeAllocatablePlan:
    """Return what the devices of a pod's claims take of their node.

    Args:
        pod: The pod.
        claims: Its claims, each with what it has or would get.
        find_device: Gives devices that take of the node's resources.
        containers_of: Gives the containers that use a claim; None: as the pod's containers name it.

    Source: buildNodeAllocatableDRAInfo.
    """
    entries: list[NodeAllocatableClaim] = []
    problems: list[str] = []
    for claim, allocation in claims:
        names = containers_of(claim) if containers_of is not None else find_containers(pod, claim)
        tally = _Tally()
        for result in allocation.results:
            device = find_device(result.device_id)
            for name, resource in (device.node_allocatable_resources if device is not None else {}).items():
                problem = tally.add(name, resource, result)
                if problem:
                    problems.append(f"claim {claim.ref}: {problem}")
        if tally.mapping or tally.overhead:
            entries.append(
                NodeAllocatableClaim(
                    claim=claim.metadata.name, containers=names, mapping=tally.mapping, overhead=tally.overhead
                )
            )
    return NodeAllocatablePlan(claims=tuple(sorted(entries, key=lambda item: item.claim)), problems=tuple(problems))


def find_containers(pod: Pod, claim: ResourceClaim) -> tuple[str, ...]:
    """Return the containers that use a claim, init containers first, each once."""
    names = {
        entry.name
        for entry in pod.claims
        if (entry.claim_name or pod.claim_names.get(entry.name)) == claim.metadata.name
    }
    containers = (*pod.init_containers, *pod.containers)
    return tuple(item.name for item in containers if any(used.name in names for used in item.claims))


class _Tally:
    """Sums up what the devices of one claim take."""

    def __init__(self) -> None:
        self.mapping: dict[str, Quantity] = {}
        self.overhead: dict[str, NodeAllocatableOverhead] = {}

    def add(self, name: str, resource: NodeAllocatableResource, result: DeviceResult) -> str:
        """Add what one device takes of one resource; returns why that can't be told, empty when it can."""
        known = self.overhead.get(name, NodeAllocatableOverhead())
        if resource.overhead_per_pod is not None or resource.overhead_per_container is not None:
            self.overhead[name] = NodeAllocatableOverhead(
                per_pod=_plus(known.per_pod, resource.overhead_per_pod),
                per_container=_plus(known.per_container, resource.overhead_per_container),
            )
        if resource.capacity_key:
            if result.consumed_capacity is None:
                return (
                    f"device {result.device_id} takes {name} by its capacity {resource.capacity_key!r}, "
                    "but its allocation does not say how much of it is consumed"
                )
            consumed = result.consumed_capacity.get(resource.capacity_key)
            if consumed is not None:
                self._map(name, _times(consumed, resource.capacity_multiplier))
        elif resource.device_multiplier is not None:
            self._map(name, resource.device_multiplier)
        return ""

    def _map(self, name: str, amount: Quantity) -> None:
        known = self.mapping.get(name)
        self.mapping[name] = amount if known is None else known + amount


def _plus(left: Quantity | None, right: Quantity | None) -> Quantity | None:
    return right if left is None else left if right is None else left + right


def _times(amount: Quantity, factor: Quantity | None) -> Quantity:
    """The product, rounded up to a nano unit; printed like the amount."""
    if factor is None or factor.nanos == _NANO:
        return amount
    return Quantity(nanos=-(-amount.nanos * factor.nanos // _NANO), format=amount.format)


def find_shortages(pod: Pod, plan: NodeAllocatablePlan, usage: NodeUsage, *, node: str) -> tuple[Reason, ...]:
    """Return why a node has no room for a pod together with what its devices take; empty when it has.

    Source: nodeFitsResources, validatePodLevelResourcesCoverDRA.
    """
    if plan.problems:
        return tuple(Reason(kind="node", node=node, text=text) for text in plan.problems)
    if not plan.claims:
        return ()
    bare = replace(pod, node_allocatable=())
    full = replace(pod, node_allocatable=plan.claims)
    reasons = [Reason(kind="node", node=node, text=text) for text in _find_excesses(full)]
    wanted, own = plan_requests(full), plan_requests(bare)
    for name in usage.find_missing(wanted):
        if name in _NATIVE or name.startswith(_HUGE_PAGES):
            reasons.append(_build_shortage(name, (own.get(name, 0), wanted[name]), usage, node))
    return tuple(reasons)


def _find_excesses(pod: Pod) -> list[str]:
    """Why the amounts of the pod as a whole do not cover those of its containers and devices."""
    aggregate = plan_aggregate(pod)
    texts = [
        f"the pod's own {name} request does not cover its containers and devices"
        for name, amount in aggregate.items()
        if name in pod.requests and amount > pod.requests[name].milli_value()
    ]
    texts += [
        f"the pod's own {name} limit does not cover its containers and devices"
        for name, amount in aggregate.items()
        if name.startswith(_HUGE_PAGES) and name in pod.limits and amount > pod.limits[name].milli_value()
    ]
    for container in pod.containers:
        taken = plan_container_share(pod, container.name)
        texts += [
            f"the pod's own {name} limit does not cover container {container.name!r} and its devices"
            for name, limit in container.limits.items()
            if not name.startswith(_HUGE_PAGES)
            and name in pod.limits
            and limit.milli_value() + taken.get(name, 0) > pod.limits[name].milli_value()
        ]
    return texts


def plan_container_share(pod: Pod, container: str) -> dict[str, int]:
    """Return what devices add to the limits of one container, in thousandths. Source: GetContainerDRAAllocations."""
    total: dict[str, int] = {}
    for claim in pod.node_allocatable:
        if container not in claim.containers:
            continue
        for name, amount in claim.mapping.items():
            total[name] = total.get(name, 0) + amount.milli_value()
        for name, overhead in claim.overhead.items():
            for part in (overhead.per_pod, overhead.per_container):
                total[name] = total.get(name, 0) + (0 if part is None else part.milli_value())
    return total


def _build_shortage(name: str, amounts: tuple[int, int], usage: NodeUsage, node: str) -> Reason:
    """The shortage of one resource in amounts: what is wanted, how much of that by devices, what is left."""
    own, wanted = amounts
    offered, used = usage.offered.get(name, 0), usage.amounts.get(name, 0)
    parts = {"wanted": wanted, "by_devices": wanted - own, "left": offered - used, "offered": offered}
    data = {key: _text(amount) for key, amount in parts.items()}
    text = (
        f"node has too little {name} left for the pod with its devices: {data['wanted']} wanted, of which "
        f"{data['by_devices']} by devices, {data['left']} left of {data['offered']}"
    )
    return Reason(kind="resources", text=text, node=node, data={"resource": name, **data})


def _text(thousandths: int) -> str:
    return f"{thousandths // 1000}" if thousandths % 1000 == 0 else f"{thousandths}m"

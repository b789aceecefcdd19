"""Whether a node takes a pod that was bound to it: its devices are given out here, before anything is started.

Source: pkg/kubelet/lifecycle/predicate.go, cm/topologymanager/scope.go and cm/admission of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from claimsmith.embedded.kubelet.devices.allocator import PodDevices
from claimsmith.embedded.kubelet.views import PodView
from claimsmith.errors import DeviceRefusedError, PodRejectedError

__all__ = ["PodAdmission", "count_extended"]

_UNEXPECTED: Final = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAdmission:
    """The checks of one node.

    Args:
        devices: Gives out the devices of plugins.
        allocatable: Returns what the node's status offers of extended resources; others are nobody's on this node.
        others: Returns the pods that are admitted and have not ended.
    """

    devices: PodDevices
    allocatable: Callable[[], Mapping[str, int]]
    others: Callable[[], Collection[PodView]]

    async def admit(self, pod: PodView, *, running: bool) -> None:
        """Give a pod its devices.

        Args:
            pod: The pod.
            running: Whether its containers were running when the kubelet was started.

        Raises:
            PodRejectedError: It asks for what this node does not have.
        """
        try:
            await self.devices.admit(pod, running=running)
        except DeviceRefusedError as error:
            message = f"Allocate failed due to {error}, which is unexpected"
            raise PodRejectedError(message, reason=_UNEXPECTED) from error
        self._check_amounts(pod)

    def _check_amounts(self, pod: PodView) -> None:
        """Check that the node has enough of what it offers itself; what its plugins have given is enough anyway."""
        wanted = count_extended(pod)
        if not wanted:
            return
        offered = dict(self.allocatable())
        if self.devices.table.has_pod(pod.uid):
            taken = self.devices.table.taken()
            offered |= {name: max(offered.get(name, 0), len(ids)) for name, ids in taken.items()}
        used: dict[str, int] = {}
        for other in self.others():
            if other.uid != pod.uid:
                for name, amount in count_extended(other).items():
                    used[name] = used.get(name, 0) + amount
        for name, amount in wanted.items():
            if name in offered and amount > offered[name] - used.get(name, 0):
                message = (
                    f"Node didn't have enough resource: {name}, requested: {amount}, "
                    f"used: {used.get(name, 0)}, capacity: {offered[name]}"
                )
                raise PodRejectedError(message, reason=f"OutOf{name}")


def count_extended(pod: PodView) -> dict[str, int]:
    """Return what a pod takes of extended resources: init containers run one after another, the others together."""
    running: dict[str, int] = {}
    starting: dict[str, int] = {}
    by_claim = {(container, resource) for container, resource, _ in pod.extended}
    for container in pod.init_containers:
        for name, amount in container.limits.items():
            if (container.name, name) in by_claim:
                continue
            if container.sidecar:
                running[name] = running.get(name, 0) + amount
                amount = 0
            starting[name] = max(starting.get(name, 0), running.get(name, 0) + amount)
    for container in pod.containers:
        for name, amount in container.limits.items():
            if (container.name, name) not in by_claim:
                running[name] = running.get(name, 0) + amount
    names = dict.fromkeys((*running, *starting))
    found = {name: max(running.get(name, 0), starting.get(name, 0)) for name in names}
    return {name: amount for name, amount in found.items() if amount > 0}

"""The service that tells agents of a node which containers have which devices, of both plugin protocols.

Source: pkg/kubelet/apis/podresources/server_v1.go, and GetDynamicResources in cm/container_manager_linux.go, of
kubernetes v1.37.2.

Deviates: pod-resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from claimsmith.embedded.kubelet.devices.allocator import PodDevices
from claimsmith.embedded.kubelet.devices.table import NO_NUMA, Grant
from claimsmith.embedded.kubelet.dra import PodClaims
from claimsmith.embedded.kubelet.dra_checkpoint import ClaimState
from claimsmith.embedded.kubelet.rpc import RpcServer, answer
from claimsmith.embedded.kubelet.views import ContainerView, PodView
from claimsmith.errors import NotFoundError
from claimsmith.kubelet import podresources_v1_pb2 as messages
from claimsmith.kubelet.services import GET_ALLOCATABLE, GET_POD_RESOURCES, LIST_POD_RESOURCES

__all__ = ["SOCKET", "PodResources"]

SOCKET: Final = Path("pod-resources") / "kubelet.sock"
"""The socket, in the kubelet's state folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """Answers from what the kubelet knows.

    Args:
        devices: The devices of plugins.
        claims: The claims that pods use.
        active: Returns the pods that are admitted and have not ended.
        find: Returns one of them by namespace and name.
    """

    devices: PodDevices
    claims: PodClaims
    active: Callable[[], Iterable[PodView]]
    find: Callable[[str, str], PodView | None]

    def server(self, state_folder: Path) -> RpcServer:
        """Return what serves it.

        Raises:
            ConfigError: The folder's path is too long for a socket.
        """
        path = state_folder / SOCKET
        answers = [
            answer(LIST_POD_RESOURCES, self._list, refuse=NotFoundError),
            answer(GET_ALLOCATABLE, self._get_allocatable, refuse=NotFoundError),
            answer(GET_POD_RESOURCES, self._get, refuse=NotFoundError),
        ]
        return RpcServer(path, answers)

    async def _list(self, request: messages.ListPodResourcesRequest) -> messages.ListPodResourcesResponse:
        self.devices.free_ended()
        return messages.ListPodResourcesResponse(pod_resources=[self._describe(pod) for pod in self.active()])

    async def _get(self, request: messages.GetPodResourcesRequest) -> messages.GetPodResourcesResponse:
        pod = self.find(request.pod_namespace, request.pod_name)
        if pod is None:
            raise NotFoundError(f"pod {request.pod_name} in namespace {request.pod_namespace} not found")
        return messages.GetPodResourcesResponse(pod_resources=self._describe(pod))

    async def _get_allocatable(
        self, request: messages.AllocatableResourcesRequest
    ) -> messages.AllocatableResourcesResponse:
        devices = [
            item
            for resource, shelf in self.devices.stock.resources().items()
            for device in shelf.healthy
            for item in _list_device(resource, device, shelf.listed[device].numa)
        ]
        return messages.AllocatableResourcesResponse(devices=devices)

    def _describe(self, pod: PodView) -> messages.PodResources:
        """Return what a pod has; init containers that end are left out."""
        containers = (*(item for item in pod.init_containers if item.sidecar), *pod.containers)
        described = [
            messages.ContainerResources(
                name=container.name,
                devices=_list_devices(self.devices.table.find(pod.uid, container.name).items()),
                dynamic_resources=self._list_claims(pod, container),
            )
            for container in containers
        ]
        return messages.PodResources(name=pod.name, namespace=pod.namespace, containers=described)

    def _list_claims(self, pod: PodView, container: ContainerView) -> list[messages.DynamicResource]:
        """Return the claims of a container, whole, whichever of their requests it names; none if one is not known."""
        used = {name for name, _ in container.claims}
        names = [claim.claim_name for claim in pod.claims if claim.pod_name and claim.pod_name in used]
        if any(name == container.name for name, _, _ in pod.extended):
            names += [claim.claim_name for claim in pod.claims if not claim.pod_name]
        found = [self.claims.find(pod.namespace, name) for name in names if name is not None]
        states = [state for state in found if state is not None]
        return [_describe_claim(state) for state in states] if len(states) == len(found) else []


def _describe_claim(state: ClaimState) -> messages.DynamicResource:
    return messages.DynamicResource(
        claim_name=state.name, claim_namespace=state.namespace, claim_resources=list(_list_results(state))
    )


def _list_results(state: ClaimState) -> Iterator[messages.ClaimResource]:
    """Yield the devices of a claim; each has the CDI ids of those of its driver before it too, as upstream's answer."""
    for driver, devices in state.devices.items():
        cdi_ids: list[str] = []
        for device in devices:
            cdi_ids.extend(device.cdi_ids)
            yield messages.ClaimResource(
                cdi_devices=[messages.CDIDevice(name=name) for name in cdi_ids],
                driver_name=driver,
                pool_name=device.pool,
                device_name=device.device,
                share_id=device.share_id or None,
            )


def _list_devices(grants: Iterable[tuple[str, Grant]]) -> list[messages.ContainerDevices]:
    return [
        item
        for resource, grant in grants
        for device in grant.ids
        for item in _list_device(resource, device, _numa_of(grant, device))
    ]


def _numa_of(grant: Grant, device: str) -> tuple[int, ...]:
    return tuple(node for node, devices in grant.by_numa.items() if node != NO_NUMA and device in devices)


def _list_device(resource: str, device: str, numa: Iterable[int]) -> Iterator[messages.ContainerDevices]:
    """Yield a device once for each of its NUMA nodes, or once without."""
    nodes = tuple(numa)
    if not nodes:
        yield messages.ContainerDevices(resource_name=resource, device_ids=[device])
    for node in nodes:
        topology = messages.TopologyInfo(nodes=[messages.NUMANode(ID=node)])
        yield messages.ContainerDevices(resource_name=resource, device_ids=[device], topology=topology)

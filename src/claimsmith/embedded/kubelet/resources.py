"""What the containers of a pod get of their devices, by both plugin protocols, and how these devices fare.

Source: GetResources and UpdateAllocatedResourcesStatus in pkg/kubelet/cm/container_manager_linux.go and
cm/dra/manager.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from claimsmith.embedded.kubelet.clock import Clock
from claimsmith.embedded.kubelet.devices.allocator import PodDevices
from claimsmith.embedded.kubelet.devices.view import list_health, merge_grants
from claimsmith.embedded.kubelet.dra import PodClaims
from claimsmith.embedded.kubelet.dra_checkpoint import ClaimState
from claimsmith.embedded.kubelet.grants import ContainerGrant
from claimsmith.embedded.kubelet.health import HealthBook
from claimsmith.embedded.kubelet.plugins import PreparedDevice
from claimsmith.embedded.kubelet.views import ContainerView, PodView
from claimsmith.errors import DeviceRefusedError, PodStartError

__all__ = ["ContainerResources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """Puts together what both protocols say.

    Args:
        devices: The devices of plugins.
        claims: The claims that pods use.
        book: How the devices of DRA drivers fare.
        clock: Tells the time.
    """

    devices: PodDevices
    claims: PodClaims
    book: HealthBook
    clock: Clock

    async def grant(
        self, pod: PodView, cdi_ids: Mapping[str, Sequence[str]], *, running: bool
    ) -> dict[str, ContainerGrant]:
        """Return what each container gets; plugins that want to know it are told that it starts.

        Args:
            pod: The pod.
            cdi_ids: CDI ids of the devices of claims, by container.
            running: Whether the containers run already, so that no plugin is told.

        Raises:
            PodStartError: A plugin refuses.
        """
        found = {}
        for container in (*pod.init_containers, *pod.containers):
            try:
                if running:
                    grants = self.devices.table.find(pod.uid, container.name)
                else:
                    grants = await self.devices.pre_start(pod, container)
            except DeviceRefusedError as error:
                raise PodStartError(str(error), reason="Failed", waiting="CreateContainerConfigError") from error
            merged = merge_grants(grants.values())
            ids = dict.fromkeys((*cdi_ids.get(container.name, ()), *merged.cdi_ids))
            found[container.name] = replace(merged, cdi_ids=tuple(ids))
        return found

    def list_health(self, pod: PodView) -> dict[str, list[dict[str, Any]]]:
        """Return `allocatedResourcesStatus` by container."""
        return {container.name: self._list_container(pod, container) for container in pod.containers}

    def _list_container(self, pod: PodView, container: ContainerView) -> list[dict[str, Any]]:
        shelves = self.devices.stock.resources()
        found = list_health(self.devices.table.find(pod.uid, container.name), shelves)
        names = {claim.pod_name: claim.claim_name for claim in pod.claims if claim.pod_name}
        for pod_claim, request in container.claims:
            state = self.claims.find(pod.namespace, names.get(pod_claim) or "")
            devices = self._list_claim(state, request) if state is not None else []
            if devices:
                name = f"claim:{pod_claim}/{request}" if request else f"claim:{pod_claim}"
                found.append({"name": name, "resources": devices})
        return found

    def _list_claim(self, state: ClaimState, request: str) -> list[dict[str, str]]:
        """Return the devices of a claim that are for a request, each id once."""
        found: dict[str, dict[str, str]] = {}
        for driver, devices in state.devices.items():
            for device in devices:
                if request and device.requests and request.partition("/")[0] not in device.requests:
                    continue
                item = self._describe(driver, device)
                found.setdefault(item["resourceID"], item)
        return list(found.values())

    def _describe(self, driver: str, device: PreparedDevice) -> dict[str, str]:
        state = self.book.find(driver, (device.pool, device.device), self.clock.now_s())
        name = device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.device}"
        found = {"resourceID": name, "health": state.health}
        return {**found, "message": state.message} if state.message else found

"""The claims of the API server, as the drivers of one node read and write them."""

from __future__ import annotations

import logging

from claimsmith.api.kinds import RESOURCE_CLAIM
from claimsmith.api.resource import parse_resource_claim
from claimsmith.errors import ClaimsmithError
from claimsmith.kube.client import KubeClient
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.node.claimstatus import ClaimStatus
from claimsmith.publish.claimstatus import apply_device_status
from claimsmith.telemetry import get_logger, log_event

__all__ = ["ApiClaims", "ApiStatuses", "find_devices"]

_log = get_logger("agent")


class ApiClaims:
    """Reads claims from the API server, for the drivers of a node."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def get_claim(self, ref: ClaimRef) -> ResourceClaim:
        """Return a claim as it is now.

        Raises:
            NotFoundError: There is none.
            ApiError: It can't be read now.
        """
        return parse_resource_claim(await self._client.get(RESOURCE_CLAIM, ref.name, namespace=ref.namespace))

    async def find_held(self, devices: frozenset[DeviceId]) -> frozenset[DeviceId]:
        """Return those of some devices that allocated claims hold.

        Raises:
            ApiError: The claims can't be listed now.
        """
        held: set[DeviceId] = set()
        for obj in (await self._client.list(RESOURCE_CLAIM)).items:
            try:
                claim = parse_resource_claim(obj)
            except ClaimsmithError as error:
                log_event(_log, logging.WARNING, "A claim can't be read", reason=error)
                continue
            held.update(find_devices(claim))
        return devices & held


class ApiStatuses:
    """Writes what a driver says of devices into the statuses of their claims."""

    def __init__(self, client: KubeClient, driver: str) -> None:
        self._client, self._driver = client, driver

    async def write_devices(self, status: ClaimStatus) -> None:
        """Let the status say just this of the driver's devices.

        Raises:
            ApiError: It can't be written now.
        """
        await apply_device_status(self._client, self._driver, status.claim, status.devices)


def find_devices(claim: ResourceClaim) -> frozenset[DeviceId]:
    """Return the devices that a claim holds, shares of them included; admin access holds none."""
    results = claim.allocation.results if claim.allocation is not None else ()
    return frozenset(result.device_id for result in results if not result.admin_access)

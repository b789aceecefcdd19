"""The claims of the API server, as the drivers of one node read and write them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from claimsmith.api.kinds import POD, RESOURCE_CLAIM, Kind
from claimsmith.api.resource import parse_resource_claim
from claimsmith.errors import ApiError, ClaimsmithError, NotFoundError
from claimsmith.kube.client import KubeClient, KubeObject
from claimsmith.kube.reflector import Reflector
from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.node.claimstatus import ClaimStatus
from claimsmith.publish.claimstatus import apply_device_status
from claimsmith.telemetry import get_logger, log_event

__all__ = ["AllocationWatch", "ApiClaims", "ApiPods", "ApiStatuses", "PodClient", "find_devices", "is_elsewhere"]

_log = get_logger("agent")


class ApiClaims:
    """Reads claims from the API server, for the drivers of a node.

    How a claim is read is put together for the first one, which takes about 10 ms: that happens here, and not while the
    first pod waits.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        parse_resource_claim({})

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


class PodClient(Protocol):
    """What is needed of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        """Return one object."""
        ...


class ApiPods:
    """Reads the pods for which claims are reserved."""

    def __init__(self, client: PodClient) -> None:
        self._client = client

    async def is_needed(self, consumer: ConsumerReference, *, namespace: str) -> bool:
        """Tell whether a consumer of a claim is there and stays.

        What can't be read counts as needed, and so does what is no pod. Without the right to read pods, calls wait for
        deleted pods to the end.
        """
        if consumer.resource != POD.plural or consumer.api_group:
            return True
        try:
            metadata = (await self._client.get(POD, consumer.name, namespace=namespace))["metadata"]
        except NotFoundError:
            return False
        except ApiError as error:
            log_event(_log, logging.DEBUG, "A pod can't be read", pod=f"{namespace}/{consumer.name}", reason=error)
            return True
        return metadata.get("uid") == consumer.uid and not metadata.get("deletionTimestamp")


class AllocationWatch:
    """Follows which devices of a node claims have, prepared or not; only what concerns the node is kept.

    Args:
        client: The API server.
        node_name: Name of the node.
        on_change: Called when the devices of the node that claims have are others than before.
    """

    def __init__(self, client: KubeClient, node_name: str, *, on_change: Callable[[], None]) -> None:
        self._node_name, self._on_change = node_name, on_change
        self._reflector = Reflector(client, RESOURCE_CLAIM, self._decode)
        self._reflector.subscribe(self._take)

    async def run(self) -> None:
        """Follow the claims until cancelled."""
        await self._reflector.run()

    def allocated(self, driver: str) -> frozenset[DeviceId]:
        """Return the devices of a driver that claims have, as far as they may be on the node."""
        return frozenset(device for held in self._reflector for device in held if device.driver == driver)

    def _decode(self, obj: KubeObject) -> frozenset[DeviceId]:
        claim = parse_resource_claim(obj)
        return frozenset() if is_elsewhere(claim, self._node_name) else find_devices(claim)

    def _take(self, before: frozenset[DeviceId] | None, after: frozenset[DeviceId] | None) -> None:
        if (before or frozenset()) != (after or frozenset()):
            self._on_change()


def is_elsewhere(claim: ResourceClaim, node_name: str) -> bool:
    """Tell whether a claim's allocation names one node, and another one than this."""
    selector = claim.allocation.node_selector if claim.allocation is not None else None
    named = {
        requirement.values
        for term in (selector.terms if selector is not None else ())
        for requirement in term.match_fields
        if requirement.key == "metadata.name" and requirement.operator == "In"
    }
    return len(named) == 1 and node_name not in next(iter(named))


def find_devices(claim: ResourceClaim) -> frozenset[DeviceId]:
    """Return the devices that a claim holds, shares of them included; admin access holds none."""
    results = claim.allocation.results if claim.allocation is not None else ()
    return frozenset(result.device_id for result in results if not result.admin_access)

"""Writes what a driver says of allocated devices into the status of their claim, by server-side apply.

Rights that it takes: patch on `resourceclaims/status`, and on `resourceclaims/driver`, with the driver's name as
resource name, the verb `associated-node:patch`, which a token bound to the node satisfies.

Source: AuthorizedForDeviceStatus of pkg/apis/resource, kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from claimsmith.api.kinds import RESOURCE_CLAIM, Kind
from claimsmith.api.resource_v1_claims import encode_device_status
from claimsmith.kube.client import KubeObject
from claimsmith.model.claim import AllocatedDeviceStatus
from claimsmith.model.prepared import ClaimKey

__all__ = ["StatusApplier", "apply_device_status", "plan_device_status"]


class StatusApplier(Protocol):
    """What is needed of a client."""

    async def apply(
        self,
        kind: Kind,
        obj: Mapping[str, Any],
        *,
        field_manager: str = "",
        force: bool = False,
        subresource: str = "",
    ) -> KubeObject:
        """Apply an object on the server."""
        ...


def plan_device_status(claim: ClaimKey, devices: Sequence[AllocatedDeviceStatus]) -> KubeObject:
    """Return what to apply so that a claim's status says just this of the manager's devices.

    The uid makes it fail for a later claim of the same name.
    """
    encoded = [msgspec.to_builtins(encode_device_status(device)) for device in devices]
    return {
        "metadata": {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid},
        "status": {"devices": encoded} if encoded else {},
    }


async def apply_device_status(
    client: StatusApplier, driver: str, claim: ClaimKey, devices: Sequence[AllocatedDeviceStatus]
) -> None:
    """Apply it with the driver as field manager, which owns its devices' entries against all others.

    Raises:
        NotFoundError, ConflictError: There is no such claim, or another one of that name.
        InvalidObjectError: The server refuses it for good.
        ApiError: It can't be written now.
    """
    plan = plan_device_status(claim, devices)
    await client.apply(RESOURCE_CLAIM, plan, field_manager=driver, force=True, subresource="status")

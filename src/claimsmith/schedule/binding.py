"""Whether the devices of a claim are ready for their pod to be bound: binding conditions. Pure.

Source: isClaimReadyForBinding, isClaimTimeout in kubernetes v1.37.2
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go; KEP-5007.

Deviates: binding-conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from claimsmith.model.claim import AllocatedDeviceStatus, DeviceResult, ResourceClaim

__all__ = ["Readiness", "find_expiry", "find_readiness", "has_binding_conditions"]

_TRUE: Final = "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """How far the devices of a claim are.

    Args:
        state: `ready` to bind, `waiting` for conditions, or `failed`.
        text: What is waited for, or what failed.
    """

    state: Literal["ready", "waiting", "failed"]
    text: str = ""


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Tell whether a pod must not be bound before the claim's devices say so."""
    return claim.allocation is not None and any(result.binding_conditions for result in claim.allocation.results)


def find_readiness(claim: ResourceClaim) -> Readiness:
    """Return how far the devices of an allocated claim are, as their drivers report it in the claim's status.

    The first device that is not ready decides, in order of allocation.
    """
    for result in claim.allocation.results if claim.allocation is not None else ():
        if not result.binding_conditions:
            continue
        status = _find_status(claim, result)
        if status is None:
            return Readiness(state="waiting", text=f"nothing is reported of device {result.device_id}")
        for name in result.binding_failure_conditions:
            condition = _find_condition(status, name)
            if condition.get("status") == _TRUE:
                detail = ": ".join(str(condition[key]) for key in ("reason", "message") if condition.get(key))
                return Readiness(state="failed", text=f"device {result.device_id} has {name} ({detail})")
        for name in result.binding_conditions:
            if _find_condition(status, name).get("status") != _TRUE:
                return Readiness(state="waiting", text=f"device {result.device_id} does not have {name} yet")
    return Readiness(state="ready")


def find_expiry(claim: ResourceClaim, timeout_s: float) -> float | None:
    """Return when a claim has waited too long for its devices, in seconds since 1970; None for never.

    Args:
        claim: The claim.
        timeout_s: Seconds that devices get from their allocation on; > 0.
    """
    stamp = claim.allocation.allocation_timestamp if claim.allocation is not None else None
    if stamp is None or not has_binding_conditions(claim):
        return None
    return datetime.fromisoformat(stamp).timestamp() + timeout_s


def _find_status(claim: ResourceClaim, result: DeviceResult) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device, result.share_id)
    return next(
        (item for item in claim.devices if (item.driver, item.pool, item.device, item.share_id) == wanted), None
    )


def _find_condition(status: AllocatedDeviceStatus, name: str) -> Mapping[str, object]:
    return next((item for item in status.conditions if item.get("type") == name), {})

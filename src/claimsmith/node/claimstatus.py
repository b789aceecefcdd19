"""What a driver says of allocated devices, for `status.devices` of a claim: made, kept in a file, read again. Pure.

Source: AllocatedDeviceStatus of resource.k8s.io/v1; KEP-4817.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from claimsmith.api.resource_v1_claims import build_device_status, encode_device_status
from claimsmith.api.wire.resource_claim import AllocatedDeviceStatus as WireStatus
from claimsmith.errors import DriverAnswerError
from claimsmith.model.claim import AllocatedDeviceStatus
from claimsmith.model.prepared import (
    ClaimKey,
    DeviceCondition,
    DeviceStatus,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.validate.allocations import check_device_status

__all__ = ["ClaimStatus", "encode_claim_status", "find_claim_status", "plan_claim_status"]

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimStatus:
    """What the status of a claim must say of a driver's devices; without devices: nothing."""

    claim: ClaimKey
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class _File(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    devices: list[WireStatus]


def plan_claim_status(
    request: PrepareRequest, prepared: PreparedDevices, *, now_s: float, before: ClaimStatus | None
) -> ClaimStatus:
    """Return what the status of a claim must say, given what the driver answered.

    Args:
        request: The claim.
        prepared: The driver's answer.
        now_s: Seconds since 1970: since when conditions are as they are, unless they were so before.
        before: What the status said; None for nothing.

    Raises:
        DriverAnswerError: The API server would refuse it; the error names the field.
    """
    times = _times(before)
    now = time.strftime(_TIME, time.gmtime(now_s))
    devices = tuple(
        _report(answer, f"devices[{index}].status", times, now)
        for index, answer in enumerate(prepared.devices)
        if answer.status is not None
    )
    return ClaimStatus(claim=request.claim, devices=_once_each(devices))


def encode_claim_status(status: ClaimStatus) -> bytes:
    """Return the content of the file that keeps a status."""
    claim = status.claim
    devices = [encode_device_status(device) for device in status.devices]
    return msgspec.json.encode(_File(namespace=claim.namespace, name=claim.name, uid=claim.uid, devices=devices))


def find_claim_status(data: bytes) -> ClaimStatus | None:
    """Return the status that a file keeps; None when it is damaged."""
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    claim = ClaimKey(namespace=file.namespace, name=file.name, uid=file.uid)
    return ClaimStatus(claim=claim, devices=tuple(map(build_device_status, file.devices)))


_ConditionKey = tuple[str, str, str, str, str, object]


def _key(device: AllocatedDeviceStatus, type_: object, status: object) -> _ConditionKey:
    return (device.driver, device.pool, device.device, device.share_id or "", str(type_), status)


def _times(before: ClaimStatus | None) -> Mapping[_ConditionKey, str]:
    devices = before.devices if before is not None else ()
    return {
        _key(device, condition.get("type"), condition.get("status")): str(condition.get("lastTransitionTime"))
        for device in devices
        for condition in device.conditions
    }


def _report(answer: PreparedDevice, path: str, times: Mapping[_ConditionKey, str], now: str) -> AllocatedDeviceStatus:
    status, asked = answer.status or DeviceStatus(), answer.device
    report = AllocatedDeviceStatus(
        driver=asked.id.driver,
        pool=asked.id.pool,
        device=asked.id.device,
        share_id=asked.share_id or None,
        data=dict(status.data) if status.data is not None else None,
        network_data=status.network,
    )

    def since(condition: DeviceCondition) -> str:
        return times.get(_key(report, condition.type, condition.status), now)

    conditions = tuple(
        {
            "type": condition.type,
            "status": condition.status,
            "lastTransitionTime": since(condition),
            "reason": condition.reason,
            "message": condition.message,
        }
        for condition in status.conditions
    )
    whole = replace(report, conditions=conditions)
    _check(whole, path)
    return whole


def _check(report: AllocatedDeviceStatus, path: str) -> None:
    try:
        issue = next(check_device_status(encode_device_status(report), path), None)
    except (TypeError, ValueError) as error:
        raise DriverAnswerError(path, report.data, allowed="values that JSON has") from error
    if issue is not None:
        raise DriverAnswerError(issue.path, issue.value, allowed=issue.detail or "another value")


def _once_each(devices: Iterable[AllocatedDeviceStatus]) -> tuple[AllocatedDeviceStatus, ...]:
    """Return one report for each device: a device can be in a claim twice, in its status once; the last one counts."""
    by_device = {(device.driver, device.pool, device.device, device.share_id): device for device in devices}
    return tuple(by_device.values())

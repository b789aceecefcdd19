"""What the server itself does to an object whenever it changes, kind by kind.

Source: the strategies of k8s.io/kubernetes v1.37.2 in pkg/registry/core/pod, pkg/registry/resource/resourceclaim and
pkg/registry/resource/devicetaintrule.
"""

from __future__ import annotations

from typing import Any, Final

from claimsmith.embedded.store_records import JsonObject

__all__ = ["prepare_change"]

_KEPT_POD_STATUS: Final = (
    "qosClass",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)


def prepare_change(plural: str, old: JsonObject, new: JsonObject, *, part: str, now: str) -> None:
    """Complete the new state of an object.

    Args:
        plural: Name of the kind in paths.
        old: The state before.
        new: The state to be stored; its own fields are replaced, nothing below them is written to.
        part: `main`, `status` or `all`.
        now: Time of the write.
    """
    if part == "status" and plural == "pods":
        new["status"] = _keep_pod_status(old.get("status") or {}, new.get("status") or {})
    elif part == "status" and plural == "resourceclaims":
        _drop_deallocated(old.get("status") or {}, new)
    elif part == "main" and plural == "devicetaintrules":
        _renew_taint_time(old.get("spec") or {}, new, now)


def _keep_pod_status(old: JsonObject, new: JsonObject) -> JsonObject:
    """Keep what clients drop that do not know of it; an empty list still clears a list."""
    kept: JsonObject = {name: old[name] for name in _KEPT_POD_STATUS if name in old and new.get(name) is None}
    return {**new, **kept}


def _drop_deallocated(old: JsonObject, new: JsonObject) -> None:
    """Drop the status of devices that the claim no longer holds."""
    status = new.get("status") or {}
    if not status.get("devices"):
        return
    gone = _allocated_devices(old) - _allocated_devices(status)
    devices = [device for device in status["devices"] if _device_key(device) not in gone]
    status = {**status, "devices": devices}
    if not devices:
        del status["devices"]
    new["status"] = status


def _allocated_devices(status: JsonObject) -> set[tuple[Any, ...]]:
    devices = (status.get("allocation") or {}).get("devices") or {}
    return {_device_key(result) for result in devices.get("results") or ()}


def _device_key(device: JsonObject) -> tuple[Any, ...]:
    return tuple(device.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _renew_taint_time(old: JsonObject, new: JsonObject, now: str) -> None:
    """Let the time of a taint tell since when its present effect holds."""
    before, after = old.get("taint") or {}, new["spec"].get("taint") or {}
    if before.get("effect") != after.get("effect") and before.get("timeAdded") == after.get("timeAdded"):
        new["spec"] = {**new["spec"], "taint": {**after, "timeAdded": now}}

"""What a node remembers of a claim or a grant: which devices it holds and under which CDI ids containers get them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from claimsmith.errors import ClaimNotReadyError, DeviceHeldError
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey, PrepareRequest

__all__ = ["Grant", "HeldDevice", "PreparedClaim", "check_free", "grant_key", "is_grant", "parse_uid"]

_GRANT: Final = "grant-"
_UID: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDevice:
    """One device, or one share of it, that a claim holds.

    Args:
        request: Request name without a sub-request.
        share_id: uid of the share; empty for a device that the claim has for itself.
        cdi_ids: Fully qualified CDI ids; empty until the claim is prepared.
    """

    id: DeviceId
    request: str
    share_id: str = ""
    admin_access: bool = False
    cdi_ids: tuple[str, ...] = ()

    @property
    def exclusive(self) -> bool:
        """Whether no other claim may have the device or a share of it at the same time."""
        return not self.share_id and not self.admin_access

    def same_device(self, other: HeldDevice) -> bool:
        """Whether the other one is the same device for the same request, whatever its CDI ids are."""
        return (self.id, self.request, self.share_id, self.admin_access) == (
            other.id,
            other.request,
            other.share_id,
            other.admin_access,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedClaim:
    """A claim that is prepared on this node, or whose preparation was begun.

    Args:
        boot_id: The boot during which the driver prepared it; a reboot resets devices.
        finished: False while a grant is begun. That of a claim is True from its first write on: whether it is prepared
            is told by its CDI file.
    """

    claim: ClaimKey
    devices: tuple[HeldDevice, ...]
    boot_id: str
    finished: bool = True

    @classmethod
    def begun(cls, request: PrepareRequest, boot_id: str) -> PreparedClaim:
        """Return the entry without what only those who were prepared have."""
        devices = tuple(
            HeldDevice(id=device.id, request=device.request, share_id=device.share_id, admin_access=device.admin_access)
            for device in request.devices
        )
        return cls(claim=request.claim, devices=devices, boot_id=boot_id, finished=False)

    def has_devices_of(self, other: PreparedClaim) -> bool:
        """Whether both entries are for the same devices in the same order."""
        return len(self.devices) == len(other.devices) and all(
            mine.same_device(theirs) for mine, theirs in zip(self.devices, other.devices, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Devices that the device plugin gave to a container, or is about to give.

    Args:
        entry: What is prepared; its claim stands for the grant.
        resource: Extended resource under which the kubelet took them.
        ids: Their ids for the kubelet, sorted; empty when they are not known any more, as after a damaged checkpoint.
        granted_s: When, in seconds since 1970; for people.
    """

    entry: PreparedClaim
    resource: str
    ids: tuple[str, ...]
    granted_s: float = 0.0

    @property
    def uid(self) -> str:
        """What tells the grant from others, and from claims."""
        return self.entry.claim.uid

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """The devices, each once."""
        return tuple(dict.fromkeys(device.id for device in self.entry.devices))


def grant_key(resource: str, ids: Iterable[str]) -> ClaimKey:
    """Return the claim that stands for a grant: the same one for the same ids.

    Its name has a slash, and so is no name of a real claim.
    """
    text = json.dumps([resource, sorted(ids)])
    return ClaimKey(namespace="", name=resource, uid=f"{_GRANT}{sha256(text.encode()).hexdigest()[:24]}")


def is_grant(claim: ClaimKey) -> bool:
    """Tell whether a claim stands for a grant."""
    return not claim.namespace and claim.uid.startswith(_GRANT)


def check_free(wanted: PreparedClaim, entries: Iterable[PreparedClaim]) -> None:
    """Check that no other claim holds a device that a claim wants.

    Shares of one device go together; admin access goes with everything.

    Raises:
        DeviceHeldError: One does.
    """
    held = {
        device.id: (entry.claim, device)
        for entry in entries
        if entry.claim.uid != wanted.claim.uid
        for device in entry.devices
        if not device.admin_access
    }
    for device in wanted.devices:
        holder, other = held.get(device.id, (None, None))
        if holder is None or other is None or device.admin_access:
            continue
        if device.exclusive or other.exclusive:
            raise DeviceHeldError(device.id, holder=holder, holder_uid=holder.uid)


def parse_uid(claim: ClaimKey) -> str:
    """Return the uid of a claim, fit to be part of a file name and of a CDI device name.

    Raises:
        ClaimNotReadyError: It has characters that no API server makes.
    """
    if not _UID.fullmatch(claim.uid):
        reason = f"found uid {claim.uid[:80]!r}, allowed at most 128 letters, digits, dashes and dots"
        raise ClaimNotReadyError(claim, reason, lasts=True)
    return claim.uid

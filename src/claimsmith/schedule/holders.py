"""Which claims hold which devices for themselves alone, and which devices more than one of them holds. Pure.

An API server lets two claims have one device. A scheduler never allocates one that it knows to be held, but another
scheduler that decides in the same moment may.
"""

from __future__ import annotations

from dataclasses import dataclass

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId

__all__ = ["Contest", "HolderIndex"]

_NOT_STORED = "<"
"""Begins the name of a claim that is decided but not created yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A device that several claims hold, in order of their names."""

    device: DeviceId
    claims: tuple[ClaimRef, ...]

    @property
    def text(self) -> str:
        """What is wrong and what to do, for people."""
        names = " and ".join(map(str, self.claims))
        return f"device {self.device} is held by claims {names}; delete the pods of all but one of them"


class HolderIndex:
    """Follows the claims of a cluster.

    Shares of a device, and the access of administrators, are no claim to the whole of it.
    """

    def __init__(self) -> None:
        self._holders: dict[DeviceId, set[ClaimRef]] = {}
        self._contested: dict[DeviceId, Contest] = {}

    def __len__(self) -> int:
        """How many devices several claims hold."""
        return len(self._contested)

    def see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> tuple[Contest, ...]:
        """Take in a change of a claim; returns the contests that are new by it."""
        before, after = _list_devices(old), _list_devices(new)
        for device in before.keys() - after.keys():
            self._drop(device, before[device])
        found = [self._add(device, after[device]) for device in sorted(after.keys() - before.keys())]
        return tuple(contest for contest in found if contest is not None)

    def _add(self, device: DeviceId, ref: ClaimRef) -> Contest | None:
        holders = self._holders.setdefault(device, set())
        holders.add(ref)
        if len(holders) < 2:
            return None
        contest = self._contested[device] = Contest(device=device, claims=tuple(sorted(holders)))
        return contest

    def _drop(self, device: DeviceId, ref: ClaimRef) -> None:
        holders = self._holders.get(device, set())
        holders.discard(ref)
        if not holders:
            self._holders.pop(device, None)
        if len(holders) < 2:
            self._contested.pop(device, None)
        else:
            self._contested[device] = Contest(device=device, claims=tuple(sorted(holders)))


def _list_devices(claim: ResourceClaim | None) -> dict[DeviceId, ClaimRef]:
    """Return the devices that a claim has for itself alone, each with the claim."""
    if claim is None or claim.allocation is None or claim.metadata.name.startswith(_NOT_STORED):
        return {}
    results = claim.allocation.results
    return {item.device_id: claim.ref for item in results if item.share_id is None and not item.admin_access}

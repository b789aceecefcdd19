"""Writes to claims: allocation, reservation and release, each safe against others who write at the same time.

Every write names the resourceVersion it was decided on. On a conflict the claim is read again and the write is decided
anew; nothing that somebody else wrote is lost.

Source: bindClaim in kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources; syncClaim in
pkg/controller/resourceclaim.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from claimsmith.api.kinds import RESOURCE_CLAIM, Kind
from claimsmith.api.resource import encode_resource_claim, encode_resource_claim_status, parse_resource_claim
from claimsmith.errors import ConflictError, NotFoundError
from claimsmith.kube.client import KubeObject, Preconditions
from claimsmith.model.claim import FINALIZER, AllocationResult, ConsumerReference, ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod

__all__ = ["RESERVED_MAX", "ClaimClient", "ClaimWriter", "consumer_of", "is_reserved_for", "make_share_id"]

RESERVED_MAX: Final = 256
"""Most consumers of one claim. Source: ResourceClaimReservedForMaxSize of resource.k8s.io/v1."""

_CONFLICTS_MAX: Final = 6


class ClaimClient(Protocol):
    """What claim writes need of a client."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        """Return one object."""

    async def create(self, kind: Kind, obj: dict[str, Any], *, namespace: str = "") -> KubeObject:
        """Create an object."""

    async def patch(
        self, kind: Kind, name: str, patch: dict[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> KubeObject:
        """Change parts of an object by a merge patch."""

    async def delete(
        self, kind: Kind, name: str, *, namespace: str = "", preconditions: Preconditions | None = None
    ) -> KubeObject:
        """Delete an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Status:
    """The parts of a claim's status that are ours to write."""

    allocation: AllocationResult | None
    reserved_for: tuple[ConsumerReference, ...]


class ClaimWriter:
    """Writes claims.

    Args:
        client: Access to claims.
        now: The time of day, for allocation time stamps.
    """

    def __init__(self, client: ClaimClient, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._client, self._now = client, now

    async def allocate(
        self, claim: ResourceClaim, allocation: AllocationResult, consumer: ConsumerReference
    ) -> ResourceClaim:
        """Give a claim its devices and its first consumer: finalizer, then allocation and reservation in one write.

        Returns:
            The claim as the server stored it.

        Raises:
            ConflictError: Somebody else allocated, deleted or replaced the claim.
            ApiError: The server refused or could not be reached.
        """
        stamped = replace(allocation, allocation_timestamp=_time_text(self._now()))

        def decide(current: ResourceClaim) -> _Status:
            _check_same(claim, current)
            if current.metadata.deletion_timestamp is not None:
                raise _lost(current, "it is being deleted", "an existing claim")
            if current.allocation is not None:
                raise _lost(current, "somebody else allocated it", "a claim without allocation")
            return _Status(allocation=stamped, reserved_for=(*current.reserved_for, consumer))

        return await self._write(claim, decide, with_finalizer=True)

    async def reserve(self, claim: ResourceClaim, consumer: ConsumerReference) -> ResourceClaim:
        """Add a consumer to an allocated claim; one that is there already costs no write.

        Raises:
            ConflictError: The claim lost its allocation, is being deleted, or has no room for one more consumer.
            ApiError: The server refused or could not be reached.
        """

        def decide(current: ResourceClaim) -> _Status | None:
            _check_same(claim, current)
            if current.allocation is None:
                raise _lost(current, "it has no allocation any more", "an allocated claim")
            if is_reserved_for(current, consumer.uid):
                return None
            if current.metadata.deletion_timestamp is not None:
                raise _lost(current, "it is being deleted", "an existing claim")
            if len(current.reserved_for) >= RESERVED_MAX:
                raise _lost(current, f"it is used by {len(current.reserved_for)} pods", f"at most {RESERVED_MAX}")
            return _Status(allocation=current.allocation, reserved_for=(*current.reserved_for, consumer))

        return await self._write(claim, decide)

    async def release(
        self, claim: ResourceClaim, uids: Collection[str], *, keep_allocation: bool = False
    ) -> ResourceClaim:
        """Take consumers off a claim; when none is left it is deallocated: allocation first, then the finalizer.

        Args:
            claim: The claim.
            uids: Consumers to take off; none to deallocate a claim that nobody uses.
            keep_allocation: Leave the devices allocated although nobody uses them.

        Raises:
            NotFoundError: The claim is gone, and with it the reservation.
            ApiError: The server refused or could not be reached.
        """

        def decide(current: ResourceClaim) -> _Status | None:
            _check_same(claim, current)
            left = tuple(item for item in current.reserved_for if item.uid not in uids)
            keep = bool(left) or keep_allocation
            wanted = _Status(allocation=current.allocation if keep else None, reserved_for=left)
            unchanged = wanted.allocation is current.allocation and len(left) == len(current.reserved_for)
            return None if unchanged else wanted

        written = await self._write(claim, decide)
        if written.allocation is not None or FINALIZER not in written.metadata.finalizers:
            return written
        return await self._drop_finalizer(written)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim without status; the server makes its name out of `generate_name`."""
        unnamed = replace(claim.metadata, name="", uid="", resource_version="")
        body = encode_resource_claim(ResourceClaim(metadata=unnamed, spec=claim.spec))
        body.pop("status", None)
        return parse_resource_claim(await self._client.create(RESOURCE_CLAIM, body, namespace=claim.ref.namespace))

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete this very claim; one that is gone already is fine.

        Raises:
            ApiError: The server refused or could not be reached.
        """
        only = Preconditions(uid=claim.uid)
        try:
            await self._client.delete(RESOURCE_CLAIM, claim.ref.name, namespace=claim.ref.namespace, preconditions=only)
        except (NotFoundError, ConflictError):
            return

    async def find_current(self, ref: ClaimRef) -> ResourceClaim:
        """Return the claim as the server has it now.

        Raises:
            NotFoundError: It is gone.
        """
        return parse_resource_claim(await self._client.get(RESOURCE_CLAIM, ref.name, namespace=ref.namespace))

    async def _write(
        self,
        claim: ResourceClaim,
        decide: Callable[[ResourceClaim], _Status | None],
        *,
        with_finalizer: bool = False,
    ) -> ResourceClaim:
        """Write what is decided on the known state; on a conflict on the state that the server has."""
        current, conflicts = claim, 0
        while (wanted := decide(current)) is not None:
            try:
                if with_finalizer and FINALIZER not in current.metadata.finalizers:
                    current = await self._add_finalizer(current)
                return await self._patch_status(current, wanted)
            except ConflictError:
                conflicts += 1
                if conflicts == _CONFLICTS_MAX:
                    raise
                current = await self.find_current(claim.ref)
        return current

    async def _patch_status(self, current: ResourceClaim, wanted: _Status) -> ResourceClaim:
        status = encode_resource_claim_status(
            replace(current, allocation=wanted.allocation, reserved_for=wanted.reserved_for, devices=())
        )
        patch = {
            "metadata": _precondition(current),
            "status": {"allocation": None, "reservedFor": None, **status},
        }
        if wanted.allocation is None:
            patch["status"]["devices"] = None
        elif current.allocation is not None:
            del patch["status"]["allocation"]
        return await self._patch(current, patch, subresource="status")

    async def _add_finalizer(self, current: ResourceClaim) -> ResourceClaim:
        finalizers = [*current.metadata.finalizers, FINALIZER]
        return await self._patch(current, {"metadata": {**_precondition(current), "finalizers": finalizers}})

    async def _drop_finalizer(self, current: ResourceClaim) -> ResourceClaim:
        """Remove the finalizer; on a conflict look again whether the claim is still free."""
        for _ in range(_CONFLICTS_MAX):
            left = [item for item in current.metadata.finalizers if item != FINALIZER]
            try:
                return await self._patch(current, {"metadata": {**_precondition(current), "finalizers": left}})
            except ConflictError:
                current = await self.find_current(current.ref)
                if current.allocation is not None or FINALIZER not in current.metadata.finalizers:
                    return current
        return current

    async def _patch(self, claim: ResourceClaim, patch: dict[str, Any], *, subresource: str = "") -> ResourceClaim:
        name, namespace = claim.ref.name, claim.ref.namespace
        answer = await self._client.patch(RESOURCE_CLAIM, name, patch, namespace=namespace, subresource=subresource)
        return parse_resource_claim(answer)


def consumer_of(pod: Pod) -> ConsumerReference:
    """Return the reference under which a pod stands in `reservedFor`."""
    return ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.uid)


def is_reserved_for(claim: ResourceClaim, uid: str) -> bool:
    """Tell whether a consumer stands in `reservedFor`."""
    return any(item.uid == uid for item in claim.reserved_for)


def _precondition(claim: ResourceClaim) -> dict[str, Any]:
    return {"uid": claim.uid, "resourceVersion": claim.metadata.resource_version}


def _check_same(known: ResourceClaim, current: ResourceClaim) -> None:
    if known.uid != current.uid:
        raise _lost(current, "it was deleted and made anew", f"the claim with uid {known.uid}")


def _lost(claim: ResourceClaim, found: str, allowed: str) -> ConflictError:
    return ConflictError(f"claim {claim.ref}: found that {found}, allowed {allowed}; decide again")


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_share_id() -> str:
    """Return a new uid for a share of a device."""
    return str(uuid.uuid4())

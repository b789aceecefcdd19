"""The writes of one decision, in upstream's order: finalizer, allocation and reservation, then the binding.

Whatever fails, nothing is leaked: what this attempt wrote is taken back, unless it is unknown whether it was written.
Then the next attempt finds it at the API server and goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakValueDictionary

from claimsmith.cluster.cache import ClusterCache, Reservation
from claimsmith.daemons.scheduler_decide import Placed
from claimsmith.daemons.scheduler_wait import DeviceWait
from claimsmith.errors import ApiError, ConflictError, NotFoundError, UnreachableError
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.claims import ClaimWriter, consumer_of, is_reserved_for
from claimsmith.schedule.extended import SPECIAL_NAME, is_extended_claim
from claimsmith.schedule.pods import PodWriter
from claimsmith.telemetry import get_logger, log_event

__all__ = ["Binder"]

_LOOKS_MAX: Final = 5
_log = get_logger("scheduler")


@dataclass(frozen=True, slots=True)
class _Written:
    """A claim that this attempt wrote to; `is_ours` when it allocated it, so that it may deallocate it."""

    claim: ResourceClaim
    is_ours: bool


class Binder:
    """Assumes decisions and writes them.

    Args:
        cache: Where decisions count from the moment they are made.
        claims: Writes to claims.
        pods: Writes to pods.
        wait: Waits for devices that are made ready after their allocation; None: nobody waits.
    """

    def __init__(
        self, cache: ClusterCache, claims: ClaimWriter, pods: PodWriter, *, wait: DeviceWait | None = None
    ) -> None:
        self._cache, self._claims, self._pods, self._wait = cache, claims, pods, wait
        self._locks: WeakValueDictionary[ClaimRef, asyncio.Lock] = WeakValueDictionary()

    def assume(self, pod: Pod, placed: Placed) -> Reservation:
        """Count the decision from now on; each one must be given to `bind`, which ends it."""
        decided = tuple(_decide(pod, claim, allocation) for claim, allocation in placed.allocated)
        reservation = Reservation(
            pod=pod,
            node=placed.node,
            claims=decided,
            uses=frozenset(claim.ref for claim in placed.reserved),
            node_allocatable=placed.node_allocatable,
        )
        self._cache.assume(reservation)
        return reservation

    async def bind(self, pod: Pod, placed: Placed) -> None:
        """Write an assumed decision.

        Raises:
            ConflictError: Somebody else changed what the decision was made on.
            ApiError: The API server refused or could not be reached.
        """
        written: dict[ClaimRef, _Written] = {}
        try:
            special = await self._write_claims(pod, placed, written)
            await self._write_status(pod, placed, special)
            if self._wait is not None:
                await self._wait.until_ready(pod, dict.fromkeys((*written, *(item.ref for item in placed.reserved))))
            await self._bind_pod(pod, placed.node)
        except BaseException as error:
            if not isinstance(error, UnreachableError | asyncio.CancelledError):
                await self._take_back(pod, written)
                await self._clear_status(pod, placed)
            self._cache.forget(pod)
            raise
        self._cache.finish(pod)

    async def free(self, pod: Pod, claim: ResourceClaim) -> None:
        """Deallocate a claim that ties a pod to a node where it does not fit, unless others use it meanwhile.

        The special claim of an earlier attempt is deleted, unless that attempt has bound the pod after all.

        Raises:
            ApiError: The server refused or could not be reached.
        """
        is_special = is_extended_claim(claim, pod)
        if is_special and await self._pods.find_node(pod):
            return
        self._cache.confirm_claim(await self._claims.release(claim, {pod.uid}))
        if is_special:
            await self._claims.delete(claim)

    async def _write_claims(self, pod: Pod, placed: Placed, written: dict[ClaimRef, _Written]) -> str:
        """Write allocations and reservations; returns the name of the special claim, empty for none."""
        consumer, special = consumer_of(pod), _special_of(placed, pod)
        for claim, allocation in placed.allocated:
            target = claim
            if claim.metadata.name == SPECIAL_NAME:
                target = await self._claims.create(claim)
                special = target.metadata.name
                written[target.ref] = _Written(target, is_ours=True)
            stored = await self._claims.allocate(target, allocation, consumer)
            written[stored.ref] = _Written(stored, is_ours=True)
            self._cache.confirm_claim(stored, decided_as=_decide(pod, claim, allocation).ref)
        for claim in placed.reserved:
            await self._reserve(pod, claim, written)
        return special

    async def _write_status(self, pod: Pod, placed: Placed, special: str) -> None:
        """Record in the pod's status what its kubelet must know before it starts the pod."""
        if special and (special, placed.mappings) != (pod.extended_claim_name, pod.extended_mappings):
            await self._pods.set_extended_claim(pod, special, placed.mappings)
        taken = tuple(
            replace(item, claim=special) if item.claim == SPECIAL_NAME else item for item in placed.node_allocatable
        )
        if taken != pod.node_allocatable:
            await self._pods.set_node_allocatable(pod, taken)

    async def _reserve(self, pod: Pod, claim: ResourceClaim, written: dict[ClaimRef, _Written]) -> None:
        """Reserve an allocated claim; pods that share it take their turns, so that they don't conflict."""
        if is_reserved_for(claim, pod.uid):
            return
        lock = self._locks.setdefault(claim.ref, asyncio.Lock())
        async with lock:
            current = self._cache.claims.find(claim.ref)
            known = current if current is not None and current.uid == claim.uid else claim
            stored = await self._claims.reserve(known, consumer_of(pod))
            written[stored.ref] = _Written(stored, is_ours=False)
            self._cache.confirm_claim(stored)

    async def _bind_pod(self, pod: Pod, node: str) -> None:
        try:
            await self._pods.bind(pod, node)
        except (UnreachableError, ConflictError) as error:
            if await self._find_node(pod) != node:
                raise
            log_event(_log, logging.INFO, "pod is bound although", pod=pod.ref, node=node, error=error)

    async def _find_node(self, pod: Pod) -> str | None:
        """The node that the server has bound the pod to; None when that can't be found out, or the pod is gone."""
        for look in range(_LOOKS_MAX):
            try:
                return await self._pods.find_node(pod)
            except NotFoundError:
                return None
            except ApiError:
                await asyncio.sleep(0.2 * 2**look)
        return None

    async def _take_back(self, pod: Pod, written: dict[ClaimRef, _Written]) -> None:
        """Release what this attempt reserved; claims that it allocated are free again, one that it made is deleted."""
        for ref, entry in written.items():
            claim = entry.claim
            try:
                freed = await self._claims.release(claim, {pod.uid}, keep_allocation=not entry.is_ours)
                self._cache.confirm_claim(freed)
                if is_extended_claim(claim, pod):
                    await self._claims.delete(claim)
            except NotFoundError:
                self._cache.claims.lose(claim)
            except ApiError as error:
                log_event(_log, logging.WARNING, "claim stays reserved", claim=ref, pod=pod.ref, error=error)

    async def _clear_status(self, pod: Pod, placed: Placed) -> None:
        """Take back what was recorded of the node's resources; the next attempt may choose another node."""
        if placed.node_allocatable:
            try:
                await self._pods.set_node_allocatable(pod, ())
            except ApiError as error:
                log_event(_log, logging.INFO, "status not cleared", pod=pod.ref, error=error)


def _decide(pod: Pod, claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """The claim as it will be; one that is still to be created gets a name that no object can have."""
    metadata = claim.metadata
    if metadata.name == SPECIAL_NAME:
        metadata = replace(metadata, name=f"{SPECIAL_NAME}/{pod.uid}", uid=f"extended-{pod.uid}")
    return replace(
        claim,
        metadata=metadata,
        allocation=allocation,
        reserved_for=(*claim.reserved_for, consumer_of(pod)),
    )


def _special_of(placed: Placed, pod: Pod) -> str:
    """Name of the claim for extended resources that an earlier attempt made; empty for none."""
    claims = [*(claim for claim, _ in placed.allocated), *placed.reserved]
    names = (claim.metadata.name for claim in claims if is_extended_claim(claim, pod))
    return next((name for name in names if name != SPECIAL_NAME), "")

"""The writes of one decision, in upstream's order: finalizer, allocation and reservation, then the binding.

Whatever fails, nothing is leaked: what this attempt wrote is taken back, unless it is unknown whether it was written.
Then the next attempt finds it at the API server and goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from claimsmith.cluster.cache import ClusterCache, Reservation
from claimsmith.daemons.scheduler_decide import Placed
from claimsmith.daemons.scheduler_wait import DeviceWait
from claimsmith.errors import ApiError, ConflictError, NotFoundError, UnreachableError
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.claims import ClaimWriter, is_reserved_for
from claimsmith.schedule.extended import SPECIAL_NAME, is_extended_claim
from claimsmith.schedule.groupclaims import find_claim_consumer, reserve_claim
from claimsmith.schedule.pods import PodWriter
from claimsmith.telemetry import get_logger, log_event

__all__ = ["Binder", "build_reservation"]

T = TypeVar("T")

_LOOKS_MAX: Final = 5
_WRITES_MAX: Final = 16
"""Writes for one gang that may be under way at the same time."""
_log = get_logger("scheduler")


@dataclass(frozen=True, slots=True)
class _Written:
    """A claim that this attempt wrote to; `is_ours` when it allocated it, so that it may deallocate it."""

    claim: ResourceClaim
    is_ours: bool


@dataclass(frozen=True, slots=True)
class _Work:
    """One pod of a gang, and the claims that were written for it so far."""

    pod: Pod
    placed: Placed
    written: dict[ClaimRef, _Written] = field(default_factory=dict)


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
        reservation = build_reservation(pod, placed)
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
            special = await self._allocate(pod, placed, written)
            for claim in placed.reserved:
                await self._reserve(pod, placed, claim, written)
            await self._write_status(pod, placed, special)
            await self._wait_until_ready(pod, placed, written)
            await self._bind_pod(pod, placed.node)
        except BaseException as error:
            if not isinstance(error, UnreachableError | asyncio.CancelledError):
                await self._take_back(pod, placed, written)
                await self._clear_status(pod, placed)
            self._cache.forget(pod)
            raise
        self._cache.finish(pod)

    async def bind_gang(self, members: Sequence[tuple[Pod, Placed]], *, needed: int) -> tuple[Pod, ...]:
        """Write an assumed decision about several pods: first all that their claims need, then the bindings.

        Whatever fails before the first binding takes back all the rest: no claim stays allocated for a part of them.

        Args:
            members: Pods, each with what it gets.
            needed: How many of them must be there still before the first one is bound; >= 1.

        Returns:
            Pods that could not be bound although the others were; what was written for them is taken back.

        Raises:
            ConflictError: Somebody else changed what the decision was made on, or too few of the pods are left.
            ApiError: The API server refused or could not be reached.
        """
        works = [_Work(pod, placed) for pod, placed in members]
        try:
            await self._write_gang(works, needed)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                await self._take_back_gang(works)
            for work in works:
                self._cache.forget(work.pod)
            raise
        bound = await _gather(self._bind_member(work) for work in works)
        return tuple(work.pod for work, is_bound in zip(works, bound, strict=True) if not is_bound)

    async def free(self, pod: Pod, claim: ResourceClaim) -> None:
        """Deallocate a claim that ties a pod to a node where it does not fit, unless others came to use it meanwhile.

        The special claim of an earlier attempt is deleted, unless that attempt has bound the pod after all.

        Raises:
            ApiError: The server refused or could not be reached.
        """
        is_special = is_extended_claim(claim, pod)
        if is_special and await self._pods.find_node(pod):
            return
        users = {pod.uid, *(item.uid for item in claim.reserved_for)}
        self._cache.confirm_claim(await self._claims.release(claim, users))
        if is_special:
            await self._claims.delete(claim)

    async def _allocate(self, pod: Pod, placed: Placed, written: dict[ClaimRef, _Written]) -> str:
        """Write allocations with their reservation; returns the name of the special claim, empty for none."""
        special = _special_of(placed, pod)
        for claim, allocation in placed.allocated:
            target = claim
            if claim.metadata.name == SPECIAL_NAME:
                target = await self._claims.create(claim)
                special = target.metadata.name
                written[target.ref] = _Written(target, is_ours=True)
            consumer = find_claim_consumer(pod, claim.ref, placed.group)
            stored = await self._claims.allocate(target, allocation, consumer)
            written[stored.ref] = _Written(stored, is_ours=True)
            self._cache.confirm_claim(stored, decided_as=_decide(pod, placed, claim, allocation).ref)
        return special

    async def _wait_until_ready(self, pod: Pod, placed: Placed, written: dict[ClaimRef, _Written]) -> None:
        """Wait until the devices of all claims are ready for binding."""
        if self._wait is not None:
            await self._wait.until_ready(pod, dict.fromkeys((*written, *(item.ref for item in placed.reserved))))

    async def _write_gang(self, works: Sequence[_Work], needed: int) -> None:
        """Write all that comes before the bindings, step by step: allocations, reservations, status, readiness."""
        specials = await _gather(self._allocate(work.pod, work.placed, work.written) for work in works)
        await _gather(
            self._reserve(work.pod, work.placed, claim, work.written)
            for work in works
            for claim in work.placed.reserved
        )
        await _gather(
            self._write_status(work.pod, work.placed, special) for work, special in zip(works, specials, strict=True)
        )
        await _gather(self._wait_until_ready(work.pod, work.placed, work.written) for work in works)
        present = await _gather(self._is_present(work.pod) for work in works)
        if sum(present) < needed:
            gone = next(work.pod.ref for work, is_there in zip(works, present, strict=True) if not is_there)
            raise ConflictError(f"pod {gone}: found that it is gone, allowed at least {needed} pods; decide again")

    async def _is_present(self, pod: Pod) -> bool:
        """Whether a pod is still there and not being deleted; the server is asked, since a watch may lag behind."""
        known = self._cache.pods.get(pod.ref)
        if known is None or known.uid != pod.uid or known.metadata.deletion_timestamp is not None:
            return False
        try:
            return await self._pods.find_node(pod) is not None
        except NotFoundError:
            return False

    async def _bind_member(self, work: _Work) -> bool:
        """Bind one pod of a gang; False when that failed."""
        pod, placed = work.pod, work.placed
        try:
            await self._bind_pod(pod, placed.node)
        except ApiError as error:
            log_event(_log, logging.WARNING, "pod of a gang is not bound", pod=pod.ref, node=placed.node, error=error)
            if not isinstance(error, UnreachableError):
                await self._take_back(pod, placed, work.written)
                await self._clear_status(pod, placed)
            self._cache.forget(pod)
            return False
        self._cache.finish(pod)
        return True

    async def _take_back_gang(self, works: Sequence[_Work]) -> None:
        """Release all that was written for a gang, also what may have been written although no answer came."""
        taken: dict[ClaimRef, tuple[_Written, _Work]] = {}
        users: dict[ClaimRef, set[str]] = {}
        for work in works:
            entries = {**work.written, **await self._find_unanswered(work)}
            for ref, entry in entries.items():
                users.setdefault(ref, set()).add(find_claim_consumer(work.pod, ref, work.placed.group).uid)
                if entry.is_ours or ref not in taken:
                    taken[ref] = (entry, work)
        for ref, (entry, work) in taken.items():
            await self._give_back(entry.claim, users[ref], pod=work.pod, keep_allocation=not entry.is_ours)
        for work in works:
            await self._clear_status(work.pod, work.placed)

    async def _find_unanswered(self, work: _Work) -> dict[ClaimRef, _Written]:
        """Return the claims that are allocated for the pod although the write seemed to fail."""
        found: dict[ClaimRef, _Written] = {}
        for claim, _ in work.placed.allocated:
            if claim.ref in work.written or claim.metadata.name == SPECIAL_NAME:
                continue
            try:
                current = await self._claims.find_current(claim.ref)
            except ApiError:
                continue
            consumer = find_claim_consumer(work.pod, claim.ref, work.placed.group)
            if current.uid == claim.uid and is_reserved_for(current, consumer.uid):
                found[claim.ref] = _Written(current, is_ours=True)
        return found

    async def _write_status(self, pod: Pod, placed: Placed, special: str) -> None:
        """Record in the pod's status what its kubelet must know before it starts the pod."""
        if special and (special, placed.mappings) != (pod.extended_claim_name, pod.extended_mappings):
            await self._pods.set_extended_claim(pod, special, placed.mappings)
        taken = tuple(
            replace(item, claim=special) if item.claim == SPECIAL_NAME else item for item in placed.node_allocatable
        )
        if taken != pod.node_allocatable:
            await self._pods.set_node_allocatable(pod, taken)

    async def _reserve(self, pod: Pod, placed: Placed, claim: ResourceClaim, written: dict[ClaimRef, _Written]) -> None:
        """Reserve an allocated claim; pods that share it take their turns, so that they don't conflict."""
        consumer = find_claim_consumer(pod, claim.ref, placed.group)
        if is_reserved_for(claim, consumer.uid):
            return
        lock = self._locks.setdefault(claim.ref, asyncio.Lock())
        async with lock:
            current = self._cache.claims.find(claim.ref)
            known = current if current is not None and current.uid == claim.uid else claim
            stored = await self._claims.reserve(known, consumer)
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

    async def _take_back(self, pod: Pod, placed: Placed, written: dict[ClaimRef, _Written]) -> None:
        """Release what this attempt reserved; claims that it allocated are free again, one that it made is deleted.

        What is reserved for the pod's group stays: other pods of the group may count on it meanwhile.
        """
        for ref, entry in written.items():
            claim = entry.claim
            if find_claim_consumer(pod, ref, placed.group).uid != pod.uid:
                continue
            await self._give_back(claim, {pod.uid}, pod=pod, keep_allocation=not entry.is_ours)

    async def _give_back(self, claim: ResourceClaim, uids: Collection[str], *, pod: Pod, keep_allocation: bool) -> None:
        """Take consumers off a claim; a special claim is deleted."""
        try:
            freed = await self._claims.release(claim, uids, keep_allocation=keep_allocation)
            self._cache.confirm_claim(freed)
            if is_extended_claim(claim, pod):
                await self._claims.delete(claim)
        except NotFoundError:
            self._cache.claims.lose(claim)
        except ApiError as error:
            log_event(_log, logging.WARNING, "claim stays reserved", claim=claim.ref, pod=pod.ref, error=error)

    async def _clear_status(self, pod: Pod, placed: Placed) -> None:
        """Take back what was recorded of the node's resources; the next attempt may choose another node."""
        if placed.node_allocatable:
            try:
                await self._pods.set_node_allocatable(pod, ())
            except ApiError as error:
                log_event(_log, logging.INFO, "status not cleared", pod=pod.ref, error=error)


async def _gather(works: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all, also when one fails: what was written must be known. Then the first failure is raised."""
    gate = asyncio.Semaphore(_WRITES_MAX)

    async def run(work: Awaitable[T]) -> T:
        async with gate:
            return await work

    done = await asyncio.gather(*(run(work) for work in works), return_exceptions=True)
    for outcome in done:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in done if not isinstance(outcome, BaseException)]


def build_reservation(pod: Pod, placed: Placed) -> Reservation:
    """Return what counts of a decision from the moment it is made."""
    return Reservation(
        pod=pod,
        node=placed.node,
        claims=tuple(_decide(pod, placed, claim, allocation) for claim, allocation in placed.allocated),
        uses=frozenset(claim.ref for claim in placed.reserved),
        node_allocatable=placed.node_allocatable,
    )


def _decide(pod: Pod, placed: Placed, claim: ResourceClaim, allocation: AllocationResult) -> ResourceClaim:
    """The claim as it will be; one that is still to be created gets a name that no object can have."""
    metadata = claim.metadata
    if metadata.name == SPECIAL_NAME:
        metadata = replace(metadata, name=f"{SPECIAL_NAME}/{pod.uid}", uid=f"extended-{pod.uid}")
    return replace(reserve_claim(claim, pod, placed.group), metadata=metadata, allocation=allocation)


def _special_of(placed: Placed, pod: Pod) -> str:
    """Name of the claim for extended resources that an earlier attempt made; empty for none."""
    claims = [*(claim for claim, _ in placed.allocated), *placed.reserved]
    names = (claim.metadata.name for claim in claims if is_extended_claim(claim, pod))
    return next((name for name in names if name != SPECIAL_NAME), "")

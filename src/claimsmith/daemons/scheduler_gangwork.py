"""Gangs in the scheduler: when one is due, its decision, the writes, and what people are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from claimsmith.allocate.joint import JointDecision
from claimsmith.api.kinds import POD, POD_GROUP, RESOURCE_CLAIM
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_bind import Binder
from claimsmith.daemons.scheduler_decide import Unplaced
from claimsmith.daemons.scheduler_gang import GangDecider, GangPlaced
from claimsmith.daemons.scheduler_joint import Solve
from claimsmith.daemons.scheduler_numbers import SchedulerNumbers
from claimsmith.errors import ApiError
from claimsmith.kube.events import EventRecorder, EventType, ObjectReference, cut_text
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import Gang, GangDirectory, find_group_ref
from claimsmith.schedule.groups import GroupWriter
from claimsmith.schedule.pods import PodWriter, is_schedulable
from claimsmith.schedule.queue import RETRY_MAX_S, Change, PodQueue, QueuedPod
from claimsmith.schedule.told import EXPLAIN_EVERY_S, ToldBook
from claimsmith.telemetry import get_logger, log_event

__all__ = ["GangWork", "SchedulerParts", "about_claim", "about_pod", "fail_decision", "follow_steps"]

T = TypeVar("T")

_log = get_logger("scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerParts:
    """What the scheduler of pods and that of gangs share."""

    cache: ClusterCache
    queue: PodQueue
    binder: Binder
    recorder: EventRecorder
    pods: PodWriter
    numbers: SchedulerNumbers
    clock: Callable[[], float]


class GangWork:
    """Keeps the gangs of a scheduler.

    Args:
        parts: What is shared with the scheduler of single pods.
        decider: Decides for gangs.
        groups: Writes to pod groups.
        names: Values of `spec.schedulerName` that are taken.
    """

    def __init__(
        self, parts: SchedulerParts, decider: GangDecider, groups: GroupWriter, *, names: frozenset[str]
    ) -> None:
        self._parts, self._decider, self._groups = parts, decider, groups
        self._directory = GangDirectory(parts.cache.groups, waits=lambda pod: is_schedulable(pod, names))
        self._told: ToldBook[PodGroupRef] = ToldBook(parts.clock)
        parts.cache.subscribe_groups(self._hear_group)

    # --- when one is due ----------------------------------------------------------------------------------------------

    def hear_pod(self, old: Pod | None, new: Pod | None) -> bool:
        """Take in a change of a pod.

        Returns:
            Whether the pod is queued here, with its group, and not by itself.
        """
        refs = {find_group_ref(pod) for pod in (old, new) if pod is not None} - {None}
        if not refs:
            return False
        self._directory.see_pod(old, new)
        is_joint = False
        for ref in refs:
            if ref is not None:
                is_joint = self._queue(ref)
        return is_joint

    def _hear_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        for ref in {group.ref for group in (old, new) if group is not None}:
            self._parts.queue.hear(Change("group", f"group {ref}"))
            gang = self._directory.find(ref)
            if not self._queue(ref):
                for pod in gang.waiting:
                    self._parts.queue.add(pod)
            else:
                for pod in gang.waiting:
                    self._parts.queue.remove(pod.ref)
            if new is None:
                self._told.forget(ref)

    def _queue(self, ref: PodGroupRef) -> bool:
        """Bring the queue up to date about one group; returns whether its pods are decided together."""
        gang, queue = self._directory.find(ref), self._parts.queue
        if gang.is_joint and gang.waiting:
            queue.add_gang(gang)
        elif not gang.is_joint or not any(self._parts.cache.find_reservation(pod) for pod in gang.placed):
            queue.remove_gang(ref)
            if not gang.placed:
                self._told.forget(ref)
        return gang.is_joint

    # --- deciding and writing -----------------------------------------------------------------------------------------

    async def decide(self, item: QueuedPod, gang: Gang) -> GangPlaced | Unplaced:
        """Decide for a gang, and count the decision at once; a failure of ours must not stop the other pods.

        What may take long is done beside the event loop; no other decision is made meanwhile.
        """
        try:
            explain = self._told.is_due(gang.ref, attempts=item.attempts)
            outcome = await follow_steps(self._decider.steps(gang, explain=explain))
            if isinstance(outcome, GangPlaced):
                for pod, placed in outcome.placed:
                    self._parts.binder.assume(pod, placed)
            return outcome
        except Exception as error:
            return fail_decision(item, error)

    async def settle(self, item: QueuedPod, gang: Gang, outcome: GangPlaced | Unplaced) -> None:
        """Write a decision; whatever goes wrong, the gang is tried again.

        Raises:
            ApiError: The API server refused or could not be reached.
        """
        if isinstance(outcome, GangPlaced):
            await self._bind(item, gang, outcome)
            return
        within_s = RETRY_MAX_S if outcome.message else EXPLAIN_EVERY_S
        self._parts.queue.postpone(item, outcome.helps, backoff=outcome.tried, within_s=within_s)
        await self._tell(gang, outcome)
        for claim in outcome.stale:
            await self._parts.binder.free(gang.waiting[0], claim)

    async def _bind(self, item: QueuedPod, gang: Gang, outcome: GangPlaced) -> None:
        parts = self._parts
        try:
            unbound = await parts.binder.bind_gang(outcome.placed, needed=min(gang.needed, len(outcome.placed)))
        except Exception:
            parts.numbers.count_bindings(failed=len(outcome.placed))
            parts.queue.retry(item)
            raise
        parts.numbers.count_bindings(bound=len(outcome.placed) - len(unbound), failed=len(unbound))
        if unbound:
            parts.queue.retry(item)
        else:
            parts.queue.remove_gang(gang.ref)
            self._queue(gang.ref)
        self._told.forget(gang.ref)
        failed = {pod.uid for pod in unbound}
        bound = [(pod, placed.node) for pod, placed in outcome.placed if pod.uid not in failed]
        for pod, node in bound:
            parts.recorder.record(about_pod(pod), "Normal", "Scheduled", f"Successfully assigned {pod.ref} to {node}")
        if gang.group is not None and len(bound) >= gang.needed:
            text = f"{len(bound) + len(gang.placed)} pods of pod group {gang.ref} have their nodes"
            self._record(gang.group, "Normal", "Scheduled", text)
            await self._groups.mark(gang.group, "Scheduled", text)

    # --- telling ------------------------------------------------------------------------------------------------------

    async def _tell(self, gang: Gang, unplaced: Unplaced) -> None:
        """Record why a gang got no places, on the group and on its pods; the same text again costs no write."""
        if unplaced.quiet or not unplaced.message:
            return
        message = cut_text(unplaced.message)
        is_news = self._told.note(gang.ref, message)
        if gang.group is not None:
            self._record(gang.group, "Warning", "FailedScheduling", message)
        for pod in gang.waiting:
            self._parts.recorder.record(about_pod(pod), "Warning", "FailedScheduling", message)
        if not is_news:
            return
        if gang.group is not None:
            await self._groups.mark(gang.group, unplaced.reason, message)
        for pod in gang.waiting:
            try:
                await self._parts.pods.mark_unscheduled(pod, unplaced.reason, message)
            except ApiError as error:
                log_event(_log, logging.INFO, "condition not written", pod=pod.ref, error=error)

    def _record(self, group: PodGroup, kind: EventType, reason: str, message: str) -> None:
        about = ObjectReference(
            kind=POD_GROUP,
            name=group.metadata.name,
            namespace=group.metadata.namespace,
            uid=group.uid,
            resource_version=group.metadata.resource_version,
        )
        self._parts.recorder.record(about, kind, reason, message)


def about_pod(pod: Pod) -> ObjectReference:
    """Return a pod as events name it."""
    return ObjectReference(
        kind=POD,
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        uid=pod.uid,
        resource_version=pod.metadata.resource_version,
    )


def about_claim(claim: ResourceClaim) -> ObjectReference:
    """Return a claim as events name it."""
    return ObjectReference(
        kind=RESOURCE_CLAIM,
        name=claim.metadata.name,
        namespace=claim.metadata.namespace,
        uid=claim.uid,
        resource_version=claim.metadata.resource_version,
    )


def fail_decision(item: QueuedPod, error: Exception) -> Unplaced:
    """Return what to make of a decision that failed by a fault of ours; it is logged."""
    _log.error("no decision pod=%s", item.name, exc_info=error)
    message = f"the scheduler failed: {type(error).__name__}: {error}"
    return Unplaced(reason="SchedulerError", message=message, helps=lambda _: True)


async def follow_steps(steps: Generator[Solve, JointDecision | None, T]) -> T:
    """Do the steps of a decision, each beside the event loop; one that fails by a fault of ours has no answer."""
    try:
        solve = next(steps)
        while True:
            solve = steps.send(await _solve(solve))
    except StopIteration as end:
        decided: T = end.value
        return decided


async def _solve(solve: Solve) -> JointDecision | None:
    try:
        return await asyncio.to_thread(solve)
    except Exception as error:
        _log.error("no joint answer", exc_info=error)
        return None

"""The scheduler: takes pods and gangs that name it, decides nodes and devices together, and writes the decision."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from claimsmith.allocate.joint import JointLimits
from claimsmith.allocate.policy.objective import PACK, Policy
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.api import resource
from claimsmith.api.kinds import DEVICE_CLASS, DEVICE_TAINT_RULE, RESOURCE_SLICE
from claimsmith.cluster.cache import ClusterCache
from claimsmith.cluster.follow import follow_cluster, follow_nodes
from claimsmith.daemons.scheduler_batch import BATCH_LIMITS, BatchDecider
from claimsmith.daemons.scheduler_bind import Binder
from claimsmith.daemons.scheduler_decide import Decider, Placed, Unplaced
from claimsmith.daemons.scheduler_gang import GangDecider, GangPlaced
from claimsmith.daemons.scheduler_gangwork import (
    GangWork,
    SchedulerParts,
    about_claim,
    about_pod,
    fail_decision,
    follow_steps,
)
from claimsmith.daemons.scheduler_joint import JointDecider
from claimsmith.daemons.scheduler_numbers import SchedulerNumbers
from claimsmith.daemons.scheduler_wait import DeviceWait
from claimsmith.errors import ApiError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, cut_text
from claimsmith.kube.informers import Informers
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.features import Features
from claimsmith.model.node import Node
from claimsmith.model.workload import Pod
from claimsmith.schedule.changes import find_claim_change, find_node_change, find_pod_change
from claimsmith.schedule.claims import ClaimWriter
from claimsmith.schedule.gangs import Gang
from claimsmith.schedule.groups import GroupWriter
from claimsmith.schedule.holders import HolderIndex
from claimsmith.schedule.pods import PodWriter, is_schedulable
from claimsmith.schedule.queue import RETRY_MAX_S, Change, PodQueue, QueuedPod
from claimsmith.schedule.score import Placement
from claimsmith.schedule.told import EXPLAIN_EVERY_S, ToldBook
from claimsmith.telemetry import Meter, get_logger, log_event

__all__ = ["SCHEDULER_NAME", "Scheduler", "SchedulerOptions"]

SCHEDULER_NAME: Final = "claimsmith"
"""What pods write in `spec.schedulerName` to get this scheduler."""

_log = get_logger("scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions:
    """What can be set.

    Args:
        names: Values of `spec.schedulerName` that are taken.
        placement: `spread` prefers nodes with the most room, `pack` those with the least.
        writes_max: Decisions whose writes may be under way at the same time; >= 1.
        features: The cluster's feature gates for allocation; None: a stock cluster's.
        node_allocatable: Whether devices may take of a node's cpu, memory and the like: the scheduler's gate
            DRANodeAllocatableResources, which is off in a stock cluster.
        binding_timeout_s: Seconds that devices get to become ready for binding, from their allocation on; >= 1.
        batch_max: Pods that are due at the same moment and may be decided together; >= 1.
        policy: What makes one decision better than another; None: for pods by themselves the first node and devices
            that fit, for gangs `pack`.
    """

    names: frozenset[str] = frozenset({SCHEDULER_NAME})
    placement: Placement = "spread"
    writes_max: int = 16
    features: Features | None = None
    node_allocatable: bool = False
    binding_timeout_s: float = 600.0
    policy: Policy | None = None
    batch_max: int = 16


class Scheduler:
    """Queue, decisions and writes of one scheduler.

    The informers are shared: whoever made them runs them.

    Args:
        client: The API server.
        informers: Reflectors of the cluster.
        options: What can be set.
        clock: Monotonic seconds.
        now: The time of day.
        meter: Keeps numbers of what is decided and written; None: nobody asks for them.
    """

    def __init__(
        self,
        client: KubeClient,
        informers: Informers,
        options: SchedulerOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        meter: Meter | None = None,
    ) -> None:
        self.options = options or SchedulerOptions()
        self.cache = ClusterCache()
        self.queue = PodQueue(clock)
        self.holders = HolderIndex()
        self.ready = asyncio.Event()
        self._informers = informers
        self._numbers = SchedulerNumbers(meter or Meter())
        self._clock = clock
        self._recorder = EventRecorder(client, "claimsmith-scheduler", now=now)
        self._pods = PodWriter(client, now=now)
        features = self.options.features or Features()
        wait = DeviceWait(self.cache, now=now, timeout_s=self.options.binding_timeout_s, pausing=self._pausing)
        waits = wait if features.device_binding_and_status else None
        self._binder = Binder(self.cache, ClaimWriter(client, now=now), self._pods, wait=waits)
        cluster = PreparedCluster(self.options.features)
        self._decider = Decider(
            self.cache,
            cluster,
            placement=self.options.placement,
            policy=self.options.policy,
            node_allocatable=self.options.node_allocatable,
            find_problem=wait.find_problem if waits is not None else lambda _: "",
        )
        in_short = self._decide_jointly(cluster, BATCH_LIMITS)
        self._batches = BatchDecider(self.cache, self._decider, in_short, clock=clock)
        gangs = GangDecider(self.cache, self._decider, joint=self._decide_jointly(cluster))
        self._gangs = GangWork(self._parts(), gangs, GroupWriter(client, now=now), names=self.options.names)
        self._slots = asyncio.Semaphore(self.options.writes_max)
        self._told: ToldBook[str] = ToldBook(clock)
        follow_cluster(informers, self.cache)
        self._listen(informers)

    def _parts(self) -> SchedulerParts:
        return SchedulerParts(
            cache=self.cache,
            queue=self.queue,
            binder=self._binder,
            recorder=self._recorder,
            pods=self._pods,
            numbers=self._numbers,
            clock=self._clock,
        )

    def _decide_jointly(self, cluster: PreparedCluster, limits: JointLimits | None = None) -> JointDecider:
        policy = self.options.policy or PACK
        return JointDecider(self.cache, cluster, self._decider, policy=policy, limits=limits)

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="scheduler events")
            self.ready.set()
            while True:
                await self._slots.acquire()
                for item, work in await self._decide_next(await self._pop()):
                    group.create_task(work, name=f"schedule {item.name}")
                await asyncio.sleep(0)

    async def _pop(self) -> list[QueuedPod]:
        """Return the next pod or gang; with a pod that has claims also those that are due behind it."""
        try:
            items = [await self.queue.pop()]
        except BaseException:
            self._slots.release()
            raise
        while _has_claims(items[0]) and len(items) < self.options.batch_max and not self._slots.locked():
            more = self.queue.pop_next(_has_claims)
            if more is None:
                break
            await self._slots.acquire()
            items.append(more)
        return items

    async def _decide_next(self, items: list[QueuedPod]) -> list[tuple[QueuedPod, Coroutine[Any, Any, None]]]:
        """Decide for what was taken from the queue; returns what is to be done about each decision."""
        first, begun_s = items[0], self._clock()
        gang = first.gang
        if gang is not None:
            decided = await self._gangs.decide(first, gang)
            self._numbers.count_decisions([decided], self._clock() - begun_s)
            return [(first, self._settle_gang(first, gang, decided))]
        outcomes = await self._decide_batch(items) if len(items) > 1 else (self._decide(first),)
        self._numbers.count_decisions(outcomes, self._clock() - begun_s)
        return [(item, self._settle(item, outcome)) for item, outcome in zip(items, outcomes, strict=True)]

    async def _decide_batch(self, items: list[QueuedPod]) -> tuple[Placed | Unplaced, ...]:
        """Decide for several pods, and count the decisions at once; a fault of ours leaves each to itself."""
        attempts = {item.pod.uid: item for item in items}
        try:
            steps = self._batches.steps(
                [item.pod for item in items], explain=lambda pod: self._is_due(attempts[pod.uid])
            )
            outcomes = await follow_steps(steps)
        except Exception as error:
            _log.error("no decision for several pods", exc_info=error)
            return tuple(self._decide(item) for item in items)
        for item, outcome in zip(items, outcomes, strict=True):
            if isinstance(outcome, Placed):
                self._binder.assume(item.pod, outcome)
        return outcomes

    def _is_due(self, item: QueuedPod) -> bool:
        """Whether a pod should be told again why it waits."""
        return self._told.is_due(item.pod.uid, attempts=item.attempts)

    def _decide(self, item: QueuedPod) -> Placed | Unplaced:
        """Decide for one pod, and count the decision at once; a failure of ours must not stop the other pods."""
        try:
            outcome = self._decider.decide(item.pod, explain=self._is_due(item))
            if isinstance(outcome, Placed):
                self._binder.assume(item.pod, outcome)
            return outcome
        except Exception as error:
            return fail_decision(item, error)

    async def _settle(self, item: QueuedPod, outcome: Placed | Unplaced) -> None:
        """Write a decision; whatever goes wrong, the pod is tried again."""
        try:
            if isinstance(outcome, Placed):
                await self._bind(item, outcome)
            else:
                within_s = RETRY_MAX_S if outcome.message else EXPLAIN_EVERY_S
                self.queue.postpone(item, outcome.helps, backoff=outcome.tried, within_s=within_s)
                await self._tell(item.pod, outcome)
                for claim in outcome.stale:
                    await self._binder.free(item.pod, claim)
        except ApiError as error:
            log_event(_log, logging.INFO, "decision not written", pod=item.pod.ref, error=error)
        except Exception:
            _log.exception("decision not written pod=%s", item.pod.ref)
        finally:
            self._slots.release()

    async def _settle_gang(self, item: QueuedPod, gang: Gang, outcome: GangPlaced | Unplaced) -> None:
        """Write the decision for a gang; whatever goes wrong, it is tried again."""
        try:
            await self._gangs.settle(item, gang, outcome)
        except ApiError as error:
            log_event(_log, logging.INFO, "decision not written", group=gang.ref, error=error)
        except Exception:
            _log.exception("decision not written group=%s", gang.ref)
        finally:
            self._slots.release()

    async def _bind(self, item: QueuedPod, placed: Placed) -> None:
        pod = item.pod
        try:
            await self._binder.bind(pod, placed)
        except Exception:
            self._numbers.count_bindings(failed=1)
            self.queue.retry(item)
            raise
        self._numbers.count_bindings(bound=1)
        self.queue.remove(pod.ref)
        self._told.forget(pod.uid)
        text = f"Successfully assigned {pod.ref} to {placed.node}"
        self._recorder.record(about_pod(pod), "Normal", "Scheduled", text)

    @asynccontextmanager
    async def _pausing(self, pod: Pod, waits_for: str) -> AsyncIterator[None]:
        """Let other decisions be written while a pod waits for its devices."""
        text = f"waiting for binding conditions: {waits_for}"
        self._recorder.record(about_pod(pod), "Normal", "BindingConditionsPending", text)
        self._slots.release()
        try:
            yield
        finally:
            await self._slots.acquire()

    async def _tell(self, pod: Pod, unplaced: Unplaced) -> None:
        """Record why the pod got no node, as an event and a condition; the same text again costs no write."""
        if unplaced.quiet or not unplaced.message:
            return
        message = cut_text(unplaced.message)
        is_news = self._told.note(pod.uid, message)
        self._recorder.record(about_pod(pod), "Warning", "FailedScheduling", message)
        if is_news:
            await self._pods.mark_unscheduled(pod, unplaced.reason, message)

    def _listen(self, informers: Informers) -> None:
        """Hear of what may help waiting pods; the cache has taken each change in before."""
        self.cache.subscribe_pods(self._hear_pod)
        self.cache.subscribe_claims(self._hear_claim)
        follow_nodes(informers).subscribe(self._hear_node)
        for reflector, kind in (
            (informers.of(RESOURCE_SLICE, resource.parse_resource_slice), "slice"),
            (informers.of(DEVICE_CLASS, resource.parse_device_class), "class"),
            (informers.of(DEVICE_TAINT_RULE, resource.parse_device_taint_rule), "taint-rule"),
        ):
            reflector.subscribe(_Hearing(self.queue, Change(kind)))

    def _hear_pod(self, old: Pod | None, new: Pod | None) -> None:
        if self.cache.is_trial:
            return
        pod = new if new is not None else old
        if pod is None:
            return
        if new is None or new.finished:
            self._told.forget(pod.uid)
        change = find_pod_change(old, new)
        if change is not None:
            self.queue.hear(change)
        is_ganged = self._gangs.hear_pod(old, new)
        if is_ganged or (new is not None and self.cache.find_reservation(new) is not None):
            return
        if new is not None and is_schedulable(new, self.options.names):
            self.queue.add(new)
        else:
            self.queue.remove(pod.ref)

    def _hear_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if self.cache.is_trial:
            return
        self.queue.hear(find_claim_change(old, new))
        for contest in self.holders.see_claim(old, new):
            log_event(_log, logging.WARNING, "device is held twice", device=contest.device)
            for claim in map(self.cache.claims.find, contest.claims):
                if claim is not None:
                    self._recorder.record(about_claim(claim), "Warning", "DeviceHeldTwice", contest.text)

    def _hear_node(self, old: Node | None, new: Node | None) -> None:
        change = find_node_change(old, new)
        if change is not None:
            self.queue.hear(change)


class _Hearing:
    """Tells the queue of every change of one kind."""

    def __init__(self, queue: PodQueue, change: Change) -> None:
        self._queue, self._change = queue, change

    def __call__(self, old: object, new: object) -> None:
        self._queue.hear(self._change)


def _has_claims(item: QueuedPod) -> bool:
    """Whether the item is a pod by itself that may get devices."""
    return item.gang is None and bool(item.pod.claims)

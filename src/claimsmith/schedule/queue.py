"""Pods and gangs that wait for a decision: now, after a pause, or for a change in the cluster.

Source: the scheduling queue of kubernetes v1.37.2 pkg/scheduler/backend/queue (backoff 1 s to 10 s, moves on events,
a move that happens while a pod is being decided counts for it; a pod in backoff that a change may help is tried early
when nothing else is to do, as with SchedulerPopFromBackoffQ, unless its last attempt failed by an error).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from claimsmith.model.names import PodRef
from claimsmith.model.podgroup import PodGroupRef
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import Gang

__all__ = ["BACKOFF_INITIAL_S", "BACKOFF_MAX_S", "GATHER_S", "RETRY_MAX_S", "Change", "PodQueue", "QueuedPod"]

BACKOFF_INITIAL_S: Final = 1.0
BACKOFF_MAX_S: Final = 10.0
RETRY_MAX_S: Final = 300.0
"""A pod that no event helps is tried again after so long, in case an event was misjudged."""

GATHER_S: Final = 5.0
"""A gang whose pods are not all there after so long is given out all the same, so that somebody is told."""

_RECENT_MAX: Final = 4096
_Key = PodRef | tuple[str, str, str]


class Change(NamedTuple):
    """Something that happened in the cluster.

    Args:
        kind: `node`, `slice`, `class`, `claim`, `claim-freed`, `template`, `pod-freed` or `taint-rule`.
        key: The object, printed; empty when it does not matter which.
    """

    kind: str
    key: str = ""


@dataclass(slots=True)
class QueuedPod:
    """A pod, or a gang, with its history in the queue.

    Args:
        pod: The pod as last seen; of a gang the first that waits.
        gang: The pods that are decided together, as last seen; None for a pod by itself.
        attempts: Decisions that were tried.
        since_s: When the pod came into the queue.
        ready_s: When the backoff of the last attempt ends.
        retry_s: When it is tried again although no change may help.
        waits_for: Changes that may help; None: any.
        has_erred: Whether the last attempt failed for a reason outside the pod.
    """

    pod: Pod
    since_s: float
    attempts: int = 0
    ready_s: float = 0.0
    retry_s: float = 0.0
    waits_for: Callable[[Change], bool] | None = None
    serial: int = 0
    place: str = ""
    decided_at: int = 0
    has_changed: bool = False
    has_erred: bool = False
    gang: Gang | None = None
    decided: Gang | None = None

    @property
    def key(self) -> _Key:
        """Under which it stands in the queue."""
        return self.pod.ref if self.gang is None else _gang_key(self.gang.ref)

    @property
    def name(self) -> str:
        """The pod or the group, for people."""
        return str(self.pod.ref) if self.gang is None else f"group {self.gang.ref}"


@dataclass(order=True, slots=True)
class _Entry:
    order: tuple[float, float, int]
    item: QueuedPod = field(compare=False)
    serial: int = field(compare=False)


class PodQueue:
    """The scheduler's queue, in which a gang counts as one.

    Pods of higher priority come first, then those that have waited longer.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._items: dict[_Key, QueuedPod] = {}
        self._waiting: dict[_Key, QueuedPod] = {}
        self._active: list[_Entry] = []
        self._backoff: list[_Entry] = []
        self._eager: list[_Entry] = []
        self._serials = itertools.count(1)
        self._changes = 0
        self._recent: list[tuple[int, Change]] = []
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, ref: PodRef) -> bool:
        return ref in self._items

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(tuple(self._items.values()))

    def add(self, pod: Pod) -> None:
        """Take in a new pod, or the newer state of a pod that waits; a pod whose spec changed is tried at once."""
        item = self._items.get(pod.ref)
        if item is not None and item.pod.uid != pod.uid:
            self.remove(pod.ref)
            item = None
        if item is None:
            self._items[pod.ref] = item = QueuedPod(pod, since_s=self._clock())
            self._activate(item)
            return
        old, item.pod = item.pod, pod
        if _may_help_itself(old, pod):
            item.has_changed = item.place == "deciding"
            if item.place == "waiting":
                self._ready(item)

    def add_gang(self, gang: Gang) -> None:
        """Take in a gang with pods that wait, or its newer state; one that has become complete is tried at once.

        One that is not complete is given out after `GATHER_S`.
        """
        key = _gang_key(gang.ref)
        item = self._items.get(key)
        if item is None:
            self._items[key] = item = QueuedPod(gang.waiting[0], since_s=self._clock(), gang=gang)
            if gang.is_complete:
                self._activate(item)
            else:
                item.waits_for, item.retry_s = _helps_nothing, self._clock() + GATHER_S
                self._place(item, "waiting")
                self._wake.set()
            return
        old, item.gang, item.pod = item.gang, gang, gang.waiting[0]
        if item.place == "waiting" and gang.is_complete and _has_grown(old, gang):
            self._ready(item)

    def remove_gang(self, ref: PodGroupRef) -> None:
        """Forget a gang: none of its pods waits any more."""
        self._remove(_gang_key(ref))

    def remove(self, ref: PodRef) -> None:
        """Forget a pod: it is bound, finished or gone."""
        self._remove(ref)

    def _remove(self, key: _Key) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._place(item, "")

    def pop_ready(self) -> QueuedPod | None:
        """Return the next pod to decide, which is then being decided until `done` or `postpone`; None for none."""
        self._flush()
        item = _pop_current(self._active, "active") or _pop_current(self._eager, "backoff")
        if item is not None:
            self._place(item, "deciding")
            item.decided_at, item.has_changed, item.has_erred = self._changes, False, False
            item.decided = item.gang
            item.attempts += 1
        return item

    def pop_next(self, accepts: Callable[[QueuedPod], bool]) -> QueuedPod | None:
        """Return what `pop_ready` would, if it is accepted; None when it is not, or there is nothing."""
        self._flush()
        head = _peek(self._active, "active") or _peek(self._eager, "backoff")
        return self.pop_ready() if head is not None and accepts(head) else None

    async def pop(self) -> QueuedPod:
        """Return the next pod to decide as soon as there is one."""
        while True:
            self._wake.clear()
            item = self.pop_ready()
            if item is not None:
                return item
            timeout_s = self.next_in_s()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def postpone(
        self,
        item: QueuedPod,
        waits_for: Callable[[Change], bool] | None = None,
        *,
        backoff: bool = True,
        within_s: float = RETRY_MAX_S,
    ) -> None:
        """Put back a pod that got no place; it waits for a change that may help, and at least for its backoff.

        A change that came while the pod was being decided counts, since the decision may not have seen it.

        Args:
            item: What `pop` returned.
            waits_for: Tells whether a change may help; None: any may.
            backoff: False when the pod was not tried at all, such as for a claim that does not exist yet.
            within_s: Seconds after which it is tried again even if nothing changes.
        """
        if self._items.get(item.key) is not item:
            return
        now_s = self._clock()
        pause_s = min(BACKOFF_MAX_S, BACKOFF_INITIAL_S * 2.0 ** min(item.attempts - 1, 16)) if backoff else 0.0
        item.attempts -= not backoff
        item.ready_s, item.retry_s, item.waits_for = now_s + pause_s, now_s + within_s, waits_for
        self._place(item, "waiting")
        if (
            item.has_changed
            or _has_grown(item.decided, item.gang)
            or any(_helps(item, change) for change in self._changes_since(item.decided_at))
        ):
            self._ready(item)

    def retry(self, item: QueuedPod) -> None:
        """Put back a pod whose attempt failed for a reason outside it (a conflict, no answer): after its backoff."""
        item.has_erred = True
        self.postpone(item)
        if item.place == "waiting":
            self._ready(item)

    def hear(self, change: Change) -> None:
        """Move the waiting pods that a change may help."""
        self._changes += 1
        self._recent.append((self._changes, change))
        if len(self._recent) > _RECENT_MAX:
            del self._recent[: _RECENT_MAX // 2]
        for item in [item for item in self._waiting.values() if _helps(item, change)]:
            self._ready(item)

    def look_again(self) -> None:
        """Let `pop` look at the clock at once: for a clock that does not pass by itself."""
        self._wake.set()

    def next_in_s(self) -> float | None:
        """Return the seconds until a backoff ends or a pod has waited too long; None when nothing waits."""
        times = [entry.order[0] for entry in self._backoff[:1]]
        times += [item.retry_s for item in self._waiting.values()]
        return max(0.0, min(times) - self._clock()) if times else None

    def _changes_since(self, serial: int) -> Iterator[Change]:
        """Changes after one, the latest first; of very many only the latest are known."""
        for number, change in reversed(self._recent):
            if number <= serial:
                return
            yield change

    def _ready(self, item: QueuedPod) -> None:
        """Move a pod to where it waits for the end of its backoff, or on to the active pods."""
        if item.ready_s <= self._clock():
            self._activate(item)
            return
        self._place(item, "backoff")
        entry = _Entry((item.ready_s, item.since_s, item.serial), item, item.serial)
        heapq.heappush(self._backoff, entry)
        if not item.has_erred:
            heapq.heappush(self._eager, replace(entry, order=self._order(item)))
        self._wake.set()

    def _order(self, item: QueuedPod) -> tuple[float, float, int]:
        return (-float(item.pod.priority), item.since_s, item.serial)

    def _activate(self, item: QueuedPod) -> None:
        self._place(item, "active")
        heapq.heappush(self._active, _Entry(self._order(item), item, item.serial))
        self._wake.set()

    def _flush(self) -> None:
        """Activate pods whose backoff is over, and those that have waited too long for an event."""
        now_s = self._clock()
        while self._backoff and self._backoff[0].order[0] <= now_s:
            entry = heapq.heappop(self._backoff)
            if entry.serial == entry.item.serial and entry.item.place == "backoff":
                self._activate(entry.item)
        for item in [item for item in self._waiting.values() if item.retry_s <= now_s]:
            self._activate(item)

    def _place(self, item: QueuedPod, place: str) -> None:
        """Move a pod; entries of heaps that carry an older serial no longer count."""
        item.place, item.serial = place, next(self._serials)
        if place == "waiting":
            self._waiting[item.key] = item
        elif self._waiting.get(item.key) is item:
            del self._waiting[item.key]


def _pop_current(heap: list[_Entry], place: str) -> QueuedPod | None:
    """Return the first pod of a heap that is still where its entry says, without the entry; None when there is none."""
    item = _peek(heap, place)
    if item is not None:
        heapq.heappop(heap)
    return item


def _peek(heap: list[_Entry], place: str) -> QueuedPod | None:
    """Return the first pod of a heap that is still where its entry says; None when there is none."""
    while heap:
        entry = heap[0]
        if entry.serial == entry.item.serial and entry.item.place == place:
            return entry.item
        heapq.heappop(heap)
    return None


def _helps(item: QueuedPod, change: Change) -> bool:
    return item.waits_for is None or item.waits_for(change)


def _helps_nothing(_: Change) -> bool:
    return False


def _gang_key(ref: PodGroupRef) -> _Key:
    """Return a key that no pod has, although a group may have the name of one."""
    return ("gang", *ref)


def _has_grown(old: Gang | None, new: Gang | None) -> bool:
    """Whether a gang may be placed now for what changed about itself: more pods, fewer needed, or another pod."""
    if old is None or new is None:
        return False
    before = {pod.uid: pod for pod in old.waiting}
    return (
        new.is_complete > old.is_complete
        or new.needed < old.needed
        or (old.group is not None and new.group is not None and old.group.spec != new.group.spec)
        or any(pod.uid not in before or _may_help_itself(before[pod.uid], pod) for pod in new.waiting)
    )


def _may_help_itself(old: Pod, new: Pod) -> bool:
    """Whether a change of the pod itself may let it be scheduled; its status alone does not."""
    return (
        old.scheduling_gates != new.scheduling_gates
        or old.claim_names != new.claim_names
        or old.tolerations != new.tolerations
        or old.node_selector != new.node_selector
        or old.node_affinity != new.node_affinity
        or old.metadata.labels != new.metadata.labels
    )

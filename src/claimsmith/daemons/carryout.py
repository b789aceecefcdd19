"""Plans carried out on a live cluster: pods are evicted step by step, and each step is looked at again before.

An eviction respects PodDisruptionBudgets. What the plan rests on may have changed since it was made: then nothing more
is done, and what was done and what is left is told.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from claimsmith.errors import ApiError, ConflictError, NotFoundError, ThrottledError
from claimsmith.model.names import PodRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["CarriedOut", "CarryOut", "Check", "EvictionClient", "Step", "Verdict"]

Step = tuple[Pod, ...]
"""Pods that are evicted together."""

_LOOK_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a second look at the steps that are left says.

    Args:
        problem: Why they should not be done on the cluster as it is; empty when they may.
        is_needless: Whether the plan has reached what it is for without them.
    """

    problem: str = ""
    is_needless: bool = False


Check = Callable[[ClusterSnapshot, Sequence[Step]], Verdict]
"""Looks at the cluster as it is, and at the steps that are left."""


class EvictionClient(Protocol):
    """What carrying out a plan needs of a client."""

    async def evict(self, pod: PodRef, *, uid: str = "") -> None:
        """Ask for a pod to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """What came of a plan.

    Args:
        evicted: Pods that were evicted, in that order.
        left: Pods of steps that were not done.
        stopped: Why they were not; empty when the plan was carried out, or needs them no more.
    """

    evicted: tuple[PodRef, ...] = ()
    left: tuple[PodRef, ...] = ()
    stopped: str = ""


@dataclass(slots=True, kw_only=True)
class CarryOut:
    """Carries out the steps of one plan.

    Args:
        client: Evicts.
        read: Returns the cluster as it is now.
        check: Looks at the steps that are left, before each of them.
        tell: Hears of each thing that is done.
        patience_s: Seconds that the pods of a step get to end, and those that are made for them to get nodes, before
            the next step; None: steps follow at once.
        pause: Waits for some seconds.
    """

    client: EvictionClient
    read: Callable[[], Awaitable[ClusterSnapshot]]
    check: Check
    tell: Callable[[str], None]
    patience_s: float | None = None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _evicted: list[PodRef] = field(default_factory=list)

    async def run(self, steps: Sequence[Step]) -> CarriedOut:
        """Do the steps in order, as long as nothing speaks against the rest of them."""
        for number in range(len(steps)):
            left = steps[number:]
            try:
                snapshot = await self.read()
                verdict = self.check(snapshot, left)
                if verdict.is_needless:
                    return self._end(left)
                stopped = verdict.problem or await self._do(snapshot, left[0])
            except ApiError as error:
                stopped = str(error)
            if stopped:
                return self._end(left, stopped)
        return self._end(())

    def _end(self, left: Sequence[Step], stopped: str = "") -> CarriedOut:
        gone = set(self._evicted)
        refs = tuple(pod.ref for step in left for pod in step if pod.ref not in gone)
        return CarriedOut(evicted=tuple(self._evicted), left=refs, stopped=stopped)

    async def _do(self, snapshot: ClusterSnapshot, step: Step) -> str:
        """Do one step; returns why it was not done as a whole."""
        before = _count_placed(snapshot, step)
        for pod in step:
            problem = await self._evict(snapshot, pod)
            if problem:
                return problem
        return "" if self.patience_s is None else await self._wait_settled(step, before, self.patience_s)

    async def _evict(self, snapshot: ClusterSnapshot, pod: Pod) -> str:
        known = snapshot.pods.get(pod.ref)
        if known is None or known.uid != pod.uid or known.metadata.deletion_timestamp is not None:
            self.tell(f"{pod.ref} goes without that it was evicted")
            return ""
        try:
            await self.client.evict(pod.ref, uid=pod.uid)
        except (NotFoundError, ConflictError):
            self.tell(f"{pod.ref} has gone without that it was evicted")
            return ""
        except ThrottledError as error:
            return f"pod {pod.ref} may not be evicted now: {error}"
        self._evicted.append(pod.ref)
        self.tell(f"evicted {pod.ref} from {pod.node_name}")
        return ""

    async def _wait_settled(self, step: Step, before: Counter[str], patience_s: float) -> str:
        """Wait until the pods have gone and their owners have as many pods on nodes as before."""
        waits = ""
        try:
            async with asyncio.timeout(patience_s):
                while waits := _find_unsettled(await self.read(), step, before):
                    await self.pause(_LOOK_EVERY_S)
        except TimeoutError:
            return f"{waits or 'the cluster can not be read'} after {patience_s:g} s"
        return ""


def _find_unsettled(snapshot: ClusterSnapshot, step: Step, before: Counter[str]) -> str:
    """Return what a step still waits for; empty when it is through."""
    for pod in step:
        known = snapshot.pods.get(pod.ref)
        if known is not None and known.uid == pod.uid and not known.finished:
            return f"pod {pod.ref} has not ended"
    now = _count_placed(snapshot, step)
    for pod in step:
        if any(now[owner] < before[owner] for owner in _list_owners(pod)):
            return f"what is made for pod {pod.ref} has no node"
    return ""


def _count_placed(snapshot: ClusterSnapshot, step: Step) -> Counter[str]:
    """Return how many pods on nodes the owners of a step's pods have, by the uids of the owners."""
    wanted = {owner for pod in step for owner in _list_owners(pod)}
    return Counter(
        owner
        for pod in snapshot.pods.values()
        if pod.node_name and not pod.finished and pod.metadata.deletion_timestamp is None
        for owner in _list_owners(pod)
        if owner in wanted
    )


def _list_owners(pod: Pod) -> list[str]:
    return [owner.uid for owner in pod.metadata.owner_references if owner.controller]

"""Makes kubelets try again soon after a failed prepare, for which they take more than a minute by themselves.

A kubelet that could not prepare the claims of a pod waits for the pod's regular sync, 60 to 90 seconds, whatever the
reason was: a claim that its authorizer does not know yet, an API server that was away, a driver that starts. A changed
annotation makes it sync the pod at once.

Source: SyncPod in pkg/kubelet/kuberuntime of kubernetes v1.37.2, which records the event and returns no error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from claimsmith.api.kinds import EVENT, POD, Kind
from claimsmith.errors import ApiError, ConflictError, InputError, NotFoundError
from claimsmith.kube.client import KubeObject
from claimsmith.kube.reflector import ListWatch, Reflector, Selection
from claimsmith.model.names import PodRef
from claimsmith.telemetry import get_logger, log_event

__all__ = [
    "FAILED_REASON",
    "RETRY_ANNOTATION",
    "FailedPrepare",
    "RetryBook",
    "RetryClient",
    "RetryPolicy",
    "RetryWatcher",
]

FAILED_REASON: Final = "FailedPrepareDynamicResources"
"""Reason of the event that a kubelet records on a pod whose claims it could not prepare."""
RETRY_ANNOTATION: Final = "claimsmith.dev/prepare-again"
"""Annotation of a pod whose kubelet was made to look at it: for which failure, counted from 1."""
_STALE_S: Final = 60.0
_KNOWN_MAX: Final = 10_000

_log = get_logger("controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How soon a pod is touched.

    Args:
        first_s: Seconds after the first failure.
        factor: By how much longer after each further one; >= 1.
        longest_s: Longest such pause; what the kubelet would wait by itself is more.
        tries_max: How often a pod is touched; then it is left to its kubelet.
    """

    first_s: float = 0.5
    factor: float = 2.0
    longest_s: float = 30.0
    tries_max: int = 10


class FailedPrepare(NamedTuple):
    """A kubelet could not prepare the claims of a pod: for the how many-th time as it says, and when last."""

    pod: PodRef
    uid: str
    failures: int
    at: str


class RetryBook:
    """Which pods have failed how often, and when each is to be touched. Pure: the time comes in.

    Args:
        policy: How soon.
    """

    def __init__(self, policy: RetryPolicy | None = None) -> None:
        self._policy = policy or RetryPolicy()
        self._tries: dict[str, int] = {}

    def plan(self, failed: FailedPrepare) -> float | None:
        """Count a failure; return after how many seconds to touch the pod, None when it is left alone."""
        tries = self._tries.pop(failed.uid, 0)
        self._tries[failed.uid] = tries + 1
        while len(self._tries) > _KNOWN_MAX:
            del self._tries[next(iter(self._tries))]
        if tries >= self._policy.tries_max:
            return None
        return min(self._policy.longest_s, self._policy.first_s * self._policy.factor**tries)

    def tries(self, uid: str) -> int:
        """Return how often the pod of a uid has failed."""
        return self._tries.get(uid, 0)


class RetryClient(ListWatch, Protocol):
    """What is needed of a client. Rights: list and watch events, get and patch pods."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> KubeObject:
        """Return one object."""
        ...

    async def patch(self, kind: Kind, name: str, patch: dict[str, Any], *, namespace: str = "") -> KubeObject:
        """Change parts of an object."""
        ...


class RetryWatcher:
    """Watches events of failed prepares, and touches the pods.

    Args:
        client: The API server.
        policy: How soon.
        now_s: Seconds since 1970.
    """

    def __init__(
        self, client: RetryClient, *, policy: RetryPolicy | None = None, now_s: Callable[[], float] = time.time
    ) -> None:
        self.touched = 0
        """How often a pod was touched."""
        self._client, self._now_s, self._book = client, now_s, RetryBook(policy)
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        selection = Selection(field_selector=f"reason={FAILED_REASON}")
        self._events = Reflector(client, EVENT, parse_failure, selection=selection)
        self._events.subscribe(self._take)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._events.run(), name="failed prepares")

    def _take(self, old: FailedPrepare | None, new: FailedPrepare | None) -> None:
        if new is None or self._group is None or self._is_stale(new) or new.uid in self._waiting:
            return
        if old is not None and old.failures == new.failures:
            return
        pause_s = self._book.plan(new)
        if pause_s is not None:
            task = self._group.create_task(self._touch_later(new, pause_s), name=f"touch {new.pod}")
            self._waiting[new.uid] = task

    def _is_stale(self, failed: FailedPrepare) -> bool:
        try:
            return self._now_s() - datetime.fromisoformat(failed.at).timestamp() > _STALE_S
        except ValueError:
            return True

    async def _touch_later(self, failed: FailedPrepare, pause_s: float) -> None:
        try:
            await asyncio.sleep(pause_s)
        finally:
            # From here on a further failure counts anew: it may come before the answer to what is written below.
            self._waiting.pop(failed.uid, None)
        try:
            if await self._touch(failed):
                self.touched += 1
                log_event(
                    _log, logging.INFO, "A pod whose claims could not be prepared is touched",
                    pod=failed.pod, failures=self._book.tries(failed.uid),
                )  # fmt: skip
        except ApiError as error:
            log_event(_log, logging.INFO, "A pod can't be touched", pod=failed.pod, reason=error)

    async def _touch(self, failed: FailedPrepare) -> bool:
        """Touch a pod if it still waits; tell whether it did."""
        namespace, name = failed.pod
        try:
            pod = await self._client.get(POD, name, namespace=namespace)
            metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
            if (
                metadata.get("uid") != failed.uid
                or metadata.get("deletionTimestamp")
                or status.get("phase") != "Pending"
            ):
                return False
            value = {RETRY_ANNOTATION: f"{self._book.tries(failed.uid)}/{failed.at}"}
            await self._client.patch(
                POD, name, {"metadata": {"uid": failed.uid, "annotations": value}}, namespace=namespace
            )
        except (NotFoundError, ConflictError):
            return False
        return True


def parse_failure(obj: KubeObject) -> FailedPrepare:
    """Return what an Event tells of a failed prepare.

    Raises:
        InputError: It is about something else than a pod.
    """
    about = obj.get("involvedObject") or {}
    series = obj.get("series") or {}
    if about.get("kind") != "Pod" or not about.get("uid"):
        name = (obj.get("metadata") or {}).get("name")
        raise InputError(f"event {name}: found one about {about.get('kind')}, allowed a pod; it is left alone")
    return FailedPrepare(
        pod=PodRef(str(about.get("namespace") or ""), str(about.get("name") or "")),
        uid=str(about["uid"]),
        failures=int(series.get("count") or obj.get("count") or 1),
        at=str(series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("eventTime") or ""),
    )

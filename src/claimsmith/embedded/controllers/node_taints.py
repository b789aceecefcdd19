"""The taint eviction controller: deletes pods from nodes that are tainted NoExecute, when they tolerate that no longer.

Source: pkg/controller/tainteviction/taint_eviction.go of kubernetes v1.37.2.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from claimsmith.api.kinds import POD
from claimsmith.cluster.follow import follow_nodes, follow_pods
from claimsmith.embedded.controllers.disruption import PodKey, disruption, drive_away
from claimsmith.errors import ApiError, NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.events import EventRecorder, ObjectReference
from claimsmith.kube.informers import Informers
from claimsmith.kube.workqueue import WorkQueue
from claimsmith.model.node import Node, NodeTaint
from claimsmith.model.workload import Pod, PodToleration
from claimsmith.schedule.filter import tolerates

__all__ = ["NodeTaintController", "find_stay_s"]

_COMPONENT: Final = "taint-eviction-controller"
_EVENT: Final = "TaintManagerEviction"
_NO_EXECUTE: Final = "NoExecute"
_CONDITION: Final = disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")


def find_stay_s(tolerations: Sequence[PodToleration], taints: Iterable[NodeTaint]) -> float | None:
    """Return for how many seconds a pod may stay on a node with some taints, at least one; None: for ever.

    For each taint the first toleration that accepts it counts; the shortest of them decides.
    """
    times = []
    for taint in taints:
        used = next((toleration for toleration in tolerations if tolerates((toleration,), taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            times.append(max(0.0, float(used.toleration_seconds)))
    return min(times, default=None)


class NodeTaintController:
    """Drives pods off tainted nodes.

    Args:
        client: The API server.
        informers: Shared reflectors; whoever made them runs them.
        now: The time of day, against which the times of tolerations count.
    """

    def __init__(
        self,
        client: KubeClient,
        informers: Informers,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client, self._informers, self._now = client, informers, now
        self._recorder = EventRecorder(client, _COMPONENT, now=now)
        self._queue: WorkQueue[PodKey] = WorkQueue("taint eviction", self._evict, workers=8)
        self._taints: dict[str, tuple[NodeTaint, ...]] = {}
        self._by_node: defaultdict[str, dict[PodKey, Pod]] = defaultdict(dict)
        self._due: dict[PodKey, float] = {}
        follow_nodes(informers).subscribe(self._see_node)
        follow_pods(informers).subscribe(self._see_pod)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informers.wait_synced()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run(), name="taint eviction events")
            group.create_task(self._queue.run(), name="taint eviction")

    def _see_node(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        name = node.name if node is not None else ""
        taints = tuple(taint for taint in new.taints if taint.effect == _NO_EXECUTE) if new is not None else ()
        if self._taints.get(name, ()) == taints:
            return
        if taints:
            self._taints[name] = taints
        else:
            self._taints.pop(name, None)
        if new is not None:
            for pod in tuple(self._by_node.get(name, {}).values()):
                self._settle(pod)

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._forget(old)
        if new is None or not new.node_name:
            return
        self._by_node[new.node_name][_key_of(new)] = new
        known = old is not None and old.uid == new.uid and old.node_name == new.node_name
        if not known or old is None or old.tolerations != new.tolerations:
            self._settle(new)

    def _forget(self, pod: Pod) -> None:
        pods = self._by_node.get(pod.node_name, {})
        pods.pop(_key_of(pod), None)
        if not pods:
            self._by_node.pop(pod.node_name, None)
        self._cancel(_key_of(pod))

    def _settle(self, pod: Pod) -> None:
        """Plan when a pod must go, or take it back; a plan that stands keeps its time."""
        key, taints = _key_of(pod), self._taints.get(pod.node_name, ())
        stay_s = find_stay_s(pod.tolerations, taints) if taints else None
        if stay_s is None:
            self._cancel(key)
            return
        now_s = self._now().timestamp()
        if key in self._due and stay_s > 0:
            return
        self._due[key] = now_s + stay_s
        self._queue.add(key)

    def _cancel(self, key: PodKey) -> None:
        if self._due.pop(key, None) is not None:
            self._tell(key, f"Cancelling deletion of Pod {key.namespace}/{key.name}")

    async def _evict(self, key: PodKey) -> None:
        """Delete a pod whose time has come; earlier than that, come again."""
        due_s = self._due.get(key)
        if due_s is None:
            return
        left_s = due_s - self._now().timestamp()
        if left_s > 0:
            self._queue.add_after(key, left_s)
            return
        del self._due[key]
        text = f"Marking for deletion Pod {key.namespace}/{key.name}"
        try:
            await drive_away(self._client, key, _CONDITION, now=self._now(), marking=lambda: self._tell(key, text))
        except NotFoundError:
            return
        except ApiError:
            self._due.setdefault(key, due_s)
            raise

    def _tell(self, key: PodKey, message: str) -> None:
        about = ObjectReference(kind=POD, name=key.name, namespace=key.namespace, uid=key.uid)
        self._recorder.record(about, "Normal", _EVENT, message)


def _key_of(pod: Pod) -> PodKey:
    return PodKey(pod.metadata.namespace, pod.metadata.name, pod.uid)

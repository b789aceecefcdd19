"""The pod garbage collector: pods of nodes that are gone, and pods that were deleted before they had a node.

Source: pkg/controller/podgc/gc_controller.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from claimsmith.api.kinds import NODE, POD
from claimsmith.cluster.follow import follow_nodes, follow_pods
from claimsmith.errors import ConflictError, NotFoundError
from claimsmith.kube.client import KubeClient, Preconditions
from claimsmith.kube.informers import Informers
from claimsmith.kube.workqueue import WorkQueue
from claimsmith.model.names import PodRef
from claimsmith.model.node import Node
from claimsmith.model.workload import Pod

__all__ = ["PodGarbageController"]


class PodGarbageController:
    """Ends pods that nobody else will end.

    Args:
        client: The API server.
        informers: Shared reflectors; whoever made them runs them.
        quarantine_s: Seconds that a node may be missing before its pods are ended; >= 0.
        now: The time of day, for the time stamps of conditions.
    """

    def __init__(
        self,
        client: KubeClient,
        informers: Informers,
        *,
        quarantine_s: float = 40.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client, self._informers, self._now = client, informers, now
        self._quarantine_s = quarantine_s
        self._queue: WorkQueue[PodRef] = WorkQueue("pod garbage collector", self._collect)
        self._by_node: defaultdict[str, set[PodRef]] = defaultdict(set)
        self._pods, self._nodes = follow_pods(informers), follow_nodes(informers)
        self._pods.subscribe(self._see_pod)
        self._nodes.subscribe(self._see_node)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informers.wait_synced()
        for node in tuple(self._by_node):
            self._check_node(node)
        await self._queue.run()

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and old.node_name:
            self._by_node[old.node_name].discard(old.ref)
            if not self._by_node[old.node_name]:
                del self._by_node[old.node_name]
        if new is None:
            return
        if new.node_name:
            self._by_node[new.node_name].add(new.ref)
            if self._nodes.is_synced and (old is None or not old.node_name):
                self._check_node(new.node_name)
        elif new.metadata.deletion_timestamp is not None:
            self._queue.add(new.ref)

    def _see_node(self, old: Node | None, new: Node | None) -> None:
        if new is None and old is not None:
            self._check_node(old.name)

    def _check_node(self, name: str) -> None:
        """Look at the pods of a node again after the quarantine, if the node is missing now."""
        if self._nodes.find("", name) is None:
            for ref in self._by_node.get(name, ()):
                self._queue.add_after(ref, self._quarantine_s)

    async def _collect(self, ref: PodRef) -> None:
        pod = self._pods.find(*ref)
        if pod is None:
            return
        if not pod.node_name:
            if pod.metadata.deletion_timestamp is not None:
                await self._end(pod)
            return
        if self._nodes.find("", pod.node_name) is None and await self._is_missing(pod.node_name):
            if not pod.finished:
                await self._mark_failed(pod)
            await self._end(pod)

    async def _is_missing(self, node: str) -> bool:
        try:
            await self._client.get(NODE, node)
        except NotFoundError:
            return True
        return False

    async def _mark_failed(self, pod: Pod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": f"PodGC: node {pod.node_name} no longer exists",
            "lastTransitionTime": self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        patch = {"metadata": {"uid": pod.uid}, "status": {"phase": "Failed", "conditions": [condition]}}
        with suppress(NotFoundError, ConflictError):
            await self._client.patch(
                POD,
                pod.ref.name,
                patch,
                namespace=pod.ref.namespace,
                patch_type="strategic",
                subresource="status",
            )

    async def _end(self, pod: Pod) -> None:
        """Delete this very pod at once."""
        only = Preconditions(uid=pod.uid)
        with suppress(NotFoundError, ConflictError):
            await self._client.delete(
                POD, pod.ref.name, namespace=pod.ref.namespace, preconditions=only, grace_period_s=0
            )

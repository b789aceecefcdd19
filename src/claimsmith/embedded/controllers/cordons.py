"""Taints nodes that take no new pods, as the node lifecycle controller does for `kubectl cordon`.

Source: doNoScheduleTaintingPass in pkg/controller/nodelifecycle/node_lifecycle_controller.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from claimsmith.api.kinds import NODE
from claimsmith.cluster.follow import follow_nodes
from claimsmith.embedded.controllers.disruption import format_moment
from claimsmith.errors import NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.kube.informers import Informers
from claimsmith.kube.workqueue import WorkQueue
from claimsmith.model.node import Node

__all__ = ["CordonController", "plan_taints"]

_KEY: Final = "node.kubernetes.io/unschedulable"
_EFFECT: Final = "NoSchedule"


def plan_taints(node: dict[str, Any], now: datetime) -> list[dict[str, Any]] | None:
    """Return the taints that a stored node should have; None when it has them."""
    spec = node.get("spec") or {}
    taints: list[dict[str, Any]] = spec.get("taints") or []
    others = [taint for taint in taints if (taint.get("key"), taint.get("effect")) != (_KEY, _EFFECT)]
    is_tainted, is_cordoned = len(others) < len(taints), bool(spec.get("unschedulable"))
    if is_tainted == is_cordoned:
        return None
    return [*others, {"key": _KEY, "effect": _EFFECT, "timeAdded": format_moment(now)}] if is_cordoned else others


class CordonController:
    """Keeps the taint of cordoned nodes.

    Args:
        client: The API server.
        informers: Shared reflectors; whoever made them runs them.
        now: The time of day.
    """

    def __init__(
        self, client: KubeClient, informers: Informers, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client, self._informers, self._now = client, informers, now
        self._queue: WorkQueue[str] = WorkQueue("cordons", self._settle)
        follow_nodes(informers).subscribe(self._see_node)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._informers.wait_synced()
        await self._queue.run()

    def _see_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and any(taint.key == _KEY for taint in new.taints) != new.unschedulable:
            self._queue.add(new.name)

    async def _settle(self, name: str) -> None:
        with suppress(NotFoundError):
            node = await self._client.get(NODE, name)
            taints = plan_taints(node, self._now())
            if taints is not None:
                version = {"resourceVersion": node["metadata"]["resourceVersion"]}
                await self._client.patch(NODE, name, {"metadata": version, "spec": {"taints": taints}})

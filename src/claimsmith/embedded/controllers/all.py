"""All controllers of the embedded cluster together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from claimsmith.embedded.controllers.claims import ClaimController
from claimsmith.embedded.controllers.cordons import CordonController
from claimsmith.embedded.controllers.group_claims import GroupClaimController
from claimsmith.embedded.controllers.node_taints import NodeTaintController
from claimsmith.embedded.controllers.pods import PodGarbageController
from claimsmith.embedded.controllers.taints import TaintEvictionController
from claimsmith.kube.client import KubeClient
from claimsmith.kube.informers import Informers

__all__ = ["Controllers"]


class Controllers:
    """The controllers that an embedded cluster needs beside its API server.

    Args:
        client: The API server.
        informers: Shared reflectors; whoever made them runs them.
        quarantine_s: Seconds that a node may be missing before its pods are ended; >= 0.
        status_period_s: Least seconds between two reports of a taint rule's progress; > 0.
        now: The time of day.
    """

    def __init__(
        self,
        client: KubeClient,
        informers: Informers,
        *,
        quarantine_s: float = 40.0,
        status_period_s: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        theirs = client.for_manager("kube-controller-manager")
        self.claims = ClaimController(theirs, informers)
        self.group_claims = GroupClaimController(theirs, informers)
        self.pods = PodGarbageController(theirs, informers, quarantine_s=quarantine_s, now=now)
        self.node_taints = NodeTaintController(theirs, informers, now=now)
        self.cordons = CordonController(theirs, informers, now=now)
        self.taints = TaintEvictionController(theirs, informers, status_period_s=status_period_s, now=now)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.claims.run(), name="claim controller")
            group.create_task(self.group_claims.run(), name="group claim controller")
            group.create_task(self.pods.run(), name="pod garbage collector")
            group.create_task(self.node_taints.run(), name="taint eviction controller")
            group.create_task(self.cordons.run(), name="cordon controller")
            group.create_task(self.taints.run(), name="device taint eviction controller")

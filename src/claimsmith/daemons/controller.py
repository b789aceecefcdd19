"""The controller of a cluster: of several equal ones one works, and makes kubelets look again where they would wait."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from claimsmith.daemons.controller_retries import RetryPolicy, RetryWatcher
from claimsmith.daemons.controller_returns import ReturnWatcher
from claimsmith.kube.client import KubeClient
from claimsmith.kube.lease import LeaderLease, LeaseTimes, make_identity
from claimsmith.kube.reflector import ObjectKey
from claimsmith.telemetry import get_logger, log_event

__all__ = ["CONTROLLER_NAME", "ControllerOptions", "run_controller"]

CONTROLLER_NAME = "claimsmith-controller"
"""Name of the Lease, and of the controller's ServiceAccount and roles."""

_log = get_logger("controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """How a controller works.

    Args:
        namespace: Namespace of its Lease.
        identity: Name among other controllers; empty for one of its own.
        times: How leaders follow each other.
        retries: How soon kubelets are made to try again after a failed prepare; None: not at all.
    """

    namespace: str = "claimsmith-system"
    identity: str = ""
    times: LeaseTimes = field(default_factory=LeaseTimes)
    retries: RetryPolicy | None = field(default_factory=RetryPolicy)


async def run_controller(client: KubeClient, options: ControllerOptions | None = None) -> None:
    """Lead and work, or wait for the lead, until cancelled; then close the client.

    What it does is harmless when two do it for a moment: a pod is touched twice.
    """
    chosen = options or ControllerOptions()
    identity = chosen.identity or make_identity()
    key = ObjectKey(chosen.namespace, CONTROLLER_NAME)
    lease = LeaderLease(client, key, identity=identity, times=chosen.times)
    try:
        log_event(_log, logging.INFO, "Controller runs", identity=identity, lease=f"{key.namespace}/{key.name}")
        while True:
            await lease.lead(lambda: _work(client, chosen, identity))
            log_event(_log, logging.WARNING, "Controller leads no longer", identity=identity)
    finally:
        await client.close()


async def _work(client: KubeClient, options: ControllerOptions, identity: str) -> None:
    """Do what the leader does until cancelled."""
    log_event(_log, logging.INFO, "Controller leads", identity=identity)
    async with asyncio.TaskGroup() as group:
        group.create_task(ReturnWatcher(client).run(), name="driver returns")
        if options.retries is not None:
            group.create_task(RetryWatcher(client, policy=options.retries).run(), name="failed prepares")

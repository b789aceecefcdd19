"""The agent's part after a driver's return: it tells the cluster, by an Event about the node."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from claimsmith.api.kinds import EVENT, NODE, Kind
from claimsmith.errors import ApiError
from claimsmith.kube.backoff import Backoff
from claimsmith.kube.client import KubeObject
from claimsmith.model.driverreturn import RETURN_REASON, DriverReturn
from claimsmith.telemetry import get_logger, log_event

__all__ = ["EventCreator", "plan_return_event", "report_return"]

_COMPONENT: Final = "claimsmith-agent"
_TRIES: Final = 12

_log = get_logger("agent")


class EventCreator(Protocol):
    """What is needed of a client."""

    async def create(self, kind: Kind, obj: Mapping[str, Any], *, namespace: str = "") -> KubeObject:
        """Create an object and return it as stored."""
        ...


def plan_return_event(returned: DriverReturn, unanswered: tuple[str, ...] = ()) -> KubeObject:
    """Return the Event that tells of a driver's return.

    Args:
        returned: Which driver returned where.
        unanswered: Claims, as `namespace/name`, whose preparation was begun and never answered.
    """
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"generateName": f"{returned.node}.driver-returned-", "namespace": "default"},
        # Events about nodes have the name in place of the uid, as those of the kubelet do.
        "involvedObject": {"apiVersion": "v1", "kind": NODE.kind, "name": returned.node, "uid": returned.node},
        "type": "Normal",
        "reason": RETURN_REASON,
        "message": returned.describe(unanswered),
        "source": {"component": _COMPONENT, "host": returned.node},
        "reportingComponent": _COMPONENT,
        "reportingInstance": returned.node,
        "firstTimestamp": returned.at,
        "lastTimestamp": returned.at,
        "count": 1,
    }


async def report_return(
    client: EventCreator,
    driver: str,
    *,
    node: str,
    unanswered: tuple[str, ...] = (),
    now_s: Callable[[], float] = time.time,
    backoff: Backoff | None = None,
) -> None:
    """Tell that a driver serves its node again; to be called once the kubelet has registered it.

    A server that is away is tried again for a while: later, every kubelet has synced its pods anyway.
    """
    pauses = backoff or Backoff(initial_s=0.5, max_s=10.0)
    for _ in range(_TRIES):
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s()))
        try:
            await client.create(EVENT, plan_return_event(DriverReturn(driver=driver, node=node, at=at), unanswered))
            return
        except ApiError as error:
            log_event(_log, logging.INFO, "A driver's return can't be told", driver=driver, reason=error)
        await pauses.wait()

"""Deletes a pod that a controller drives away, and says so in its status before.

Source: addConditionAndDeletePod in pkg/controller/tainteviction and pkg/controller/devicetainteviction of kubernetes
v1.37.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from claimsmith.api.kinds import POD
from claimsmith.kube.client import KubeClient, Preconditions

__all__ = ["PodKey", "disruption", "drive_away", "format_moment"]


class PodKey(NamedTuple):
    """One pod, and no later one of its name."""

    namespace: str
    name: str
    uid: str


def disruption(reason: str, message: str) -> dict[str, str]:
    """Return the condition that says who drove a pod away, without its time."""
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


async def drive_away(
    client: KubeClient,
    pod: PodKey,
    condition: Mapping[str, str],
    *,
    now: datetime,
    marking: Callable[[], None],
) -> bool:
    """Mark and delete this very pod; False when another pod has its name now.

    Args:
        client: The API server.
        pod: The pod.
        condition: What its status says of it.
        now: The time of day.
        marking: Called before the pod is touched; not called for one that is being deleted already.

    Raises:
        NotFoundError: It is gone.
        ApiError: The server refused or could not be reached.
    """
    found = await client.get(POD, pod.name, namespace=pod.namespace)
    if found["metadata"].get("uid") != pod.uid:
        return False
    if found["metadata"].get("deletionTimestamp"):
        return True
    marking()
    conditions: list[dict[str, Any]] = (found.get("status") or {}).get("conditions") or []
    if not any(all(item.get(key) == value for key, value in condition.items()) for item in conditions):
        timed = {**condition, "lastTransitionTime": format_moment(now)}
        patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [timed]}}
        await client.patch(POD, pod.name, patch, namespace=pod.namespace, patch_type="strategic", subresource="status")
    await client.delete(POD, pod.name, namespace=pod.namespace, preconditions=Preconditions(uid=pod.uid))
    return True


def format_moment(moment: datetime) -> str:
    """Return a moment as the API writes times: RFC 3339, whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

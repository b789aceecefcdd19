"""The status of a pod that the kubelet writes: pure.

Source: pkg/kubelet/status and kubelet_pods.go of kubernetes v1.37.2, as far as clients read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from claimsmith.embedded.kubelet.views import ContainerView, PodView

__all__ = ["add_health", "ended_status", "format_time", "rejected_status", "running_status", "waiting_status"]

_IMAGE_ID: Final = "claimsmith://pretended"
_READY: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def format_time(now_s: float) -> str:
    """Return seconds since 1970 as the API writes times: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(int(now_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rejected_status(pod: PodView, reason: str, message: str, *, now: str) -> dict[str, Any]:
    """Return the status of a pod that is not admitted. Source: rejectPod in pkg/kubelet/kubelet.go."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": pod.started_at or now,
    }


def add_health(status: Mapping[str, Any], health: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return a status that also says how the devices of containers fare.

    Args:
        status: The status of a pod.
        health: `allocatedResourcesStatus` by container; containers that start before the others have none.
    """
    if "containerStatuses" not in status:
        return dict(status)
    containers = [
        {**item, "allocatedResourcesStatus": list(health[item["name"]])} if health.get(item["name"]) else item
        for item in status["containerStatuses"]
    ]
    return {**status, "containerStatuses": containers}


def waiting_status(pod: PodView, reason: str, message: str, *, host_ip: str, now: str) -> dict[str, Any]:
    """Return the status of a pod whose containers can't be made yet."""
    state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    return {
        "phase": "Pending",
        "startTime": pod.started_at or now,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(
            pod, dict.fromkeys(_READY, ("False", "ContainersNotReady")) | {"Initialized": ("True", "")}, now
        ),
        "containerStatuses": [_container(item, state, ready=False, restarts=0) for item in pod.containers],
    }


def running_status(pod: PodView, *, pod_ip: str, host_ip: str, now: str, restarts: Mapping[str, int]) -> dict[str, Any]:
    """Return the status of a pod that runs.

    Args:
        restarts: How often each container was started again; none is 0.
    """
    running = {"running": {"startedAt": now}}
    done = {"terminated": _terminated(0, pod.started_at or now, now)}
    status: dict[str, Any] = {
        "phase": "Running",
        "startTime": pod.started_at or now,
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": _conditions(pod, dict.fromkeys(_READY, ("True", "")), now),
        "containerStatuses": [
            _container(item, running, ready=True, restarts=restarts.get(item.name, 0)) for item in pod.containers
        ],
    }
    if pod.init_containers:
        status["initContainerStatuses"] = [
            _container(item, running if item.sidecar else done, ready=True, restarts=0) for item in pod.init_containers
        ]
    return status


def ended_status(pod: PodView, *, exit_code: int, started: str, now: str) -> dict[str, Any]:
    """Return the status of a pod whose containers have ended."""
    terminated = {"terminated": _terminated(exit_code, started, now)}
    verdicts = dict.fromkeys(_READY, ("False", "PodCompleted" if exit_code == 0 else "PodFailed"))
    verdicts["Initialized"] = ("True", "PodCompleted" if exit_code == 0 else "")
    status: dict[str, Any] = {
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "conditions": _conditions(pod, verdicts, now),
        "containerStatuses": [_container(item, terminated, ready=False, restarts=0) for item in pod.containers],
    }
    if pod.init_containers:
        done = {"terminated": _terminated(0, started, now)}
        status["initContainerStatuses"] = [
            _container(item, done, ready=True, restarts=0) for item in pod.init_containers
        ]
    return status


def _terminated(exit_code: int, started: str, finished: str) -> dict[str, Any]:
    reason = "Completed" if exit_code == 0 else "Error"
    return {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": finished}


def _container(container: ContainerView, state: Mapping[str, Any], *, ready: bool, restarts: int) -> dict[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": _IMAGE_ID,
        "state": dict(state),
        "ready": ready,
        "started": "running" in state,
        "restartCount": restarts,
    }


def _conditions(pod: PodView, verdicts: Mapping[str, tuple[str, str]], now: str) -> list[dict[str, Any]]:
    """Return the kubelet's conditions after those of others, which are kept; a change of status gets the time."""
    known = {condition.get("type"): condition for condition in pod.conditions}
    kept = [dict(condition) for condition in pod.conditions if condition.get("type") not in verdicts]
    mine = []
    for type_, (status, reason) in verdicts.items():
        old = known.get(type_) or {}
        since = old.get("lastTransitionTime", now) if old.get("status") == status else now
        condition = {"type": type_, "status": status, "lastTransitionTime": since}
        mine.append({**condition, "reason": reason} if reason else condition)
    return [*kept, *mine]

"""The row of a pod: what `STATUS`, `READY` and `RESTARTS` mean.

Source: printPod, k8s.io/kubernetes v1.37.2 pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from claimsmith.embedded.api.ages import age_of
from claimsmith.embedded.store_records import JsonObject

__all__ = ["POD_COLUMNS", "pod_row"]

POD_COLUMNS: Final = (
    ("Name", 0),
    ("Ready", 0),
    ("Status", 0),
    ("Restarts", 0),
    ("Age", 0),
    ("IP", 1),
    ("Node", 1),
    ("Nominated Node", 1),
    ("Readiness Gates", 1),
)
_NONE: Final = "<none>"
_ENDED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass(slots=True)
class _Summary:
    """What the containers of a pod add up to."""

    reason: str
    ready: int = 0
    restarts: int = 0
    restarted_at: str = ""
    initializing: bool = False

    def count_restarts(self, status: JsonObject) -> None:
        self.restarts += status.get("restartCount") or 0
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.restarted_at = max(self.restarted_at, ended)


def pod_row(value: JsonObject, now: float) -> JsonObject:
    """Return the row of a pod, without the pod itself.

    Args:
        value: The pod.
        now: Seconds since 1970.
    """
    metadata, spec, status = value["metadata"], value.get("spec") or {}, value.get("status") or {}
    sidecars = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    summary = _summarize(spec, status, sidecars)
    phase = status.get("phase") or ""
    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in _ENDED:
            summary.reason = "Terminating"
    cells = [metadata["name"], f"{summary.ready}/{total}", summary.reason, _restarts(summary, now)]
    cells.append(age_of(metadata.get("creationTimestamp"), now))
    row: JsonObject = {"cells": [*cells, *_wide_cells(spec, status)]}
    if phase in _ENDED:
        row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDED[phase]}]
    return row


def _summarize(spec: JsonObject, status: JsonObject, sidecars: set[str]) -> _Summary:
    conditions = status.get("conditions") or ()
    reason = status.get("reason") or status.get("phase") or ""
    if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in conditions):
        reason = "SchedulingGated"
    summary, only_sidecars = _Summary(reason), _Summary("")
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        summary.count_restarts(container)
        sidecar = container.get("name") in sidecars
        if sidecar:
            only_sidecars.count_restarts(container)
        if not _passes_init(summary, container, sidecar=sidecar):
            summary.reason = _init_reason(container, index, len(spec.get("initContainers") or ()))
            summary.initializing = True
            break
    if not summary.initializing or _has_condition(conditions, "Initialized"):
        summary.restarts, summary.restarted_at = only_sidecars.restarts, only_sidecars.restarted_at
        _add_containers(summary, status, conditions)
    return summary


def _passes_init(summary: _Summary, container: JsonObject, *, sidecar: bool) -> bool:
    """Tell whether an init container is done, or is a sidecar that has started."""
    terminated = (container.get("state") or {}).get("terminated")
    if terminated is not None and not terminated.get("exitCode"):
        return True
    if sidecar and container.get("started"):
        summary.ready += bool(container.get("ready"))
        return True
    return False


def _init_reason(container: JsonObject, index: int, total: int) -> str:
    state = container.get("state") or {}
    terminated, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
    if terminated is not None:
        return f"Init:{_ended_reason(terminated)}"
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _ended_reason(terminated: JsonObject) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _add_containers(summary: _Summary, status: JsonObject, conditions: Any) -> None:
    running, error = False, ""
    for container in reversed(status.get("containerStatuses") or ()):
        summary.count_restarts(container)
        state = container.get("state") or {}
        waiting, terminated = (state.get("waiting") or {}).get("reason"), state.get("terminated")
        if waiting:
            summary.reason = waiting
        elif terminated is not None:
            summary.reason = _ended_reason(terminated)
            error = summary.reason if terminated.get("exitCode") else error
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and _has_condition(conditions, "Ready"):
            summary.reason = "Running"
        elif error:
            summary.reason = error
        elif running:
            summary.reason = "NotReady"


def _has_condition(conditions: Any, name: str) -> bool:
    return any(c.get("type") == name and c.get("status") == "True" for c in conditions)


def _restarts(summary: _Summary, now: float) -> str:
    if summary.restarts and summary.restarted_at:
        return f"{summary.restarts} ({age_of(summary.restarted_at, now)} ago)"
    return str(summary.restarts)


def _wide_cells(spec: JsonObject, status: JsonObject) -> list[str]:
    addresses = status.get("podIPs") or [{}]
    gates = spec.get("readinessGates") or ()
    passed = sum(_has_condition(status.get("conditions") or (), gate.get("conditionType")) for gate in gates)
    return [
        addresses[0].get("ip") or _NONE,
        spec.get("nodeName") or _NONE,
        status.get("nominatedNodeName") or _NONE,
        f"{passed}/{len(gates)}" if gates else _NONE,
    ]

"""What the API server fills into objects that leave it out.

Source: k8s.io/kubernetes v1.37.2 pkg/apis/core/v1/defaults.go, pkg/apis/resource/v1/defaults.go and the strategies in
pkg/registry; the admission plugins ServiceAccount, Priority and DefaultTolerationSeconds.

Deviates: replaced-pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from claimsmith.embedded.store_records import JsonObject

__all__ = ["carry_filled", "drop_empty", "fill_defaults", "prepare_new"]

_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_EVICT: Final = "NoExecute"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def fill_defaults(plural: str, value: JsonObject, *, now: str) -> None:
    """Fill the defaults of a kind into an object, at every write.

    Args:
        plural: Name of the kind in paths.
        value: The object; changed in place.
        now: Time of the write.
    """
    fill = _FILL.get(plural)
    if fill is not None:
        fill(value, now)


def prepare_new(plural: str, value: JsonObject, *, now: str) -> None:
    """Put a new object into the state in which its life begins.

    Args:
        plural: Name of the kind in paths.
        value: The object with its defaults; changed in place.
        now: Time of the write.
    """
    if plural == "pods":
        _begin_pod(value, now)
    elif plural == "namespaces":
        value["status"] = {"phase": "Active"}
        value.setdefault("spec", {})["finalizers"] = ["kubernetes"]
    elif plural in ("resourceclaims", "devicetaintrules", "podgroups"):
        value["status"] = {}


def carry_filled(plural: str, value: JsonObject, old: JsonObject) -> None:
    """Put back into a changed pod what admission had filled in when it was made, where the client leaves it out.

    Args:
        plural: Name of the kind in paths.
        value: The new state; changed in place.
        old: The state before.
    """
    if plural != "pods":
        return
    spec, before = value["spec"], old.get("spec") or {}
    for name in ("priority", "serviceAccount", "serviceAccountName"):
        if name not in spec and name in before:
            spec[name] = before[name]
    _add_tolerations(spec)


def drop_empty(metadata: JsonObject) -> None:
    """Drop empty maps and lists of metadata, as the API does.

    Args:
        metadata: The metadata; changed in place.
    """
    for name in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields"):
        if name in metadata and not metadata[name]:
            del metadata[name]


# --- pods -------------------------------------------------------------------------------------------------------------


def _fill_pod(value: JsonObject, _now: str) -> None:
    spec = value.setdefault("spec", {})
    defaults = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    for name, default in defaults.items():
        spec.setdefault(name, default)
    for container in _containers(spec):
        _fill_container(container)
    for volume in spec.get("volumes") or ():
        _fill_volume(volume)


def _begin_pod(value: JsonObject, now: str) -> None:
    spec = value["spec"]
    account = spec.setdefault("serviceAccountName", spec.get("serviceAccount") or "default")
    spec["serviceAccount"] = account
    spec.setdefault("priority", 0)
    _add_tolerations(spec)
    status: JsonObject = {"phase": "Pending", "qosClass": _qos_class(spec)}
    if spec.get("schedulingGates"):
        condition = {"type": "PodScheduled", "status": "False", "lastTransitionTime": now}
        condition |= {"reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}
        status["conditions"] = [condition]
    value["status"] = status


def _add_tolerations(spec: JsonObject) -> None:
    """Let a pod stay for five minutes on a node that is not ready."""
    tolerations = spec.setdefault("tolerations", [])
    for key in (_NOT_READY, _UNREACHABLE):
        if not any(item.get("key", key) == key and item.get("effect", _EVICT) == _EVICT for item in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": _EVICT, "tolerationSeconds": 300})


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    for name in ("containers", "initContainers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def _fill_container(container: JsonObject) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if container.get(name):
            _fill_probe(container[name])


def _fill_probe(probe: JsonObject) -> None:
    for name, default in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(name):
            probe[name] = default
    if probe.get("httpGet"):
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _fill_volume(volume: JsonObject) -> None:
    if not any(name != "name" for name in volume):
        volume["emptyDir"] = {}
    for name in ("secret", "configMap", "projected", "downwardAPI"):
        if volume.get(name) is not None:
            volume[name].setdefault("defaultMode", 420)
    if volume.get("hostPath") is not None:
        volume["hostPath"].setdefault("type", "")


def _pull_policy(image: str) -> str:
    last = image.rsplit("/", 1)[-1]
    if not image or "@" in last:
        return "IfNotPresent"
    _, colon, tag = last.partition(":")
    return "IfNotPresent" if colon and tag != "latest" else "Always"


def _qos_class(spec: JsonObject) -> str:
    """Return the quality of service class.

    Source: k8s.io/kubernetes v1.37.2 pkg/apis/core/v1/helper/qos/qos.go.
    """
    guaranteed, any_set = True, False
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        any_set = any_set or any(name in limits or name in requests for name in ("cpu", "memory"))
        guaranteed = guaranteed and all(limits.get(n) and limits[n] == requests.get(n) for n in ("cpu", "memory"))
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


# --- devices ----------------------------------------------------------------------------------------------------------


def _fill_claim(value: JsonObject, _now: str) -> None:
    _fill_requests(value.get("spec") or {})


def _fill_template(value: JsonObject, _now: str) -> None:
    _fill_requests((value.get("spec") or {}).get("spec") or {})


def _fill_requests(spec: JsonObject) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        alternatives = [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or ()
        for exact in alternatives:
            if not exact.get("allocationMode"):
                exact["allocationMode"] = "ExactCount"
            if exact["allocationMode"] == "ExactCount" and not exact.get("count"):
                exact["count"] = 1
            _fill_tolerations(exact)


def _fill_tolerations(exact: JsonObject) -> None:
    for toleration in exact.get("tolerations") or ():
        if not toleration.get("operator"):
            toleration["operator"] = "Equal"


def _fill_slice(value: JsonObject, now: str) -> None:
    for device in (value.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", now)


def _fill_taint_rule(value: JsonObject, now: str) -> None:
    taint = (value.get("spec") or {}).get("taint")
    if taint:
        taint.setdefault("timeAdded", now)


# --- groups -----------------------------------------------------------------------------------------------------------


def _fill_group(value: JsonObject, _now: str) -> None:
    value.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})


# --- others -----------------------------------------------------------------------------------------------------------


def _fill_namespace(value: JsonObject, _now: str) -> None:
    metadata = value["metadata"]
    if metadata.get("name"):
        labels: dict[str, Any] = metadata.setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = metadata["name"]


def _fill_priority_class(value: JsonObject, _now: str) -> None:
    value.setdefault("preemptionPolicy", "PreemptLowerPriority")


_FILL: Final[Mapping[str, Callable[[JsonObject, str], None]]] = MappingProxyType(
    {
        "pods": _fill_pod,
        "resourceclaims": _fill_claim,
        "resourceclaimtemplates": _fill_template,
        "resourceslices": _fill_slice,
        "devicetaintrules": _fill_taint_rule,
        "namespaces": _fill_namespace,
        "podgroups": _fill_group,
        "priorityclasses": _fill_priority_class,
    }
)

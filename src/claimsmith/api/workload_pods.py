"""The pods of workloads: what a controller would make of a Deployment, a Job or a JobSet.

The workloads themselves are no kinds of ours: of each, only its pod templates and how many pods they make is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from claimsmith.api.kinds import split_api_version
from claimsmith.api.manifests import Manifest

__all__ = ["PodTemplate", "expand_workloads", "find_pod_templates", "make_pod"]

_NAME_MAX: Final = 200
"""Letters that the names of pods take from the name of their workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """One pod template of a workload.

    Args:
        path: Where it stands in the workload.
        content: What stands there; empty when nothing does.
        count: How many pods it makes; None when that depends on the nodes.
        name: What tells it apart from other templates of the workload; empty when there is one.
    """

    path: str
    content: Mapping[str, Any]
    count: int | None = 1
    name: str = ""


def find_pod_templates(obj: Mapping[str, Any]) -> tuple[PodTemplate, ...]:
    """Return the pod templates of a decoded object, whether or not they are there; none when it is no workload.

    A cron job makes the pods of one run.

    Source: k8s.io/api v0.37.2 apps/v1, batch/v1, core/v1; JobSet v1alpha2; LeaderWorkerSet v1.
    """
    group, _ = split_api_version(str(obj.get("apiVersion")))
    find = _FINDERS.get((group, str(obj.get("kind"))))
    return () if find is None else tuple(find(_dig(obj, "spec")))


def make_pod(manifest: Manifest, template: PodTemplate, *, name: str) -> Manifest:
    """Return a pod of a workload, which stands where its template does.

    Args:
        manifest: The workload.
        template: One of its templates.
        name: Name of the pod.
    """
    found = template.content
    metadata = {**_dig(found, "metadata"), "name": name}
    metadata.pop("generateName", None)
    namespace = _dig(manifest.object, "metadata").get("namespace")
    if namespace:
        metadata["namespace"] = namespace
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _dig(found, "spec")}
    path = f"{manifest.path}.{template.path}" if manifest.path else template.path
    return replace(manifest, object=pod, path=path)


def expand_workloads(manifests: Iterable[Manifest], *, known: Collection[tuple[str, str]] = ()) -> Iterator[Manifest]:
    """Yield the manifests with the pods of workloads in place of these; other manifests as they are.

    A workload stays when how many pods it makes depends on the nodes.

    Args:
        manifests: The manifests.
        known: Namespaces and names of pods that are there already, and are not made again.
    """
    for manifest in manifests:
        templates = find_pod_templates(manifest.object)
        if not templates or any(template.count is None for template in templates):
            yield manifest
            continue
        metadata = _dig(manifest.object, "metadata")
        base = str(metadata.get("name") or metadata.get("generateName") or "pod").rstrip("-")[:_NAME_MAX]
        for template in templates:
            stem = f"{base}-{template.name}" if template.name else base
            for number in range(template.count or 0):
                name = f"{stem}-{number}"
                if (str(metadata.get("namespace") or "default"), name) not in known:
                    yield make_pod(manifest, template, name=name)


# --- the kinds --------------------------------------------------------------------------------------------------------


def _find_replicas(spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
    yield PodTemplate(path="spec.template", content=_dig(spec, "template"), count=_count(spec.get("replicas")))


def _find_daemons(spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
    yield PodTemplate(path="spec.template", content=_dig(spec, "template"), count=None)


def _find_job(spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
    yield PodTemplate(path="spec.template", content=_dig(spec, "template"), count=_count_parallel(spec))


def _find_cron_job(spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
    job = _dig(_dig(spec, "jobTemplate"), "spec")
    content = _dig(job, "template")
    yield PodTemplate(path="spec.jobTemplate.spec.template", content=content, count=_count_parallel(job))


def _find_job_set(spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
    jobs = spec.get("replicatedJobs")
    for place, job in enumerate(jobs if isinstance(jobs, list) else ()):
        if isinstance(job, dict):
            inner = _dig(_dig(job, "template"), "spec")
            count = _count(job.get("replicas")) * _count_parallel(inner)
            path = f"spec.replicatedJobs[{place}].template.spec.template"
            yield PodTemplate(
                path=path, content=_dig(inner, "template"), count=count, name=str(job.get("name") or place)
            )


def _find_leader_workers(spec: Mapping[str, Any]) -> Iterator[PodTemplate]:
    groups, both = _count(spec.get("replicas")), _dig(spec, "leaderWorkerTemplate")
    leader, workers = _dig(both, "leaderTemplate"), _count(both.get("size"))
    path = "spec.leaderWorkerTemplate"
    if leader:
        yield PodTemplate(path=f"{path}.leaderTemplate", content=leader, count=groups, name="leader")
        workers = max(workers - 1, 0)
    worker = _dig(both, "workerTemplate")
    yield PodTemplate(path=f"{path}.workerTemplate", content=worker, count=groups * workers, name="worker")


_FINDERS: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Iterator[PodTemplate]]]] = MappingProxyType(
    {
        ("", "ReplicationController"): _find_replicas,
        ("apps", "Deployment"): _find_replicas,
        ("apps", "ReplicaSet"): _find_replicas,
        ("apps", "StatefulSet"): _find_replicas,
        ("apps", "DaemonSet"): _find_daemons,
        ("batch", "Job"): _find_job,
        ("batch", "CronJob"): _find_cron_job,
        ("jobset.x-k8s.io", "JobSet"): _find_job_set,
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _find_leader_workers,
    }
)


def _count_parallel(spec: Mapping[str, Any]) -> int:
    """Return how many pods of a job run at a time."""
    wanted = _count(spec.get("parallelism"))
    completions = spec.get("completions")
    return min(wanted, _count(completions)) if completions is not None else wanted


def _count(value: object) -> int:
    """Return a number of pods; 1 when there is none that makes sense."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 1


def _dig(value: object, key: str) -> Mapping[str, Any]:
    """Return a map in a map; an empty one when it is not there or no map."""
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}

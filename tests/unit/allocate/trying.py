"""Small clusters for what-if, preemption and moves: nodes with GPUs, pods that hold some of them, pods that wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from claimsmith.cluster.build import ClusterObject, build_snapshot
from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.metadata import Metadata, OwnerReference
from claimsmith.model.names import DeviceId, PodRef
from claimsmith.model.policy import DisruptionBudget, LabelSelector
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.testing.builders import (
    DRIVER,
    NAMESPACE,
    Amount,
    allocated,
    claim,
    gpu,
    klass,
    metadata,
    node,
    pod,
    quantities,
    request,
    slice_,
    template,
)

SET = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="set", uid="uid-set", controller=True)
DAEMONS = replace(SET, kind="DaemonSet")
Held = tuple[Pod, ResourceClaim]


def gpus(name: str, count: int) -> ResourceSlice:
    """The slice of a node with so many GPUs, named g0 and so on."""
    return slice_(*(gpu(f"g{n}", memory="80Gi") for n in range(count)), node=name, pool=name, name=f"{name}-gpus")


def cluster(nodes: Mapping[str, int], *objects: ClusterObject | Held, **amounts: Amount) -> ClusterSnapshot:
    """A cluster of nodes with so many GPUs each; templates `gpus-1` to `gpus-8` ask for so many."""
    everything: list[ClusterObject] = [klass(), *(template(f"gpus-{n}", request(count=n)) for n in range(1, 9))]
    for name, count in nodes.items():
        everything.append(node(name, allocatable=amounts))
        if count:
            everything.append(gpus(name, count))
    for item in objects:
        everything += item if isinstance(item, tuple) else (item,)
    return build_snapshot(everything)


def waiting(name: str, count: int = 1, *, priority: int = 0, cpu: Amount = 0, **fields: Any) -> Pod:
    """A pod that waits for so many GPUs of one node, by a claim of its own; 0: it needs none."""
    claims = (PodClaim(name="gpu", template_name=f"gpus-{count}"),) if count else ()
    return pod(name, *claims, requests={"cpu": cpu} if cpu else None, priority=priority, **fields)


def running(
    name: str, where: str, *devices: str, priority: int = 0, cpu: Amount = 0, owner: OwnerReference | None = SET,
    **labels: str,
) -> Held:  # fmt: skip
    """A pod on a node that holds GPUs of it by a claim that was made for it."""
    made, own = f"{name}-gpu", metadata(name, {"labels": labels}, namespaced=True)
    holder = waiting(name, len(devices), priority=priority, cpu=cpu, node_name=where, phase="Running")
    holder = replace(
        holder,
        metadata=replace(own, owner_references=() if owner is None else (owner,)),
        claim_names={"gpu": made} if devices else {},
    )
    owning = OwnerReference(api_version="v1", kind="Pod", name=name, uid=holder.uid, controller=True)
    held = claim(made, request(count=len(devices) or 1), owner_references=(owning,))
    held = allocated(held, *(DeviceId(DRIVER, where, item) for item in devices), node=where, reserved_for=(name,))
    return (holder, held if devices else claim(made, owner_references=(owning,)))


def sharing(name: str, where: str, shared: str, *, priority: int = 0) -> Pod:
    """A pod on a node that uses a claim which others use too."""
    own = replace(metadata(name, {}, namespaced=True), owner_references=(SET,))
    return pod(name, shared, node_name=where, priority=priority, phase="Running", metadata=own)


def held_by(name: str, where: str, device_name: str, *users: str) -> ResourceClaim:
    """A claim that several pods use."""
    return allocated(claim(name), DeviceId(DRIVER, where, device_name), node=where, reserved_for=users)


def budget(name: str, allowed: int | None, *, maximum: int | None = None, **labels: str) -> DisruptionBudget:
    """A disruption budget over the pods with these labels."""
    own = Metadata(name=name, namespace=NAMESPACE)
    return DisruptionBudget(
        metadata=own, selector=LabelSelector(labels=labels), disruptions_allowed=allowed, max_unavailable=maximum
    )


def ref(name: str) -> PodRef:
    """Namespace and name of a pod of the builders."""
    return PodRef(NAMESPACE, name)


def names(pods: object) -> list[str]:
    """Names of pods."""
    return [item.metadata.name for item in pods]  # type: ignore[attr-defined]


def stranger(name: str) -> ConsumerReference:
    """A consumer that is no pod."""
    return ConsumerReference(resource="jobs", name=name, uid=f"uid-{name}", api_group="batch")


__all__ = [
    "DAEMONS",
    "SET",
    "Held",
    "budget",
    "cluster",
    "gpus",
    "held_by",
    "names",
    "quantities",
    "ref",
    "running",
    "sharing",
    "stranger",
    "waiting",
]

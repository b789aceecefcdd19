"""Builders of nodes, pods, snapshots, and of what a node's driver is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import DeviceId
from claimsmith.model.node import Node, NodeTaint
from claimsmith.model.podgroup import PodGroup, PodGroupSpec
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.prepared import ClaimKey, PrepareRequest, RequestedDevice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Container, ContainerClaim, Pod, PodClaim, PodToleration
from claimsmith.testing.builders.claims import NAMESPACE, klass, metadata
from claimsmith.testing.builders.devices import NODE, Amount, device_id, quantities

__all__ = ["claim_key", "node", "pod", "pod_group", "prepare_request", "requested", "snapshot"]


class PodFields(TypedDict, total=False):
    """Rare fields of a pod that `pod` takes by name."""

    metadata: Metadata
    scheduler_name: str
    scheduling_gates: tuple[str, ...]
    node_selector: Mapping[str, str]
    tolerations: tuple[PodToleration, ...]
    priority: int
    phase: str
    claim_names: Mapping[str, str | None]
    pod_group: str


def node(
    name: str = NODE,
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, Amount] | None = None,
    taints: Iterable[NodeTaint] = (),
    unschedulable: bool = False,
    ready: bool = True,
) -> Node:
    """Return a node that is ready and has room for 110 pods."""
    amounts = quantities({"cpu": "64", "memory": "512Gi", "pods": 110, **(allocatable or {})})
    return Node(
        metadata=metadata(name, {"labels": {"kubernetes.io/hostname": name, **(labels or {})}}, namespaced=False),
        taints=tuple(taints),
        unschedulable=unschedulable,
        capacity=amounts,
        allocatable=amounts,
        ready=ready,
    )


def pod(
    name: str = "pod",
    *claims: str | PodClaim,
    node_name: str = "",
    requests: Mapping[str, Amount] | None = None,
    containers: Iterable[Container] | None = None,
    **fields: Unpack[PodFields],
) -> Pod:
    """Return a pod of one container that uses the named claims; text names a claim of the pod's namespace."""
    used = tuple(PodClaim(name=item, claim_name=item) if isinstance(item, str) else item for item in claims)
    only = Container(
        name="main",
        image="example.test/image",
        requests=quantities(requests or {}),
        claims=tuple(ContainerClaim(name=item.name) for item in used),
    )
    plain = Pod(
        metadata=metadata(name, {}, namespaced=True),
        containers=(only,) if containers is None else tuple(containers),
        claims=used,
        node_name=node_name,
    )
    return replace(plain, **fields)


def pod_group(
    name: str = "gang",
    *claims: PodClaim,
    least: int | None = 2,
    topology: str = "",
    priority: int | None = None,
    conditions: Iterable[Mapping[str, object]] = (),
) -> PodGroup:
    """Return a group of pods of which at least so many are placed together, on nodes of one value of a label."""
    keys = (topology,) if topology else ()
    return PodGroup(
        metadata=metadata(name, {}, namespaced=True),
        spec=PodGroupSpec(min_count=least, topology_keys=keys, claims=claims, priority=priority),
        conditions=tuple(conditions),
    )


def snapshot(*objects: Node | ResourceSlice | DeviceClass | ResourceClaim | Pod | DeviceTaintRule) -> ClusterSnapshot:
    """Return a snapshot of these objects; without any class it holds the default one, without any node the default."""
    classes = [item for item in objects if isinstance(item, DeviceClass)] or [klass()]
    nodes = [item for item in objects if isinstance(item, Node)] or [node()]
    slices = sorted((item for item in objects if isinstance(item, ResourceSlice)), key=lambda item: item.name)
    return ClusterSnapshot(
        nodes={item.name: item for item in nodes},
        slices=tuple(slices),
        classes={item.name: item for item in classes},
        claims={item.ref: item for item in objects if isinstance(item, ResourceClaim)},
        pods={item.ref: item for item in objects if isinstance(item, Pod)},
        taint_rules=tuple(item for item in objects if isinstance(item, DeviceTaintRule)),
    )


def claim_key(name: str = "claim", *, namespace: str = NAMESPACE, uid: str = "") -> ClaimKey:
    """Return a claim as the kubelet names it."""
    return ClaimKey(namespace=namespace, name=name, uid=uid or f"uid-{name}")


def requested(device: str | DeviceId, *, request: str = "r", share: str = "") -> RequestedDevice:
    """Return one device to be prepared; text names a device of the default pool."""
    found = device_id(device) if isinstance(device, str) else device
    return RequestedDevice(id=found, request=request, share_id=share)


def prepare_request(*devices: RequestedDevice | DeviceId | str, claim: ClaimKey | None = None) -> PrepareRequest:
    """Return what a driver is asked to prepare."""
    items = tuple(item if isinstance(item, RequestedDevice) else requested(item) for item in devices)
    return PrepareRequest(claim=claim or claim_key(), devices=items)

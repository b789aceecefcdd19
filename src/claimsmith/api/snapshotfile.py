"""A cluster's device state as a file: what decisions read, and nothing that a stranger must not see.

The file is a `v1 List` of ordinary Kubernetes objects, so that it can be named wherever manifests can; its first item,
of a kind of ours, says that it is a snapshot and in which version. Left out are, besides whole kinds such as Secrets:
environment, images and commands of containers, annotations but for two that controllers set, opaque parameters of
drivers, and what drivers and controllers report in free text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from claimsmith.api import core, policy, resource, scheduling
from claimsmith.api.decode import TypeMeta
from claimsmith.api.kinds import find_kind
from claimsmith.api.manifests import Manifest, parse_manifests
from claimsmith.api.objects import ModelObject, find_parser, parse_manifest
from claimsmith.errors import InputError, ManifestError
from claimsmith.model.claim import (
    AllocatedDeviceStatus,
    AllocationConfig,
    AllocationResult,
    DeviceClass,
    DeviceConfig,
    OpaqueConfig,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from claimsmith.model.metadata import Metadata
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.policy import DisruptionBudget, PriorityClass, ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.record import Namespace
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Container, Pod

__all__ = [
    "SNAPSHOT_KIND",
    "SNAPSHOT_VERSION",
    "SnapshotObjects",
    "encode_snapshot",
    "is_snapshot_text",
    "iter_objects",
    "parse_snapshot_objects",
    "reduce_object",
    "reduce_snapshot",
]

SNAPSHOT_VERSION: Final = "claimsmith.dev/v1alpha1"
"""`apiVersion` of the first item: the version of the format."""
SNAPSHOT_KIND: Final = "ClusterSnapshot"
"""`kind` of the first item."""
LEFT_OUT_IMAGE: Final = "left-out"
"""Stands for the image of every container."""

_KEPT_ANNOTATIONS: Final = frozenset(
    {"resource.kubernetes.io/extended-resource-claim", "resource.kubernetes.io/pod-claim-name"}
)
"""Set by controllers; decisions read them. Source: k8s.io/api v0.37.2 resource/v1 types.go."""
_SAFE_CONDITION: Final = ("type", "status", "reason", "lastTransitionTime", "observedGeneration")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotObjects:
    """What a snapshot file holds.

    Args:
        objects: In the order of the file.
        resource_version: Of the newest object, as the server said; empty for files.
    """

    objects: tuple[ModelObject, ...]
    resource_version: str = ""


# --- leaving out ------------------------------------------------------------------------------------------------------


def reduce_snapshot(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return a snapshot with what decisions read alone; one that was reduced before is returned equal.

    Pods that have ended go too, unless a claim is still reserved for them.
    """
    reserved = {user.uid for claim in snapshot.claims.values() for user in claim.reserved_for}
    return replace(
        snapshot,
        nodes=_reduce_all(snapshot.nodes),
        slices=tuple(reduce_object(item) for item in snapshot.slices),
        classes=_reduce_all(snapshot.classes),
        claims=_reduce_all(snapshot.claims),
        templates=_reduce_all(snapshot.templates),
        pods=_reduce_all({ref: pod for ref, pod in snapshot.pods.items() if not pod.finished or pod.uid in reserved}),
        taint_rules=tuple(reduce_object(item) for item in snapshot.taint_rules),
        pod_groups=_reduce_all(snapshot.pod_groups),
        budgets=_reduce_all(snapshot.budgets),
        quotas=tuple(reduce_object(item) for item in snapshot.quotas),
        priority_classes=_reduce_all(snapshot.priority_classes),
    )


def _reduce_all(objects: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: reduce_object(value) for key, value in objects.items()}


def reduce_object(value: Any) -> Any:
    """Return an object of a snapshot with what decisions read alone."""
    metadata = _reduce_metadata(value.metadata)
    match value:
        case Pod():
            return replace(
                value,
                metadata=metadata,
                containers=tuple(_reduce_container(item) for item in value.containers),
                init_containers=tuple(_reduce_container(item) for item in value.init_containers),
            )
        case ResourceClaim():
            return replace(
                value,
                metadata=metadata,
                spec=_reduce_spec(value.spec),
                allocation=_reduce_allocation(value.allocation),
                devices=tuple(_reduce_status(item) for item in value.devices),
            )
        case ResourceClaimTemplate():
            return replace(value, metadata=metadata, spec=_reduce_spec(value.spec), annotations={})
        case DeviceClass():
            return replace(value, metadata=metadata, config=_reduce_config(value.config))
        case DeviceTaintRule() | PodGroup():
            return replace(value, metadata=metadata, conditions=_reduce_conditions(value.conditions))
        case _:
            return replace(value, metadata=metadata)


def _reduce_metadata(metadata: Metadata) -> Metadata:
    kept = {name: text for name, text in metadata.annotations.items() if name in _KEPT_ANNOTATIONS}
    return replace(metadata, annotations=kept)


def _reduce_container(container: Container) -> Container:
    return replace(container, image=LEFT_OUT_IMAGE, env={})


def _reduce_spec(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    return replace(spec, config=_reduce_config(spec.config))


def _reduce_config(config: tuple[DeviceConfig, ...]) -> tuple[DeviceConfig, ...]:
    return tuple(replace(item, opaque=_reduce_opaque(item.opaque)) for item in config)


def _reduce_opaque(opaque: OpaqueConfig | None) -> OpaqueConfig | None:
    return None if opaque is None else replace(opaque, parameters={})


def _reduce_allocation(allocation: AllocationResult | None) -> AllocationResult | None:
    if allocation is None:
        return None
    config = tuple(_reduce_allocated(item) for item in allocation.config)
    return replace(allocation, config=config)


def _reduce_allocated(config: AllocationConfig) -> AllocationConfig:
    return replace(config, opaque=_reduce_opaque(config.opaque))


def _reduce_status(status: AllocatedDeviceStatus) -> AllocatedDeviceStatus:
    return replace(status, conditions=_reduce_conditions(status.conditions), data=None, network_data=None)


def _reduce_conditions(conditions: tuple[Mapping[str, object], ...]) -> tuple[Mapping[str, object], ...]:
    return tuple(
        {name: item[name] for name in _SAFE_CONDITION if name in item} | {"message": ""} for item in conditions
    )


# --- writing ----------------------------------------------------------------------------------------------------------


def encode_snapshot(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON, reduced to what decisions read whatever it holds."""
    reduced = reduce_snapshot(snapshot)
    spec = {"resourceVersion": reduced.resource_version} if reduced.resource_version else {}
    marker = {
        "apiVersion": SNAPSHOT_VERSION,
        "kind": SNAPSHOT_KIND,
        "metadata": {"name": "cluster"},
        "spec": spec,
    }
    return {"apiVersion": "v1", "kind": "List", "items": [marker, *map(_encode_object, iter_objects(reduced))]}


def iter_objects(snapshot: ClusterSnapshot) -> Iterator[ModelObject]:
    """Yield the objects of a snapshot; what others refer to comes first."""
    for name, labels in snapshot.namespace_labels.items():
        yield Namespace(metadata=Metadata(name=name, labels=labels))
    yield from snapshot.priority_classes.values()
    yield from snapshot.quotas
    yield from snapshot.classes.values()
    yield from snapshot.taint_rules
    yield from snapshot.nodes.values()
    yield from snapshot.slices
    yield from snapshot.templates.values()
    yield from snapshot.claims.values()
    yield from snapshot.pod_groups.values()
    yield from snapshot.pods.values()
    yield from snapshot.budgets.values()


_ENCODERS: Final[Mapping[type, Any]] = {
    Namespace: core.encode_namespace,
    Node: core.encode_node,
    Pod: core.encode_pod,
    ResourceSlice: resource.encode_resource_slice,
    DeviceClass: resource.encode_device_class,
    DeviceTaintRule: resource.encode_device_taint_rule,
    ResourceClaim: resource.encode_resource_claim,
    ResourceClaimTemplate: resource.encode_resource_claim_template,
    PodGroup: scheduling.encode_pod_group,
    DisruptionBudget: policy.encode_budget,
    ResourceQuota: policy.encode_quota,
    PriorityClass: policy.encode_priority_class,
}


def _encode_object(value: ModelObject) -> dict[str, Any]:
    encoded: dict[str, Any] = _ENCODERS[type(value)](value)
    return encoded


# --- reading ----------------------------------------------------------------------------------------------------------


class _RawList(msgspec.Struct, gc=False):
    """A list whose items are looked at one by one."""

    items: list[msgspec.Raw]


class _MarkerSpec(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""


class _Marker(msgspec.Struct, gc=False, rename="camel"):
    api_version: str = ""
    kind: str = ""
    spec: _MarkerSpec = msgspec.field(default_factory=_MarkerSpec)


def parse_snapshot_objects(text: str, *, source: str) -> SnapshotObjects:
    """Return what a snapshot file holds.

    Args:
        text: JSON or YAML.
        source: Name of the text for messages, such as a file name.

    Raises:
        InputError: The text is no snapshot, or one of a version that this claimsmith does not read.
        ManifestError: The text can't be read.
        FieldError: An object in it holds what is not allowed.
    """
    return _parse_fast(text, source) or _parse_slowly(text, source)


def _parse_fast(text: str, source: str) -> SnapshotObjects | None:
    """Read JSON that is as it is written here; None when it must be looked at closely."""
    try:
        items = msgspec.json.decode(text, type=_RawList).items
        marker = msgspec.json.decode(items[0], type=_Marker) if items else _Marker()
        _check_marker(marker, source)
        objects = [value for item in items[1:] if (value := _parse_raw(bytes(item), source)) is not None]
    except (msgspec.DecodeError, ManifestError, RecursionError):
        return None
    return SnapshotObjects(objects=tuple(objects), resource_version=marker.spec.resource_version)


def _parse_raw(item: bytes, source: str) -> ModelObject | None:
    meta = msgspec.json.decode(item, type=TypeMeta)
    kind = find_kind(meta.api_version or "", meta.kind or "")
    parser = None if kind is None else find_parser(kind)
    return None if parser is None else parser(item, source=source)


def _parse_slowly(text: str, source: str) -> SnapshotObjects:
    manifests = parse_manifests(text, source=source)
    first = manifests[0].object if manifests else {}
    try:
        marker = msgspec.convert(first, _Marker)
    except msgspec.ValidationError:
        marker = _Marker()
    _check_marker(marker, source)
    return SnapshotObjects(objects=tuple(_parse_known(manifests[1:])), resource_version=marker.spec.resource_version)


def _parse_known(manifests: Iterable[Manifest]) -> Iterator[ModelObject]:
    """Yield the objects of kinds that the model knows; those of a later claimsmith are passed over."""
    for manifest in manifests:
        known = find_kind(str(manifest.object.get("apiVersion")), str(manifest.object.get("kind")))
        value = None if known is None else parse_manifest(manifest, strict=False)
        if value is not None:
            yield value


def is_snapshot_text(text: str) -> bool:
    """Tell whether the beginning of a text looks like that of a snapshot; nothing is read in earnest."""
    return SNAPSHOT_KIND in text[:1000] and SNAPSHOT_VERSION.partition("/")[0] in text[:1000]


def _check_marker(marker: _Marker, source: str) -> None:
    """Refuse what is no snapshot of this version.

    Raises:
        InputError: It is none.
    """
    if marker.kind != SNAPSHOT_KIND:
        found = f"{marker.api_version} {marker.kind}".strip() or "nothing"
        raise InputError(
            f"{source}: found {found!r} as the first object, allowed {SNAPSHOT_VERSION} {SNAPSHOT_KIND}; "
            "name a file that `claimsmith snapshot save` wrote, or use -f"
        )
    if marker.api_version != SNAPSHOT_VERSION:
        raise InputError(
            f"{source}: found a snapshot of version {marker.api_version!r}, allowed {SNAPSHOT_VERSION}; "
            "read it with the claimsmith that wrote it, or save it anew"
        )

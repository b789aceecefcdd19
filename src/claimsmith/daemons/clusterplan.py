"""What an embedded cluster is made of, out of a user's manifests: pure.

Nodes come from Node objects and from the nodes that settings of drivers name. ResourceSlices of a node are served by
the simulated driver under the name of their own driver, so that a cluster's published state can be tried out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from claimsmith.api.kinds import NAMESPACE, NODE, RESOURCE_SLICE, Kind, find_kind
from claimsmith.api.manifests import Manifest
from claimsmith.sdk.settings import SETTINGS_API_VERSION, find_named_nodes

__all__ = ["ClusterPlan", "NodePlan", "PlannedObject", "plan_cluster"]

_ORDER: Final = ("Namespace", "PriorityClass", "DeviceClass", "DeviceTaintRule", "ServiceAccount", "ResourceSlice",
                 "ResourceClaimTemplate", "ResourceClaim")  # fmt: skip
"""Kinds that are created before all others, in this order: what others need comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node to run.

    Args:
        labels: Further labels.
        capacity: Amounts by resource as the API writes them; empty for the usual ones.
        manifest: The Node object in the files; None when only settings name the node.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    manifest: Manifest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedObject:
    """One object to create."""

    kind: Kind
    manifest: Manifest

    @property
    def namespace(self) -> str:
        """Namespace of the object; `default` when it names none, empty for kinds without."""
        if not self.kind.namespaced:
            return ""
        return str((self.manifest.object.get("metadata") or {}).get("namespace") or "default")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """All that an embedded cluster starts with.

    Args:
        objects: In the order in which they are created.
        namespaces: Namespaces that objects are in and no manifest makes.
        settings: Settings of drivers.
        left_out: One sentence for each object that can't be served.
    """

    nodes: tuple[NodePlan, ...]
    objects: tuple[PlannedObject, ...]
    namespaces: tuple[str, ...]
    settings: tuple[Manifest, ...]
    left_out: tuple[str, ...]


def plan_cluster(manifests: Iterable[Manifest]) -> ClusterPlan:
    """Return what to start for the manifests.

    Raises:
        FieldError: Settings of a driver name their nodes wrongly.
    """
    settings: list[Manifest] = []
    objects: list[PlannedObject] = []
    left_out: list[str] = []
    for manifest in manifests:
        api_version, name = str(manifest.object.get("apiVersion")), str(manifest.object.get("kind"))
        kind = find_kind(api_version, name)
        if api_version == SETTINGS_API_VERSION:
            settings.append(manifest)
        elif kind is not None and kind.is_listable:
            objects.append(PlannedObject(kind=kind, manifest=manifest))
        else:
            left_out.append(
                f"{manifest.locate()}: {api_version} {name} is not served by the embedded cluster, left out"
            )
    stand_ins, rest = _split_slices(objects)
    settings += stand_ins
    nodes = _plan_nodes([item.manifest for item in rest if item.kind is NODE], settings)
    rest = sorted((item for item in rest if item.kind is not NODE), key=_rank)
    made = {_name_of(item.manifest) for item in rest if item.kind is NAMESPACE}
    used = dict.fromkeys(item.namespace for item in rest if item.kind.namespaced)
    return ClusterPlan(
        nodes=nodes,
        objects=tuple(rest),
        namespaces=tuple(name for name in used if name not in made),
        settings=tuple(settings),
        left_out=tuple(left_out),
    )


def _rank(item: PlannedObject) -> int:
    return _ORDER.index(item.kind.kind) if item.kind.kind in _ORDER else len(_ORDER)


def _name_of(manifest: Manifest) -> str:
    return str((manifest.object.get("metadata") or {}).get("name") or "")


def _plan_nodes(manifests: Sequence[Manifest], settings: Sequence[Manifest]) -> tuple[NodePlan, ...]:
    nodes: dict[str, NodePlan] = {}
    for manifest in manifests:
        name, metadata = _name_of(manifest), manifest.object.get("metadata") or {}
        status = manifest.object.get("status") or {}
        capacity = {
            key: str(value) for key, value in (status.get("allocatable") or status.get("capacity") or {}).items()
        }
        labels = metadata.get("labels") or {}
        nodes[name] = NodePlan(name=name, labels=labels, capacity=capacity, manifest=manifest)
    for name in (name for manifest in settings for name in find_named_nodes(manifest)):
        nodes.setdefault(name, NodePlan(name=name))
    return tuple(nodes.values())


def _split_slices(objects: Sequence[PlannedObject]) -> tuple[list[Manifest], list[PlannedObject]]:
    """Return settings that stand for the slices of nodes, and all other objects."""
    rest: list[PlannedObject] = []
    by_pool: dict[tuple[str, str, str], list[Manifest]] = defaultdict(list)
    for item in objects:
        spec = item.manifest.object.get("spec") or {}
        pool = spec.get("pool") or {}
        if item.kind is not RESOURCE_SLICE or not spec.get("nodeName"):
            rest.append(item)
        else:
            by_pool[spec["nodeName"], str(spec.get("driver")), str(pool.get("name"))].append(item.manifest)
    stand_ins = [_stand_in(node, driver, slices) for (node, driver, _), slices in by_pool.items()]
    return stand_ins, rest


def _stand_in(node: str, driver: str, slices: Sequence[Manifest]) -> Manifest:
    """Return settings of the simulated driver with the devices of a pool's newest slices, in their order."""
    ordered = sorted(slices, key=lambda item: _name_of(item).encode())
    newest = max(_generation(item) for item in ordered)
    specs = [item.object["spec"] for item in ordered if _generation(item) == newest]
    content: dict[str, Any] = {
        "nodes": [node],
        "driver": driver,
        "devices": [device for spec in specs for device in spec.get("devices") or ()],
        "sharedCounters": [counters for spec in specs for counters in spec.get("sharedCounters") or ()],
    }
    document = {"apiVersion": SETTINGS_API_VERSION, "kind": "SimulatedDevices", "metadata": {"name": node}}
    return replace(ordered[0], object={**document, "spec": content}, path="", text="")


def _generation(manifest: Manifest) -> int:
    pool = manifest.object["spec"].get("pool") or {}
    return int(pool.get("generation") or 0)

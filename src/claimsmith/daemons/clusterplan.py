"""What an embedded cluster is made of, out of a user's manifests: pure.

Nodes come from Node objects and from the nodes that settings of drivers name. ResourceSlices of a node are served by
the simulated driver under the name of their own driver, so that a cluster's published state can be tried out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from claimsmith.api.kinds import (
    EVENT,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    READ_KINDS,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    Kind,
)
from claimsmith.api.manifests import Manifest
from claimsmith.daemons.sorted_manifests import AGENT_KIND, SETTINGS_KIND, namespace_of, sort_manifests
from claimsmith.errors import InputError
from claimsmith.sdk.settings import SETTINGS_API_VERSION, find_named_nodes

__all__ = ["ONLY_NODE", "ClusterPlan", "NodePlan", "PlannedObject", "plan_cluster"]

ONLY_NODE: Final = "node-1"
"""Name of the one node of a cluster whose manifests name none, but have settings of devices for every node."""

_ORDER: Final = ("Namespace", "PriorityClass", "DeviceClass", "DeviceTaintRule", "ServiceAccount", "ResourceSlice",
                 "ResourceClaimTemplate", "ResourceClaim")  # fmt: skip
"""Kinds that are created before all others, in this order: what others need comes first."""
_SERVER_FIELDS: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
     "managedFields", "selfLink", "ownerReferences", "finalizers"}
)  # fmt: skip
"""What another cluster has put into the metadata of an object that was read from it."""
_GENERATED_FOR_POD: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of claims that were made for a pod, which are made again."""


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
        return namespace_of(self.kind, self.manifest)

    @property
    def content(self) -> dict[str, Any]:
        """What is created: an object of another cluster begins anew, without its status, owners and node."""
        obj = self.manifest.object
        metadata = obj.get("metadata") or {}
        content = {key: value for key, value in obj.items() if key != "status"}
        if not metadata.get("uid"):
            return content
        content["metadata"] = {key: value for key, value in metadata.items() if key not in _SERVER_FIELDS}
        if self.kind is POD:
            content["spec"] = {key: value for key, value in (obj.get("spec") or {}).items() if key != "nodeName"}
        return content


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """All that an embedded cluster starts with.

    Args:
        objects: In the order in which they are created.
        namespaces: Namespaces that objects are in and no manifest makes.
        settings: Settings of drivers.
        agent: Configuration of the nodes' agents; None for the usual one.
        left_out: One sentence for each object that can't be served, and for each field that a kind does not have.
    """

    nodes: tuple[NodePlan, ...]
    objects: tuple[PlannedObject, ...]
    namespaces: tuple[str, ...]
    settings: tuple[Manifest, ...]
    left_out: tuple[str, ...]
    agent: Manifest | None = None


def plan_cluster(manifests: Iterable[Manifest], *, strict: bool = False) -> ClusterPlan:
    """Return what to start for the manifests.

    Args:
        manifests: The manifests.
        strict: Refuse fields that a kind does not have instead of leaving them out.

    Raises:
        InputError: A manifest can't be read, or an object is there twice.
    """
    found = sort_manifests(manifests, strict=strict)
    _check_agents(found.agents)
    served = [(kind, item) for kind, item in found.objects if kind not in READ_KINDS]
    objects = [PlannedObject(kind=kind, manifest=item) for kind, item in served if not _is_made_again(kind, item)]
    stand_ins, rest = _split_slices(objects)
    settings = (*found.settings, *stand_ins)
    nodes = _plan_nodes([item.manifest for item in rest if item.kind is NODE], settings)
    rest = sorted((item for item in rest if item.kind is not NODE), key=_rank)
    made = {_name_of(item.manifest) for item in rest if item.kind is NAMESPACE}
    used = dict.fromkeys(item.namespace for item in rest if item.kind.namespaced)
    return ClusterPlan(
        nodes=nodes,
        objects=tuple(rest),
        namespaces=tuple(name for name in used if name not in made),
        settings=settings,
        left_out=(*found.left_out, *_explain_unserved(found.objects)),
        agent=next(iter(found.agents), None),
    )


def _explain_unserved(objects: Iterable[tuple[Kind, Manifest]]) -> Iterator[str]:
    """Yield a sentence for each object that an embedded server doesn't serve."""
    for kind, item in objects:
        if kind in READ_KINDS:
            yield f"{item.locate()}: left out {kind}; an embedded cluster does not obey it, whatif and preempt do"


def _check_agents(agents: Sequence[Manifest]) -> None:
    for other in agents[1:]:
        raise InputError(
            f"{other.locate()}: found a second {AGENT_KIND} (the first: {agents[0].locate()}), "
            "allowed one for all nodes; name all drivers in one"
        )


def _is_made_again(kind: Kind, manifest: Manifest) -> bool:
    """Tell whether an object of another cluster is one that the controllers or the kubelets of this one make."""
    metadata = manifest.object.get("metadata") or {}
    if not metadata.get("uid"):
        return False
    return kind in (EVENT, LEASE) or (
        kind is RESOURCE_CLAIM and _GENERATED_FOR_POD in (metadata.get("annotations") or {})
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
    return tuple(nodes.values()) or ((NodePlan(name=ONLY_NODE),) if settings else ())


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
    return [_stand_in(place, slices) for place, slices in by_pool.items()], rest


def _stand_in(place: tuple[str, str, str], slices: Sequence[Manifest]) -> Manifest:
    """Return settings of the simulated driver with the devices of a pool's newest slices, in their order."""
    node, driver, pool = place
    ordered = sorted(slices, key=lambda item: _name_of(item).encode())
    newest = max(_generation(item) for item in ordered)
    specs = [item.object["spec"] for item in ordered if _generation(item) == newest]
    content: dict[str, Any] = {
        "nodes": [node],
        "driver": driver,
        "pool": "" if pool == node else pool,
        "devices": [device for spec in specs for device in spec.get("devices") or ()],
        "sharedCounters": [counters for spec in specs for counters in spec.get("sharedCounters") or ()],
    }
    document = {"apiVersion": SETTINGS_API_VERSION, "kind": SETTINGS_KIND, "metadata": {"name": node}}
    return replace(ordered[0], object={**document, "spec": content}, path="", text="")


def _generation(manifest: Manifest) -> int:
    pool = manifest.object["spec"].get("pool") or {}
    return int(pool.get("generation") or 0)

"""The objects of a cluster that exists only in manifests, or in a snapshot, with the devices of its nodes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.allocate.lint.slices import find_missing_node
from claimsmith.api.kinds import Kind
from claimsmith.api.manifests import Manifest
from claimsmith.api.objects import ModelObject, parse_manifest
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.clusterplan import ONLY_NODE
from claimsmith.daemons.sorted_manifests import SortedManifests
from claimsmith.errors import InputError
from claimsmith.model.claim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.metadata import Metadata
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.policy import SYSTEM_PRIORITIES, DisruptionBudget, PriorityClass, ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.quantity import parse_quantity
from claimsmith.model.record import Namespace
from claimsmith.model.workload import Pod
from claimsmith.publish.content import DeviceNotes
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.plan import preview_slices
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers
from claimsmith.sdk.settings import find_named_nodes

__all__ = ["OfflineObjects", "load_objects", "see_objects"]

_PLUGIN: Final = "simulated"
_USUAL: Final = {"cpu": parse_quantity("32"), "memory": parse_quantity("128Gi"), "pods": parse_quantity("110")}
"""What a node offers that is named, but not described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineObjects:
    """What a cluster is made of.

    Args:
        nodes: The nodes to look at.
        others: All other objects, and slices of simulated devices on these nodes.
        left_out: One sentence for each thing in the manifests that does not count.
        out_of_reach: Those of them that tell of slices whose node is not among the nodes that are given.
    """

    nodes: tuple[Node, ...]
    others: tuple[ModelObject, ...]
    left_out: tuple[str, ...]
    out_of_reach: tuple[str, ...]


def load_objects(found: SortedManifests, *, base: Iterable[ModelObject] = (), node: str = "") -> OfflineObjects:
    """Return the objects of manifests, put on those of a snapshot; simulated drivers are asked for their devices.

    Args:
        found: The manifests.
        base: Objects of the snapshot: of two with one name, that of the manifests counts.
        node: Name of the only node to look at; empty for all.

    Raises:
        InputError: A manifest can't be used, or the node is not there.
    """
    parsed = [value for item in _named(found.objects) if (value := parse_manifest(item)) is not None]
    objects = list({_key_of(value): value for value in (*base, *parsed)}.values())
    priorities = {value.name: value for value in objects if isinstance(value, PriorityClass)}
    without_class = tuple(_tell_missing_priorities(objects, priorities))
    objects = [_complete(value, priorities) for value in objects]
    slices = [value for value in objects if isinstance(value, ResourceSlice)]
    nodes = {value.name: value for value in objects if isinstance(value, Node)}
    nodes |= {name: _usual_node(name) for name in _list_undescribed(found.settings, slices, nodes)}
    out_of_reach = tuple(_tell_missing_nodes(slices, nodes))
    if found.settings and not nodes:
        nodes[ONLY_NODE] = _usual_node(ONLY_NODE)
    if node and node not in nodes:
        raise InputError(f"node {node!r}: not in the manifests, allowed {', '.join(nodes) or 'none'}; name one of them")
    simulated = [item for name in nodes for item in _simulate(name, found.settings)]
    return OfflineObjects(
        nodes=tuple(item for item in nodes.values() if not node or item.name == node),
        others=(*objects, *simulated),
        left_out=(*found.left_out, *without_class, *out_of_reach),
        out_of_reach=out_of_reach,
    )


def see_objects(cache: ClusterCache, objects: OfflineObjects) -> list[Pod]:
    """Put objects into a cache; returns the pods that wait for a node, those of the highest priority first."""
    for node in objects.nodes:
        cache.see_node(None, node)
    for value in objects.others:
        _see(cache, value)
    waiting = [value for value in objects.others if isinstance(value, Pod) and not (value.node_name or value.finished)]
    return sorted(waiting, key=lambda pod: -pod.priority)


def _see(cache: ClusterCache, value: ModelObject) -> None:
    match value:
        case ResourceSlice():
            cache.see_slice(None, value)
        case DeviceClass():
            cache.see_class(None, value)
        case DeviceTaintRule():
            cache.see_taint_rule(None, value)
        case ResourceClaim():
            cache.see_claim(None, value)
        case ResourceClaimTemplate():
            cache.see_template(None, value)
        case Namespace():
            cache.see_namespace(None, value)
        case DisruptionBudget():
            cache.see_budget(None, value)
        case ResourceQuota():
            cache.see_quota(None, value)
        case PriorityClass():
            cache.see_priority_class(None, value)
        case PodGroup():
            cache.see_group(None, value)
        case Pod():
            cache.see_pod(None, value)


def _complete(value: ModelObject, classes: Mapping[str, PriorityClass]) -> ModelObject:
    """Return a pod or pod group with the priority and uid that a server would give it; others as they are."""
    if isinstance(value, PodGroup):
        return replace(value, metadata=replace(value.metadata, uid=value.uid or f"podgroup/{value.ref}"))
    if not isinstance(value, Pod):
        return value
    pod = _give_priority(value, classes)
    return pod if pod.uid else replace(pod, metadata=replace(pod.metadata, uid=f"pod/{pod.ref}"))


def _give_priority(pod: Pod, classes: Mapping[str, PriorityClass]) -> Pod:
    if pod.uid or pod.priority:
        return pod
    if pod.priority_class in SYSTEM_PRIORITIES:
        return replace(pod, priority=SYSTEM_PRIORITIES[pod.priority_class])
    usual = next((item for item in classes.values() if item.global_default), None)
    found = classes.get(pod.priority_class) if pod.priority_class else usual
    return pod if found is None else _prioritize(pod, found)


def _tell_missing_priorities(objects: Iterable[ModelObject], classes: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each pod of a manifest whose priority class is not there."""
    known = {"", *SYSTEM_PRIORITIES, *classes}
    for pod in objects:
        if isinstance(pod, Pod) and not pod.uid and not pod.priority and pod.priority_class not in known:
            yield (f"pod {pod.ref}: priority class {pod.priority_class!r} is not there, priority 0 is taken; add it")


def _list_undescribed(
    settings: Iterable[Manifest], slices: Iterable[ResourceSlice], nodes: Collection[str]
) -> Iterator[str]:
    """Yield the nodes that settings of devices name, and slices where no node is described at all."""
    named = [name for item in settings for name in find_named_nodes(item)]
    named += [] if nodes else [value.node_name or "" for value in slices]
    return (name for name in named if name and name not in nodes)


def _named(objects: Iterable[tuple[Kind, Manifest]]) -> Iterator[Manifest]:
    """Yield objects; those whose name a server would make up are numbered."""
    for number, (_, manifest) in enumerate(objects):
        metadata = manifest.object.get("metadata") or {}
        if not metadata.get("name"):
            name = f"{metadata.get('generateName') or ''}{number}"
            manifest = replace(manifest, object={**manifest.object, "metadata": {**metadata, "name": name}})
        yield manifest


def _key_of(value: ModelObject) -> tuple[type, str, str]:
    return type(value), value.metadata.namespace, value.metadata.name


def _prioritize(pod: Pod, priority: PriorityClass) -> Pod:
    policy = pod.preemption_policy or priority.preemption_policy
    return replace(pod, priority=priority.value, preemption_policy=policy)


def _tell_missing_nodes(slices: Iterable[ResourceSlice], nodes: Collection[str]) -> Iterator[str]:
    """Yield a sentence for the first slice of each node that is named, but not there."""
    told: set[str | None] = set()
    for item in slices:
        fault = find_missing_node(item, nodes)
        if fault is not None and item.node_name not in told:
            told.add(item.node_name)
            yield f"ResourceSlice {item.name}: {fault.text}"


def _usual_node(name: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    return Node(metadata=Metadata(name=name, labels=labels), capacity=_USUAL, allocatable=_USUAL)


def _simulate(node: str, settings: tuple[Manifest, ...]) -> tuple[ResourceSlice, ...]:
    """Return the slices that simulated drivers would publish for a node."""
    if not settings:
        return ()
    drivers = create_drivers(_PLUGIN, DriverContext(node_name=node, documents=settings))
    return tuple(
        item
        for driver in drivers
        for item in preview_slices(driver.name, node, driver.discover(), notes=_note_health(driver, node))
    )


def _note_health(driver: Driver, node: str) -> DeviceNotes:
    """Return the taints of the devices that the driver says have failed, before any time has passed."""
    taints = HealthTaints(driver=driver.name, node=node)

    def report(*devices: DeviceHealth) -> None:
        for health in devices:
            taints.note(health, now_s=0.0)

    ended = threading.Event()
    ended.set()
    driver.watch_health(report, ended)
    return DeviceNotes(taints=taints.taints(now_s=0.0))

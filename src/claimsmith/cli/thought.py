"""What people name to what-if, preempt and defrag, read into values: changes, templates, pods, goals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from claimsmith.cli.object_names import parse_node_name, parse_pod_ref
from claimsmith.cli.sources import ClusterSource
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.allocate.replan.defrag import Goal
    from claimsmith.allocate.whatif.changes import Change, NodeTemplate
    from claimsmith.api.manifests import Manifest
    from claimsmith.model.names import PodRef
    from claimsmith.model.snapshot import ClusterSnapshot
    from claimsmith.model.workload import Pod

__all__ = [
    "ChangeTexts",
    "ThoughtPod",
    "parse_changes",
    "parse_goal",
    "read_templates",
    "read_thought_pod",
    "read_thought_pods",
]

COST: Final = "claimsmith.dev/cost"
"""Annotation of a Node in a file of templates: what one costs, in any unit; 1 when it is absent."""
MAXIMUM: Final = "claimsmith.dev/maximum"
"""Annotation of a Node in a file of templates: how many can be had at most."""

_ADDED_MAX: Final = 100_000
"""Most nodes that one change adds."""
_NODE_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_DEVICE_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")
_PROBE: Final = "claimsmith-goal"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtPod:
    """A pod that is only thought of.

    Args:
        pod: The pod.
        snapshot: The cluster without it, with all that its file brings besides.
        name: What the file calls it, as `namespace/name`.
    """

    pod: Pod
    snapshot: ClusterSnapshot
    name: str


def read_thought_pod(source: ClusterSource, path: str) -> ThoughtPod:
    """Return the one pod of a file, and the cluster with the templates, classes and claims of that file.

    Raises:
        InputError: The file has not exactly one pod, or the source can't be used.
    """
    return read_thought_pods(source, [path])[0]


def read_thought_pods(source: ClusterSource, paths: Sequence[str]) -> tuple[ThoughtPod, ...]:
    """Return the one pod of each file, and one cluster with what all files bring besides; the source is read once.

    An object that stands in several files counts once when it is the same in all of them.

    Raises:
        InputError: A file has not exactly one pod, two files disagree about an object, or the source can't be used.
    """
    drafts = [_draft_pod(path, number) for number, path in enumerate(paths)]
    rest: list[Manifest] = []
    for item in (item for draft in drafts for item in draft.rest):
        if all(item.object != known.object for known in rest):
            rest.append(item)
    snapshot = source.open(more=(*rest, *(draft.pod for draft in drafts))).snapshot
    thought = {draft.ref for draft in drafts}
    bare = replace(snapshot, pods={ref: pod for ref, pod in snapshot.pods.items() if ref not in thought})
    return tuple(ThoughtPod(pod=snapshot.pods[draft.ref], snapshot=bare, name=draft.name) for draft in drafts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """The manifests of a file with one pod: the pod under a name that no other one has, and the rest."""

    name: str
    ref: PodRef
    pod: Manifest
    rest: tuple[Manifest, ...]


def _draft_pod(path: str, number: int) -> _Draft:
    from claimsmith.cli.inputs import read_manifests
    from claimsmith.model.names import PodRef

    manifests = read_manifests([path])
    pods = [item for item in manifests if item.object.get("kind") == "Pod"]
    if len(pods) != 1:
        raise InputError(f"{path}: found {len(pods)} pods, allowed one; name a file with the pod to be copied")
    metadata = pods[0].object.get("metadata") or {}
    name = str(metadata.get("name") or metadata.get("generateName") or "pod")
    ref = PodRef(str(metadata.get("namespace") or "default"), f"{name}-what-if-{number}")
    pod = replace(pods[0], object=_without_place(pods[0].object, {**metadata, "name": ref.name}))
    rest = tuple(item for item in manifests if item is not pods[0])
    return _Draft(name=f"{ref.namespace}/{name}", ref=ref, pod=pod, rest=rest)


def _without_place(obj: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as it would be created: without a node, a status and the marks of a server."""
    kept = {key: value for key, value in metadata.items() if key not in ("uid", "resourceVersion", "ownerReferences")}
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}


def read_templates(path: str) -> dict[str, NodeTemplate]:
    """Return the node templates of a file, by name: its Nodes, with the slices or simulated devices for each.

    Raises:
        InputError: The file can't be used, or a cost or maximum is no number.
    """
    from claimsmith.allocate.whatif.changes import find_template
    from claimsmith.cli.inputs import read_manifests
    from claimsmith.daemons.offline import OfflineCluster

    manifests = read_manifests([path])
    snapshot = OfflineCluster(manifests).snapshot
    notes = {name: item for item in manifests if (name := _node_name(item))}
    templates = {}
    for name in snapshot.nodes:
        found = find_template(snapshot, name)
        assert found is not None
        annotations = (notes[name].object["metadata"].get("annotations") or {}) if name in notes else {}
        cost = _number(f"{path}: node {name}: {COST}", annotations.get(COST, "1"))
        maximum = annotations.get(MAXIMUM)
        templates[name] = replace(
            found, cost=cost, maximum=None if maximum is None else _count(f"{path}: node {name}: {MAXIMUM}", maximum)
        )
    if not templates:
        raise InputError(f"{path}: found no Node, allowed one for each template; add them")
    return templates


def _node_name(manifest: Manifest) -> str:
    metadata = manifest.object.get("metadata") or {}
    return str(metadata.get("name") or "") if manifest.object.get("kind") == "Node" else ""


def _number(what: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise InputError(f"{what}: found {text!r}, allowed a number above 0; correct it")
    return value


def _count(what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{what}: found {text!r}, allowed a whole number from 0 on; correct it")
    return int(text)


# --- changes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTexts:
    """Changes as they are written on the command line."""

    add_node: tuple[str, ...] = ()
    remove_node: tuple[str, ...] = ()
    cordon: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    remove_pod: tuple[str, ...] = ()
    remove_driver: tuple[str, ...] = ()
    remove_device: tuple[str, ...] = ()


def parse_changes(
    texts: ChangeTexts, snapshot: ClusterSnapshot, templates: dict[str, NodeTemplate]
) -> Iterator[Change]:
    """Yield the changes: what comes first, so that what goes and what is tainted is so on new nodes too.

    Raises:
        InputError: A text is not as it must be, or names a template that is not there.
    """
    from claimsmith.allocate.whatif import changes

    for text in texts.add_node:
        name, count = _split_count(text, "--add-node", "TEMPLATE=N")
        yield changes.AddNodes(template=changes.get_template(snapshot, templates, parse_node_name(name)), count=count)
    if texts.remove_pod:
        yield changes.RemovePods(pods=tuple(parse_pod_ref(text) for text in texts.remove_pod))
    for driver in texts.remove_driver:
        yield changes.RemoveDriver(driver=driver)
    if texts.remove_device:
        yield changes.RemoveDevices(devices=frozenset(_parse_device(text) for text in texts.remove_device))
    if texts.remove_node:
        yield changes.RemoveNodes(names=texts.remove_node)
    if texts.cordon:
        yield changes.CordonNodes(names=texts.cordon)
    for text in texts.taint:
        yield _parse_taint(text)


def _split_count(text: str, option: str, form: str) -> tuple[str, int]:
    name, sign, number = text.rpartition("=")
    if not sign:
        return text, 1
    if not name or not (number.isascii() and number.isdigit() and 0 < int(number) <= _ADDED_MAX):
        raise InputError(f"{option}: found {text!r}, allowed {form} with N from 1 to {_ADDED_MAX:,}; correct it")
    return name, int(number)


def _parse_device(text: str) -> Any:
    from claimsmith.model.names import DeviceId

    parts = text.split("/")
    if len(parts) < 3 or not all(parts):
        raise InputError(f"--remove-device: found {text!r}, allowed DRIVER/POOL/DEVICE; correct it")
    return DeviceId(parts[0], "/".join(parts[1:-1]), parts[-1])


def _parse_taint(text: str) -> Change:
    """Return the taint of `node/NAME:KEY[=VALUE]:EFFECT` or `device/DRIVER[/POOL[/DEVICE]]:KEY[=VALUE]:EFFECT`."""
    from claimsmith.allocate.whatif.changes import TaintDevices, TaintNodes
    from claimsmith.model.device import DeviceTaint
    from claimsmith.model.node import NodeTaint

    parts = text.split(":")
    kind, _, rest = parts[0].partition("/")
    if len(parts) != 3 or kind not in ("node", "device") or not rest or not parts[1].partition("=")[0]:
        raise InputError(
            f"--taint: found {text!r}, allowed node/NAME:KEY[=VALUE]:EFFECT or "
            "device/DRIVER[/POOL[/DEVICE]]:KEY[=VALUE]:EFFECT; correct it"
        )
    key, _, value = parts[1].partition("=")
    allowed = _NODE_EFFECTS if kind == "node" else _DEVICE_EFFECTS
    if parts[2] not in allowed:
        raise InputError(f"--taint {text!r}: found effect {parts[2]!r}, allowed {', '.join(allowed)}; correct it")
    if kind == "node":
        return TaintNodes(names=(parse_node_name(parts[0]),), taint=NodeTaint(key=key, effect=parts[2], value=value))
    driver, pool, device = (*rest.split("/", 2), "", "")[:3]
    taint = DeviceTaint(key=key, effect=parts[2], value=value)
    return TaintDevices(taint=taint, driver=driver, pool=pool or None, device=device or None)


# --- goals ------------------------------------------------------------------------------------------------------------


def parse_goal(texts: Iterable[str], source: ClusterSource) -> tuple[ClusterSnapshot, Goal]:
    """Return what a plan shall raise, and the cluster with what the goal needs of templates.

    Args:
        texts: One of `profile`, `nodes=COUNT:CLASS`; or any number of `FILE` and `FILE=N` with one pod each.

    Raises:
        InputError: A text is not as it must be, or the cluster has nothing of that kind.
    """
    wanted = list(texts)
    if wanted[0] == "profile" or wanted[0].startswith("nodes="):
        if len(wanted) > 1:
            raise InputError(
                f"--goal: found {len(wanted)} goals with {wanted[0]!r}, allowed it alone; leave others out"
            )
        snapshot = source.open().snapshot
        return _make_profiles(snapshot) if wanted[0] == "profile" else _make_nodes(snapshot, wanted[0])
    return _read_shapes(wanted, source)


def _read_shapes(texts: list[str], source: ClusterSource) -> tuple[ClusterSnapshot, Goal]:
    from claimsmith.allocate.replan.defrag import Goal, Shape

    split = [(text, None) if Path(text).exists() else _split_count(text, "--goal", "FILE=N") for text in texts]
    found = read_thought_pods(source, [path for path, _ in split])
    shapes = tuple(
        Shape(name=item.name, pod=item.pod, wanted=wanted) for item, (_, wanted) in zip(found, split, strict=True)
    )
    return found[0].snapshot, Goal(name="room for pods", shapes=shapes)


def _make_nodes(snapshot: ClusterSnapshot, text: str) -> tuple[ClusterSnapshot, Goal]:
    """Return the goal of nodes with so many free devices of a class."""
    from claimsmith.allocate.replan.defrag import Goal, Shape
    from claimsmith.model.claim import ALLOCATION_RESULTS_MAX, SubRequest

    number, _, name = text.removeprefix("nodes=").partition(":")
    count = _count(f"--goal {text!r}", number)
    if not 0 < count <= ALLOCATION_RESULTS_MAX or name not in snapshot.classes:
        known = ", ".join(snapshot.classes) or "none"
        raise InputError(
            f"--goal: found {text!r}, allowed nodes=COUNT:CLASS with a count from 1 to {ALLOCATION_RESULTS_MAX} "
            f"and a class of {known}; correct it"
        )
    snapshot, pod = _add_probe(snapshot, SubRequest(device_class=name, count=count), "nodes")
    shape = Shape(name=f"{count} devices of class {name} on one node", pod=pod)
    return snapshot, Goal(name=shape.name, shapes=(shape,))


def _make_profiles(snapshot: ClusterSnapshot) -> tuple[ClusterSnapshot, Goal]:
    """Return the goal of the largest partition: one shape for each profile, from the one with most memory on."""
    from claimsmith.allocate.replan.defrag import Goal, Shape
    from claimsmith.model.claim import DeviceClass, Selector, SubRequest
    from claimsmith.model.metadata import Metadata

    sizes: dict[tuple[str, str], int] = {}
    for item in snapshot.slices:
        for device in item.devices:
            profile = device.attributes.get("profile") or device.attributes.get(f"{item.driver}/profile")
            if profile is not None and isinstance(profile.value, str):
                memory = device.capacity.get("memory")
                key = item.driver, profile.value
                sizes[key] = max(sizes.get(key, 0), memory.value.milli_value() if memory else 0)
    if not sizes:
        raise InputError(
            "--goal profile: found no device with the attribute profile, allowed one or more; choose nodes="
        )
    everything = DeviceClass(metadata=Metadata(name=_PROBE))
    snapshot = replace(snapshot, classes={**snapshot.classes, _PROBE: everything})
    shapes: list[Shape] = []
    for driver, size in sorted(sizes, key=lambda key: (-sizes[key], key)):
        text = f'device.driver == "{driver}" && device.attributes["{driver}"].?profile.orValue("") == "{size}"'
        wish = SubRequest(device_class=_PROBE, selectors=(Selector(expression=text),))
        snapshot, pod = _add_probe(snapshot, wish, f"profile-{len(shapes)}")
        shapes.append(Shape(name=size, pod=pod, wanted=1))
    return snapshot, Goal(name="largest free profile", shapes=tuple(shapes), kind="largest")


def _add_probe(snapshot: ClusterSnapshot, wish: Any, name: str) -> tuple[ClusterSnapshot, Pod]:
    """Return a pod with one claim that is thought of, and the cluster with the template for it."""
    from claimsmith.model.claim import DeviceRequest, ResourceClaimSpec, ResourceClaimTemplate
    from claimsmith.model.device import DeviceToleration
    from claimsmith.model.metadata import Metadata
    from claimsmith.model.names import ClaimRef
    from claimsmith.model.workload import Pod, PodClaim, PodToleration

    metadata = Metadata(name=f"{_PROBE}-{name}", namespace="default", uid=f"goal/{name}")
    exactly = replace(wish, tolerations=(DeviceToleration(operator="Exists"),))
    spec = ResourceClaimSpec(requests=(DeviceRequest(name="r", exactly=exactly),))
    template = ResourceClaimTemplate(metadata=metadata, spec=spec)
    templates = {**snapshot.templates, ClaimRef("default", metadata.name): template}
    claims = (PodClaim(name="r", template_name=metadata.name),)
    pod = Pod(metadata=metadata, claims=claims, tolerations=(PodToleration(operator="Exists"),))
    return replace(snapshot, templates=templates), pod

"""What a cluster would be after a change: each change is a value, and a snapshot with it is a new snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from claimsmith.allocate.whatif.trial import take_pods
from claimsmith.errors import InputError
from claimsmith.model.device import DeviceTaint
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import DeviceId, PodRef
from claimsmith.model.node import Node, NodeTaint
from claimsmith.model.policy import ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = [
    "AddNodes",
    "AddPods",
    "AddSlices",
    "Change",
    "CordonNodes",
    "NodeTemplate",
    "RemoveDevices",
    "RemoveDriver",
    "RemoveNodes",
    "RemovePods",
    "SetQuota",
    "TaintDevices",
    "TaintNodes",
    "change_snapshot",
    "copy_pod",
    "find_template",
    "get_template",
]

_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTemplate:
    """A kind of node that could be added, with the devices that its drivers would publish.

    Args:
        node: The node; its name is the name of the template.
        slices: Slices for this node alone.
        cost: What one such node costs, in any unit; > 0.
        maximum: How many can be had at most; None for any number.

    Raises:
        InputError: The cost is not positive, or the maximum negative.
    """

    node: Node
    slices: tuple[ResourceSlice, ...] = ()
    cost: float = 1.0
    maximum: int | None = None

    def __post_init__(self) -> None:
        if not self.cost > 0:
            raise InputError(f"node template {self.name!r}: found cost {self.cost}, allowed > 0; correct it")
        if self.maximum is not None and self.maximum < 0:
            raise InputError(f"node template {self.name!r}: found maximum {self.maximum}, allowed >= 0; correct it")

    @property
    def name(self) -> str:
        """Name of the template."""
        return self.node.name


@dataclass(frozen=True, slots=True, kw_only=True)
class AddNodes:
    """Copies of a template, which get names after it."""

    template: NodeTemplate
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveNodes:
    """Nodes go, with their pods and the devices that only they reach."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonNodes:
    """Nodes take no further pods."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintNodes:
    """Nodes get a taint; pods that are there stay."""

    names: tuple[str, ...]
    taint: NodeTaint


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintDevices:
    """Devices get a taint, as by a DeviceTaintRule; None stands for all."""

    taint: DeviceTaint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSlices:
    """A driver, or more devices of one: slices that are published besides, or instead of those of their names."""

    slices: tuple[ResourceSlice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDriver:
    """A driver goes, with all that it publishes; what claims hold of it stays in use."""

    driver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDevices:
    """Devices are no longer published."""

    devices: frozenset[DeviceId]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPods:
    """Pods come, and wait or are on the nodes that they name."""

    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovePods:
    """Pods end, and give back what they hold."""

    pods: tuple[PodRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQuota:
    """A quota of a namespace is set, or replaced."""

    quota: ResourceQuota


Change = (
    AddNodes
    | RemoveNodes
    | CordonNodes
    | TaintNodes
    | TaintDevices
    | AddSlices
    | RemoveDriver
    | RemoveDevices
    | AddPods
    | RemovePods
    | SetQuota
)
"""One difference between a cluster and another that is thought of."""


def change_snapshot(snapshot: ClusterSnapshot, changes: Iterable[Change]) -> ClusterSnapshot:
    """Return the cluster after the changes, made in order; the snapshot itself stays as it is.

    Raises:
        InputError: A change names a node, pod, driver or device that is not there.
    """
    for change in changes:
        snapshot = _change(snapshot, change)
    return snapshot


def _change(snapshot: ClusterSnapshot, change: Change) -> ClusterSnapshot:
    match change:
        case AddNodes():
            return _add_nodes(snapshot, change)
        case RemoveNodes():
            return _remove_nodes(snapshot, change.names)
        case CordonNodes():
            return _put_nodes(
                snapshot, (replace(_get_node(snapshot, name), unschedulable=True) for name in change.names)
            )
        case TaintNodes():
            nodes = [_get_node(snapshot, name) for name in change.names]
            return _put_nodes(snapshot, (replace(node, taints=(*node.taints, change.taint)) for node in nodes))
        case TaintDevices():
            return _taint_devices(snapshot, change)
        case AddSlices():
            return _replace_slices(snapshot, {item.name: item for item in (*snapshot.slices, *change.slices)}.values())
        case RemoveDriver():
            return _remove_driver(snapshot, change.driver)
        case RemoveDevices():
            return _remove_devices(snapshot, change.devices)
        case AddPods():
            return replace(snapshot, pods={**snapshot.pods, **{pod.ref: pod for pod in change.pods}})
        case RemovePods():
            for ref in change.pods:
                _require("pod", str(ref), ref in snapshot.pods, map(str, snapshot.pods))
            return take_pods(snapshot, change.pods)
        case SetQuota():
            return _set_quota(snapshot, change.quota)


def _add_nodes(snapshot: ClusterSnapshot, change: AddNodes) -> ClusterSnapshot:
    nodes, slices, number = dict(snapshot.nodes), list(snapshot.slices), 0
    for _ in range(change.count):
        number += 1
        while (name := f"{change.template.name}-new-{number}") in nodes:
            number += 1
        nodes[name] = _copy_node(change.template.node, name)
        slices += [_copy_slice(item, change.template.name, name) for item in change.template.slices]
    return _replace_slices(replace(snapshot, nodes=nodes), slices)


def _copy_node(node: Node, name: str) -> Node:
    labels = {**node.labels, _HOSTNAME: name} if _HOSTNAME in node.labels else node.labels
    metadata = replace(node.metadata, name=name, uid="", labels=labels, deletion_timestamp=None)
    return replace(node, metadata=metadata, unschedulable=False, ready=True)


def _copy_slice(item: ResourceSlice, old: str, new: str) -> ResourceSlice:
    """Return a slice as the driver on another node would publish it: of a pool of its own, for the new node."""
    pool = new if item.pool == old else f"{item.pool}-{new}"
    devices = tuple(replace(device, node_name=new) if device.node_name == old else device for device in item.devices)
    return replace(
        item,
        metadata=replace(item.metadata, name=f"{item.name}-{new}", uid="", owner_references=()),
        pool=pool,
        node_name=new if item.node_name == old else item.node_name,
        devices=devices,
    )


def _remove_nodes(snapshot: ClusterSnapshot, names: tuple[str, ...]) -> ClusterSnapshot:
    for name in names:
        _get_node(snapshot, name)
    gone = frozenset(names)
    left = take_pods(snapshot, [ref for ref, pod in snapshot.pods.items() if pod.node_name in gone])
    nodes = {name: node for name, node in left.nodes.items() if name not in gone}
    slices = [item for item in left.slices if item.node_name not in gone]
    return _replace_slices(replace(left, nodes=nodes), slices)


def _put_nodes(snapshot: ClusterSnapshot, nodes: Iterable[Node]) -> ClusterSnapshot:
    return replace(snapshot, nodes={**snapshot.nodes, **{node.name: node for node in nodes}})


def _taint_devices(snapshot: ClusterSnapshot, change: TaintDevices) -> ClusterSnapshot:
    known = any(
        change.driver in (None, item.driver)
        and change.pool in (None, item.pool)
        and (change.device is None or any(device.name == change.device for device in item.devices))
        for item in snapshot.slices
    )
    wanted = "/".join(part or "*" for part in (change.driver, change.pool, change.device))
    _require("device", wanted, known, sorted({f"{item.driver}/{item.pool}" for item in snapshot.slices}))
    rule = DeviceTaintRule(
        metadata=Metadata(name=f"what-if-{len(snapshot.taint_rules)}"),
        taint=change.taint,
        selects=True,
        driver=change.driver,
        pool=change.pool,
        device=change.device,
    )
    rules = sorted((*snapshot.taint_rules, rule), key=lambda item: item.metadata.name.encode())
    return replace(snapshot, taint_rules=tuple(rules))


def _remove_driver(snapshot: ClusterSnapshot, driver: str) -> ClusterSnapshot:
    names = sorted({item.driver for item in snapshot.slices})
    _require("driver", driver, driver in names, names)
    return replace(snapshot, slices=tuple(item for item in snapshot.slices if item.driver != driver))


def _remove_devices(snapshot: ClusterSnapshot, devices: frozenset[DeviceId]) -> ClusterSnapshot:
    published = {DeviceId(item.driver, item.pool, device.name) for item in snapshot.slices for device in item.devices}
    for device in sorted(devices):
        _require("device", str(device), device in published, sorted(map(str, published)))
    pools = {device.pool_id for device in devices}
    slices = tuple(
        replace(
            item,
            devices=tuple(
                device for device in item.devices if DeviceId(item.driver, item.pool, device.name) not in devices
            ),
        )
        if item.pool_id in pools
        else item
        for item in snapshot.slices
    )
    return replace(snapshot, slices=slices)


def _set_quota(snapshot: ClusterSnapshot, quota: ResourceQuota) -> ClusterSnapshot:
    quotas = {item.ref: item for item in (*snapshot.quotas, quota)}
    return replace(snapshot, quotas=tuple(quotas[key] for key in sorted(quotas)))


def _replace_slices(snapshot: ClusterSnapshot, slices: Iterable[ResourceSlice]) -> ClusterSnapshot:
    """Put in slices in the order in which the API server lists them."""
    return replace(snapshot, slices=tuple(sorted(slices, key=lambda item: item.name.encode())))


def _get_node(snapshot: ClusterSnapshot, name: str) -> Node:
    _require("node", name, name in snapshot.nodes, snapshot.nodes)
    return snapshot.nodes[name]


def _require(what: str, name: str, is_there: bool, known: Iterable[str]) -> None:
    """Refuse a name of nothing.

    Raises:
        InputError: There is no such thing.
    """
    if not is_there:
        names = list(known)
        allowed = ", ".join(names[:10]) + (" …" if len(names) > 10 else "") or "none"
        raise InputError(f"{what} {name!r}: not in the cluster, allowed {allowed}; correct it")


def find_template(snapshot: ClusterSnapshot, name: str) -> NodeTemplate | None:
    """Return a template like a node of the cluster; None when there is no such node."""
    node = snapshot.nodes.get(name)
    if node is None:
        return None
    return NodeTemplate(node=node, slices=tuple(item for item in snapshot.slices if item.node_name == name))


def get_template(snapshot: ClusterSnapshot, templates: Mapping[str, NodeTemplate], name: str) -> NodeTemplate:
    """Return a template of this name, or one like the node of this name.

    Raises:
        InputError: There is neither.
    """
    found = templates.get(name) or find_template(snapshot, name)
    _require("node template", name, found is not None, (*templates, *snapshot.nodes))
    assert found is not None
    return found


def copy_pod(pod: Pod, number: int) -> Pod:
    """Return a further pod like one: waiting, under a name of its own."""
    name = f"{pod.metadata.name}-copy-{number}"
    metadata = replace(pod.metadata, name=name, uid=f"copy/{pod.metadata.namespace}/{name}")
    return replace(pod, metadata=metadata, node_name="", claim_names={}, phase="Pending")

"""Which container has which devices, as the kubelet tells it: its pod resources service, and its checkpoint of devices.

The service tells what the kubelet knows now, but leaves out init containers; the checkpoint has those too, but is
written only when a device plugin reports or gives something away. A device is in use while either names it.

Source: podresources v1 of k8s.io/kubelet v0.37.2; pkg/kubelet/cm/devicemanager/checkpoint of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
import msgspec

from claimsmith.errors import KubeletUnreachableError
from claimsmith.kubelet import podresources_v1_pb2 as messages
from claimsmith.kubelet.paths import NodePaths
from claimsmith.kubelet.services import LIST_POD_RESOURCES
from claimsmith.model.inventory import Inventory
from claimsmith.model.names import DeviceId, PodRef
from claimsmith.node.deviceplugin_rules import card_of, find_attribute

__all__ = [
    "DEVICE_CHECKPOINT",
    "ContainerDevices",
    "ForeignHolding",
    "ForeignRule",
    "KubeletView",
    "PodResources",
    "device_checkpoint_path",
    "find_foreign_holdings",
    "parse_device_checkpoint",
    "pod_resources_socket",
    "read_device_checkpoint",
]

DEVICE_CHECKPOINT: Final = "kubelet_internal_checkpoint"
"""Name of the kubelet's checkpoint in the folder of device plugins."""
_MESSAGE_MAX: Final = 16 * 1024 * 1024
_TIMEOUT_S: Final = 10.0
_HINT: Final = "check that the kubelet runs and that its folder is mounted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDevices:
    """What one container has of one resource.

    Args:
        pod: The pod; None where the kubelet tells its uid alone.
        ids: All ids that it has of the resource.
    """

    resource: str
    ids: frozenset[str]
    container: str
    pod: PodRef | None = None
    pod_uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletView:
    """What the kubelet tells of the devices of containers at one moment.

    Args:
        listed: By the pod resources service; None when it does not answer.
        pods: All pods that the service names, with devices or without.
        stored: By the checkpoint; None when it is missing or damaged.
        trouble: Why a part is missing; empty when nothing is.
    """

    listed: tuple[ContainerDevices, ...] | None = None
    pods: frozenset[PodRef] = frozenset()
    stored: tuple[ContainerDevices, ...] | None = None
    trouble: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether what it does not name is free."""
        return self.listed is not None and self.stored is not None

    @property
    def containers(self) -> tuple[ContainerDevices, ...]:
        """All that either names; most containers are named twice."""
        return (*(self.listed or ()), *(self.stored or ()))


def pod_resources_socket(paths: NodePaths) -> Path:
    """Return where the pod resources service of a node is.

    Source: getPodResourcesDir in pkg/kubelet/kubelet_getters.go of kubernetes v1.37.2.
    """
    return paths.state / "pod-resources" / "kubelet.sock"


def device_checkpoint_path(paths: NodePaths) -> Path:
    """Return where the kubelet's checkpoint of devices is."""
    return paths.device_plugins / DEVICE_CHECKPOINT


class PodResources:
    """Asks the kubelet of this node, by its service and by its file.

    Args:
        paths: The folders of the node.
        timeout_s: Seconds after which the service counts as silent.
    """

    def __init__(self, paths: NodePaths, *, timeout_s: float = _TIMEOUT_S) -> None:
        self.socket, self._checkpoint = pod_resources_socket(paths), device_checkpoint_path(paths)
        self._timeout_s = timeout_s

    async def look(self) -> KubeletView:
        """Return what the kubelet tells now; the service first, since its answer tidies up what the file is made of."""
        troubles, listed, pods = [], None, frozenset[PodRef]()
        try:
            answer = await self.list()
        except KubeletUnreachableError as error:
            troubles.append(str(error))
        else:
            listed = tuple(_listed(answer))
            pods = frozenset(PodRef(pod.namespace, pod.name) for pod in answer.pod_resources)
        stored = read_device_checkpoint(self._checkpoint)
        if stored is None:
            troubles.append(f"kubelet checkpoint {self._checkpoint}: found none that can be read")
        return KubeletView(listed=listed, pods=pods, stored=stored, trouble="; ".join(troubles))

    async def list(self) -> messages.ListPodResourcesResponse:
        """Return the answer of the service.

        Raises:
            KubeletUnreachableError: There is none.
        """
        if not self.socket.exists():
            raise KubeletUnreachableError(self.socket, "found none, allowed a served socket", hint=_HINT)
        options = [("grpc.max_receive_message_length", _MESSAGE_MAX)]
        async with grpc.aio.insecure_channel(f"unix:{self.socket}", options=options) as channel:
            call = channel.unary_unary(
                LIST_POD_RESOURCES.path,
                request_serializer=LIST_POD_RESOURCES.request.SerializeToString,
                response_deserializer=LIST_POD_RESOURCES.response.FromString,
            )
            try:
                answer: messages.ListPodResourcesResponse = await call(
                    messages.ListPodResourcesRequest(), timeout=self._timeout_s
                )
            except grpc.aio.AioRpcError as error:
                reason = f"pods can't be listed: {error.code().name}: {error.details()}"
                raise KubeletUnreachableError(self.socket, reason, hint=_HINT) from error
        return answer


def _listed(answer: messages.ListPodResourcesResponse) -> Iterable[ContainerDevices]:
    """Return what each container has; the service names each device of it by itself."""
    for pod in answer.pod_resources:
        for container in pod.containers:
            found: dict[str, set[str]] = {}
            for devices in container.devices:
                found.setdefault(devices.resource_name, set()).update(devices.device_ids)
            for resource, ids in found.items():
                yield ContainerDevices(
                    resource=resource,
                    ids=frozenset(ids),
                    container=container.name,
                    pod=PodRef(pod.namespace, pod.name),
                )


class _Entry(msgspec.Struct, frozen=True, rename="pascal"):
    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[str, list[str] | None] | list[str] | None = msgspec.field(name="DeviceIDs", default=None)


class _Data(msgspec.Struct, frozen=True, rename="pascal"):
    pod_device_entries: list[_Entry] | None = None


class _Checkpoint(msgspec.Struct, frozen=True, rename="pascal"):
    data: _Data


def parse_device_checkpoint(data: bytes) -> tuple[ContainerDevices, ...] | None:
    """Return what the kubelet's checkpoint tells; None when it can't be understood."""
    try:
        entries = msgspec.json.decode(data, type=_Checkpoint).data.pod_device_entries or ()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return tuple(
        ContainerDevices(
            resource=entry.resource_name,
            ids=frozenset(_ids(entry.device_ids)),
            container=entry.container_name,
            pod_uid=entry.pod_uid,
        )
        for entry in entries
    )


def _ids(found: Mapping[str, list[str] | None] | list[str] | None) -> Iterable[str]:
    """Return the ids by NUMA node, or as a plain list as kubelets before 1.20 wrote it."""
    if isinstance(found, list) or found is None:
        return found or ()
    return (id_ for ids in found.values() for id_ in ids or ())


def read_device_checkpoint(path: Path) -> tuple[ContainerDevices, ...] | None:
    """Return what the kubelet's checkpoint tells; None when it is missing or can't be understood."""
    try:
        return parse_device_checkpoint(path.read_bytes())
    except OSError:
        return None


# --- foreign plugins --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRule:
    """How devices are recognised that another device plugin has given to containers.

    Args:
        resources: Patterns of resource names with * and ?, e.g. `nvidia.com/*`.
        attributes: Text attributes of our devices that may be the other plugin's ids; without a domain the driver's.
        names: Whether the names of our devices may be the other plugin's ids.
    """

    resources: tuple[str, ...] = ("*",)
    attributes: tuple[str, ...] = ("uuid",)
    names: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignHolding:
    """A device of ours that another device plugin has given to a container."""

    device: DeviceId
    resource: str
    pod: PodRef | None
    container: str


def find_foreign_holdings(
    driver: str,
    inventory: Inventory,
    *,
    node: str,
    containers: Iterable[ContainerDevices],
    own: Iterable[tuple[str, str]] = (),
    rule: ForeignRule | None = None,
) -> tuple[ForeignHolding, ...]:
    """Return the devices of an inventory that other device plugins have given to containers.

    Also under a resource of ours: a plugin that was there before had other ids.

    Args:
        driver: Name of the driver.
        node: Name of the node, which is the name of a pool that has none.
        containers: What containers have, as the kubelet tells it.
        own: Resource and id of what this process has given away itself.
        rule: How devices are recognised.
    """
    rule, own = rule or ForeignRule(), frozenset(own)
    known = dict(_foreign_ids(driver, inventory, node, rule))
    found: dict[tuple[DeviceId, str], ForeignHolding] = {}
    for item in containers:
        if not any(fnmatchcase(item.resource, pattern) for pattern in rule.resources):
            continue
        for id_ in sorted(id_ for id_ in item.ids if (item.resource, id_) not in own):
            device = known.get(id_) or known.get(card_of(id_))
            if device is not None:
                holding = ForeignHolding(device=device, resource=item.resource, pod=item.pod, container=item.container)
                found.setdefault((device, item.resource), holding)
    return tuple(found.values())


def _foreign_ids(driver: str, inventory: Inventory, node: str, rule: ForeignRule) -> Iterable[tuple[str, DeviceId]]:
    for pool in inventory.pools:
        for device in pool.devices:
            id_ = DeviceId(driver, pool.name or node, device.name)
            if rule.names:
                yield device.name, id_
            for name in rule.attributes:
                value = find_attribute(driver, device, name)
                if isinstance(value, str) and value:
                    yield value, id_

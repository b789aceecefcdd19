"""Which containers have which devices.

Source: pkg/kubelet/cm/devicemanager/pod_devices.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import DecodeError

from claimsmith.embedded.kubelet.devices.checkpoint import Entry
from claimsmith.kubelet.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse

__all__ = ["NO_NUMA", "DeviceTable", "Grant"]

NO_NUMA: Final = -1
"""Stands for the NUMA node of devices that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The devices of one resource that one container has.

    Args:
        by_numa: Device ids by NUMA node; a device of several nodes is listed under each.
        response: What the plugin answered.
    """

    by_numa: Mapping[int, Sequence[str]]
    response: ContainerAllocateResponse

    @property
    def ids(self) -> tuple[str, ...]:
        """All device ids, each once."""
        return tuple(dict.fromkeys(device for devices in self.by_numa.values() for device in devices))


@dataclass(slots=True)
class DeviceTable:
    """Grants by pod, container and resource."""

    _grants: dict[str, dict[str, dict[str, Grant]]] = field(default_factory=dict)

    def put(self, pod_uid: str, container: str, resource: str, grant: Grant) -> None:
        """Note what a container has got."""
        self._grants.setdefault(pod_uid, {}).setdefault(container, {})[resource] = grant

    def find(self, pod_uid: str, container: str) -> Mapping[str, Grant]:
        """Return what a container has, by resource."""
        return self._grants.get(pod_uid, {}).get(container, {})

    def has_pod(self, pod_uid: str) -> bool:
        """Tell whether a container of the pod has devices."""
        return pod_uid in self._grants

    def keep_only(self, pod_uids: Collection[str]) -> None:
        """Forget all other pods."""
        for uid in [uid for uid in self._grants if uid not in pod_uids]:
            del self._grants[uid]

    def taken(self) -> dict[str, set[str]]:
        """Return the ids of all devices that containers have, by resource."""
        found: dict[str, set[str]] = {}
        for _, _, resource, grant in self._walk():
            found.setdefault(resource, set()).update(grant.ids)
        return found

    def users(self, resource: str, device_ids: Collection[str]) -> set[str]:
        """Return the uids of the pods that have one of the devices."""
        return {
            uid for uid, _, name, grant in self._walk() if name == resource and any(i in device_ids for i in grant.ids)
        }

    def entries(self) -> tuple[Entry, ...]:
        """Return the table as it is written down."""
        return tuple(
            Entry(
                pod_uid=uid,
                container_name=container,
                resource_name=resource,
                device_ids={node: tuple(devices) for node, devices in grant.by_numa.items()},
                alloc_resp=grant.response.SerializeToString(),
            )
            for uid, container, resource, grant in self._walk()
        )

    def load(self, entries: Iterable[Entry]) -> None:
        """Take in what was written down; an entry whose answer can't be read is left out."""
        for entry in entries:
            try:
                response = ContainerAllocateResponse.FromString(entry.alloc_resp or b"")
            except DecodeError:
                continue
            by_numa = {node: tuple(devices or ()) for node, devices in (entry.device_ids or {}).items()}
            grant = Grant(by_numa=by_numa, response=response)
            self.put(entry.pod_uid, entry.container_name, entry.resource_name, grant)

    def _walk(self) -> Iterator[tuple[str, str, str, Grant]]:
        for uid, containers in self._grants.items():
            for container, grants in containers.items():
                for resource, grant in grants.items():
                    yield uid, container, resource, grant

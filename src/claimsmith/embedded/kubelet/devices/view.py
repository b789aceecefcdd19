"""What a container gets of the answers of device plugins, and how its devices fare: pure.

Source: deviceRunContainerOptions in pod_devices.go and UpdateAllocatedResourcesStatus in manager.go,
pkg/kubelet/cm/devicemanager of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from claimsmith.embedded.kubelet.cdi_registry import DeviceNode, Mount
from claimsmith.embedded.kubelet.devices.stock import Shelf
from claimsmith.embedded.kubelet.devices.table import Grant
from claimsmith.embedded.kubelet.grants import ContainerGrant

__all__ = ["list_health", "merge_grants"]


def merge_grants(grants: Iterable[Grant]) -> ContainerGrant:
    """Return what a container gets of its devices; of two settings for one name or path the first counts."""
    env: dict[str, str] = {}
    devices: dict[str, DeviceNode] = {}
    mounts: dict[str, Mount] = {}
    annotations: dict[str, str] = {}
    cdi_ids: dict[str, None] = {}
    for grant in grants:
        response = grant.response
        for name, value in response.envs.items():
            env.setdefault(name, value)
        for device in response.devices:
            node = DeviceNode(path=device.container_path, host_path=device.host_path, permissions=device.permissions)
            devices.setdefault(node.path, node)
        for item in response.mounts:
            options = ("ro",) if item.read_only else ("rw",)
            mount = Mount(host_path=item.host_path, container_path=item.container_path, options=options)
            mounts.setdefault(mount.container_path, mount)
        for name, value in response.annotations.items():
            annotations.setdefault(name, value)
        cdi_ids.update(dict.fromkeys(device.name for device in response.cdi_devices))
    return ContainerGrant(
        env=env,
        devices=tuple(devices.values()),
        mounts=tuple(mounts.values()),
        annotations=annotations,
        cdi_ids=tuple(cdi_ids),
    )


def list_health(grants: Mapping[str, Grant], shelves: Mapping[str, Shelf]) -> list[dict[str, Any]]:
    """Return `allocatedResourcesStatus` of a container, for the devices of plugins.

    A device that its plugin no longer lists counts as healthy, as in a real kubelet.
    """
    return [
        {"name": resource, "resources": [_describe(shelves.get(resource), device) for device in grant.ids]}
        for resource, grant in grants.items()
    ]


def _describe(shelf: Shelf | None, device: str) -> dict[str, str]:
    listed = shelf.listed.get(device) if shelf is not None else None
    return {"resourceID": device, "health": "Unhealthy" if listed is not None and not listed.healthy else "Healthy"}

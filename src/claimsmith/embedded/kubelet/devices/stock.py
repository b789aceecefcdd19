"""The devices that the plugins of a node list, by resource, and what of them a node has to offer.

Source: pkg/kubelet/cm/devicemanager/manager.go of kubernetes v1.37.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from claimsmith.embedded.kubelet.devices.endpoint import DeviceEndpoint, ListedDevice
from claimsmith.errors import PluginRefusedError

__all__ = ["Amounts", "DeviceStock", "Shelf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What a node has of the resources that plugins serve.

    Args:
        capacity: All devices, by resource.
        allocatable: The healthy ones.
        removed: Resources whose plugin is gone for good.
    """

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    removed: tuple[str, ...] = ()


@dataclass(slots=True)
class Shelf:
    """The devices of one resource.

    Args:
        endpoint: The plugin that is called, which may have stopped.
        listed: All devices by their id, as they were listed last.
        healthy: Ids of the healthy ones, in the order of the list.
        unhealthy: Ids of the others.
    """

    endpoint: DeviceEndpoint
    listed: Mapping[str, ListedDevice] = field(default_factory=dict)
    healthy: tuple[str, ...] = ()
    unhealthy: tuple[str, ...] = ()


class DeviceStock:
    """Shelves by resource. A plugin that has come, but listed nothing yet, has no shelf."""

    def __init__(self) -> None:
        self._shelves: dict[str, Shelf] = {}
        self._endpoints: dict[str, dict[str, DeviceEndpoint]] = {}

    def resources(self) -> Mapping[str, Shelf]:
        """Return all shelves."""
        return self._shelves

    def find(self, resource: str) -> Shelf | None:
        """Return the shelf of a resource; None when no plugin has served it."""
        return self._shelves.get(resource)

    def endpoints(self) -> tuple[DeviceEndpoint, ...]:
        """Return all plugins that serve."""
        return tuple(endpoint for endpoints in self._endpoints.values() for endpoint in endpoints.values())

    def restore(self, resource: str, now_s: float) -> None:
        """Note that a plugin served a resource before the kubelet was restarted."""
        self._shelves.setdefault(resource, Shelf(DeviceEndpoint(resource, stopped_s=now_s)))

    def connect(self, endpoint: DeviceEndpoint) -> None:
        """Take a plugin; of several for one resource the last one is called.

        Raises:
            PluginRefusedError: A plugin with the same socket is there.
        """
        endpoints = self._endpoints.setdefault(endpoint.resource, {})
        if endpoint.socket in endpoints:
            raise PluginRefusedError(f"device plugin already connected: {endpoint.socket}")
        endpoints[endpoint.socket] = endpoint
        if (shelf := self._shelves.get(endpoint.resource)) is not None:
            shelf.endpoint = endpoint

    def disconnect(self, endpoint: DeviceEndpoint, now_s: float) -> None:
        """Take note that a plugin has gone: without another, its devices are unhealthy from now on."""
        endpoints = self._endpoints.get(endpoint.resource, {})
        if endpoints.get(endpoint.socket) is not endpoint:
            return
        endpoint.stopped_s = now_s
        del endpoints[endpoint.socket]
        shelf = self._shelves.get(endpoint.resource)
        if endpoints:
            if shelf is not None:
                shelf.endpoint = list(endpoints.values())[-1]
            return
        del self._endpoints[endpoint.resource]
        if shelf is not None:
            shelf.unhealthy, shelf.healthy = (*shelf.unhealthy, *shelf.healthy), ()

    def list_devices(self, endpoint: DeviceEndpoint, devices: Sequence[ListedDevice]) -> frozenset[str]:
        """Take the list of a plugin; return the ids of devices that are new or whose health has changed."""
        called = list(self._endpoints.get(endpoint.resource, {}).values())
        shelf = self._shelves.setdefault(endpoint.resource, Shelf(called[-1] if called else endpoint))
        before, shelf.listed = shelf.listed, {device.id: device for device in devices}
        shelf.healthy = tuple(device.id for device in shelf.listed.values() if device.healthy)
        shelf.unhealthy = tuple(device.id for device in shelf.listed.values() if not device.healthy)
        return frozenset(
            device.id
            for device in shelf.listed.values()
            if device.id not in before or before[device.id].healthy != device.healthy
        )

    def count(self, now_s: float) -> Amounts:
        """Return what the node has to offer, and drop resources whose plugin has been gone for long."""
        removed = tuple(name for name, shelf in self._shelves.items() if shelf.endpoint.is_expired(now_s))
        for name in removed:
            del self._shelves[name]
        shelves = self._shelves.items()
        return Amounts(
            capacity={name: len(shelf.healthy) + len(shelf.unhealthy) for name, shelf in shelves},
            allocatable={name: len(shelf.healthy) for name, shelf in shelves},
            removed=removed,
        )

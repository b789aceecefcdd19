"""The sections of an agent's configuration file, as they stand in it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "AmountSection",
    "ConfigContent",
    "DevicePluginSection",
    "DraSection",
    "DriverSection",
    "ForeignSection",
    "ReportSection",
    "ResourceSection",
]


class DraSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Dynamic resource allocation: ResourceSlices, and preparing claims for the kubelet.

    Args:
        enabled: Whether the devices are offered so.
    """

    enabled: bool = True


class ResourceSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One extended resource, and the devices that are offered under it; see `ResourceRule`.

    Args:
        resource: Name such as example.com/gpu.
        selector: CEL expression over `device`, as in a DeviceClass; any device when empty.
        attributes: Attributes that a device must have with these values.
        replicas: How many containers may have one device at the same time.
        several_replicas: Whether one container may ask for more than one replica.
        preference: topology, packed or spread: which devices the kubelet is advised to take.
        link_attribute: Attribute that tells which devices are linked directly.
        id_attribute: Attribute that is the id of a device for the kubelet; its name when empty.
        annotations: Annotations that each container with such a device gets.
    """

    resource: str
    selector: str = ""
    attributes: dict[str, str | int | bool] = {}
    replicas: int = 1
    several_replicas: bool = False
    preference: Literal["topology", "packed", "spread"] = "topology"
    link_attribute: str = ""
    id_attribute: str = ""
    annotations: dict[str, str] = {}


class DevicePluginSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The device plugin protocol: devices counted by name in `limits`.

    Args:
        enabled: Whether the devices are offered so.
        resources: The resources; a device goes to the first one that takes it.
        passing: cdi, cdi-annotations or edits: how containers get their devices.
        pre_start: Whether the kubelet asks before each start of a container, so that what was lost is made again.
    """

    enabled: bool = True
    resources: list[ResourceSection]
    passing: Literal["cdi", "cdi-annotations", "edits"] = "cdi"
    pre_start: bool = True


class ForeignSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Device plugins of others: what they have given away is tainted in our slices while it is in use.

    Args:
        enabled: Whether the kubelet is asked what they have given away.
        resources: Patterns of their resource names, with * and ?.
        attributes: Attributes of our devices that may be their ids.
        names: Whether the names of our devices may be their ids.
    """

    enabled: bool = True
    resources: list[str] = msgspec.field(default_factory=lambda: ["*"])
    attributes: list[str] = msgspec.field(default_factory=lambda: ["uuid"])
    names: bool = True


class AmountSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An extended resource that the node's status gets without a device plugin.

    Args:
        resource: Name such as example.com/gpu.
        selector: CEL expression over `device`: which devices are counted; all when empty.
        attributes: Attributes that a device must have with these values to be counted.
    """

    resource: str
    selector: str = ""
    attributes: dict[str, str | int | bool] = {}


class ReportSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The DeviceReport of the driver on this node, for clusters without DRA.

    Args:
        enabled: Whether it is written.
        interval_seconds: Seconds from one write to the next; at least 0.5.
    """

    enabled: bool = True
    interval_seconds: float = 2.0


class DriverSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The drivers of one plugin, and how they are offered.

    Args:
        plugin: Name of the plugin's entry point.
        driver: Only the driver of this name, if the plugin has several; all of them when empty.
        settings: Files with the plugin's settings, relative to this file.
        pools: Names of its pools that are not named after the node, in which {node} stands for the node's name; the
            policy that is printed lets agents write to these too.
        dra: Dynamic resource allocation.
        device_plugin: The device plugin protocol; off when left out.
        foreign: Device plugins of others.
        labels: Whether the node's labels tell of the devices.
        extended_resources: Amounts in the node's status without a device plugin.
        device_report: The DeviceReport; off when left out.
        health: What becomes of devices that fail; see health.md.
        rediscover_seconds: Seconds between two calls of the driver's `discover` when nothing asks for one; at least 1.
        not_listed: Effect of the taint of devices that the driver lists no longer while claims hold them.
    """

    plugin: str
    driver: str = ""
    settings: list[str] = []
    pools: list[str] = []
    dra: DraSection = DraSection()
    device_plugin: DevicePluginSection | None = None
    foreign: ForeignSection = ForeignSection()
    labels: bool = False
    extended_resources: list[AmountSection] = []
    device_report: ReportSection | None = None
    health: Any = None
    rediscover_seconds: float = 60.0
    not_listed: Literal["NoSchedule", "NoExecute"] = "NoSchedule"


class ConfigContent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What stands below `spec`.

    Args:
        drivers: The drivers.
        labels: Which labels the node gets of drivers that tell theirs; see node-facts.md.
        keep_node_capacity: Whether amounts that `claimsmith node capacity set` gave to the node are kept, whoever
            rewrites its status.
        device_metadata: Whether programs in containers get a file about each device, also where the driver gives none.
    """

    drivers: list[DriverSection]
    labels: Any = None
    keep_node_capacity: bool = False
    device_metadata: bool = False

"""All that a vendor's driver needs, in one import."""

from claimsmith.errors import ConfigError, DriverError, FieldError, InputError
from claimsmith.model.device import (
    Capacity,
    CapacityRange,
    CapacityRequestPolicy,
    CounterConsumption,
    Device,
    DeviceAttribute,
    DeviceTaint,
)
from claimsmith.model.inventory import DeviceHealth, Inventory, Pool
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import CounterSet
from claimsmith.model.prepared import (
    ClaimKey,
    ContainerEdits,
    DeviceConfiguration,
    DeviceNode,
    Hook,
    Mount,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
    RequestedDevice,
)
from claimsmith.model.quantity import Quantity, parse_quantity
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.sdk.driver import (
    Driver,
    DriverContext,
    InventoryChanged,
    ReportHealth,
    StopSignal,
    WatchesInventory,
)

__all__ = [
    "Capacity",
    "CapacityRange",
    "CapacityRequestPolicy",
    "ClaimKey",
    "ConfigError",
    "ContainerEdits",
    "CounterConsumption",
    "CounterSet",
    "Device",
    "DeviceAttribute",
    "DeviceConfiguration",
    "DeviceHealth",
    "DeviceId",
    "DeviceNode",
    "DeviceTaint",
    "Driver",
    "DriverContext",
    "DriverError",
    "FieldError",
    "Hook",
    "InputError",
    "Inventory",
    "InventoryChanged",
    "Mount",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Pool",
    "PrepareRequest",
    "PreparedDevice",
    "PreparedDevices",
    "Quantity",
    "ReportHealth",
    "RequestedDevice",
    "StopSignal",
    "WatchesInventory",
    "parse_quantity",
]

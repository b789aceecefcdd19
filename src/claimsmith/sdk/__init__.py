"""All that a vendor's driver needs, in one import."""

from claimsmith.api.manifests import Manifest
from claimsmith.errors import ConfigError, DriverError, FieldError, InputError, QuantityFormatError
from claimsmith.model.claim import NetworkData
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
    DeviceCondition,
    DeviceConfiguration,
    DeviceMetadata,
    DeviceNode,
    DeviceStatus,
    Hook,
    Mount,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
    RequestedDevice,
)
from claimsmith.model.quantity import Quantity, parse_quantity
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.sdk.device_file import parse_device_file, parse_pool, read_device_file, read_documents_of
from claimsmith.sdk.driver import (
    Driver,
    DriverContext,
    InventoryChanged,
    PreparedChanged,
    ReportHealth,
    StopSignal,
    WatchesInventory,
    WatchesPrepared,
)
from claimsmith.sdk.opaque import decode_opaque
from claimsmith.sdk.pci import (
    NUMA_NODE,
    PCI_BUS_ID,
    PCIE_ROOT,
    PciIds,
    find_pcie_root,
    parse_pci_address,
    parse_pci_ids,
)
from claimsmith.sdk.registry import create_drivers
from claimsmith.sdk.settings import SETTINGS_API_VERSION, SettingsDocument, find_named_nodes, read_settings
from claimsmith.sdk.strict import parse_strictly

__all__ = [
    "NUMA_NODE",
    "PCIE_ROOT",
    "PCI_BUS_ID",
    "SETTINGS_API_VERSION",
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
    "DeviceCondition",
    "DeviceConfiguration",
    "DeviceHealth",
    "DeviceId",
    "DeviceMetadata",
    "DeviceNode",
    "DeviceStatus",
    "DeviceTaint",
    "Driver",
    "DriverContext",
    "DriverError",
    "FieldError",
    "Hook",
    "InputError",
    "Inventory",
    "InventoryChanged",
    "Manifest",
    "Mount",
    "NetworkData",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "PciIds",
    "Pool",
    "PrepareRequest",
    "PreparedChanged",
    "PreparedDevice",
    "PreparedDevices",
    "Quantity",
    "QuantityFormatError",
    "ReportHealth",
    "RequestedDevice",
    "SettingsDocument",
    "StopSignal",
    "WatchesInventory",
    "WatchesPrepared",
    "create_drivers",
    "decode_opaque",
    "find_named_nodes",
    "find_pcie_root",
    "parse_device_file",
    "parse_pci_address",
    "parse_pci_ids",
    "parse_pool",
    "parse_quantity",
    "parse_strictly",
    "read_device_file",
    "read_documents_of",
    "read_settings",
]

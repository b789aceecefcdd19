"""PCI addresses in the one form of /sys/bus/pci, and the attributes that Kubernetes defines for them.

All drivers must write them alike: a constraint pairs the GPU of one driver with the NIC of another by equal text.

Source: k8s.io/dynamic-resource-allocation v0.37.2 deviceattribute (pciBusID, pcieRoot); KEP-6072 (numaNode).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from claimsmith.errors import FieldError

__all__ = [
    "NUMA_NODE",
    "PCIE_ROOT",
    "PCI_BUS_ID",
    "PciIds",
    "find_pcie_root",
    "parse_pci_address",
    "parse_pci_ids",
]

PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
"""Attribute: address of the device, `0000:3b:00.0`."""
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
"""Attribute: root complex of the device, `pci0000:3a`; left out when it is not known, never empty."""
NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
"""Attribute: NUMA node of the device, an int; left out when there is none."""

_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])")
_ROOT: Final = re.compile(r"(?:^|/)devices/(pci[0-9a-f]{4,8}:[0-9a-f]{2})(?:/|$)")
_SLOT_MAX: Final = 0x1F
_IDS_MAX: Final = 0xFFFFFFFF


class PciIds(NamedTuple):
    """Who made a device and which one it is, each as four lower-case hex digits."""

    vendor: str
    device: str


def parse_pci_address(text: str) -> str:
    """Return a PCI address as `0000:3b:00.0`: lower case, a domain of at least four digits, no 0x.

    Args:
        text: Any usual form, such as `3B:00.0`, `00000000:3B:00.0` or `0x0000:0x3b:0x00.0x0`.

    Raises:
        FieldError: It is no PCI address.
    """
    match = _ADDRESS.fullmatch(text.strip(" \t\r\n\0").lower().replace("0x", ""))
    if match is None or int(match[3], 16) > _SLOT_MAX:
        allowed = "domain:bus:device.function such as 0000:3b:00.0"
        raise FieldError("PCI address", text, allowed=allowed, hint="correct the address")
    domain, bus, slot, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}.{function}"


def parse_pci_ids(number: int) -> PciIds:
    """Return vendor and device of a combined id as management libraries give it, such as 0x20B510DE.

    Args:
        number: The device in the high 16 bits, the vendor in the low ones.

    Raises:
        FieldError: It has more than 32 bits.

    Source: pciDeviceId of nvmlPciInfo_t; the configuration header of the PCI Local Bus Specification.
    """
    if not 0 <= number <= _IDS_MAX:
        allowed = "32 bits: the device above the vendor, such as 0x20b510de"
        raise FieldError("PCI ids", number, allowed=allowed, hint="correct the number")
    return PciIds(vendor=f"{number & 0xFFFF:04x}", device=f"{number >> 16:04x}")


def find_pcie_root(link: str) -> str | None:
    """Return the root complex in the path of a device below /sys/devices; None when the path names none.

    Args:
        link: Where /sys/bus/pci/devices/ADDRESS points to, relative or absolute.
    """
    match = _ROOT.search(link)
    return match[1] if match is not None else None

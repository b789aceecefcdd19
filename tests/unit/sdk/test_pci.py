"""PCI addresses and root complexes have one form."""

from __future__ import annotations

import pytest

from claimsmith.errors import FieldError
from claimsmith.sdk.pci import PciIds, find_pcie_root, parse_pci_address, parse_pci_ids


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("3B:00.0", "0000:3b:00.0"),
        ("00010001:00:02.0", "10001:00:02.0"),
        ("0x0000:0x3b:0x00.0x0", "0000:3b:00.0"),
        (" 0000:3b:00.0\0", "0000:3b:00.0"),
    ],
)
def test_every_usual_form_becomes_one(text: str, address: str) -> None:
    assert parse_pci_address(text) == address


@pytest.mark.parametrize("text", ["3b:00", "0000:3g:00.0", "", "0000:3b:20.0", "0000:3b:00.8"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(FieldError, match="PCI address"):
        parse_pci_address(text)


@pytest.mark.parametrize(
    ("link", "root"),
    [
        ("../../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0", "pci0000:3a"),
        ("/sys/devices/pci0000:00/0000:00:1d.0/0000:3b:00.0", "pci0000:00"),
        ("../../../devices/pci10001:00/10001:00:02.0", "pci10001:00"),
        ("../../../devices/platform/soc/0000:3b:00.0", None),
        ("missing", None),
    ],
)
def test_the_root_complex_stands_in_the_path(link: str, root: str | None) -> None:
    assert find_pcie_root(link) == root


def test_a_combined_id_has_the_device_above_the_vendor() -> None:
    assert parse_pci_ids(0x20B510DE) == PciIds(vendor="10de", device="20b5")


def test_an_id_keeps_its_leading_zeros() -> None:
    assert parse_pci_ids(0x000100A2) == PciIds(vendor="00a2", device="0001")


@pytest.mark.parametrize("number", [-1, 0x1_0000_0000])
def test_a_combined_id_of_more_than_32_bits_is_refused(number: int) -> None:
    with pytest.raises(FieldError, match="PCI ids"):
        parse_pci_ids(number)

"""Judges the tables of kind `normalise` and `cli`: one input, one right result each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from claimsmith.errors import InputError
from claimsmith.model.quantity import parse_quantity
from claimsmith.sdk import find_pcie_root, parse_device_file, parse_pci_address, parse_pci_ids
from tests.cases.casefile import CaseFile, check_fields

_ERROR = "error"


async def judge_normalising(case: CaseFile) -> list[str]:
    """Return the rows of the PCI tables that come out in another way.

    Raises:
        InputError: Something in the case is not understood.
    """
    case.check_fields("pci", "pcieRoot", "device-id")
    tables: dict[str, tuple[str, Callable[[Any], object]]] = {
        "pci": ("in", _normalise),
        "pcieRoot": ("link", find_pcie_root),
        "device-id": ("in", lambda number: parse_pci_ids(number)._asdict()),
    }
    differences = []
    for name, (key, call) in tables.items():
        for row in case.content.get(name) or ():
            check_fields(row, key, "out", "error")
            found = call(row[key])
            if found != (_ERROR if row.get("error") else row["out"]):
                differences.append(f"{name} {row[key]!r}: {found!r}, right is {row.get('out', _ERROR)!r}")
    return differences


def _normalise(text: str) -> str:
    try:
        return parse_pci_address(text)
    except InputError:
        return _ERROR


async def judge_device_files(case: CaseFile) -> list[str]:
    """Return the device files that are read in another way.

    Raises:
        InputError: Something in the case is not understood.
    """
    case.check_fields("files")
    differences = []
    for number, row in enumerate(case.content["files"], start=1):
        check_fields(row, "text", "expect")
        check_fields(row["expect"], "error-mentions", "device-names", "capacity")
        differences += [f"file {number}: {text}" for text in _judge_file(row["text"], row["expect"])]
    return differences


def _judge_file(text: str, expected: Mapping[str, Any]) -> Iterator[str]:
    try:
        devices = [device for pool in parse_device_file(text, source="file").pools for device in pool.devices]
    except InputError as error:
        missing = [word for word in expected.get("error-mentions", ["no error"]) if word not in str(error)]
        if missing:
            yield f"the error does not mention {', '.join(missing)}: {error}"
        return
    if "error-mentions" in expected:
        yield f"no error, right is one that mentions {', '.join(expected['error-mentions'])}"
    names = [device.name for device in devices]
    if names != expected.get("device-names", names):
        yield f"devices {names}, right is {expected['device-names']}"
    found = {name: entry.value for device in devices for name, entry in device.capacity.items()}
    right = {name: parse_quantity(amount) for name, amount in expected.get("capacity", {}).items()}
    if "capacity" in expected and found != right:
        yield f"capacity {found}, right is {right}"

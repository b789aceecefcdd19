"""Devices that the tests of the selector language read."""

from __future__ import annotations

import pytest

from claimsmith.cel import CelDevice, prepare_device
from claimsmith.model.device import Capacity, Device, DeviceAttribute
from claimsmith.model.quantity import parse_quantity

DRIVER = "gpu.example.test"


@pytest.fixture
def gpu() -> CelDevice:
    """A device with attributes of all types."""
    device = Device(
        name="full",
        attributes={
            "model": DeviceAttribute.of("A100"),
            "cores": DeviceAttribute.of(4),
            "ecc": DeviceAttribute.of(True),
            "cc": DeviceAttribute.version("10.0.0"),
            "numa": DeviceAttribute.of((0, 1)),
            "fw": DeviceAttribute("versions", ("1.0.0", "2.0.0")),
            "other.example.test/model": DeviceAttribute.of("board-7"),
        },
        capacity={"memory": Capacity(value=parse_quantity("40Gi"))},
        allow_multiple_allocations=True,
    )
    return prepare_device(DRIVER, device)


@pytest.fixture
def bare() -> CelDevice:
    """A device with nothing but its driver."""
    return prepare_device(DRIVER, Device(name="bare"))

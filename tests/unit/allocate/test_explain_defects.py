"""Devices that no claim ever gets."""

from __future__ import annotations

from claimsmith.testing.builders import claim, device, request, slice_
from tests.unit.allocate.explaining import tell


def test_a_device_with_a_negative_capacity_is_told_as_what_it_is() -> None:
    (reason,) = tell(slice_(device("x", capacity={"memory": "-1Gi"})), claim("c", request("r")))

    assert reason.text == (
        "1 device wanted, the only device of node node-a can't be had; x: capacity memory: -1Gi is negative"
    )


def test_a_device_of_another_class_is_not_told_for_its_fault() -> None:
    broken = slice_(device("x", capacity={"memory": "-1Gi"}), name="other", driver="other.example.test", pool="other")
    found = tell(slice_(device("y")), broken, claim("c", request("r", count=2)))

    assert [reason.text for reason in found if "negative" in reason.text] == []

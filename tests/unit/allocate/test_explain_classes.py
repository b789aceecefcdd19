"""Devices of other classes are no part of an answer."""

from __future__ import annotations

from claimsmith.allocate.explain.report import format_explanation, format_note
from claimsmith.testing.builders import allocated, capacity, claim, device, klass, node, request, slice_
from tests.unit.allocate.explaining import tell, why

GPU = klass("gpu", 'device.driver == "gpu.example.test"')
NIC = klass("nic", 'device.driver == "nic.example.test"')
MODEL = 'device.attributes["gpu.example.test"].model'
GPUS = slice_(*(device(f"gpu-{place}", attributes={"model": "T4"}) for place in range(2)))
NICS = slice_(
    device("nic-0", capacity={"bandwidth": capacity("10G")}, allow_multiple_allocations=True),
    name="nics",
    driver="nic.example.test",
)


def test_a_selector_is_told_of_the_devices_of_the_class_alone() -> None:
    found = tell(GPUS, NICS, GPU, claim("c", request("r", f'{MODEL} == "H100"', klass="gpu")))

    assert [reason.text for reason in found] == [
        "1 device wanted, none of the 2 devices of class gpu on node node-a can be had",
        f'gpu-0, gpu-1: selector {MODEL} == "H100" is false',
    ]


def test_a_node_without_a_device_of_the_class_says_so() -> None:
    found = tell(NICS, GPU, claim("c", request("r", f'{MODEL} == "H100"', klass="gpu")))

    assert [reason.text for reason in found] == [
        "1 device wanted, node node-a has no device of class gpu",
        'no device of class gpu: its selector device.driver == "gpu.example.test" is false for nic-0',
    ]


def test_a_capacity_is_missed_at_devices_of_the_class_alone() -> None:
    found = tell(GPUS, NICS, NIC, claim("c", request("r", klass="nic", capacity={"bandwidth": "40G"})))

    assert [reason.text for reason in found][1:] == ["nic-0: 10G of 10G bandwidth left, 40G needed"]


def test_devices_of_the_class_that_can_be_had_are_counted_among_those_of_the_class() -> None:
    found = tell(GPUS, NICS, GPU, claim("c", request("r", count=3, klass="gpu")))

    assert found[0].text == "3 devices wanted, node node-a has 2 of class gpu: gpu-0, gpu-1"


def test_that_other_devices_are_of_another_class_goes_without_saying() -> None:
    held = [allocated(claim(f"held-{place}"), f"gpu-{place}") for place in range(2)]
    found = why(node("node-a"), GPUS, NICS, GPU, *held, claim("c", request("r", klass="gpu")))
    texts = (format_explanation(found), format_note(found))

    assert any(reason.kind == "class-selector" for reason in found.reasons)
    assert not any("nic-0" in text or "selector of class" in text for text in texts)


def test_the_note_of_a_node_without_a_device_of_the_class_says_so() -> None:
    note = format_note(why(node("node-a"), NICS, GPU, claim("c", request("r", klass="gpu"))))

    assert "claim default/c, request r: no device of class gpu: its selector" in note

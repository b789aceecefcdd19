"""Devices from files: read as Kubernetes reads YAML, without surprises."""

from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.errors import ConfigError, FieldError, InputError, ManifestError
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.inventory import Inventory, Pool
from claimsmith.model.quantity import parse_quantity
from claimsmith.sdk.device_file import parse_device_file, read_device_file
from claimsmith.testing import builders as b


def read(text: str) -> Inventory:
    return parse_device_file(text, source="gpus.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("devices:\n- name: n\n", ["line 2", "quotes", "n, which YAML reads as false"]),
        ("devices:\n- name: gpu-0\n  attributes: {driverVersion: {version: 1.10}}\n", ["version", "1.10", "quotes"]),
        ("devices:\n- name: gpu-0\n  attributes: {serial: {string: 0123}}\n", ["serial", "0123", "quotes"]),
        ("devices:\n- name: gpu-0\n  attributes: {serial: {string: 12:30:45}}\n", ["serial", "12:30:45", "quotes"]),
        ("devices:\n- name: gpu-0\n  attributes: {built: {string: 2024-01-02}}\n", ["built", "quotes"]),
        ("devices:\n- name: gpu-0\n  attributes: {model: {string: no}}\n", ["model", "quotes"]),
        ("devices:\n- name: gpu-0\n  attributes: {count: {int: 1e3}}\n", ["count", "1e3", "write 1000"]),
        ("devices:\n- name: gpu-0\n  attributes: {count: {int: 0x10}}\n", ["count", "0x10", "write 16"]),
        ("devices:\n- name: gpu-0\n  attributes: {count: {int: 1_000}}\n", ["count", "1_000", "write 1000"]),
        ("devices:\n- name: gpu-0\n  name: gpu-1\n", ["duplicate", "name"]),
        ("devices:\n- {attributes: {a: {int: 1}}}\n", ["devices[0].name", "the name of the device"]),
        ("devices:\n- name: gpu-0\n  capacity: {memory: ten}\n", ["line 3", "capacity.memory", "quantity"]),
        ("devices:\n- name: gpu-0\n  atributes: {}\n", ["line 3", "atributes", "write attributes"]),
        ("gpus: []\n", ["line 1: gpus"]),
        ("devices: 3\n", ["devices", "a list"]),
        ("- name: gpu-0\n", ["list", "object"]),
        ("devices: [", ["document 1, line"]),
    ],
)
def test_a_surprising_value_is_an_error_that_names_the_line(text: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        read(text)

    assert "gpus.yaml" in str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_quoted_text_is_text() -> None:
    found = read('devices:\n- name: "n"\n  attributes: {serial: {string: "0123"}, driver: {version: "1.10.0"}}\n')

    assert found == Inventory.of(
        b.device("n", attributes={"serial": "0123", "driver": DeviceAttribute.version("1.10.0")})
    )


def test_an_amount_may_stand_without_its_value() -> None:
    found = read("devices:\n- name: gpu-0\n  capacity: {memory: 10Gi, slots: 4, cores: {value: 2}}\n")

    amounts = found.pools[0].devices[0].capacity
    assert {name: str(item.value) for name, item in amounts.items()} == {"memory": "10Gi", "slots": "4", "cores": "2"}


def test_partitions_share_counters() -> None:
    found = read(
        """
sharedCounters:
- name: card-0
  counters: {memory: 80Gi, slices: {value: 7}}
devices:
- name: part-0
  consumesCounters:
  - {counterSet: card-0, counters: {memory: 10Gi, slices: 1}}
"""
    )

    pool = found.pools[0]
    assert pool.counter_sets == (b.counter_set("card-0", {"memory": "80Gi", "slices": 7}),)
    assert pool.devices[0].consumes_counters == (b.consumes("card-0", {"memory": "10Gi", "slices": 1}),)


def test_several_pools_have_names() -> None:
    found = read("pools:\n- {name: a, devices: [{name: x}]}\n- {name: b, devices: [{name: x}], allNodes: true}\n")

    assert found.pools == (
        Pool(name="a", devices=(b.device("x"),)),
        Pool(name="b", devices=(b.device("x"),), all_nodes=True),
    )


def test_a_shared_device_has_a_policy() -> None:
    found = read(
        "devices:\n- name: nic-0\n  allowMultipleAllocations: true\n  capacity:\n    bandwidth:\n"
        "      value: 40G\n      requestPolicy: {default: 1G, validRange: {min: 1G, step: 1G}}\n"
    )

    assert found.pools[0].devices[0] == b.device(
        "nic-0",
        capacity={"bandwidth": b.capacity("40G", default="1G", minimum="1G", step="1G")},
        allow_multiple_allocations=True,
    )


def test_an_empty_file_has_an_empty_pool_when_it_says_so_and_none_otherwise() -> None:
    assert read("devices: []\n") == Inventory.of()
    assert read("") == Inventory()


def test_json_is_read_too() -> None:
    assert read('{"devices": [{"name": "gpu-0"}]}') == Inventory.of(b.device("gpu-0"))


def test_a_file_is_read_from_disk(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("devices: [{name: gpu-0, capacity: {memory: 1Gi}}]\n")

    assert read_device_file(path).pools[0].devices[0].capacity["memory"].value == parse_quantity("1Gi")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        read_device_file(tmp_path / "nowhere.yaml")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_bytes(b"devices: \xff")

    with pytest.raises(ManifestError, match="UTF-8"):
        read_device_file(tmp_path / "odd.yaml")


def test_an_error_carries_its_path() -> None:
    with pytest.raises(FieldError) as caught:
        read("devices: [{name: a}, {name: b, taints: [{key: 7}]}]\n")

    assert caught.value.path == "devices[1].taints[0].key"

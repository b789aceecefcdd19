"""What a simulated driver finds: devices as real drivers publish them, from a few words."""

from __future__ import annotations

import pytest

from claimsmith.api.manifests import parse_manifests
from claimsmith.drivers.simulated.driver import SimulatedDriver
from claimsmith.drivers.simulated.models import find_gpu_model, list_gpu_models
from claimsmith.errors import ConfigError, FieldError, InputError
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.quantity import parse_quantity
from claimsmith.sdk import NUMA_NODE, PCI_BUS_ID, PCIE_ROOT
from claimsmith.sdk.driver import DriverContext
from claimsmith.sdk.registry import create_drivers
from tests.unit.drivers.paper import devices_of, document, driver_of, drivers_of


def test_a_known_model_brings_its_memory_and_compute_capability() -> None:
    (gpu,) = devices_of(driver_of("gpus: [{model: A100-80}]").discover()).values()

    assert gpu.name == "gpu-0"
    assert gpu.capacity["memory"].value == parse_quantity("80Gi")
    assert gpu.attributes["computeCapability"] == DeviceAttribute.version("8.0.0")
    assert gpu.attributes["model"] == DeviceAttribute.of("A100-80")
    assert gpu.attributes["type"] == DeviceAttribute.of("gpu")
    assert str(gpu.attributes["uuid"].value).startswith("GPU-")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("A100-80", "a100-80"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("A100-40GB", "a100-40"),
        ("H100", "h100-80"),
        ("NVIDIA H100 80GB HBM3", "h100-80"),
        ("Tesla T4", "t4"),
        ("l40s", "l40s"),
        ("B9000", None),
    ],
)
def test_a_model_is_known_by_its_usual_names(name: str, known: str | None) -> None:
    assert find_gpu_model(name) == (None if known is None else find_gpu_model(known))
    assert known is None or find_gpu_model(known) is not None


def test_every_listed_model_is_found() -> None:
    assert [name for name in list_gpu_models() if find_gpu_model(name) is None] == []


def test_any_model_will_do_with_memory() -> None:
    found = devices_of(driver_of("gpus: [{model: Own, memory: 12Gi, computeCapability: '8.6'}]").discover())

    assert found["gpu-0"].capacity["memory"].value == parse_quantity("12Gi")
    assert found["gpu-0"].attributes["computeCapability"] == DeviceAttribute.version("8.6.0")


def test_devices_are_numbered_over_all_entries() -> None:
    found = devices_of(driver_of("gpus: [{model: T4, count: 2}, {model: L4}, {model: L4, name: spare}]").discover())

    assert list(found) == ["gpu-0", "gpu-1", "gpu-2", "spare"]
    assert len({device.attributes["uuid"] for device in found.values()}) == 4


def test_two_gpus_and_a_nic_share_a_root_complex() -> None:
    found = devices_of(driver_of("gpus: [{model: T4, count: 8}]\nnics: [{bandwidth: 40G, count: 4}]").discover())

    roots = {name: device.attributes[PCIE_ROOT].value for name, device in found.items()}
    assert roots["gpu-0"] == roots["gpu-1"] == roots["nic-0"] == "pci0000:10"
    assert roots["gpu-2"] == roots["gpu-3"] == roots["nic-1"] == "pci0000:20"
    assert [found[f"gpu-{index}"].attributes[NUMA_NODE].value for index in (0, 3, 4, 7)] == [0, 0, 1, 1]
    assert len({device.attributes[PCI_BUS_ID].value for device in found.values()}) == 12


def test_a_place_may_be_given() -> None:
    found = devices_of(driver_of("gpus: [{model: T4, numaNode: -1, pcieRoot: 'pci0001:00'}]").discover())["gpu-0"]

    assert NUMA_NODE not in found.attributes
    assert found.attributes[PCIE_ROOT].value == "pci0001:00"


def test_a_device_has_the_same_uuid_at_every_start_and_another_on_each_node() -> None:
    first, again, elsewhere = (
        devices_of(driver_of("gpus: [{model: T4}]", node=node).discover())["gpu-0"].attributes["uuid"]
        for node in ("node-a", "node-a", "node-b")
    )

    assert first == again
    assert first != elsewhere


def test_further_attributes_are_read_as_in_a_slice() -> None:
    found = devices_of(driver_of("gpus: [{model: T4, attributes: {rack: {string: r1}, slot: {int: 3}}}]").discover())

    assert found["gpu-0"].attributes["rack"] == DeviceAttribute.of("r1")
    assert found["gpu-0"].attributes["slot"] == DeviceAttribute.of(3)


def test_a_nic_shares_its_bandwidth() -> None:
    nic = devices_of(driver_of("nics: [{bandwidth: 40G}]").discover())["nic-0"]

    policy = nic.capacity["bandwidth"].policy
    assert nic.allow_multiple_allocations
    assert policy is not None
    assert policy.valid_range is not None
    assert [str(amount) for amount in (policy.default, policy.valid_range.minimum, policy.valid_range.step)] == [
        "100M"
    ] * 3
    assert nic.attributes["interface"] == DeviceAttribute.of("eth0")


def test_a_gpu_may_share_its_memory() -> None:
    gpu = devices_of(driver_of("gpus: [{model: L4, sharing: {minimum: 1Gi, step: 1Gi, default: 4Gi}}]").discover())[
        "gpu-0"
    ]

    policy = gpu.capacity["memory"].policy
    assert gpu.allow_multiple_allocations
    assert policy is not None
    assert str(policy.default) == "4Gi"


def test_raw_devices_are_written_as_in_a_slice() -> None:
    found = devices_of(driver_of("devices: [{name: x, capacity: {memory: 1Gi}}]").discover())

    assert found["x"].capacity["memory"].value == parse_quantity("1Gi")


def test_a_document_is_for_the_nodes_that_it_names() -> None:
    text = "nodes: ['gpu-*', other]\ngpus: [{model: T4}]"

    assert [len(drivers_of(text, node=node)) for node in ("gpu-7", "other", "node-a", "")] == [1, 1, 0, 1]


def test_each_driver_name_is_a_driver() -> None:
    text = document("driver: gpu.example.com\ngpus: [{model: T4}]") + "---\n"
    text += document("driver: nic.example.com\nnics: [{bandwidth: 1G}]") + "---\n"
    text += document("driver: gpu.example.com\ngpus: [{model: L4}]")
    context = DriverContext(node_name="n", documents=parse_manifests(text, source="d.yaml"))

    drivers = create_drivers("simulated", context)

    found = {driver.name: list(devices_of(driver.discover())) for driver in drivers}
    assert found == {"gpu.example.com": ["gpu-0", "gpu-1"], "nic.example.com": ["nic-0"]}


def test_without_settings_there_is_nothing_to_simulate() -> None:
    with pytest.raises(ConfigError, match="found no settings, allowed documents of kind SimulatedDevices"):
        SimulatedDriver.create(DriverContext(node_name="n"))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("gpus: [{model: Unheard}]", ["spec.gpus[0].model", "add memory", "A100-80"]),
        ("gpus: [{model: T4, mig: true}]", ["spec.gpus[0].mig", "partition table"]),
        ("gpus: [{model: T4, memroy: 1Gi}]", ["spec.gpus[0].memroy", "write memory"]),
        ("gpus: [{model: T4, memory: lots}]", ["spec.gpus[0].memory", "quantity"]),
        ("gpus: [{model: T4, memory: -1}]", ["spec.gpus[0].memory", "more than 0"]),
        ("gpus: [{model: T4, count: 0}]", ["spec.gpus[0].count", "1 to 1024"]),
        ("gpus: [{model: 4}]", ["spec.gpus[0].model", "quotes"]),
        ("gpus: [{model: T4, computeCapability: new}]", ["computeCapability", "version such as 8.6"]),
        ("gpus: [{model: T4, name: a}, {model: T4, name: a}]", ["spec.gpus[1]", "a second a"]),
        ("gpus: [{model: A100, mig: true, sharing: {minimum: 1Gi}}]", ["sharing", "remove one of the two"]),
        ("nics: [{bandwidth: 1G, sharing: {minimum: 2G}}]", ["spec.nics[0].sharing", "minimum <= default"]),
        ("nics: [{}]", ["spec.nics[0].bandwidth", "add the field"]),
        ("devices: [{name: y}]", ["spec.devices[0].name", "quotes"]),
        ("nodes: node-a", ["spec.nodes", "a list"]),
        ("script: [{fail: gpu-0}]", ["spec.script[0]", "afterSeconds or step"]),
        ("script: [{afterSeconds: 1, fail: a, recover: b}]", ["spec.script[0]", "exactly one of"]),
        ("script: [{afterSeconds: -1, fail: a}]", ["spec.script[0].afterSeconds", "0 or more"]),
        ("gpus: 3", ["spec.gpus", "a list"]),
    ],
)
def test_a_broken_document_gives_one_clear_line(spec: str, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        drivers_of(spec)[0].discover()

    message = str(caught.value)
    assert message.startswith("devices.yaml, document 1, line ")
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


def test_the_line_of_an_error_is_that_of_the_field() -> None:
    with pytest.raises(FieldError, match="line 8: "):
        driver_of("gpus:\n- model: T4\n- model: None-Such\n")

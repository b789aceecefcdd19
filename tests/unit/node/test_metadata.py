from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from claimsmith.errors import DriverAnswerError
from claimsmith.model.claim import NetworkData
from claimsmith.model.device import DeviceAttribute
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import (
    ClaimKey,
    DeviceMetadata,
    DeviceStatus,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
    RequestedDevice,
)
from claimsmith.node.metadata import MetadataPolicy, metadata_mount, plan_metadata

DRIVER = "gpu.example.test"
UPSTREAM = (Path(__file__).parent / "data" / "device-metadata.jsons").read_bytes()
"""Written by the encoder of api/metadata in k8s.io/dynamic-resource-allocation v0.37.2: both versions of one object,
then an object without devices, whose bytes differ by `devices` alone."""
CLAIM = ClaimKey(namespace="default", name="train-gpus-x7k2p", uid="uid-1")
ODD = 'A100 <40&80>\u2028é"'
ATTRIBUTES = {
    "model": DeviceAttribute.of(ODD),
    "driverVersion": DeviceAttribute.version("1.2.3"),
    "index": DeviceAttribute.of(-7),
    "resource.kubernetes.io/pciBusID": DeviceAttribute.of(ODD),
    "healthy": DeviceAttribute.of(True),
    "numas": DeviceAttribute.of((0, 1)),
    "modes": DeviceAttribute.of(("a", "b")),
}
NETWORK = NetworkData(interface_name="eth1", ips=("10.0.0.1/24",), hardware_address="aa:bb")


def device(name: str, request: str = "gpu", sub: str = "big") -> RequestedDevice:
    return RequestedDevice(id=DeviceId(DRIVER, "node-a", name), request=request, subrequest=sub)


def asked(*devices: RequestedDevice, pod_claim: str = "gpus") -> PrepareRequest:
    return PrepareRequest(claim=CLAIM, devices=devices, pod_claim_name=pod_claim)


def answer(asked_device: RequestedDevice, attributes: dict[str, DeviceAttribute] | None = None) -> PreparedDevice:
    metadata = None if attributes is None else DeviceMetadata(attributes=attributes)
    return PreparedDevice(device=asked_device, metadata=metadata)


def plan(*answers: PreparedDevice, policy: MetadataPolicy | None = None) -> dict[str, bytes]:
    request = asked(*(item.device for item in answers))
    files = plan_metadata(request, PreparedDevices(devices=answers), driver=DRIVER, policy=policy or MetadataPolicy())
    return {file.request: file.data for file in files}


def test_a_file_is_letter_by_letter_what_upstream_writes() -> None:
    first = replace(answer(device("gpu-0"), ATTRIBUTES), status=DeviceStatus(network=NETWORK))

    assert UPSTREAM.startswith(plan(first, answer(device("gpu-1")))["gpu"])
    assert plan(first)["gpu"].count(b'"apiVersion"') == 2


def test_the_newest_version_comes_first_and_versions_can_be_chosen() -> None:
    newest = plan(answer(device("gpu-0"), {}), policy=MetadataPolicy(versions=("v1beta1",)))["gpu"]

    assert json.loads(newest)["apiVersion"] == "metadata.resource.k8s.io/v1beta1"


def test_devices_without_metadata_get_no_file_unless_all_must_have_one() -> None:
    published = {"gpu-0": {"model": DeviceAttribute.of("A100")}}
    policy = MetadataPolicy(
        for_all=True, attributes=lambda found: published.get(found.device, {}), versions=("v1beta1",)
    )

    assert plan(answer(device("gpu-0"))) == {}
    described = json.loads(plan(answer(device("gpu-0")), policy=policy)["gpu"])
    assert described["requests"][0]["devices"][0]["attributes"] == {"model": {"string": "A100"}}


def test_what_the_driver_gives_wins_over_what_is_published() -> None:
    policy = MetadataPolicy(for_all=True, attributes=lambda found: {"a": DeviceAttribute.of(1)}, versions=("v1beta1",))
    data = plan(answer(device("gpu-0"), {"a": DeviceAttribute.of(2), "b": DeviceAttribute.of(3)}), policy=policy)["gpu"]

    attributes = json.loads(data)["requests"][0]["devices"][0]["attributes"]
    assert attributes == {"a": {"int": 2}, "b": {"int": 3}}


def test_each_request_has_a_file_of_its_own() -> None:
    answers = [answer(device(f"gpu-{i}", request, sub=""), {}) for i, request in enumerate(("x", "y"))]
    files = plan(*answers, policy=MetadataPolicy(versions=("v1beta1",)))

    assert {name: json.loads(data)["requests"][0]["name"] for name, data in files.items()} == {"x": "x", "y": "y"}


@pytest.mark.parametrize(
    ("pod_claim", "folder"), [("gpus", "resourceclaimtemplates/gpus"), ("", f"resourceclaims/{CLAIM.name}")]
)
def test_containers_find_the_file_by_the_name_that_their_pod_knows(pod_claim: str, folder: str) -> None:
    mount = metadata_mount(asked(device("gpu-0"), pod_claim=pod_claim), "gpu", driver=DRIVER, host_path="/h")

    assert mount.container_path == (
        f"/var/run/kubernetes.io/dra-device-attributes/{folder}/gpu/gpu.example.test-metadata.json"
    )
    assert (mount.host_path, mount.options) == ("/h", ("ro", "bind"))


def test_more_attributes_than_readers_accept_are_refused_with_the_field() -> None:
    many = {f"a{number}": DeviceAttribute.of(number) for number in range(33)}

    with pytest.raises(DriverAnswerError, match=r"devices\[0\]\.metadata\.attributes: found 33, allowed at most 32"):
        plan(answer(device("gpu-0"), many))


def test_an_attribute_without_a_value_is_refused_with_the_field() -> None:
    with pytest.raises(DriverAnswerError, match=r"devices\[0\]\.metadata\.attributes\[a\]"):
        plan(answer(device("gpu-0"), {"a": DeviceAttribute("unknown", None)}))

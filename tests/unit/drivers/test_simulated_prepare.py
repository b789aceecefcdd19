"""What containers get of simulated devices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.errors import DriverError, FieldError
from claimsmith.model.prepared import DeviceConfiguration
from claimsmith.model.quantity import parse_quantity
from claimsmith.testing import builders as b
from tests.unit.drivers.paper import devices_of, driver_of


def test_a_container_sees_its_gpu_by_name_and_uuid() -> None:
    driver = driver_of("gpus: [{model: T4, count: 2}]")
    uid = devices_of(driver.discover())["gpu-1"].attributes["uuid"].value

    prepared = driver.prepare(b.prepare_request("gpu-1"))

    assert prepared.devices[0].edits.env == {"CLAIMSMITH_GPU_1": uid}
    assert prepared.common.env == {"CLAIMSMITH_VISIBLE_DEVICES": uid}
    assert [item.path for item in prepared.devices[0].edits.device_nodes] == ["/dev/claimsmith/gpu-1"]
    assert len(prepared.common.mounts) == 1


def test_a_container_that_names_one_request_sees_the_devices_of_that_request_alone() -> None:
    driver = driver_of("gpus: [{model: T4, count: 3}]")
    uids = {name: device.attributes["uuid"].value for name, device in devices_of(driver.discover()).items()}
    big, small = (
        (b.requested(name, request="big") for name in ("gpu-0", "gpu-1")),
        b.requested("gpu-2", request="small"),
    )

    prepared = driver.prepare(b.prepare_request(*big, small))
    lists = [item.edits.env["CLAIMSMITH_VISIBLE_DEVICES"] for item in prepared.devices]
    both = f"{uids['gpu-0']},{uids['gpu-1']}"

    assert lists == [both, both, uids["gpu-2"]]
    assert prepared.devices[0].edits.env["CLAIMSMITH_VISIBLE_DEVICES_BIG"] == both
    assert prepared.common.env == {}


def test_a_share_tells_its_id_and_its_amounts() -> None:
    driver = driver_of("nics: [{bandwidth: 40G}]")
    amounts = {"bandwidth": parse_quantity("2G"), "example.com/queues": parse_quantity("4")}
    share = replace(b.requested("nic-0", share="s1"), consumed_capacity=amounts)

    prepared = driver.prepare(b.prepare_request(share))

    assert prepared.devices[0].edits.env == {
        "CLAIMSMITH_NIC_0": "eth0",
        "CLAIMSMITH_NIC_0_SHARE_ID": "s1",
        "CLAIMSMITH_NIC_0_BANDWIDTH": "2G",
        "CLAIMSMITH_NIC_0_EXAMPLE_COM_QUEUES": "4",
    }


def test_preparing_again_gives_an_equal_answer() -> None:
    driver = driver_of("gpus: [{model: T4}]")
    asked = b.prepare_request("gpu-0")

    assert driver.prepare(asked) == driver.prepare(asked)


def test_parameters_of_the_claim_reach_the_container() -> None:
    config = DeviceConfiguration(source="FromClaim", parameters={"env": {"MODE": "fast"}})
    asked = replace(b.requested("gpu-0"), configs=(config,))

    prepared = driver_of("gpus: [{model: T4}]").prepare(b.prepare_request(asked))

    assert prepared.devices[0].edits.env["MODE"] == "fast"


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [({"prepareError": "no luck"}, DriverError, "no luck"), ({"envs": {}}, FieldError, "write env")],
)
def test_parameters_may_fail_a_claim(parameters: object, error: type[Exception], words: str) -> None:
    config = DeviceConfiguration(source="FromClaim", parameters=parameters)
    asked = replace(b.requested("gpu-0"), configs=(config,))

    with pytest.raises(error, match=words):
        driver_of("gpus: [{model: T4}]").prepare(b.prepare_request(asked))


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(DriverError, match=r"gpu\.example\.test/node-a/gpu-7: found nothing"):
        driver_of("gpus: [{model: T4}]").prepare(b.prepare_request("gpu-7"))


def test_what_a_failure_means_is_left_to_the_health_policy() -> None:
    driver = driver_of("gpus: [{model: T4, fault: xid-13}]")

    assert driver.prepare(b.prepare_request("gpu-0")).devices


def test_unpreparing_an_unknown_claim_is_fine() -> None:
    driver_of("gpus: [{model: T4}]").unprepare(b.claim_key("never"))

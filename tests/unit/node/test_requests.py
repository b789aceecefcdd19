from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.errors import ClaimNotReadyError
from claimsmith.model.claim import AllocationConfig, OpaqueConfig, ResourceClaim
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import DeviceConfiguration, PrepareRequest
from claimsmith.node.requests import parse_prepare_request
from claimsmith.testing.builders import allocated, claim, claim_key, quantity, request, result

DRIVER, NODE = "gpu.example.test", "node-a"


def parse(item: ResourceClaim, *, uid: str = "uid-claim", node: str = NODE) -> PrepareRequest:
    return parse_prepare_request(item, claim_key(uid=uid), driver=DRIVER, node_name=node)


def config(source: str, value: int, *requests: str, driver: str = DRIVER) -> AllocationConfig:
    return AllocationConfig(source=source, requests=requests, opaque=OpaqueConfig(driver=driver, parameters=value))


READY = allocated(claim("claim", request()), "gpu-0", reserved_for=["pod"])


def test_a_driver_is_asked_for_its_own_devices_only() -> None:
    other = result(DeviceId("nic.example.test", NODE, "nic-0"))
    item = allocated(claim("claim", request()), "gpu-0", other, "gpu-1", reserved_for=["pod"])

    assert [device.id.device for device in parse(item).devices] == ["gpu-0", "gpu-1"]


def test_a_sub_request_is_told_apart_from_its_request() -> None:
    item = allocated(claim("claim", request()), result("gpu-0", request="r/big"), reserved_for=["pod"])
    device = parse(item).devices[0]

    assert (device.request, device.subrequest) == ("r", "big")


def test_a_share_comes_with_its_uid_and_its_amounts() -> None:
    shared = result("nic-0", share="s1", consumed={"bandwidth": "2G"})
    device = parse(allocated(claim("claim", request()), shared, reserved_for=["pod"])).devices[0]

    assert (device.share_id, device.consumed_capacity) == ("s1", {"bandwidth": quantity("2G")})


def test_parameters_of_the_class_come_before_those_of_the_claim() -> None:
    configs = [config("FromClaim", 2), config("FromClass", 1), config("FromClaim", 3)]
    item = allocated(claim("claim", request()), "gpu-0", reserved_for=["pod"], config=configs)

    assert [found.parameters for found in parse(item).devices[0].configs] == [1, 2, 3]


def test_parameters_for_other_requests_and_other_drivers_are_left_out() -> None:
    configs = [
        config("FromClaim", 1, "other"),
        config("FromClaim", 2, driver="nic.example.test"),
        AllocationConfig(source="FromClaim"),
        config("FromClaim", 3, "r"),
    ]
    item = allocated(claim("claim", request()), "gpu-0", reserved_for=["pod"], config=configs)

    assert parse(item).devices[0].configs == (DeviceConfiguration(source="FromClaim", parameters=3, requests=("r",)),)


@pytest.mark.parametrize(("named", "found"), [("r", 1), ("r/big", 1), ("r/small", 0)])
def test_parameters_may_name_the_request_or_the_sub_request(named: str, found: int) -> None:
    chosen = result("gpu-0", request="r/big")
    item = allocated(claim("claim", request()), chosen, reserved_for=["pod"], config=[config("FromClaim", 1, named)])

    assert len(parse(item).devices[0].configs) == found


def test_a_claim_that_was_made_again_is_refused_with_both_uids() -> None:
    with pytest.raises(ClaimNotReadyError, match=r"found uid uid-claim, allowed u1: it was deleted and made again"):
        parse(READY, uid="u1")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (claim("claim", request()), "no allocation"),
        (replace(READY, reserved_for=()), "reserved for nobody"),
        (
            allocated(claim("claim", request()), DeviceId("x", "y", "z"), reserved_for=["pod"]),
            f"no device of driver {DRIVER}",
        ),
        (allocated(claim("claim", request()), "gpu-0", node="node-b", reserved_for=["pod"]), "for another node"),
    ],
)
def test_a_claim_that_is_not_ready_is_refused_with_what_is_missing(item: ResourceClaim, words: str) -> None:
    with pytest.raises(ClaimNotReadyError, match=words):
        parse(item)


def test_a_claim_that_any_node_may_use_is_taken() -> None:
    item = allocated(claim("claim", request()), "gpu-0", node=None, reserved_for=["pod"])

    assert len(parse(item).devices) == 1

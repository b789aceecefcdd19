"""Several pools of one driver on one node."""

from __future__ import annotations

import pytest

from claimsmith.api.manifests import parse_manifests
from claimsmith.drivers.simulated.driver import SimulatedDriver
from claimsmith.errors import FieldError
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey, PrepareRequest, RequestedDevice
from claimsmith.sdk.driver import DriverContext
from tests.unit.drivers.paper import FakeTime, document


def driver_of_pools(*specs: str) -> SimulatedDriver:
    manifests = parse_manifests("\n---\n".join(map(document, specs)), source="devices.yaml")
    (driver,) = SimulatedDriver.create(DriverContext(node_name="node-a", documents=manifests))
    return driver


def two_racks() -> SimulatedDriver:
    return driver_of_pools(
        "pool: rack-1\ngpus: [{model: T4, name: gpu}]",
        "pool: rack-2\ngpus: [{model: T4, name: gpu}]",
    )


def request(*pools: str) -> PrepareRequest:
    driver = two_racks()
    devices = tuple(RequestedDevice(id=DeviceId(driver.name, pool, "gpu"), request="r") for pool in pools)
    return PrepareRequest(claim=ClaimKey(namespace="default", name="c", uid="u"), devices=devices)


def test_a_name_may_come_back_in_another_pool() -> None:
    inventory = two_racks().discover()

    assert [(pool.name, [device.name for device in pool.devices]) for pool in inventory.pools] == [
        ("rack-1", ["gpu"]),
        ("rack-2", ["gpu"]),
    ]


def test_a_name_comes_once_in_a_pool() -> None:
    with pytest.raises(FieldError, match="found 'a second gpu', allowed each name once in pool rack-1"):
        driver_of_pools("pool: rack-1\ngpus: [{model: T4, name: gpu}, {model: T4, name: gpu}]")


def test_equal_names_in_two_pools_are_two_cards() -> None:
    one, two = (pool.devices[0] for pool in two_racks().discover().pools)

    assert one.attributes["uuid"] != two.attributes["uuid"]


def test_a_container_sees_both_cards_of_one_name() -> None:
    prepared = two_racks().prepare(request("rack-1", "rack-2"))

    assert [list(item.edits.env) for item in prepared.devices] == [
        ["CLAIMSMITH_RACK_1_GPU"],
        ["CLAIMSMITH_RACK_2_GPU"],
    ]
    assert [item.edits.device_nodes[0].path for item in prepared.devices] == [
        "/dev/claimsmith/rack-1/gpu",
        "/dev/claimsmith/rack-2/gpu",
    ]


def test_health_names_the_pool() -> None:
    seen: list[tuple[str, str]] = []

    two_racks().watch_health(lambda *found: seen.extend((item.pool, item.device) for item in found), FakeTime())

    assert seen == [("rack-1", "gpu"), ("rack-2", "gpu")]

from __future__ import annotations

import pytest

from claimsmith.embedded.kubelet.devices.endpoint import DeviceEndpoint, ListedDevice
from claimsmith.embedded.kubelet.devices.stock import DeviceStock
from claimsmith.errors import PluginRefusedError

RESOURCE = "vendor.example/gpu"


def devices(**healthy: bool) -> tuple[ListedDevice, ...]:
    return tuple(ListedDevice(id=name, healthy=good) for name, good in healthy.items())


def plugged(stock: DeviceStock, socket: str = "/a.sock", **healthy: bool) -> DeviceEndpoint:
    endpoint = DeviceEndpoint(RESOURCE, socket)
    stock.connect(endpoint)
    if healthy:
        stock.list_devices(endpoint, devices(**healthy))
    return endpoint


def test_a_plugin_that_listed_nothing_yet_offers_nothing() -> None:
    stock = DeviceStock()
    plugged(stock)

    assert stock.count(0.0).capacity == {}


def test_capacity_counts_all_devices_and_allocatable_the_healthy_ones() -> None:
    stock = DeviceStock()
    plugged(stock, a=True, b=False)
    amounts = stock.count(0.0)

    assert (amounts.capacity, amounts.allocatable) == ({RESOURCE: 2}, {RESOURCE: 1})


def test_a_list_tells_which_devices_are_new_or_fare_otherwise() -> None:
    stock = DeviceStock()
    endpoint = plugged(stock, a=True, b=True)

    assert stock.list_devices(endpoint, devices(a=True, b=False, c=True)) == {"b", "c"}


def test_a_second_plugin_of_a_resource_is_called_until_it_goes() -> None:
    stock = DeviceStock()
    first = plugged(stock, "/a.sock", a=True)
    second = plugged(stock, "/b.sock")
    called = stock.resources()[RESOURCE].endpoint
    stock.disconnect(second, 0.0)

    assert (called, stock.resources()[RESOURCE].endpoint) == (second, first)
    assert stock.count(0.0).allocatable == {RESOURCE: 1}


def test_one_socket_is_taken_once() -> None:
    stock = DeviceStock()
    plugged(stock)

    with pytest.raises(PluginRefusedError, match=r"device plugin already connected: /a\.sock"):
        plugged(stock)


@pytest.mark.parametrize(("waited_s", "capacity", "removed"), [(300, {RESOURCE: 1}, ()), (301, {}, (RESOURCE,))])
def test_devices_of_a_plugin_that_has_gone_count_as_unhealthy_for_five_minutes(
    waited_s: float, capacity: dict[str, int], removed: tuple[str, ...]
) -> None:
    stock = DeviceStock()
    stock.disconnect(plugged(stock, a=True), 1000.0)
    amounts = stock.count(1000.0 + waited_s)

    assert (amounts.capacity, amounts.removed) == (capacity, removed)
    assert amounts.allocatable == dict.fromkeys(capacity, 0)


def test_what_was_served_before_a_restart_counts_as_nothing_until_its_plugin_comes_back() -> None:
    stock = DeviceStock()
    stock.restore(RESOURCE, 0.0)
    before = stock.count(0.0)
    plugged(stock, a=True)

    assert (before.capacity, stock.count(400.0).capacity) == ({RESOURCE: 0}, {RESOURCE: 1})

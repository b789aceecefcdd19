from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from claimsmith.kubelet import dra_health_v1_pb2 as v1
from claimsmith.model.inventory import DeviceHealth
from claimsmith.node.health import HealthService


def watch(service: HealthService) -> AsyncIterator[Any]:
    return service._watch_v1(v1.NodeWatchResourcesRequest())


def states(response: Any) -> dict[str, int]:
    return {f"{item.device.pool_name}/{item.device.device_name}": item.health for item in response.devices}


async def test_a_watch_begins_with_all_devices_and_their_pools() -> None:
    service = HealthService("node-a")
    service.report(DeviceHealth(device="gpu-0", healthy=True), DeviceHealth(device="gpu-1", pool="p", healthy=None))

    assert states(await anext(watch(service))) == {"node-a/gpu-0": v1.HEALTHY, "p/gpu-1": v1.UNKNOWN}


async def test_a_change_is_sent_at_once_with_the_devices_that_did_not_change() -> None:
    service = HealthService("node-a")
    service.report(DeviceHealth(device="gpu-0", healthy=True), DeviceHealth(device="gpu-1", healthy=True))
    stream = watch(service)
    await anext(stream)
    service.report(DeviceHealth(device="gpu-1", healthy=False))

    assert states(await anext(stream)) == {"node-a/gpu-0": v1.HEALTHY, "node-a/gpu-1": v1.UNHEALTHY}


async def test_a_change_between_two_looks_is_not_lost() -> None:
    service = HealthService("node-a")
    stream = watch(service)
    await anext(stream)
    service.report(DeviceHealth(device="gpu-0", healthy=True))
    service.report(DeviceHealth(device="gpu-0", healthy=False))

    assert states(await anext(stream)) == {"node-a/gpu-0": v1.UNHEALTHY}


async def test_without_a_change_the_list_comes_again_with_the_time() -> None:
    times = iter((100.0, 110.0))
    service = HealthService("node-a", now_s=lambda: next(times), period_s=0)
    service.report(DeviceHealth(device="gpu-0", healthy=True))
    stream = watch(service)
    sent = [(await anext(stream)).devices[0].last_updated_time for _ in range(2)]

    assert sent == [100, 110]


async def test_a_clock_that_jumps_back_stops_nothing() -> None:
    times = iter((1_000_000.0, 50.0, 60.0))
    service = HealthService("node-a", now_s=lambda: next(times), period_s=0)
    service.report(DeviceHealth(device="gpu-0", healthy=True))
    stream = watch(service)
    sent = [(await anext(stream)).devices[0].last_updated_time for _ in range(3)]

    assert sent == [1_000_000, 50, 60]


async def test_a_message_that_is_no_utf_8_is_sent_all_the_same() -> None:
    service = HealthService("node-a")
    service.report(DeviceHealth(device="gpu-0", healthy=False, message="bad \udcff byte"))

    assert (await anext(watch(service))).devices[0].message == "bad ? byte"


async def test_a_long_message_is_cut_to_what_the_kubelet_keeps() -> None:
    service = HealthService("node-a")
    service.report(DeviceHealth(device="gpu-0", healthy=False, message="x" * 2000))
    message = (await anext(watch(service))).devices[0].message

    assert (len(message), message[-4:]) == (1024, "x...")

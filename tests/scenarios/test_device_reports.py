"""Reports of devices on an embedded API server: made, changed, put back, gone with their node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from claimsmith.api.kinds import DEVICE_REPORT, NODE
from claimsmith.api.reports import parse_device_report
from claimsmith.errors import NotFoundError
from claimsmith.kube.client import KubeClient
from claimsmith.model.device import Device, DeviceTaint
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import CounterSet
from claimsmith.model.report import DeviceHolder, DeviceReport, ReportedPool
from claimsmith.publish.reports import ReportPace, ReportPublisher, plan_report, report_name
from tests.scenarios.published_node import api_server

NODE_NAME, DRIVER = "node-a", "gpu.example.com"
NAME = report_name(NODE_NAME, DRIVER)
HOLDER = DeviceHolder(kind="ResourceClaim", namespace="team", name="train", uid="uid-1")


def report_of(*names: str, sick: str = "", held: str = "") -> DeviceReport:
    ids = {name: DeviceId(DRIVER, NODE_NAME, name) for name in names}
    return plan_report(
        DRIVER,
        NODE_NAME,
        Inventory.of(*(Device(name=name) for name in names)),
        health={ids[name]: DeviceHealth(device=name, healthy=name != sick, cause="xid-79") for name in names},
        taints={ids[sick]: (DeviceTaint(key="claimsmith.dev/unhealthy", effect="NoSchedule"),)} if sick else {},
        holders={ids[held]: (HOLDER,)} if held else {},
    )


@contextlib.asynccontextmanager
async def publishing(client: KubeClient, *, refresh_s: float = 300.0) -> AsyncIterator[ReportPublisher]:
    """A publisher that works while the context is open."""
    pace = ReportPace(interval_s=0.01, refresh_s=refresh_s)
    publisher = ReportPublisher(client, node=NODE_NAME, pace=pace)
    task = asyncio.create_task(publisher.run())
    try:
        async with asyncio.timeout(60):
            yield publisher
    finally:
        task.cancel()


async def read(client: KubeClient) -> DeviceReport:
    return parse_device_report(await client.get(DEVICE_REPORT, NAME))


async def test_a_report_is_made_and_belongs_to_its_node() -> None:
    async with api_server(NODE_NAME) as client, publishing(client) as publisher:
        publisher.report(report_of("gpu-0", "gpu-1", held="gpu-1"))
        await publisher.wait_written()
        found = await read(client)

    assert [item.device.name for item in found.devices] == ["gpu-0", "gpu-1"]
    assert found.devices[1].holders == (HOLDER,)
    assert [owner.name for owner in found.metadata.owner_references] == [NODE_NAME]


async def test_a_failed_device_is_told_with_its_cause_and_its_taint() -> None:
    async with api_server(NODE_NAME) as client, publishing(client) as publisher:
        publisher.report(report_of("gpu-0"))
        await publisher.wait_written()
        publisher.report(report_of("gpu-0", sick="gpu-0"))
        await publisher.wait_written()
        (device,) = (await read(client)).devices

    assert device.state == "Unhealthy"
    assert device.health is not None
    assert device.health.cause == "xid-79"
    assert [taint.key for taint in device.device.taints] == ["claimsmith.dev/unhealthy"]


async def test_a_device_that_is_gone_is_told_no_longer() -> None:
    async with api_server(NODE_NAME) as client, publishing(client) as publisher:
        publisher.report(report_of("gpu-0", "gpu-1"))
        await publisher.wait_written()
        publisher.report(report_of("gpu-1"))
        await publisher.wait_written()
        found = await read(client)

    assert [item.device.name for item in found.devices] == ["gpu-1"]


async def test_counters_that_are_gone_are_told_no_longer() -> None:
    counters = ReportedPool(pool=NODE_NAME, counter_sets=(CounterSet(name="card", counters={}),))
    async with api_server(NODE_NAME) as client, publishing(client) as publisher:
        publisher.report(replace(report_of("gpu-0"), pools=(counters,)))
        await publisher.wait_written()
        before = await read(client)
        publisher.report(report_of("gpu-0"))
        await publisher.wait_written()
        after = await read(client)

    assert (before.pools, after.pools) == ((counters,), ())


async def test_what_has_not_changed_is_not_written() -> None:
    async with api_server(NODE_NAME) as client, publishing(client) as publisher:
        for _ in range(3):
            publisher.report(report_of("gpu-0"))
            await publisher.wait_written()

        assert publisher.writes == 1


async def test_changes_that_come_together_are_one_write() -> None:
    async with api_server(NODE_NAME) as client, publishing(client) as publisher:
        for number in range(20):
            publisher.report(report_of(f"gpu-{number}"))
        await publisher.wait_written()

        assert publisher.writes == 1


async def test_a_report_that_somebody_deletes_comes_back() -> None:
    async with api_server(NODE_NAME) as client, publishing(client, refresh_s=0.01) as publisher:
        publisher.report(report_of("gpu-0"))
        await publisher.wait_written()
        before = await read(client)
        await client.delete(DEVICE_REPORT, NAME)
        found = before
        while found.metadata.uid == before.metadata.uid or not found.devices:
            with contextlib.suppress(NotFoundError):
                found = await read(client)

        assert found.devices == before.devices


async def test_a_report_goes_with_its_node() -> None:
    async with api_server(NODE_NAME) as client:
        async with publishing(client) as publisher:
            publisher.report(report_of("gpu-0"))
            await publisher.wait_written()
        listed = await client.list(DEVICE_REPORT)
        await client.delete(NODE, NODE_NAME)
        async for event in client.watch(DEVICE_REPORT, resource_version=listed.resource_version, timeout_s=90):
            if event.type == "DELETED":
                break

        assert (await client.list(DEVICE_REPORT)).items == []


async def test_reports_are_selected_by_node_and_driver() -> None:
    async with api_server(NODE_NAME) as client, publishing(client) as publisher:
        publisher.report(report_of("gpu-0"))
        await publisher.wait_written()
        mine = await client.list(DEVICE_REPORT, field_selector=f"spec.nodeName={NODE_NAME},spec.driver={DRIVER}")
        other = await client.list(DEVICE_REPORT, field_selector="spec.nodeName=node-b")

    assert (len(mine.items), len(other.items)) == (1, 0)


def test_names_of_reports_that_are_too_long_stay_different() -> None:
    names = {report_name(f"{'n' * 240}-{number}", DRIVER) for number in range(3)}

    assert len(names) == 3
    assert all(len(name) <= 253 for name in names)

"""A driver offered as an extended resource on an embedded node, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from claimsmith.errors import DeviceGrantedError
from claimsmith.testing import builders as b
from tests.scenarios.embedded_node import EmbeddedNode, embedded_node
from tests.scenarios.granting_node import (
    RESOURCE,
    GpuDriver,
    Granting,
    delete,
    dra_plugin,
    prepared,
    quick,
    reaches,
    registered,
    serving_beside,
    start,
    wanting,
)


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


@pytest.mark.parametrize("passing", ["cdi", "edits"])
async def test_a_container_sees_variable_device_and_mount(node: EmbeddedNode, passing: str) -> None:
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick(passing=passing))
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        pod = await start(node, "p", wanting(1))
        seen = node.output(pod, "c0")

    assert "env GPUS=gpu-0" in seen
    assert any(line.startswith("device /dev/gpu-0 from /dev/null") for line in seen), seen
    assert any(line.startswith("mount /opt/gpu from /usr/lib ro") for line in seen), seen


async def test_devices_are_given_back_after_the_pod_is_gone(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0"), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        await start(node, "p", wanting(1))
        assert [grant.ids for grant in granting.ledger.grants()] == [("gpu-0",)]
        await delete(node, "p")
        await reaches(node, lambda: granting.freed == 1)

    assert granting.ledger.grants() == ()
    assert [operation for operation, _ in driver.calls] == ["prepare", "unprepare"]
    assert list(node.paths.cdi.iterdir()) == []


async def test_a_new_kubelet_takes_the_resource_again_and_containers_keep_what_they_have(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0", "gpu-1"), node.paths, quick())
    async with granting.serving() as plugins:
        async with node.running():
            await registered(node, plugins)
            await start(node, "p", wanting(1))
        async with node.running(node.new_kubelet()):
            await reaches(node, lambda: plugins.states()[0].registrations == 2)

            assert [grant.ids for grant in granting.ledger.grants()] == [("gpu-0",)]
            assert [operation for operation, _ in driver.calls] == ["prepare"]


async def test_a_plugin_that_starts_before_the_kubelet_waits_for_it(node: EmbeddedNode) -> None:
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick())
    async with granting.serving() as plugins:
        await reaches(node, lambda: "found no kubelet" in plugins.states()[0].error)
        async with node.running():
            await registered(node, plugins)

            assert plugins.states()[0].error == ""


async def test_a_restart_of_the_plugin_forgets_nothing_and_gives_back_what_ended_meanwhile(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0", "gpu-1"), node.paths, quick())
    async with node.running():
        async with granting.serving() as plugins:
            await registered(node, plugins)
            await start(node, "stays", wanting(1))
            await start(node, "ends", wanting(1))
        await delete(node, "ends")
        async with granting.serving() as plugins:
            await reaches(node, lambda: len(granting.ledger.grants()) == 1)
            await registered(node, plugins)

            assert [grant.ids for grant in granting.ledger.grants()] == [("gpu-0",)]
            assert [operation for operation, _ in driver.calls] == ["prepare", "prepare", "unprepare"]


async def test_an_init_container_hands_its_devices_on(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0", "gpu-1"), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        pod = await start(node, "p", wanting(1, 1, init=2))

        assert sorted(grant.ids for grant in granting.ledger.grants()) == [("gpu-0",), ("gpu-0", "gpu-1"), ("gpu-1",)]
        assert "env GPUS=gpu-0,gpu-1" in node.output(pod, "init")
        assert "env GPUS=gpu-1" in node.output(pod, "c1")
        await delete(node, "p")
        await reaches(node, lambda: not granting.ledger.grants())
    assert sum(operation == "unprepare" for operation, _ in driver.calls) == 3


async def test_the_next_pod_gets_devices_that_the_driver_has_undone_before(node: EmbeddedNode) -> None:
    """Also when the kubelet gives them away again before anybody has noticed that they are free."""
    granting = Granting(driver := GpuDriver("gpu-0", "gpu-1"), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        await start(node, "both", wanting(2))
        await reaches(node, lambda: bool(plugins.in_use()) and all(use.pod for use in plugins.in_use().values()))
        await delete(node, "both")
        await start(node, "one", wanting(1))

    assert [operation for operation, _ in driver.calls] == ["prepare", "unprepare", "prepare"]


async def test_a_device_that_a_claim_has_is_not_given_to_a_container(node: EmbeddedNode) -> None:
    driver = GpuDriver("gpu-0", "gpu-1")
    async with node.running() as kubelet, node.serving(driver) as plugin:
        async with serving_beside(node, plugin, driver) as plugins:
            await registered(node, plugins)
            await node.run_pod("claiming", b.result("gpu-0"))
            await reaches(node, lambda: plugins.states()[0].usable == 1)
            await registered(node, plugins)
            pod = await start(node, "p", wanting(1))

            assert "env GPUS=gpu-1" in node.output(pod, "c0")
            assert kubelet.devices.stock.count(0).capacity[RESOURCE] == 2


async def test_a_device_that_a_claim_is_to_get_is_not_given_to_a_container(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0", "gpu-1"), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        await start(node, "first", wanting(1))
        plugins.update(driver.discover(), allocated=[b.device_id("gpu-0"), b.device_id("gpu-1")])
        await registered(node, plugins)
        pod = await start(node, "second", wanting(1), phase="Failed")

        assert plugins.states()[0].usable == 1, "the container that has gpu-0 is told that it can't be used"
        assert "gpu" in pod["status"]["message"]


async def test_a_device_that_a_container_has_is_not_prepared_for_a_claim_until_it_is_back(node: EmbeddedNode) -> None:
    driver = GpuDriver("gpu-0")
    async with node.running(), dra_plugin(node, driver) as plugin, serving_beside(node, plugin, driver) as plugins:
        await registered(node, plugins)
        await start(node, "first", wanting(1))
        assert set(plugins.in_use()) == {b.device_id("gpu-0")}
        with pytest.raises(DeviceGrantedError, match=r"given to a container as example\.test/gpu"):
            plugin.ledger.check_claim(prepared("gpu-0"))

        async with asyncio.TaskGroup() as group:
            second = group.create_task(node.run_pod("second", b.result("gpu-0")))
            await reaches(node, lambda: plugin.holding.waiting == 1)
            await delete(node, "first")
        pod, _ = second.result()

        assert "env GPUS=gpu-0" in node.output(pod)

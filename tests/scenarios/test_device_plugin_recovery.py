"""Devices of containers over what can happen to a node: reboots, lost files, processes that end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from claimsmith.errors import PluginRefusedError
from claimsmith.model.inventory import Inventory
from claimsmith.node import ledger_owner
from claimsmith.node.deviceplugin_rules import ResourceRule
from claimsmith.node.ledger_owner import DriverOwner
from claimsmith.testing import builders as b
from tests.scenarios.embedded_node import EmbeddedNode, embedded_node
from tests.scenarios.granting_node import (
    GpuDriver,
    Granting,
    delete,
    quick,
    reaches,
    registered,
    start,
    wanting,
)


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with embedded_node() as found:
        yield found


def wipe(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def cdi_names(node: EmbeddedNode) -> list[str]:
    return sorted(path.name for path in node.paths.cdi.iterdir())


async def test_a_reboot_prepares_again_what_pods_have(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0"), node.paths, quick())
    async with node.running():
        async with granting.serving() as plugins:
            await registered(node, plugins)
            await start(node, "p", wanting(1))
        before = cdi_names(node)
        wipe(node.paths.cdi)
        granting.boot_id = "second-boot"
        async with granting.serving() as plugins:
            await reaches(node, lambda: [grant.entry.boot_id for grant in granting.ledger.grants()] == ["second-boot"])
            await reaches(node, lambda: all(grant.entry.finished for grant in granting.ledger.grants()))
            await registered(node, plugins)

            assert driver.calls[0] == driver.calls[1]
            assert cdi_names(node) == before


def earlier_owner(granting: Granting, patch: pytest.MonkeyPatch) -> DriverOwner:
    """Return what a process of version 1 would enter that serves claims of the driver."""
    folder = granting.paths.folder_of(granting.driver.name)
    folder.mkdir(parents=True, exist_ok=True)
    with patch.context() as patched:
        patched.setattr(ledger_owner, "VERSION", 1)
        return DriverOwner(folder, driver=granting.driver.name, ways=["dra"], instance_uid="old")


async def test_nothing_is_given_away_that_a_process_of_an_earlier_version_could_not_read_of(
    node: EmbeddedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick())
    earlier = earlier_owner(granting, monkeypatch)
    async with node.running() as kubelet:
        with earlier:
            async with granting.serving() as plugins:
                await registered(node, plugins)
                (shelf,) = kubelet.devices.stock.resources().values()
                found = [device.healthy for device in shelf.listed.values()]
                with pytest.raises(PluginRefusedError, match=r"found process \d+ \(dra\) of an earlier version"):
                    await shelf.endpoint.allocate(["gpu-0"])
                earlier.__exit__(None, None, None)
                await reaches(node, lambda: bool(shelf.healthy))
                await start(node, "p", wanting(1))

        assert found == [False]
        assert [grant.ids for grant in granting.ledger.grants()] == [("gpu-0",)]


async def test_an_earlier_version_that_comes_before_the_first_grant_is_noticed(
    node: EmbeddedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    granting = Granting(GpuDriver("gpu-0", "gpu-1"), node.paths, quick())
    earlier = earlier_owner(granting, monkeypatch)
    async with node.running() as kubelet, granting.serving() as plugins:
        await registered(node, plugins)
        (shelf,) = kubelet.devices.stock.resources().values()
        with earlier:
            await reaches(node, lambda: not shelf.healthy)
        await reaches(node, lambda: len(shelf.healthy) == 2)
        await start(node, "p", wanting(1))
        with earlier:
            await plugins.look()
            usable = [state.usable for state in plugins.states()]

    assert usable == [2]


async def test_an_overlapping_process_hears_at_once_of_what_the_other_one_gave_away(node: EmbeddedNode) -> None:
    rare = replace(quick(), reconcile_s=3600)
    old = Granting(GpuDriver("gpu-0"), node.paths, rare, instance_uid="old")
    new = Granting(GpuDriver("gpu-0"), node.paths, rare, instance_uid="new")
    async with node.running(), old.serving() as before, new.serving() as plugins:
        await registered(node, plugins)
        await start(node, "p", wanting(1))
        await reaches(node, lambda: bool(before.in_use()))

        assert before.in_use().keys() == plugins.in_use().keys() == {b.device_id("gpu-0")}


async def test_a_container_whose_cdi_file_was_lost_starts_all_the_same(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0"), node.paths, quick())
    async with node.running() as kubelet, granting.serving() as plugins:
        await registered(node, plugins)
        await start(node, "p", wanting(1))
        wipe(node.paths.cdi)
        shelf = kubelet.devices.stock.resources()["example.test/gpu"]
        await shelf.endpoint.pre_start(["gpu-0"])

        assert len(cdi_names(node)) == 1
        assert [operation for operation, _ in driver.calls] == ["prepare", "prepare"]


async def test_a_lost_checkpoint_is_written_again_from_what_the_kubelet_tells(node: EmbeddedNode) -> None:
    granting = Granting(GpuDriver("gpu-0", "gpu-1"), node.paths, quick(passing="edits"))
    async with node.running():
        async with granting.serving() as plugins:
            await registered(node, plugins)
            await start(node, "p", wanting(1))
        wipe(node.paths.folder_of("gpu.example.test"))
        async with granting.serving() as plugins:
            await reaches(node, lambda: bool(granting.ledger.grants()))
            await registered(node, plugins)
            pod = await start(node, "q", wanting(1))

            assert "env GPUS=gpu-1" in node.output(pod, "c0")
            await delete(node, "p")
            await reaches(node, lambda: [grant.ids for grant in granting.ledger.grants()] == [("gpu-1",)])


async def test_a_damaged_checkpoint_gives_nothing_away_that_a_container_has(node: EmbeddedNode) -> None:
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick())
    checkpoint = node.paths.folder_of("gpu.example.test") / "checkpoint.json"
    async with node.running():
        async with granting.serving() as plugins:
            await registered(node, plugins)
            await start(node, "p", wanting(1))
        checkpoint.write_bytes(checkpoint.read_bytes()[:100])
        async with granting.serving() as plugins:
            held = granting.ledger.grants()
            await reaches(node, lambda: [grant.ids for grant in granting.ledger.grants()] == [("gpu-0",)])

    assert [grant.devices for grant in held] == [grant.devices for grant in granting.ledger.grants()]


async def test_without_an_answer_of_the_kubelet_nothing_is_given_back(node: EmbeddedNode) -> None:
    granting = Granting(GpuDriver("gpu-0"), node.paths, quick())
    async with node.running():
        async with granting.serving() as plugins:
            await registered(node, plugins)
            await start(node, "p", wanting(1))
        await delete(node, "p")
    async with granting.serving() as plugins:
        for _ in range(5):
            await plugins.look()

        assert len(granting.ledger.grants()) == 1


async def test_a_rule_that_is_gone_leaves_its_containers_what_they_have(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0"), node.paths, quick())
    async with node.running():
        async with granting.serving() as plugins:
            await registered(node, plugins)
            await start(node, "p", wanting(1))
        granting.options = quick([ResourceRule(resource="x.test/renamed")])
        async with granting.serving() as plugins:
            await reaches(node, lambda: plugins.states()[0].registered)
            for _ in range(5):
                await plugins.look()

            assert [grant.resource for grant in granting.ledger.grants()] == ["example.test/gpu"]
            assert plugins.states()[0].usable == 0
            await delete(node, "p")
            await reaches(node, lambda: plugins.states()[0].usable == 1)
    assert [operation for operation, _ in driver.calls] == ["prepare", "unprepare"]


async def test_an_update_with_two_processes_at_once_loses_and_doubles_nothing(node: EmbeddedNode) -> None:
    driver = GpuDriver("gpu-0", "gpu-1")
    old, new = (Granting(driver, node.paths, quick(), instance_uid=name) for name in ("old", "new"))
    async with node.running():
        async with old.serving() as before:
            await registered(node, before)
            await start(node, "early", wanting(1))
            async with new.serving() as after:
                await registered(node, after)
                await start(node, "late", wanting(1))
                await reaches(node, lambda: len(old.ledger.grants()) == 2)
                await delete(node, "early")
                await reaches(node, lambda: [grant.ids for grant in new.ledger.grants()] == [("gpu-1",)])
                await reaches(node, lambda: [grant.ids for grant in old.ledger.grants()] == [("gpu-1",)])

    assert sorted(operation for operation, _ in driver.calls) == ["prepare", "prepare", "unprepare"]
    assert len(cdi_names(node)) == 1


async def test_a_device_that_vanishes_stays_its_containers_until_it_returns(node: EmbeddedNode) -> None:
    granting = Granting(driver := GpuDriver("gpu-0", "gpu-1"), node.paths, quick())
    async with node.running(), granting.serving() as plugins:
        await registered(node, plugins)
        await start(node, "p", wanting(1))
        plugins.update(Inventory.of(b.device("gpu-1")))
        for _ in range(5):
            await plugins.look()
        held = [grant.ids for grant in granting.ledger.grants()]
        plugins.update(driver.discover())
        await registered(node, plugins)

        assert held == [("gpu-0",)]
        assert set(plugins.in_use()) == {b.device_id("gpu-0")}
        assert plugins.states()[0].usable == 2

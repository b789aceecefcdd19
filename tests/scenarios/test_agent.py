"""One node's agent: what its drivers find is published, and what they say of health counts."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from claimsmith.api.kinds import RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.api.resource import encode_resource_claim
from claimsmith.daemons.agent import Agent, AgentOptions
from claimsmith.daemons.agent_driver import LoopOptions
from claimsmith.daemons.agent_names import LabelledDriver
from claimsmith.errors import ConfigError, DriverError
from claimsmith.kube.client import KubeClient
from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.device import Device
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.prepared import PreparedDevice, PreparedDevices, PrepareRequest
from claimsmith.publish.health import HealthPolicy
from claimsmith.sdk.driver import Driver, InventoryChanged, ReportHealth, StopSignal
from claimsmith.testing import builders as b
from tests.scenarios.published_node import api_server, list_slices, shows, wait_for

FAST = AgentOptions(loop=LoopOptions(recheck_held_s=0.05, health=HealthPolicy(hold_s=0.1)), boot_id="boot-1")


class Bench(Driver):
    """A driver that a test plays with."""

    name = b.DRIVER

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.error: Exception | None = None
        self.report: ReportHealth | None = None
        self.changed: InventoryChanged | None = None
        self.watching, self.listening = threading.Event(), threading.Event()
        self._failures = threading.Semaphore(0)

    def discover(self) -> Inventory:
        if self.error is not None:
            self._failures.release()
            raise self.error
        return Inventory.of(*(b.device(name) for name in self.names))

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return PreparedDevices(devices=tuple(PreparedDevice(device=device) for device in request.devices))

    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        self.report = report
        self.watching.set()
        stop.wait()

    def watch_inventory(self, changed: InventoryChanged, stop: StopSignal) -> None:
        self.changed = changed
        self.listening.set()
        stop.wait()

    async def fails(self, times: int) -> None:
        """Return when `discover` has failed so often; all but the last failure are then known."""
        for _ in range(times):
            assert await asyncio.to_thread(self._failures.acquire, timeout=200)

    def say(self, device: str, *, healthy: bool) -> None:
        assert self.watching.wait(60)
        assert self.report is not None
        self.report(DeviceHealth(device=device, healthy=healthy, cause="" if healthy else "xid-79"))

    def become(self, *names: str) -> None:
        self.names = list(names)
        assert self.listening.wait(60)
        assert self.changed is not None
        self.changed()


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with api_server(b.NODE) as found:
        yield found


@pytest.fixture
def paths(tmp_path: Path) -> NodePaths:
    return NodePaths.compact(tmp_path)


def agent(*drivers: Driver, client: KubeClient, paths: NodePaths) -> Agent:
    return Agent(drivers, node_name=b.NODE, client=client, paths=paths, options=FAST)


def tainted(*names: str) -> Callable[[tuple[ResourceSlice, ...]], bool]:
    return lambda slices: [device.name for item in slices for device in item.devices if device.taints] == list(names)


async def test_devices_are_published_and_the_sockets_served(client: KubeClient, paths: NodePaths) -> None:
    async with agent(Bench("gpu-0"), client=client, paths=paths) as running:
        await running.wait_published()

        assert shows("gpu-0")(await list_slices(client))
        assert (paths.plugins_registry / f"{b.DRIVER}-reg.sock").is_socket()
        assert [(state.driver, state.errors, state.devices) for state in running.states()] == [(b.DRIVER, (), 1)]


async def test_a_device_that_comes_is_published(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    async with agent(driver, client=client, paths=paths) as running:
        await running.wait_published()
        driver.become("gpu-0", "gpu-1")

        await wait_for(client, shows("gpu-0", "gpu-1"))


async def test_a_failed_device_is_tainted_and_comes_back(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0", "gpu-1")
    async with agent(driver, client=client, paths=paths) as running:
        await running.wait_published()
        driver.say("gpu-1", healthy=False)
        (item,) = await wait_for(client, tainted("gpu-1"))
        driver.say("gpu-1", healthy=True)

        await wait_for(client, tainted())
        taint = item.devices[1].taints[0]
        assert (taint.key, taint.value, taint.effect) == ("claimsmith.dev/unhealthy", "xid-79", "NoSchedule")


async def test_a_device_that_a_claim_holds_stays_tainted_until_the_claim_is_gone(
    client: KubeClient, paths: NodePaths
) -> None:
    holder = b.allocated(b.claim("holder"), "gpu-1")
    stored = await client.create(RESOURCE_CLAIM, encode_resource_claim(b.claim("holder")))
    stored["status"] = encode_resource_claim(holder)["status"]
    await client.update_status(RESOURCE_CLAIM, stored)
    driver = Bench("gpu-0", "gpu-1")
    async with agent(driver, client=client, paths=paths) as running:
        await running.wait_published()
        driver.become("gpu-0")
        await wait_for(client, tainted("gpu-1"))
        await client.patch(RESOURCE_CLAIM, "holder", {"status": None}, namespace="default", subresource="status")
        await client.delete(RESOURCE_CLAIM, "holder", namespace="default")

        await wait_for(client, shows("gpu-0"))


async def test_a_held_device_stays_over_a_restart_of_the_agent(client: KubeClient, paths: NodePaths) -> None:
    stored = await client.create(RESOURCE_CLAIM, encode_resource_claim(b.claim("holder")))
    stored["status"] = encode_resource_claim(b.allocated(b.claim("holder"), "gpu-1"))["status"]
    await client.update_status(RESOURCE_CLAIM, stored)
    async with agent(Bench("gpu-0", "gpu-1"), client=client, paths=paths) as running:
        await running.wait_published()

    async with agent(Bench("gpu-0"), client=client, paths=paths) as running:
        await running.wait_published()

        assert shows("gpu-0", "gpu-1")(await list_slices(client))


async def test_a_driver_that_can_t_list_keeps_the_last_devices(client: KubeClient, paths: NodePaths) -> None:
    driver = Bench("gpu-0")
    async with agent(driver, client=client, paths=paths) as running:
        await running.wait_published()
        driver.error = DriverError("the library is gone")
        driver.become()
        await driver.fails(2)

        assert running.states()[0].errors == ("the library is gone",)
        assert shows("gpu-0")(await list_slices(client))


@pytest.mark.parametrize("error", [DriverError("not loaded yet"), KeyError("a bug")])
async def test_a_driver_that_is_not_ready_at_first_is_asked_again(
    client: KubeClient, paths: NodePaths, error: Exception
) -> None:
    driver = Bench("gpu-0")
    driver.error = error
    async with agent(driver, client=client, paths=paths) as running:
        await driver.fails(2)
        errors = running.states()[0].errors
        driver.error = None

        await wait_for(client, shows("gpu-0"))
        assert len(errors) == 1


async def test_a_device_whose_name_is_no_label_is_published_as_one_and_works(
    client: KubeClient, paths: NodePaths
) -> None:
    driver = Bench("gpu-0", "GPU_1")
    async with agent(driver, client=client, paths=paths) as running:
        await running.wait_published()
        shown = await list_slices(client)
        await asyncio.to_thread(driver.say, "GPU_1", healthy=False)

        await wait_for(client, tainted("gpu-1"))
        assert shows("gpu-0", "gpu-1")(shown)


def test_a_driver_prepares_under_its_own_names_and_answers_under_the_published_ones() -> None:
    asked: list[str] = []

    class Odd(Quiet):
        device = b.device("GPU_1")

        def prepare(self, request: PrepareRequest) -> PreparedDevices:
            asked.extend(device.id.device for device in request.devices)
            return super().prepare(request)

    driver = LabelledDriver(Odd())
    driver.discover()
    answer = driver.prepare(b.prepare_request("gpu-1", "gpu-0"))

    assert asked == ["GPU_1", "gpu-0"]
    assert [item.device.id.device for item in answer.devices] == ["gpu-1", "gpu-0"]


class CrashingWatch(Bench):
    """A driver whose health watch raises the first time."""

    crashes = 1

    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        if self.crashes:
            self.crashes -= 1
            raise RuntimeError("a bug")
        super().watch_health(report, stop)


async def test_a_watch_that_fails_is_started_again(client: KubeClient, paths: NodePaths) -> None:
    driver = CrashingWatch("gpu-0")
    async with agent(driver, client=client, paths=paths):
        await asyncio.to_thread(driver.say, "gpu-0", healthy=False)

        await wait_for(client, tainted("gpu-0"))


async def test_two_drivers_of_one_name_are_refused(client: KubeClient, paths: NodePaths) -> None:
    with pytest.raises(ConfigError, match=r"found two drivers named gpu\.example\.test"):
        agent(Bench(), Bench(), client=client, paths=paths)


class Quiet(Driver):
    """A driver without watches."""

    name = b.DRIVER
    device: Device = b.device("gpu-0")

    def discover(self) -> Inventory:
        return Inventory.of(self.device)

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return PreparedDevices(devices=tuple(PreparedDevice(device=device) for device in request.devices))


def test_the_agent_loads_no_heavy_package() -> None:
    code = "import sys, claimsmith.daemons.agent; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy", "ortools", "starlette", "uvicorn", "rich", "typer"} & set(loaded) == set()


async def test_a_hundred_agents_live_in_one_process_and_leave_nothing(tmp_path: Path) -> None:
    nodes = [f"node-{index}" for index in range(100)]
    async with api_server(*nodes) as client:
        await client.list(RESOURCE_SLICE)
        tasks, threads = len(asyncio.all_tasks()), threading.active_count()
        async with contextlib.AsyncExitStack() as stack:
            for index, node in enumerate(nodes):
                paths = NodePaths.compact(tmp_path / str(index))
                one = Agent([Quiet()], node_name=node, client=client, paths=paths, options=FAST)
                await stack.enter_async_context(one)
            slices = await wait_for(client, lambda found: len(found) == len(nodes))

            assert {item.node_name for item in slices} == set(nodes)
        assert await asyncio.to_thread(lambda: list(tmp_path.rglob("*.sock"))) == []
        assert len(asyncio.all_tasks()) <= tasks + 1
        assert threading.active_count() <= threads + 8

"""The tests that a vendor subclasses: what claimsmith and the kubelet expect of a driver.

    class TestMyDriver(DriverKit):
        def make_driver(self) -> Driver:
            return MyDriver(...)

pytest runs the inherited tests; none of them needs hardware beyond what the driver itself needs, nor a cluster.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from claimsmith.model.device import Device
from claimsmith.model.inventory import DeviceHealth, Pool
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey, PrepareRequest, RequestedDevice
from claimsmith.node.cdi import plan_cdi_spec
from claimsmith.publish.content import plan_content
from claimsmith.sdk.answers import check_inventory, check_prepared
from claimsmith.sdk.driver import Driver, WatchesInventory, WatchesPrepared
from claimsmith.testing.builders import NODE, claim_key
from claimsmith.testing.grantbench import GrantBench
from claimsmith.testing.socketbench import SocketBench
from claimsmith.validate.names import check_driver_name

__all__ = ["DriverKit"]

_END_S: Final = 5.0
_DEVICES_MAX: Final = 64
_MESSAGE_MAX: Final = 1024
_NAME: Final = "a DNS subdomain of at most 63 characters such as gpu.example.com"


class DriverKit:
    """Base class of a driver's tests. Subclasses define `make_driver`."""

    node: str = NODE
    """Name of the node for which drivers are made."""

    def make_driver(self) -> Driver:
        """Return a new driver for the same hardware, as at a start of the process."""
        raise NotImplementedError("a subclass of DriverKit defines make_driver")

    # --- what is found ------------------------------------------------------------------------------------------------

    def test_name_is_a_driver_name(self) -> None:
        """The name is a DNS subdomain of at most 63 characters, the same at every start."""
        name = self.make_driver().name

        assert not any(check_driver_name(name, "name")), f"found name {name!r}, allowed {_NAME}; set `name`"
        assert self.make_driver().name == name, "found another name at the second start, allowed one and the same"

    def test_discover_finds_devices(self) -> None:
        """There is at least one device, so that the other tests mean something."""
        assert self._devices(self.make_driver()), "found no device, allowed at least one; give the kit one to test with"

    def test_discover_gives_the_same_answer_twice(self) -> None:
        """While nothing changes, devices, their order and all that is said of them stay; also over a restart."""
        driver = self.make_driver()
        first = driver.discover()

        assert driver.discover() == first, "found another inventory at the second call"
        assert self.make_driver().discover() == first, "found another inventory after a restart"

    def test_inventory_fits_the_api(self) -> None:
        """The API server takes every device and counter set: names, values, limits."""
        driver = self.make_driver()

        contents = plan_content(driver.name, check_inventory(driver.name, driver.discover()), node=self.node)
        problems = [str(problem) for item in contents for problem in item.problems]
        assert not problems, "\n".join(problems)

    # --- what containers get ------------------------------------------------------------------------------------------

    def test_prepare_answers_for_each_device(self) -> None:
        """Each device can be prepared, and the answer is for it and for nothing else."""
        driver = self.make_driver()

        for asked in self._requests(driver):
            prepared = check_prepared(driver.name, driver.prepare(asked))
            driver.unprepare(asked.claim)
            found = [answer.device for answer in prepared.devices]
            assert found == list(asked.devices), (
                f"found answers for {_name_all(found)}, allowed one for each of {_name_all(asked.devices)}; "
                "answer with the RequestedDevice as it was asked"
            )

    def test_edits_are_valid(self) -> None:
        """Environment, device nodes, mounts and hooks are what container runtimes take."""
        driver = self.make_driver()

        for asked in self._requests(driver):
            prepared = check_prepared(driver.name, driver.prepare(asked))
            driver.unprepare(asked.claim)
            plan_cdi_spec(asked, prepared, driver=driver.name, boot_id="kit")

    def test_prepare_is_idempotent(self) -> None:
        """The kubelet asks again after a failure; the answer must not change."""
        driver = self.make_driver()

        for asked in self._requests(driver):
            first, second = driver.prepare(asked), driver.prepare(asked)
            driver.unprepare(asked.claim)
            assert first == second, f"found another answer for {asked.devices[0].id} at the second call"

    def test_prepare_gives_the_same_answer_after_a_restart(self) -> None:
        """A container that starts after an upgrade of the driver gets what the first one got."""
        driver = self.make_driver()
        asked = self._requests(driver)[0]
        first = driver.prepare(asked)

        restarted = self.make_driver()
        second = restarted.prepare(asked)
        restarted.unprepare(asked.claim)
        assert first == second, f"found another answer for {asked.devices[0].id} after a restart"

    def test_devices_are_independent(self) -> None:
        """Preparing and unpreparing one device leaves a claim with another one alone."""
        driver = self.make_driver()
        requests = self._requests(driver, together=True)
        answers = [driver.prepare(asked) for asked in requests]

        driver.unprepare(requests[0].claim)
        again = [driver.prepare(asked) for asked in requests[1:]]
        assert again == answers[1:], "found another answer once a claim with another device was unprepared"
        for asked in requests[1:]:
            driver.unprepare(asked.claim)

    def test_a_claim_may_have_several_devices(self) -> None:
        """One claim with all devices that go together is answered for all of them, in one answer."""
        driver = self.make_driver()
        devices = tuple(device for asked in self._requests(driver, together=True) for device in asked.devices)
        asked = PrepareRequest(claim=claim_key("several"), devices=devices)

        prepared = check_prepared(driver.name, driver.prepare(asked))
        driver.unprepare(asked.claim)
        found = [answer.device for answer in prepared.devices]
        assert {device.id for device in found} == {device.id for device in devices}, (
            f"found answers for {_name_all(found)}, allowed one for each of {_name_all(devices)}"
        )
        plan_cdi_spec(asked, prepared, driver=driver.name, boot_id="kit")

    def test_unprepare_of_an_unknown_claim_is_fine(self) -> None:
        """The kubelet repeats itself, and may ask for claims of before a restart."""
        driver = self.make_driver()
        driver.unprepare(claim_key("never-prepared"))

        asked = self._requests(driver)[0]
        driver.prepare(asked)
        driver.unprepare(asked.claim)
        driver.unprepare(asked.claim)

    def test_a_device_can_be_prepared_again(self) -> None:
        """The next claim gets a device in the same way as the first one."""
        driver = self.make_driver()
        asked = self._requests(driver)[0]
        first = check_prepared(driver.name, driver.prepare(asked))
        driver.unprepare(asked.claim)

        later = replace(asked, claim=claim_key("later"))
        second = check_prepared(driver.name, driver.prepare(later))
        driver.unprepare(later.claim)
        assert [answer.device for answer in second.devices] == [answer.device for answer in first.devices], (
            f"found other devices for the claim that came later than {_name_all(asked.devices)}"
        )

    def test_discover_and_prepare_go_together(self) -> None:
        """They run in different threads at the same time, and disturb each other in nothing."""
        driver = self.make_driver()
        requests = self._requests(driver, together=True)
        expected = driver.discover(), [driver.prepare(asked) for asked in requests]

        with ThreadPoolExecutor(max_workers=8) as pool:
            found = [pool.submit(driver.discover) for _ in range(16)]
            prepared = pool.submit(lambda: [driver.prepare(asked) for asked in requests])
            assert all(item.result() == expected[0] for item in found), "found another inventory while preparing"
            assert prepared.result() == expected[1], "found another answer while discovering"
        for asked in requests:
            driver.unprepare(asked.claim)

    def test_works_on_real_sockets(self) -> None:
        """Registered, prepared and unprepared over the kubelet's protocols, with nothing left behind."""
        driver = self.make_driver()
        asked = self._requests(driver)[0]

        left = asyncio.run(_over_sockets(driver, asked, self.node))
        assert not left, f"found {', '.join(left)} left behind, allowed nothing"

    def test_works_as_a_device_plugin(self) -> None:
        """Listed, given to containers and given back over the kubelet's other protocol, with nothing left behind."""
        driver = self.make_driver()

        left = asyncio.run(_as_device_plugin(driver, self.node))
        assert not left, f"found {', '.join(left)} left behind, allowed nothing"

    # --- what changes -------------------------------------------------------------------------------------------------

    def test_health_names_known_devices(self) -> None:
        """Reports are about devices that exist, with messages that fit the protocol."""
        driver = self.make_driver()
        known = {(device.pool, device.device) for device in self._devices(driver)}

        for health in self._watch_health(driver):
            assert (health.pool or self.node, health.device) in known, f"found unknown device {health.device!r}"
            assert len(health.message) <= _MESSAGE_MAX, f"found {len(health.message)} characters of message"

    def test_watches_end_when_they_are_asked_to(self) -> None:
        """A watch that does not end keeps the process from ending."""
        driver = self.make_driver()

        assert self._ends(lambda stop: driver.watch_health(lambda *_: None, stop)), "watch_health does not end"
        if isinstance(driver, WatchesInventory):
            watching: WatchesInventory = driver
            assert self._ends(lambda stop: watching.watch_inventory(lambda: None, stop)), "watch_inventory does not end"
        if isinstance(driver, WatchesPrepared):
            telling: WatchesPrepared = driver
            assert self._ends(lambda stop: telling.watch_prepared(lambda _: None, stop)), "watch_prepared does not end"

    # --- helpers of the tests -----------------------------------------------------------------------------------------

    def _devices(self, driver: Driver, *, together: bool = False) -> dict[DeviceId, Device]:
        """Return the devices by identity; only those that can be in use at the same time if asked for."""
        return {
            DeviceId(driver.name, pool.name or self.node, device.name): device
            for pool in check_inventory(driver.name, driver.discover()).pools
            for device in (_go_together(pool) if together else pool.devices)
        }

    def _requests(self, driver: Driver, *, together: bool = False) -> list[PrepareRequest]:
        """Return a claim for each device, at most 64 of them; a share for devices that are shared."""
        devices = list(self._devices(driver, together=together).items())[:_DEVICES_MAX]
        assert devices, "found no device, allowed at least one; give the kit one to test with"
        return [
            PrepareRequest(claim=claim_key(f"claim-{index}"), devices=(_requested(device_id, device, index),))
            for index, (device_id, device) in enumerate(devices)
        ]

    def _watch_health(self, driver: Driver) -> list[DeviceHealth]:
        """Return what is reported until the second pause: a watch may begin with one."""
        reported: list[DeviceHealth] = []
        stop = _StopAtSecondWait()
        thread = threading.Thread(
            target=driver.watch_health, args=(lambda *devices: reported.extend(devices), stop), daemon=True
        )
        thread.start()
        thread.join(_END_S)
        stop.event.set()
        return reported

    def _ends(self, watch: Callable[[threading.Event], None]) -> bool:
        stop = threading.Event()
        thread = threading.Thread(target=watch, args=(stop,), daemon=True)
        thread.start()
        stop.set()
        thread.join(_END_S)
        return not thread.is_alive()


class _StopAtSecondWait:
    """A stop signal whose first wait takes no time, and that ends a watch at the second one."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._has_waited = False

    def is_set(self) -> bool:
        return self.event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        if self._has_waited:
            self.event.set()
        self._has_waited = True
        return self.event.is_set()


def _name_all(devices: Iterable[RequestedDevice]) -> str:
    return ", ".join(str(device.id) for device in devices) or "none"


def _requested(device_id: DeviceId, device: Device, index: int) -> RequestedDevice:
    """Return a device as a claim gets it: a shared one as a share of the size that claims get by default."""
    if not device.allow_multiple_allocations:
        return RequestedDevice(id=device_id, request="device")
    amounts = {
        name: capacity.value if capacity.policy is None else capacity.policy.default or capacity.value
        for name, capacity in device.capacity.items()
    }
    return RequestedDevice(id=device_id, request="device", share_id=f"share-{index}", consumed_capacity=amounts)


def _go_together(pool: Pool) -> list[Device]:
    """Return devices that fit into the counters of a pool together; small ones are preferred to a whole card."""
    left = {(item.name, name): amount for item in pool.counter_sets for name, amount in item.counters.items()}
    chosen = []
    for device in sorted(pool.devices, key=lambda item: sum(len(entry.counters) for entry in item.consumes_counters)):
        wanted = {
            (e.counter_set, name): amount for e in device.consumes_counters for name, amount in e.counters.items()
        }
        if all(counter in left and amount <= left[counter] for counter, amount in wanted.items()):
            left.update({counter: left[counter] - amount for counter, amount in wanted.items()})
            chosen.append(device)
    return chosen


async def _over_sockets(driver: Driver, asked: PrepareRequest, node: str) -> tuple[str, ...]:
    """Prepare and unprepare over sockets; return the CDI files that stay."""
    async with SocketBench(driver, node=node) as bench:
        assert bench.registered, "the kubelet's side did not take the driver"
        first, second = await bench.prepare(asked), await bench.prepare(asked)
        assert first == second, "found another answer over sockets at the second call"
        await bench.unprepare(asked.claim)
        await bench.unprepare(ClaimKey(namespace="default", name="never", uid="uid-never"))
        return bench.cdi_files()


async def _as_device_plugin(driver: Driver, node: str) -> tuple[str, ...]:
    """Give each device to a container, one after the other; return what is left of it."""
    async with GrantBench(driver, node=node) as bench:
        listed = bench.listed
        assert listed, "found no device that could be given to a container, allowed at least one"
        for device in listed[:_DEVICES_MAX]:
            first, second = await bench.give(device.id), await bench.give(device.id)
            assert first == second, f"found another answer for {device.id} at the second call"
            await bench.give_back(device.id)
        return bench.left()

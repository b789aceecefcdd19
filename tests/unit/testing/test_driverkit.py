"""Every test of the kit passes for a good driver, and fails for a driver that breaks what it is about."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from claimsmith.api.manifests import parse_manifests
from claimsmith.drivers.simulated.driver import SimulatedDriver
from claimsmith.errors import ClaimsmithError, DriverError
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.prepared import (
    ClaimKey,
    ContainerEdits,
    DeviceNode,
    PreparedDevice,
    PreparedDevices,
    PrepareRequest,
)
from claimsmith.sdk.driver import Driver, DriverContext, InventoryChanged, ReportHealth, StopSignal
from claimsmith.testing import builders as b
from claimsmith.testing.driverkit import DriverKit
from tests.unit.drivers.paper import document

_counter = itertools.count()


class Good(Driver):
    """A driver with two devices that does all as it should."""

    name = "good.example.com"

    def discover(self) -> Inventory:
        return Inventory.of(b.device("dev-0"), b.device("dev-1"))

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return PreparedDevices(
            devices=tuple(
                PreparedDevice(device=device, edits=ContainerEdits(env={f"DEV{device.id.device[-1]}": "on"}))
                for device in request.devices
            )
        )

    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        report(DeviceHealth(device="dev-0", healthy=True))
        stop.wait()


class TestGoodDriver(DriverKit):
    def make_driver(self) -> Driver:
        return Good()


class TestSimulatedGpus(DriverKit):
    spec = "gpus: [{model: T4, count: 2}, {model: L4, sharing: {minimum: 1Gi}}]\nnics: [{bandwidth: 40G}]"

    def make_driver(self) -> Driver:
        manifests = parse_manifests(document(self.spec), source="d.yaml")
        (driver,) = SimulatedDriver.create(DriverContext(node_name=self.node, documents=manifests))
        return driver


class TestSimulatedPartitions(TestSimulatedGpus):
    spec = "gpus: [{model: A30, mig: true}, {model: H100, mig: true}]\nscript: [{afterSeconds: 60, fail: gpu-0}]"


# --- drivers that break one thing each --------------------------------------------------------------------------------


class BadName(Good):
    name = "Good_Driver"


class OtherNameEachTime(Good):
    def __init__(self) -> None:
        self.name = f"good-{next(_counter)}.example.com"


class NoDevices(Good):
    def discover(self) -> Inventory:
        return Inventory()


class OtherOrderEachTime(Good):
    def discover(self) -> Inventory:
        devices = [b.device("dev-0"), b.device("dev-1")]
        return Inventory.of(*(devices if next(_counter) % 2 else devices[::-1]))


class OtherUuidAtEachStart(Good):
    def __init__(self) -> None:
        self.uuid = next(_counter)

    def discover(self) -> Inventory:
        return Inventory.of(b.device("dev-0", attributes={"uuid": self.uuid}))


class TooLongValue(Good):
    def discover(self) -> Inventory:
        return Inventory.of(b.device("dev-0", attributes={"model": "m" * 65}))


class AmountAsText(Good):
    def discover(self) -> Inventory:
        text: Any = "24Gi"
        return Inventory.of(replace(b.device("dev-0"), capacity={"memory": text}))


class UnknownCounter(Good):
    def discover(self) -> Inventory:
        return Inventory.of(b.device("dev-0", counters=[b.consumes("card", {"x": 1})]))


class AnswersForNothing(Good):
    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return PreparedDevices(devices=())


class ReturnsNothing(Good):
    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        nothing: Any = None
        return cast(PreparedDevices, nothing)


class RelativePath(Good):
    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        edits = ContainerEdits(device_nodes=(DeviceNode(path="dev/x"),))
        return PreparedDevices(devices=tuple(PreparedDevice(device=item, edits=edits) for item in request.devices))


class OtherAnswerEachTime(Good):
    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        common = ContainerEdits(env={"N": str(next(_counter))})
        return replace(super().prepare(request), common=common)


class ForgetsAtRestart(Good):
    def __init__(self) -> None:
        self.secret = str(next(_counter))

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return replace(super().prepare(request), common=ContainerEdits(env={"SECRET": self.secret}))


class OneClaimAtATime(Good):
    def __init__(self) -> None:
        self.claim: ClaimKey | None = None

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        if self.claim not in (None, request.claim):
            raise DriverError("busy")
        self.claim = request.claim
        return super().prepare(request)

    def unprepare(self, claim: ClaimKey) -> None:
        self.claim = None


class OneDeviceInAClaim(Good):
    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        return super().prepare(replace(request, devices=request.devices[:1]))


class KnowsEveryClaim(Good):
    def __init__(self) -> None:
        self.known: set[str] = set()

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        self.known.add(request.claim.uid)
        return super().prepare(request)

    def unprepare(self, claim: ClaimKey) -> None:
        self.known.remove(claim.uid)


class NeverGivesBack(Good):
    def __init__(self) -> None:
        self.holder: dict[str, ClaimKey] = {}

    def prepare(self, request: PrepareRequest) -> PreparedDevices:
        for device in request.devices:
            if self.holder.setdefault(device.id.device, request.claim) != request.claim:
                raise DriverError("held")
        return super().prepare(request)


class BoundToOneThread(Good):
    """Its library may be called only from the thread that called it first."""

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None

    def discover(self) -> Inventory:
        self.thread = self.thread or threading.current_thread()
        if self.thread is not threading.current_thread():
            raise DriverError("called from another thread")
        return super().discover()


class LeavesFilesBehind(Good):
    def unprepare(self, claim: ClaimKey) -> None:
        if claim.name.startswith("claim-"):
            raise DriverError("can't give it back")


class KnowsClaimsAlone(Good):
    def unprepare(self, claim: ClaimKey) -> None:
        if not claim.namespace:
            raise DriverError("found no namespace")


class UnknownDeviceSick(Good):
    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        report(DeviceHealth(device="dev-9", healthy=False))


class UnknownDeviceSickAfterAPause(Good):
    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        while not stop.wait(60):
            report(DeviceHealth(device="dev-9", healthy=False))


class TooMuchToSay(Good):
    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        report(DeviceHealth(device="dev-0", healthy=False, message="x" * 1025))


class EndlessWatch(Good):
    def __init__(self) -> None:
        self.never = threading.Event()

    def watch_health(self, report: ReportHealth, stop: StopSignal) -> None:
        self.never.wait(60)


class EndlessInventoryWatch(Good):
    def watch_inventory(self, changed: InventoryChanged, stop: StopSignal) -> None:
        threading.Event().wait(60)


@pytest.mark.parametrize(
    ("test", "bad"),
    [
        ("test_name_is_a_driver_name", BadName),
        ("test_name_is_a_driver_name", OtherNameEachTime),
        ("test_discover_finds_devices", NoDevices),
        ("test_discover_gives_the_same_answer_twice", OtherOrderEachTime),
        ("test_discover_gives_the_same_answer_twice", OtherUuidAtEachStart),
        ("test_inventory_fits_the_api", TooLongValue),
        ("test_inventory_fits_the_api", UnknownCounter),
        ("test_inventory_fits_the_api", AmountAsText),
        ("test_prepare_answers_for_each_device", AnswersForNothing),
        ("test_prepare_answers_for_each_device", ReturnsNothing),
        ("test_edits_are_valid", RelativePath),
        ("test_prepare_is_idempotent", OtherAnswerEachTime),
        ("test_prepare_gives_the_same_answer_after_a_restart", ForgetsAtRestart),
        ("test_devices_are_independent", OneClaimAtATime),
        ("test_a_claim_may_have_several_devices", OneDeviceInAClaim),
        ("test_unprepare_of_an_unknown_claim_is_fine", KnowsEveryClaim),
        ("test_a_device_can_be_prepared_again", NeverGivesBack),
        ("test_discover_and_prepare_go_together", BoundToOneThread),
        ("test_works_on_real_sockets", LeavesFilesBehind),
        ("test_works_as_a_device_plugin", KnowsClaimsAlone),
        ("test_health_names_known_devices", UnknownDeviceSick),
        ("test_health_names_known_devices", UnknownDeviceSickAfterAPause),
        ("test_health_names_known_devices", TooMuchToSay),
        ("test_watches_end_when_they_are_asked_to", EndlessWatch),
        ("test_watches_end_when_they_are_asked_to", EndlessInventoryWatch),
    ],
)
def test_a_bad_driver_fails_the_test_that_is_about_it(
    test: str, bad: Callable[[], Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = test == "test_watches_end_when_they_are_asked_to"
    monkeypatch.setattr("claimsmith.testing.driverkit._END_S", 0.2 if endless else 60.0)

    class Kit(DriverKit):
        def make_driver(self) -> Driver:
            return bad()

    with pytest.raises((AssertionError, ClaimsmithError, KeyError)) as caught:
        getattr(Kit(), test)()
    # pytest explains no assertion of a package that is installed, so each has a sentence of its own.
    assert str(caught.value)


def test_every_test_of_the_kit_has_a_driver_that_fails_it() -> None:
    tests = {name for name in dir(DriverKit) if name.startswith("test_")}
    marks = test_a_bad_driver_fails_the_test_that_is_about_it.pytestmark  # type: ignore[attr-defined]

    assert {test for test, _ in marks[0].args[1]} == tests


def test_the_kit_leaves_no_folder_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not tmp_path: below it, a socket's path may be longer than the 107 bytes that are allowed.
    with TemporaryDirectory(prefix="k") as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)

        TestGoodDriver().test_works_on_real_sockets()
        TestGoodDriver().test_works_as_a_device_plugin()

        assert list(Path(folder).iterdir()) == []


def test_a_kit_without_a_driver_says_what_to_define() -> None:
    with pytest.raises(NotImplementedError, match="defines make_driver"):
        DriverKit().test_discover_finds_devices()

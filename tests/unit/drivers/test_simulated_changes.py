"""Faults, hot-plug and edited files, on a clock that the test moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.errors import DriverError, FieldError
from tests.unit.drivers.paper import FakeTime, HealthLog, devices_of, driver_of, driver_of_file


def test_all_devices_are_reported_healthy_at_first() -> None:
    log = HealthLog()

    driver_of("gpus: [{model: T4, count: 2}]").watch_health(log, FakeTime())

    assert [(name, item.healthy) for name, item in log.reports[0].items()] == [("gpu-0", True), ("gpu-1", True)]


def test_a_scripted_fault_comes_and_goes() -> None:
    clock = FakeTime()
    driver = driver_of(
        """
        gpus: [{model: T4, count: 2}]
        script:
        - {afterSeconds: 5, fail: gpu-0, cause: xid-79, message: fell off the bus}
        - {afterSeconds: 20, recover: gpu-0}
        """,
        clock=clock,
    )
    log = HealthLog()

    driver.watch_health(log, clock)

    assert log.failed == [[], ["gpu-0"], []]
    assert (log.reports[1]["gpu-0"].cause, log.reports[1]["gpu-0"].message) == ("xid-79", "fell off the bus")
    assert clock.waits == [5.0, 15.0]


def test_a_failed_card_takes_its_partitions_along() -> None:
    clock = FakeTime()
    driver = driver_of("gpus: [{model: A30, mig: true}]\nscript: [{afterSeconds: 1, fail: gpu-0}]", clock=clock)
    log = HealthLog()

    driver.watch_health(log, clock)

    assert len(log.failed[1]) == len(log.reports[1]) == 14


def test_a_fault_may_be_there_from_the_start_and_be_repaired() -> None:
    clock = FakeTime()
    driver = driver_of("gpus: [{model: T4, fault: ecc}]\nscript: [{afterSeconds: 3, recover: gpu-0}]", clock=clock)
    log = HealthLog()

    driver.watch_health(log, clock)

    assert log.failed == [["gpu-0"], []]
    assert log.reports[0]["gpu-0"].cause == "ecc"


def test_a_device_is_unplugged_and_plugged_in_again() -> None:
    clock = FakeTime()
    driver = driver_of(
        """
        gpus: [{model: T4, count: 2}]
        script: [{afterSeconds: 1, unplug: gpu-1}, {afterSeconds: 2, plug: gpu-1}]
        """,
        clock=clock,
    )
    seen: list[list[str]] = []

    driver.watch_inventory(lambda: seen.append(list(devices_of(driver.discover()))), clock)

    assert seen == [["gpu-0"], ["gpu-0", "gpu-1"]]


def test_a_named_step_happens_when_it_is_run() -> None:
    driver = driver_of(
        "gpus: [{model: T4, count: 2}]\nscript: [{step: break, fail: gpu-1}, {step: mend, recover: gpu-1}]"
    )
    log = HealthLog()
    driver.watch_health(log, FakeTime())

    driver.run_step("break")
    driver.run_step("mend")
    driver.run_step("break")

    assert log.failed == [[], ["gpu-1"], [], ["gpu-1"]]


def test_an_unknown_step_is_answered_with_the_known_ones() -> None:
    driver = driver_of("gpus: [{model: T4}]\nscript: [{step: break, fail: gpu-0}]")

    with pytest.raises(DriverError, match="found step 'brake', allowed break;"):
        driver.run_step("brake")


def test_without_script_and_files_no_thread_is_kept_waiting() -> None:
    clock = FakeTime()
    driver = driver_of("gpus: [{model: T4}]", clock=clock)

    driver.watch_inventory(lambda: None, clock)
    driver.watch_health(HealthLog(), clock)

    assert clock.waits == []


def test_an_edited_file_is_picked_up(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{model: T4}]\n")

    def edit() -> None:
        path.write_text("gpus: [{model: T4, count: 3}]\n")

    clock = FakeTime((2.0, edit), until_s=5)
    driver = driver_of_file(path, clock=clock)
    seen: list[list[str]] = []

    driver.watch_inventory(lambda: seen.append(list(devices_of(driver.discover()))), clock)

    assert seen == [["gpu-0", "gpu-1", "gpu-2"]]


def test_an_edited_file_changes_health(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{model: T4}]\n")
    driver = driver_of_file(path)
    log = HealthLog()
    driver.watch_health(log, FakeTime())

    def edit() -> None:
        path.write_text("gpus: [{model: T4, fault: xid-79}]\n")

    driver.watch_inventory(lambda: None, FakeTime((1.0, edit), until_s=3))

    assert log.failed == [[], ["gpu-0"]]


def test_a_bad_edit_keeps_the_last_good_devices_and_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{model: T4}]\n")
    driver = driver_of_file(path)
    path.write_text("gpus: [{model: T4}, {modle: L4}]\n")

    with pytest.raises(DriverError, match=r"last good devices stay: .*gpus\.yaml, document 1, line 1: gpus\[1\]"):
        driver.discover()

    assert list(devices_of(driver.discover())) == ["gpu-0"]


def test_a_file_that_vanishes_keeps_the_last_good_devices_until_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{model: T4}]\n")
    driver = driver_of_file(path)
    path.unlink()

    with pytest.raises(DriverError, match="No such file"):
        driver.discover()
    kept = list(devices_of(driver.discover()))
    path.write_text("gpus: [{model: T4, count: 2}]\n")

    assert kept == ["gpu-0"]
    assert list(devices_of(driver.discover())) == ["gpu-0", "gpu-1"]


def test_a_bad_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus: [{model: y}]\n")

    with pytest.raises(FieldError, match=r"gpus\.yaml, document 1, line 1: gpus\[0\]\.model"):
        driver_of_file(path)


def test_other_objects_in_the_file_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\n"
        "apiVersion: claimsmith.dev/v1alpha1\nkind: SimulatedDevices\nspec: {gpus: [{model: T4}]}\n"
    )

    assert list(devices_of(driver_of_file(path).discover())) == ["gpu-0"]

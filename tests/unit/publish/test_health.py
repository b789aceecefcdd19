"""Bad news counts at once, good news when it has lasted."""

from __future__ import annotations

from claimsmith.model.inventory import DeviceHealth
from claimsmith.model.names import DeviceId
from claimsmith.publish.health import UNHEALTHY_KEY, HealthPolicy, HealthTaints

GPU = DeviceId("gpu.example.test", "node-a", "gpu-0")


def taints(policy: HealthPolicy | None = None) -> HealthTaints:
    return HealthTaints("gpu.example.test", "node-a", policy or HealthPolicy(hold_s=10, factor=2, hold_max_s=60))


def report(healthy: bool | None, cause: str = "xid-79") -> DeviceHealth:
    return DeviceHealth(device="gpu-0", healthy=healthy, cause="" if healthy else cause)


def test_a_failed_device_is_tainted_at_once() -> None:
    found = taints()
    found.note(report(False), 0)

    (taint,) = found.taints(0)[GPU]
    assert (taint.key, taint.value, taint.effect) == (UNHEALTHY_KEY, "xid-79", "NoSchedule")


def test_a_healthy_device_has_no_taint() -> None:
    found = taints()
    found.note(report(True), 0)

    assert found.taints(0) == {}


def test_the_taint_goes_when_health_has_lasted() -> None:
    found = taints()
    found.note(report(False), 0)
    found.note(report(True), 5)

    assert list(found.taints(14.9)) == [GPU]
    assert found.find_next_s(14.9) == 15
    assert found.taints(15) == {}
    assert found.find_next_s(15) is None


def test_a_device_that_fails_again_is_held_longer_each_time() -> None:
    found = taints()
    holds = []
    now_s = 0.0
    for _ in range(5):
        found.note(report(False), now_s)
        found.note(report(True), now_s + 1)
        end_s = found.find_next_s(now_s + 1)
        assert end_s is not None
        holds.append(end_s - now_s - 1)
        now_s = end_s + 5

    assert holds == [10, 20, 40, 60, 60]


def test_an_old_failure_is_forgotten() -> None:
    found = taints(HealthPolicy(hold_s=10, forget_s=100))
    found.note(report(False), 0)
    found.note(report(True), 1)
    found.note(report(False), 200)
    found.note(report(True), 201)

    assert found.find_next_s(201) == 211


def test_a_repeated_report_of_the_same_failure_counts_once() -> None:
    found = taints()
    for now_s in (0, 1, 2):
        found.note(report(False), now_s)
    found.note(report(True), 3)
    found.note(report(True), 9)

    assert found.find_next_s(9) == 13


def test_unknown_health_changes_nothing() -> None:
    found = taints()
    found.note(report(None), 0)
    found.note(report(False), 1)
    found.note(report(None), 2)

    assert list(found.taints(100)) == [GPU]


def test_each_cause_is_a_taint_whose_value_fits_the_api() -> None:
    found = taints()
    found.note(report(False, "xid-79"), 0)
    found.note(report(False, "!ECC: double bit " + "x" * 80), 1)

    first, second = (taint.value for taint in found.taints(1)[GPU])
    assert first == "xid-79"
    assert second.startswith("ECC-double-bit-xxx")
    assert len(second) <= 63


def test_devices_of_other_pools_are_told_apart() -> None:
    found = taints()
    found.note(DeviceHealth(device="gpu-0", healthy=False, pool="other"), 0)

    assert list(found.taints(0)) == [DeviceId("gpu.example.test", "other", "gpu-0")]

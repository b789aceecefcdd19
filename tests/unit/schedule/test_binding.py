from __future__ import annotations

from dataclasses import replace

from claimsmith.model.claim import AllocatedDeviceStatus, ResourceClaim
from claimsmith.schedule.binding import find_expiry, find_readiness, has_binding_conditions
from claimsmith.testing.builders import allocated, claim, result

ALLOCATED_AT, ALLOCATED_S = "2030-01-01T00:00:00Z", 1893456000.0


def holding(**reported: str) -> ResourceClaim:
    """A claim with one device that must be attached and must not be broken, and what its driver reports of it."""
    device = replace(
        result("gpu-0"), binding_conditions=("Attached", "Warm"), binding_failure_conditions=("Broken", "Lost")
    )
    conditions = tuple(
        {"type": name, "status": status, "reason": "Because", "message": "of that"} for name, status in reported.items()
    )
    status = AllocatedDeviceStatus(driver=device.driver, pool=device.pool, device=device.device, conditions=conditions)
    return replace(allocated(claim(), device), devices=(status,) if reported else ())


def test_a_claim_without_binding_conditions_is_ready() -> None:
    found = allocated(claim(), "gpu-0")

    assert (has_binding_conditions(found), find_readiness(found).state) == (False, "ready")


def test_a_device_of_which_nothing_is_reported_is_waited_for() -> None:
    assert (has_binding_conditions(holding()), find_readiness(holding()).state) == (True, "waiting")


def test_every_condition_must_be_true() -> None:
    states = [find_readiness(holding(Attached="True", Warm=warm)).state for warm in ("False", "Unknown", "True")]

    assert states == ["waiting", "waiting", "ready"]


def test_a_failure_condition_outweighs_the_others() -> None:
    found = find_readiness(holding(Attached="True", Warm="True", Lost="True"))

    assert (found.state, found.text.partition(" has ")[2]) == ("failed", "Lost (Because: of that)")


def test_a_failure_condition_that_is_false_is_no_failure() -> None:
    assert find_readiness(holding(Attached="True", Warm="True", Broken="False")).state == "ready"


def test_what_is_reported_of_another_share_does_not_count() -> None:
    found = holding(Attached="True", Warm="True")
    other = replace(found, devices=(replace(found.devices[0], share_id="other"),))

    assert find_readiness(other).state == "waiting"


def test_devices_get_their_time_from_the_allocation_on() -> None:
    found = holding()
    assert found.allocation is not None
    stamped = replace(found, allocation=replace(found.allocation, allocation_timestamp=ALLOCATED_AT))

    assert (find_expiry(stamped, 600.0), find_expiry(found, 600.0)) == (ALLOCATED_S + 600, None)

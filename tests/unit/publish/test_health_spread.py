"""A failed card takes its partitions along, a failed partition its card; brothers and sisters go on working."""

from __future__ import annotations

import pytest

from claimsmith.model.device import Device
from claimsmith.model.inventory import DeviceHealth, Inventory
from claimsmith.model.names import DeviceId
from claimsmith.publish.health import HealthTaints
from claimsmith.publish.health_policy import HealthPolicy, Spread
from claimsmith.publish.health_spread import find_parents
from claimsmith.testing import builders as b

DRIVER, NODE = "gpu.example.test", "node-a"
WHOLE, LEFT, RIGHT, OTHER = "gpu-1", "gpu-1-gi7", "gpu-1-gi8", "gpu-0"


def device_id(name: str) -> DeviceId:
    return DeviceId(DRIVER, NODE, name)


def by_uuid(*, card_is_listed: bool = True) -> Inventory:
    parts = [b.device(name, attributes={"uuid": name.upper(), "parentUUID": "GPU-1"}) for name in (LEFT, RIGHT)]
    cards = [b.device(WHOLE, attributes={"uuid": "GPU-1"})] if card_is_listed else []
    return Inventory.of(b.device(OTHER, attributes={"uuid": "GPU-0"}), *cards, *parts)


def by_counters() -> Inventory:
    def taking(name: str, **counters: int) -> Device:
        return b.device(name, counters=[b.consumes("gpu-1", counters)])

    sets = (b.counter_set("gpu-1", {"a": 1, "b": 1}),)
    return Inventory.of(
        b.device(OTHER), taking(WHOLE, a=1, b=1), taking(LEFT, a=1), taking(RIGHT, b=1), counter_sets=sets
    )


def health(inventory: Inventory, **spread: bool) -> HealthTaints:
    parents = find_parents(DRIVER, inventory, node=NODE)
    return HealthTaints(DRIVER, NODE, HealthPolicy(hold_s=10, spread=Spread(**spread)), parents)


def fail(found: HealthTaints, name: str, cause: str = "xid-48") -> set[str]:
    found.note(DeviceHealth(device=name, healthy=False, cause=cause), 0)
    return {device.device for device in found.unhealthy(0)}


@pytest.mark.parametrize("inventory", [by_uuid(), by_counters()], ids=["by uuid", "by counters"])
def test_partitions_know_their_card(inventory: Inventory) -> None:
    parents = find_parents(DRIVER, inventory, node=NODE)

    assert parents == {device_id(LEFT): device_id(WHOLE), device_id(RIGHT): device_id(WHOLE)}


def test_a_failed_card_fails_its_partitions_and_no_other_card() -> None:
    assert fail(health(by_uuid()), WHOLE) == {WHOLE, LEFT, RIGHT}


def test_a_failed_partition_leaves_the_others_of_its_card_alone() -> None:
    assert fail(health(by_uuid()), LEFT) == {LEFT, WHOLE}


def test_a_partition_of_a_card_that_is_no_device_fails_alone() -> None:
    assert fail(health(by_uuid(card_is_listed=False)), LEFT) == {LEFT}


@pytest.mark.parametrize(
    ("spread", "failed", "affected"),
    [
        ({"to_parts": False}, WHOLE, {WHOLE}),
        ({"to_whole": False}, LEFT, {LEFT}),
        ({"to_siblings": True}, LEFT, {LEFT, WHOLE, RIGHT}),
        ({"to_siblings": True, "to_whole": False}, LEFT, {LEFT, RIGHT}),
    ],
)
def test_how_far_a_failure_extends_is_a_choice(spread: dict[str, bool], failed: str, affected: set[str]) -> None:
    assert fail(health(by_uuid(), **spread), failed) == affected


def test_partitions_of_a_card_that_is_no_device_are_still_siblings() -> None:
    found = health(by_uuid(card_is_listed=False), to_siblings=True)

    assert fail(found, LEFT) == {LEFT, RIGHT}


def test_who_fails_along_says_who_has_failed() -> None:
    found = health(by_uuid())
    fail(found, WHOLE)

    messages = {item.device: item.message for item in found.graded(0)}
    assert messages == {WHOLE: "xid-48", LEFT: "gpu-1 has failed: xid-48", RIGHT: "gpu-1 has failed: xid-48"}


def test_who_fails_along_returns_along() -> None:
    found = health(by_uuid())
    fail(found, WHOLE)
    found.note(DeviceHealth(device=WHOLE, healthy=True), 1)

    assert found.unhealthy(11) == frozenset()


def test_a_failure_of_its_own_outlasts_that_of_the_card() -> None:
    found = health(by_uuid())
    fail(found, WHOLE)
    fail(found, LEFT, "xid-95")
    found.note(DeviceHealth(device=WHOLE, healthy=True), 1)

    assert {device.device for device in found.unhealthy(11)} == {LEFT, WHOLE}


def test_taints_taken_over_go_when_the_driver_speaks_of_the_card_alone() -> None:
    before = health(by_uuid())
    fail(before, WHOLE)
    after = health(by_uuid())
    after.adopt(before.taints(0), 0)
    after.note(DeviceHealth(device=WHOLE, healthy=True), 1)

    assert (len(after.unhealthy(10)), after.unhealthy(11)) == (3, frozenset())

"""Consumable capacity: what one request takes from one device."""

from __future__ import annotations

import pytest

from claimsmith.allocate.prepared.capacity import CapacityPlan, plan_capacity
from claimsmith.model.device import Capacity
from claimsmith.testing.builders import Amount, capacity, device, quantities


def plan(room: Capacity, asked: Amount | None, *, fractional: bool = False) -> CapacityPlan:
    requested = None if asked is None else quantities({"memory": asked})
    return plan_capacity(device(capacity={"memory": room}), requested, fractional=fractional)


@pytest.mark.parametrize(
    ("room", "asked", "takes"),
    [
        (capacity("10Gi"), None, "10Gi"),
        (capacity("10Gi", default="1Gi"), None, "1Gi"),
        (capacity("10Gi"), "3Gi", "3Gi"),
        (capacity(10, default=2, minimum=2), 1, "2"),
        (capacity(10, default=2, minimum=2), 5, "5"),
        (capacity(10, default=2, minimum=2, step=3), 6, "8"),
        (capacity(10, default=2, minimum=2, step=3), 5, "5"),
        (capacity(10, default=2, valid_values=[2, 4, 8]), 3, "4"),
        (capacity(10, default=2, valid_values=[2, 4, 8]), 8, "8"),
        (capacity(4, default="500m", minimum="250m", step="250m"), "300m", "1"),
    ],
)
def test_amounts_are_rounded_as_the_policy_says(room: Capacity, asked: Amount | None, takes: str) -> None:
    found = plan(room, asked)

    assert found.kind == "fits"
    assert str(found.amounts["memory"]) == takes


def test_thousandths_count_when_the_gate_is_on() -> None:
    found = plan(capacity(4, default="500m", minimum="250m", step="250m"), "300m", fractional=True)

    assert str(found.amounts["memory"]) == "500m"


@pytest.mark.parametrize(
    ("room", "asked", "kind"),
    [
        (capacity(10, default=2, minimum=2, maximum=6), 7, "policy"),
        (capacity(10, default=2, valid_values=[2, 4, 8]), 9, "policy"),
        (capacity("10Gi", default="1.5Gi", valid_values=["2Gi"]), None, "policy"),
        (capacity(10, default=3, valid_values=[2]), "3000m", "policy"),
        (capacity(10), 11, "too-big"),
        (capacity("9E", default=1, minimum=1, step=2), 2**63, "fatal"),
        (capacity("9E", default=1, minimum=1, step=2), 2**63 - 1, "fits"),
        (capacity("9E", default=2, minimum=2, step=2), 2**63 - 1, "fatal"),
        (capacity(10), -1, "fatal"),
        (capacity(10, default=1, minimum=1, step=0), 5, "fatal"),
    ],
)
def test_amounts_that_cant_be_had_are_told_apart(room: Capacity, asked: Amount, kind: str) -> None:
    assert plan(room, asked).kind == ("too-big" if kind == "fits" else kind)


def test_a_default_outside_the_range_is_allowed() -> None:
    assert plan(capacity(10, default=1, minimum=2), None).kind == "fits"


def test_a_capacity_that_is_not_there_is_missing() -> None:
    found = plan_capacity(device(), quantities({"memory": 1}), fractional=False)

    assert (found.kind, found.text) == ("missing", "capacity memory is not there")


def test_a_fatal_amount_is_found_before_a_policy_that_is_broken() -> None:
    rooms = {
        "a": capacity(10, default=1, minimum=1, maximum=2),
        "b": capacity("9E", default=2, minimum=2, step=2),
    }
    found = plan_capacity(device(capacity=rooms), quantities({"a": 5, "b": 2**63 - 1}), fractional=False)

    assert found.kind == "fatal"

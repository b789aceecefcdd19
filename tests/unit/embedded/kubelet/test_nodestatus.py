from __future__ import annotations

from typing import Any

from claimsmith.embedded.kubelet.devices.stock import Amounts
from claimsmith.embedded.kubelet.nodestatus import plan_amounts, plan_reset

OWN = {"cpu": "4"}
GPU = "vendor.example/gpu"


def amounts(capacity: int, allocatable: int) -> Amounts:
    return Amounts(capacity={GPU: capacity}, allocatable={GPU: allocatable})


def status(**both: str) -> dict[str, Any]:
    return {"capacity": dict(both), "allocatable": dict(both)}


NOTHING = Amounts(capacity={}, allocatable={})


def test_devices_of_plugins_are_added() -> None:
    assert plan_amounts(status(cpu="4"), OWN, amounts(3, 2)) == {"capacity": {GPU: "3"}, "allocatable": {GPU: "2"}}


def test_a_status_that_says_it_already_is_left_alone() -> None:
    assert plan_amounts(status(cpu="4"), OWN, NOTHING) == {}


def test_an_amount_that_others_have_set_stays_and_can_be_allocated() -> None:
    found = {"capacity": {"cpu": "4", "example.test/tape": "3"}, "allocatable": {"cpu": "4"}}

    assert plan_amounts(found, OWN, NOTHING) == {"allocatable": {"example.test/tape": "3"}}


def test_an_extended_resource_without_capacity_can_not_be_allocated() -> None:
    found = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4", "example.test/tape": "3"}}

    assert plan_amounts(found, OWN, NOTHING) == {"allocatable": {"example.test/tape": None}}


def test_a_resource_whose_plugin_is_gone_for_good_stays_as_nothing() -> None:
    gone = Amounts(capacity={}, allocatable={}, removed=(GPU,))

    assert plan_amounts(status(cpu="4", **{GPU: "3"}), OWN, gone) == {"capacity": {GPU: "0"}, "allocatable": {GPU: "0"}}


def test_a_machine_made_anew_has_none_of_its_extended_resources() -> None:
    assert plan_reset(status(cpu="4", **{GPU: "3"})) == {"capacity": {GPU: "0"}, "allocatable": {GPU: "0"}}

"""Policies as values."""

from __future__ import annotations

import pytest

from claimsmith.allocate.policy.objective import PACK, POLICIES, DeviceScale, Policy, find_policy
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.errors import FieldError
from claimsmith.testing.builders import capacity, device, slice_


def records(*memories: int) -> list[DeviceRecord]:
    found = slice_(*(device(f"d{memory}", capacity={"memory": capacity(memory)}) for memory in memories))
    return [DeviceRecord(found, item) for item in found.devices]


def test_each_policy_is_found_by_its_name() -> None:
    assert {name: find_policy(name) for name in POLICIES} == POLICIES


def test_no_policy_has_another_name() -> None:
    assert find_policy("best") is None


@pytest.mark.parametrize("terms", [("rank", "rank"), ("beauty",)])
def test_a_term_that_is_unknown_or_stands_twice_is_refused(terms: tuple[str, ...]) -> None:
    with pytest.raises(FieldError, match=r"policy 'mine': terms: found '(rank|beauty)'"):
        Policy(name="mine", terms=terms)  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [("pack", 2), ("waste", 0)])
def test_a_weight_must_be_positive_and_for_a_term_of_the_policy(weight: tuple[str, int]) -> None:
    with pytest.raises(FieldError, match=r"weights: found '(pack=2|waste=0)'"):
        Policy(name="mine", terms=("rank", "waste"), weights=(weight,))  # type: ignore[arg-type]


def test_weighted_terms_are_one_level_in_the_place_of_the_first() -> None:
    policy = Policy(name="mine", terms=("rank", "waste", "pack", "spread"), weights=(("waste", 2), ("spread", 1)))

    assert policy.levels() == ((("rank", 1),), (("waste", 2), ("spread", 1)), (("pack", 1),))


def test_a_device_costs_in_proportion_to_the_largest_of_its_driver() -> None:
    small, large = records(20, 80)

    scale = DeviceScale.of((small, large))
    assert [PACK.price_device(record, scale) for record in (small, large)] == [250, 1000]


def test_devices_that_say_nothing_of_their_size_are_equally_dear() -> None:
    found = slice_(device("a"), device("b"))
    plain = [DeviceRecord(found, item) for item in found.devices]

    assert [DeviceScale.of(plain).price(record) for record in plain] == [1000, 1000]

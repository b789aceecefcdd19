"""Devices that more than one claim holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import DeviceId
from claimsmith.schedule.holders import Contest, HolderIndex
from claimsmith.testing.builders import DRIVER, allocated, claim, claim_ref

DEVICE = DeviceId(DRIVER, "node-a", "gpu-0")


def held(name: str, device: DeviceId = DEVICE, **fields: Any) -> ResourceClaim:
    """A claim that holds a device, in a way that the fields tell."""
    found = allocated(claim(name), device)
    assert found.allocation is not None
    (result,) = found.allocation.results
    return replace(found, allocation=replace(found.allocation, results=(replace(result, **fields),)))


@pytest.fixture
def index() -> HolderIndex:
    found = HolderIndex()
    found.see_claim(None, held("a"))
    return found


def test_one_holder_is_no_contest(index: HolderIndex) -> None:
    assert (index.see_claim(held("a"), held("a")), len(index)) == ((), 0)


def test_a_second_holder_is_a_contest(index: HolderIndex) -> None:
    (contest,) = index.see_claim(None, held("b"))

    assert contest == Contest(device=DEVICE, claims=(claim_ref("a"), claim_ref("b")))
    assert contest.text == (
        f"device {DEVICE} is held by claims default/a and default/b; delete the pods of all but one of them"
    )
    assert len(index) == 1


def test_a_contest_is_told_once(index: HolderIndex) -> None:
    index.see_claim(None, held("b"))

    assert index.see_claim(held("b"), held("b")) == ()


def test_a_third_holder_is_told_with_the_others(index: HolderIndex) -> None:
    index.see_claim(None, held("b"))
    (contest,) = index.see_claim(None, held("c"))

    assert [ref.name for ref in contest.claims] == ["a", "b", "c"]


@pytest.mark.parametrize("after", [None, claim("b")])
def test_a_contest_ends_when_one_gives_the_device_back(index: HolderIndex, after: ResourceClaim | None) -> None:
    index.see_claim(None, held("b"))
    index.see_claim(held("b"), after)

    assert len(index) == 0
    assert len(index.see_claim(None, held("d"))) == 1


def test_two_of_three_still_contend(index: HolderIndex) -> None:
    for name in "bc":
        index.see_claim(None, held(name))
    index.see_claim(held("b"), None)

    assert len(index) == 1


@pytest.mark.parametrize("fields", [{"share_id": "x"}, {"admin_access": True}])
def test_shares_and_administrators_hold_nothing_alone(index: HolderIndex, fields: dict[str, Any]) -> None:
    assert index.see_claim(None, held("b", **fields)) == ()


def test_another_device_is_no_contest(index: HolderIndex) -> None:
    assert index.see_claim(None, held("b", DeviceId(DRIVER, "node-a", "gpu-1"))) == ()


def test_a_claim_that_is_not_created_yet_does_not_count(index: HolderIndex) -> None:
    assert index.see_claim(None, held("<extended-resources>/uid")) == ()

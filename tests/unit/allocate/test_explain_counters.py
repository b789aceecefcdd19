"""Reasons about counters: what is really left, and what of the devices that could serve takes too much of it."""

from __future__ import annotations

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    allocated,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    request,
    result,
    slice_,
)
from tests.unit.allocate.explaining import tell

PROFILE = 'device.attributes["gpu.example.test"].profile'
SIZES = {"7g": (7, 40), "4g": (4, 20), "3g": (4, 20), "1g": (1, 5)}


def card(*names: str) -> list[ResourceSlice]:
    """A card of 7 slices and 40Gi in parts, each named by its profile and a number."""
    parts = []
    for name in names:
        slices, memory = SIZES[name.partition("-")[0]]
        takes = consumes("card", {"slices": slices, "mem": f"{memory}Gi"})
        parts.append(device(name, attributes={"profile": name.partition("-")[0]}, counters=[takes]))
    counters = counter_set("card", {"slices": 7, "mem": "40Gi"})
    return [slice_(name="s0", slice_count=2, shared_counters=(counters,)), slice_(*parts, name="s1", slice_count=2)]


def told(*objects: ResourceSlice | ResourceClaim, kind: str) -> list[str]:
    return [reason.text for reason in tell(*objects) if reason.kind == kind]


HELD = [allocated(claim(f"held-{name}"), name) for name in ("3g-0", "1g-0", "1g-1")]
PARTS = card("7g-0", "4g-0", "3g-0", "3g-1", *(f"1g-{place}" for place in range(7)))
WANTS_4G = claim("c", request("r", f'{PROFILE} == "4g"'))


def test_a_counter_tells_what_is_left_with_all_that_is_in_use() -> None:
    (text,) = told(*PARTS, *HELD, WANTS_4G, kind="counter")

    assert "10Gi of 40Gi left" in text
    assert "1 of 7 left" in text


def test_a_counter_names_only_devices_that_could_serve_the_request() -> None:
    (text,) = told(*PARTS, *HELD, WANTS_4G, kind="counter")

    assert "needed for 4g-0" in text
    assert not any(name in text for name in ("1g-", "3g-", "7g-"))


def test_what_else_is_short_for_them_is_told_beside() -> None:
    (text,) = told(*PARTS, *HELD, WANTS_4G, kind="counter")

    assert text.startswith("counter slices of set card: 1 of 7 left, 4 needed for 4g-0; ")
    assert text.endswith("; short as well: mem (10Gi of 40Gi left, 20Gi needed)")


def test_a_device_that_only_a_counter_keeps_away_would_do() -> None:
    (text,) = told(*PARTS, *HELD, WANTS_4G, kind="count")

    assert text == "1 device wanted, 1 of the 11 devices of node node-a would do: 4g-0"


def test_devices_that_a_selector_rejects_would_not_do_though_no_reason_is_about_them() -> None:
    held = allocated(claim("held"), "7g-0")
    (text,) = told(*PARTS, held, claim("c", request("r", f'{PROFILE} == "1g"')), kind="count")

    assert text.startswith("1 device wanted, 7 of the 11 devices of node node-a would do: 1g-0, 1g-1, ")


def test_the_devices_of_a_count_are_those_that_would_do() -> None:
    held = allocated(claim("held"), "7g-0")
    (reason,) = [r for r in tell(*PARTS, held, claim("c", request("r", f'{PROFILE} == "3g"'))) if r.kind == "count"]

    assert [item.device for item in reason.devices] == ["3g-0", "3g-1"]
    assert reason.data["usable"] == "2"


def test_a_shortage_that_several_devices_have_together_tells_what_each_needs() -> None:
    (text,) = told(*card("1g-0", "3g-0", "3g-1"), claim("c", request("r", count=3)), kind="counter")

    assert text == "counter mem of set card: 40Gi of 40Gi left, 5Gi needed for 1g-0; 20Gi needed for each of 3g-0, 3g-1"


def test_a_capacity_tells_what_is_left_with_all_shares() -> None:
    nic = device("nic", capacity={"bandwidth": capacity("100G")}, allow_multiple_allocations=True)
    held = [
        allocated(claim(f"held-{size}"), result("nic", share=f"s{size}", consumed={"bandwidth": f"{size}G"}))
        for size in (30, 50)
    ]
    wanted = claim("c", request("r", capacity={"bandwidth": "60G"}))

    assert told(slice_(nic), *held, wanted, kind="capacity") == ["nic: 20G of 100G bandwidth left, 60G needed"]

"""What lint finds wrong with the amounts of capacity that requests ask for."""

from __future__ import annotations

from claimsmith.allocate.lint.check import lint_cluster
from claimsmith.allocate.lint.values import Fault
from claimsmith.testing.builders import alternatives, capacity, claim, device, request, slice_, snapshot, sub

LIMITED = capacity("10G", minimum="1G", step="1G", maximum="4G")
NICS = slice_(
    device("nic-0", capacity={"bandwidth": "10G"}),
    device("nic-1", capacity={"bandwidth": LIMITED, "queues": 8}),
)
AMOUNTS = "spec.devices.requests[0].exactly.capacity.requests"


def lint(amounts: dict[str, str], *selectors: str) -> list[Fault]:
    cluster = snapshot(NICS, claim("c", request("r", *selectors, capacity=amounts)))
    return [finding.fault for finding in lint_cluster(cluster)]


def test_amounts_that_a_device_gives_have_no_fault() -> None:
    assert lint({"bandwidth": "10G"}) == lint({"bandwidth": "3500M", "queues": "8"}) == []


def test_a_capacity_that_no_matching_device_has_is_told_with_the_nearest_name() -> None:
    (fault,) = lint({"bandwith": "1G"})

    assert (fault.rule, fault.severity, fault.path) == ("unknown-capacity", "error", f"{AMOUNTS}[bandwith]")
    assert fault.text == "none of the 2 devices that match has the capacity bandwith; did you mean bandwidth?"
    assert fault.corrected == "bandwidth: 1G"


def test_a_capacity_that_is_like_none_is_told_without_a_guess() -> None:
    (fault,) = lint({"qq": "1G"})

    assert (fault.text, fault.corrected) == ("none of the 2 devices that match has the capacity qq", "")


def test_an_amount_above_the_largest_device_is_told_with_the_largest_amount() -> None:
    (fault,) = lint({"bandwidth": "40G"})

    assert (fault.rule, fault.path, fault.corrected) == ("capacity-amount", f"{AMOUNTS}[bandwidth]", "10G")
    assert fault.text == "asks for 40G of bandwidth, and no device that matches gives more than 10G"


def test_an_amount_is_held_against_what_a_device_gives_to_one_claim() -> None:
    (fault,) = lint({"bandwidth": "5G"}, '"queues" in device.capacity["gpu.example.test"]')

    assert (fault.rule, fault.corrected) == ("capacity-amount", "4G")


def test_amounts_that_no_device_gives_together_are_told() -> None:
    (fault,) = lint({"bandwidth": "10G", "queues": "1"})

    assert (fault.rule, fault.path) == ("capacity-amount", AMOUNTS)


def test_an_amount_of_an_alternative_is_a_warning_while_another_one_can_be_had() -> None:
    large = sub("large", capacity={"bandwidth": "40G"})
    one = claim("one", alternatives("r", large, sub("any")))
    none = claim("two", alternatives("r", large, sub("larger", capacity={"bandwidth": "50G"})))
    found = lint_cluster(snapshot(NICS, one, none))

    assert [(item.name, item.fault.severity) for item in found] == [
        ("one", "warning"),
        ("two", "error"),
        ("two", "error"),
    ]

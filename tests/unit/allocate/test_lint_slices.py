"""What lint finds wrong with slices and the pools that they make."""

from __future__ import annotations

import pytest

from claimsmith.allocate.lint.check import lint_cluster
from claimsmith.model.device import CounterConsumption, Device
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import consumes, counter_set, device, node, slice_, snapshot

COUNTERS = slice_(name="counters", pool="card", slice_count=2, shared_counters=(counter_set("mem", {"gi": 8}),))


def card(*parts: Device, name: str = "parts", slice_count: int = 2) -> ResourceSlice:
    return slice_(*parts, name=name, pool="card", slice_count=slice_count)


def told(*slices: ResourceSlice) -> list[tuple[str, str, str, str]]:
    found = lint_cluster(snapshot(*slices))
    return [(item.name, item.fault.rule, item.fault.path, item.fault.text) for item in found]


def test_a_slice_that_names_no_node_of_the_cluster_is_told_the_nearest() -> None:
    (finding,) = lint_cluster(snapshot(node("node-a"), slice_(device("x"), name="more", node="node-b")))
    fault = finding.fault

    assert (fault.rule, fault.severity, fault.path) == ("unknown-node", "warning", "spec.nodeName")
    assert (fault.corrected, "did you mean node-a?" in fault.text) == ("node-a", True)


def test_a_pool_with_missing_slices_is_told() -> None:
    assert told(card(device("x"))) == [
        (
            "parts",
            "pool-incomplete",
            "spec.pool.resourceSliceCount",
            "pool gpu.example.test/card gives no device: 1 of 2 slices of generation 1 are there; add the missing ones",
        )
    ]


def test_a_pool_with_too_many_slices_tells_the_count_to_write() -> None:
    parts = [card(device(name), name=name, slice_count=1) for name in "ab"]
    (finding,) = lint_cluster(snapshot(*parts))

    assert (finding.fault.rule, finding.fault.corrected) == ("pool-incomplete", "2")


def test_a_pool_of_an_older_generation_may_miss_slices() -> None:
    old = slice_(device("x"), name="old", generation=1, slice_count=7)

    assert told(old, slice_(device("x"), name="new", generation=2)) == []


def test_a_device_that_slices_of_a_pool_have_twice_is_told_where_it_comes_again() -> None:
    assert told(card(device("x"), name="a"), card(device("y"), device("x"), name="b")) == [
        (
            "b",
            "pool-invalid",
            "spec.devices[1]",
            "pool gpu.example.test/card gives no device to nodes that see this: duplicate device name x",
        )
    ]


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        (consumes("nope", {"gi": 1}), "counter set nope not found (device x)"),
        (consumes("mem", {"zz": 1}), "counter zz not found in counter set mem (device x)"),
    ],
)
def test_a_counter_that_is_not_there_is_told_of_the_device_that_takes_it(
    counters: CounterConsumption, said: str
) -> None:
    (found,) = told(COUNTERS, card(device("y"), device("x", counters=(counters,))))

    assert found[:3] == ("parts", "pool-invalid", "spec.devices[1]")
    assert found[3].endswith(said)


def test_a_counter_set_that_is_there_twice_is_told() -> None:
    again = slice_(name="more", pool="card", slice_count=2, shared_counters=COUNTERS.shared_counters)

    assert told(COUNTERS, again)[0][:3] == ("more", "pool-invalid", "spec.sharedCounters")


def test_a_device_that_needs_more_of_a_counter_than_there_is_is_told_with_both_amounts() -> None:
    large = device("x", counters=(consumes("mem", {"gi": 9}),))

    assert told(COUNTERS, card(large)) == [
        (
            "parts",
            "counter-amount",
            "spec.devices[0].consumesCounters",
            "needs 9 of counter gi, counter set mem has 8: no request gets the device",
        )
    ]


def test_a_negative_capacity_is_told() -> None:
    (found,) = told(slice_(device("x", capacity={"fine": "1", "memory": "-1Gi"})))

    assert found[1:] == (
        "device-capacity",
        "spec.devices[0].capacity[memory].value",
        "capacity memory: -1Gi is negative: no request gets the device",
    )


@pytest.mark.parametrize("asked", ["counters", "parts"])
def test_a_fault_of_a_pool_is_told_of_the_slice_that_was_asked_for(asked: str) -> None:
    parts = card(device("x", counters=(consumes("nope", {"gi": 1}),)))
    found = lint_cluster(snapshot(COUNTERS, parts), only={("ResourceSlice", "", asked)})

    assert [(item.name, item.fault.rule) for item in found] == [(asked, "pool-invalid")]

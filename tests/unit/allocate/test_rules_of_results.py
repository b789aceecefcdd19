"""What the search gives obeys the rules of an allocation that no other test of the search looks at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.api.kinds import RESOURCE_CLAIM
from claimsmith.api.resource_v1_claims import encode_claim
from claimsmith.model.claim import DeviceResult
from claimsmith.model.decision import Allocation, Pending
from claimsmith.model.device import Device
from claimsmith.model.features import Features
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    klass,
    match,
    node,
    on_nodes,
    opaque,
    request,
    result,
    slice_,
    sub,
    taint,
    toleration,
)
from claimsmith.validate import validate_status_update
from tests.unit.allocate.solving import ask, devices, problem, solve
from tests.unit.allocate.verifying import declaring

A, B = device("a"), device("b")
MATCHED = match("gpu.example.test/x", "s")


def first_result(asked: AllocationProblem) -> DeviceResult:
    """The first device of the decision."""
    decision = solve(asked)
    assert isinstance(decision, Allocation)
    return decision.results[0].results[0]


def card(units: int, *parts: Device) -> tuple[ResourceSlice, ResourceSlice]:
    """A counter slice with `units` of `card/u`, and a slice of devices."""
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": units}),))
    return counters, slice_(*parts, name="devices", slice_count=2)


def part(name: str, *groups: str, shared: bool = False) -> Device:
    """A device that takes two units of `card/u`."""
    return device(name, counters=[consumes("card", {"u": 2}, groups=groups)], allow_multiple_allocations=shared)


def test_a_request_gets_different_devices_also_when_they_are_shared() -> None:
    pool = slice_(*(device(name, allow_multiple_allocations=True) for name in ("a", "b")))

    assert devices(ask(pool, claim("c", request(count=2)))) == [["a", "b"]]
    assert isinstance(ask(pool, claim("c", request(count=3))), Pending)


def test_a_constraint_binds_the_requests_that_it_names() -> None:
    pool = slice_(*(device(name, attributes={"x": value}) for name, value in {"a": 1, "b": 2, "c": 3, "d": 2}.items()))
    wanted = claim("c", request("r"), request("s", count=2), constraints=[MATCHED])

    assert devices(ask(pool, wanted)) == [["a", "b", "d"]]


def test_a_pool_with_a_gap_gives_no_devices() -> None:
    assert isinstance(ask(slice_(A, slice_count=2), claim("c")), Pending)


def test_a_pool_that_contradicts_itself_gives_no_devices() -> None:
    assert isinstance(ask(slice_(A, A), claim("c")), Pending)


def test_a_device_outside_the_class_is_not_given() -> None:
    small = klass("gpu", 'device.attributes["gpu.example.test"].size == 1')
    pool = slice_(device("big", attributes={"size": 2}), device("small", attributes={"size": 1}))

    assert devices(ask(pool, small, claim("c"))) == [["small"]]


def test_a_device_with_binding_conditions_needs_their_gate() -> None:
    pool = slice_(device("bound", binding_conditions=("x.example/ready",)), B)

    assert devices(ask(pool, claim("c"))) == [["bound"]]
    assert devices(ask(pool, claim("c"), features=Features(device_binding_and_status=False))) == [["b"]]


def test_a_device_of_other_nodes_is_not_given_though_its_slice_is_for_several() -> None:
    pool = slice_(
        device("other-zone", node_selector=on_nodes(zone="y")),
        device("our-zone", node_selector=on_nodes(zone="z")),
        node=None,
        pool="net",
        per_device_node_selection=True,
    )

    assert devices(solve(problem(pool, claim("c"), on=node(labels={"zone": "z"})))) == [["our-zone"]]


def test_both_effects_of_taints_keep_requests_away_administrators_too() -> None:
    pool = slice_(device("a", taints=[taint("k", "NoSchedule")]), device("b", taints=[taint("k", "NoExecute")]))

    assert isinstance(ask(pool, claim("c")), Pending)
    assert isinstance(ask(pool, claim("c", request("r", admin_access=True))), Pending)


def test_shares_that_claims_hold_take_their_capacity() -> None:
    nic = slice_(device("nic", capacity={"m": capacity(10)}, allow_multiple_allocations=True))
    held = allocated(claim("held"), result("nic", share="held", consumed={"m": 7}))

    assert devices(ask(nic, held, claim("c", request("r", capacity={"m": 3})))) == [["nic"]]
    assert isinstance(ask(nic, held, claim("c", request("r", capacity={"m": 4}))), Pending)


def test_devices_in_use_have_taken_their_counters() -> None:
    pool = card(3, part("a"), part("b"))

    assert devices(ask(*pool, claim("c"))) == [["a"]]
    assert isinstance(ask(*pool, allocated(claim("held"), "a"), claim("c")), Pending)


def test_a_shared_device_in_use_is_not_charged_again() -> None:
    held = allocated(claim("held"), result("a", share="held"))

    assert devices(ask(*card(3, part("a", shared=True)), held, claim("c"))) == [["a"]]


def test_devices_of_one_decision_have_a_group_in_common() -> None:
    pool = card(6, part("a", "g"), part("b", "h"), part("c", "g", "h"))

    assert devices(ask(*pool, claim("c", request(count=2)))) == [["a", "c"]]
    assert isinstance(ask(*pool, claim("c", request(count=3))), Pending)


def test_binding_conditions_are_part_of_the_result() -> None:
    bound = device("a", binding_conditions=("x.example/ready",), binding_failure_conditions=("x.example/failed",))
    got = first_result(problem(slice_(bound), claim("c")))

    assert got.binding_conditions == ("x.example/ready",)
    assert got.binding_failure_conditions == ("x.example/failed",)


def test_skipped_node_operations_are_part_of_the_result() -> None:
    skipping = slice_(A, skip_node_operations=("Prepare",))
    got = first_result(problem(skipping, claim("c"), on=declaring("DRAOptionalNodeOperations")))

    assert got.skip_node_operations == ("Prepare",)


def test_the_api_server_would_store_every_part_of_a_result() -> None:
    rich = device(
        "a",
        capacity={"memory": capacity("8Gi")},
        taints=[taint("k.example/t")],
        binding_conditions=("x.example/ready",),
        binding_failure_conditions=("x.example/failed",),
        allow_multiple_allocations=True,
    )
    accepted = (toleration("k.example/t"),)
    wanted = claim(
        "c",
        alternatives("r", sub("two", count=2), sub("one", tolerations=accepted, capacity={"memory": "1Gi"})),
        config=[opaque({"a": 1}, "r/one"), opaque({"b": 2})],
    )
    asked = problem(slice_(rich), klass("gpu", config=[opaque({"c": 3})]), wanted)
    decision = solve(asked)

    assert isinstance(decision, Allocation)
    stored = replace(wanted, allocation=decision.results[0])
    assert len(decision.results[0].config) == 3
    assert validate_status_update(RESOURCE_CLAIM, encode_claim(wanted), encode_claim(stored)) == ()


@pytest.mark.parametrize("like_upstream", [False, True])
def test_a_device_that_binds_to_its_node_does_so_unless_all_newer_gates_are_off(like_upstream: bool) -> None:
    net = slice_(device("a", binds_to_node=True), node=None, all_nodes=True, pool="net")
    decisions = [
        solve(problem(net, claim("c"), features=features), like_upstream=like_upstream)
        for features in (Features(), Features.none())
    ]

    assert [
        decision.results[0].node_selector is None for decision in decisions if isinstance(decision, Allocation)
    ] == [
        False,
        True,
    ]

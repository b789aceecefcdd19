"""Irreducible sets of reasons: what is in them, and what is not."""

from __future__ import annotations

import pytest

from claimsmith.allocate.explain.case import ClauseBook, split_clauses
from claimsmith.allocate.explain.finding import Asked, find_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate
from claimsmith.model.decision import Allocation
from claimsmith.model.device import DeviceToleration
from claimsmith.model.features import Features
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    capacity,
    claim,
    consumes,
    counter_set,
    device,
    distinct,
    klass,
    match,
    request,
    result,
    slice_,
    sub,
    taint,
)
from tests.unit.allocate.explaining import find, pieces, tell
from tests.unit.allocate.solving import number_shares, problem

A, B, C = device("a"), device("b"), device("c")
SIZE = 'device.attributes["gpu.example.test"].size'
DRIVER = 'device.driver == "gpu.example.test"'


def test_the_false_clause_is_a_reason_and_the_others_are_not() -> None:
    small = slice_(device("a", attributes={"size": 1}))
    found = tell(small, claim("c", request("r", f"{DRIVER} && {SIZE} > 2 && {SIZE} > 0")))

    assert [reason.kind for reason in found] == ["count", "selector"]
    assert found[1].text == f"a: selector {SIZE} > 2 is false"


def test_of_two_false_clauses_one_is_enough() -> None:
    small = slice_(device("a", attributes={"size": 1}))

    assert pieces(small, claim("c", request("r", f"{SIZE} > 2 && {SIZE} > 3"))) == {"count": 1, "clause": 1}


def test_every_device_in_use_that_would_serve_is_needed() -> None:
    held = [allocated(claim(f"held-{name}"), name) for name in "abc"]

    assert pieces(slice_(A, B, C), *held, claim("c")) == {"count": 1, "use": 3}


def test_no_more_devices_in_use_are_told_than_stand_in_the_way() -> None:
    found = pieces(slice_(A, B, C), allocated(claim("held"), "a"), claim("c", request("r", count=3)))

    assert found == {"count": 3, "use": 1}


def test_a_count_is_told_as_far_as_it_is_too_large() -> None:
    (reason,) = tell(slice_(A, B), claim("c", request("r", count=5)))

    assert reason.text == "5 devices wanted (even 3 don't fit), node node-a has 2: a, b"


def test_requests_that_have_no_part_in_it_are_left_out() -> None:
    wanted = claim("c", request("easy"), request("hard", f"{SIZE} > 2"))

    assert {reason.request for reason in tell(slice_(A, B), wanted)} == {"hard"}


def test_many_requests_for_few_devices_are_all_reasons() -> None:
    wanted = claim("c", *(request(f"r{number}") for number in range(3)))

    assert [reason.request for reason in tell(slice_(A, B), wanted)] == ["r0", "r1", "r2"]


def test_a_device_in_use_and_a_taint_are_told_as_the_taint() -> None:
    tainted = device("a", taints=[taint("example.test/ecc")])

    assert pieces(slice_(tainted), allocated(claim("held"), "a"), claim("c")) == {"count": 1, "taint": 1}


def test_a_constraint_is_a_reason_with_the_devices_that_agree() -> None:
    pool = slice_(*(device(f"d{place}", attributes={"numa": place // 2}) for place in range(4)))
    found = tell(pool, claim("c", request("r", count=3), constraints=[match("gpu.example.test/numa")]))

    assert [reason.kind for reason in found] == ["count", "constraint"]
    assert found[1].text == "the devices must have one gpu.example.test/numa: no more than 2 have the same, d0, d1"


def test_devices_that_agree_in_nothing_are_told_as_such() -> None:
    pool = slice_(*(device(f"d{place}", attributes={"numa": place}) for place in range(2)))
    found = tell(pool, claim("c", request("r", count=2), constraints=[match("gpu.example.test/numa")]))

    assert found[-1].text == "the devices must have one gpu.example.test/numa: no two have the same"


def test_a_distinct_attribute_tells_how_many_values_there_are() -> None:
    pool = slice_(*(device(f"d{place}", attributes={"rail": place % 2}) for place in range(4)))
    found = tell(pool, claim("c", request("r", count=3), constraints=[distinct("gpu.example.test/rail")]))

    assert found[1].text.startswith("the devices must differ in gpu.example.test/rail: 2 values among d0, d1, d2, d3")


def test_a_counter_tells_what_is_left_beside_the_uses_that_are_reasons_too() -> None:
    counters = slice_(name="s0", slice_count=2, shared_counters=(counter_set("cs", {"memory": "40Gi"}),))
    parts = [device(name, counters=[consumes("cs", {"memory": "30Gi"})]) for name in ("a", "b")]
    found = tell(counters, slice_(*parts, name="s1", slice_count=2), allocated(claim("held"), "b"), claim("c"))

    assert [reason.kind for reason in found] == ["count", "in-use", "counter"]
    assert found[2].text == "counter memory of set cs: 10Gi of 40Gi left, 30Gi needed for a"


def test_shares_are_told_with_what_they_take() -> None:
    nic = device("nic", capacity={"bandwidth": capacity("40Gi")}, allow_multiple_allocations=True)
    held = allocated(claim("held"), result("nic", share="s", consumed={"bandwidth": "30Gi"}))
    found = tell(slice_(nic), held, claim("c", request("r", capacity={"bandwidth": "20Gi"})))

    assert [reason.text for reason in found[1:]] == [
        "nic in use by default/held (30Gi of 40Gi bandwidth)",
        "nic: 10Gi of 40Gi bandwidth left, 20Gi needed",
    ]


def test_all_alternatives_have_a_reason_of_their_own() -> None:
    wanted = claim("c", alternatives("r", sub("big", f"{SIZE} > 8"), sub("two", count=2)))
    found = tell(slice_(device("a", attributes={"size": 1})), wanted)

    assert {reason.request for reason in found} == {"r", "r/big", "r/two"}


def test_a_request_for_all_devices_names_the_one_that_stands_in_the_way() -> None:
    found = tell(slice_(A, B), allocated(claim("held"), "b"), claim("c", request("r", allocation_mode="All")))

    assert [reason.text for reason in found[1:]] == ["all devices wanted: a", "b in use by default/held"]


def test_a_missing_class_is_a_reason() -> None:
    found = tell(slice_(A), claim("c", request("r", klass="nope")))

    assert found[-1].text == "device class nope does not exist"


def test_a_class_selector_tells_the_class() -> None:
    other = slice_(device("a"), driver="nic.example.test")
    found = tell(other, klass("gpu", DRIVER), claim("c", request("r", klass="gpu")))

    assert found[-1].text == f"no device of class gpu: its selector {DRIVER} is false for a"


def test_an_error_in_an_expression_names_expression_device_and_key() -> None:
    (reason,) = tell(slice_(A), claim("c", request("r", f"{SIZE} > 2")))[1:]

    assert reason.kind == "selector-error"
    assert reason.text == f"a: selector {SIZE} > 2 can't be evaluated: no such key: size"


def test_an_incomplete_pool_is_a_reason() -> None:
    found = tell(slice_(A, generation=8, slice_count=2), claim("c"))

    assert found[-1].text == "pool gpu.example.test/node-a generation 8: 1 of 2 slices"


def test_a_node_without_devices_says_so() -> None:
    (reason,) = tell(claim("c"))

    assert reason.text == "1 device wanted, node node-a has no device: no pool reaches it"


def test_a_gate_that_is_off_is_named() -> None:
    wanted = claim("c", request("r", capacity={"memory": 1}))
    found = tell(slice_(device("a", capacity={"memory": 4})), wanted, features=Features(consumable_capacity=False))

    assert any("DRAConsumableCapacity is off" in reason.text for reason in found)


def test_claims_that_fit_have_no_reasons() -> None:
    found = find(slice_(A), claim("c"))

    assert (found.fits, found.kept) == (True, {})


def test_a_search_that_gives_up_is_never_called_irreducible() -> None:
    wanted = claim("c", *(request(f"r{number}") for number in range(9)))
    pool = slice_(*(device(f"d{number}", attributes={"n": number}) for number in range(8)))
    asked = problem(pool, wanted)
    book = ClauseBook(PreparedCluster.from_problem(asked), asked.claims)
    found = find_reasons(Asked(book, budget_steps=3), asked.node)

    assert (found.fits, found.is_irreducible) == (None, False)


def test_all_searches_together_give_up_too() -> None:
    wanted = claim("c", *(request(f"r{number}") for number in range(3)))
    asked = problem(slice_(A, B), wanted)
    book = ClauseBook(PreparedCluster.from_problem(asked), asked.claims)
    base = find_reasons(Asked(book), asked.node)
    found = find_reasons(Asked(book, total_steps=base.oracle.steps // 2), asked.node)

    assert (base.is_irreducible, found.is_irreducible) == (True, False)
    assert found.fits is not True


def test_the_problem_of_the_reasons_alone_is_impossible_and_possible_without_any_of_them() -> None:
    found = find(slice_(A, B, C), allocated(claim("held"), "a"), claim("c", request("r", count=3)))

    assert not isinstance(allocate(found.relax(found.kept), share_ids=number_shares()), Allocation)
    for relaxation, keep in found.kept.items():
        relaxed = found.relax({**found.kept, relaxation: keep - 1})
        assert isinstance(allocate(relaxed, share_ids=number_shares()), Allocation)


def test_many_equal_devices_in_use_cost_few_searches() -> None:
    pool = slice_(*(device(f"d{number}") for number in range(64)))
    held = [allocated(claim(f"held-{number}"), f"d{number}") for number in range(64)]
    found = find(pool, *held, claim("c"))

    assert sum(found.kept.values()) == 65
    assert found.oracle.searches < 20


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("true && (false || true)", ("true", "false || true")),
        (f'{SIZE} == 1 && device.driver == "x && y"', (f"{SIZE} == 1", 'device.driver == "x && y"')),
        ("true || false && true", ("true || false && true",)),
        ("no such && thing", ("no such && thing",)),
    ],
)
def test_clauses_are_split_at_the_top_alone(text: str, parts: tuple[str, ...]) -> None:
    assert split_clauses(text, Features.all()) == parts


def test_of_all_devices_it_is_told_what_keeps_each_of_them_away() -> None:
    pool = slice_(device("a", attributes={"size": 4}), device("b", attributes={"size": 1}))
    wanted = claim("c", request("r", f"{SIZE} > 2", allocation_mode="All"))

    assert pieces(pool, allocated(claim("held"), "a"), wanted) == {"request": 1, "clause": 1, "use": 1}


def test_a_selector_that_reads_capacity_says_the_same_of_devices_that_are_lent_some() -> None:
    asks = 'has(device.capacity["gpu.example.test"].memory)'
    found = find(slice_(A), claim("c", request("r", asks, capacity={"memory": 1})))
    relaxed = found.relax({**found.kept, **{r: 0 for r in found.kept if r.part == "capacity"}})

    assert {relaxation.part for relaxation in found.kept} == {"count", "clause"}
    assert not isinstance(allocate(relaxed, share_ids=number_shares()), Allocation)


def test_few_of_many_equal_devices_in_use_cost_few_searches() -> None:
    pool = slice_(*(device(f"d{number}") for number in range(64)))
    held = [allocated(claim(f"held-{number}"), f"d{number}") for number in range(64)]
    found = find(pool, *held, claim("c", request("r", count=30)))

    assert found.kept == {relaxation: 1 if relaxation.part == "count" else 64 for relaxation in found.kept}
    assert found.oracle.searches < 25


def test_many_clauses_that_have_no_part_in_it_cost_few_searches() -> None:
    clauses = [f"{SIZE} > {number}" for number in range(-32, 0)]
    found = find(
        slice_(device("a", attributes={"size": 1})), claim("c", request("r", " && ".join([*clauses, "false"])))
    )

    assert [relaxation.name for relaxation in found.kept if relaxation.part == "clause"] == ["false"]
    assert found.oracle.searches < 20


def test_one_of_all_devices_in_use_is_enough() -> None:
    held = [allocated(claim(f"held-{name}"), name) for name in "ab"]
    wanted = claim("c", request("r", allocation_mode="All"))

    assert pieces(slice_(A, B, C), *held, wanted) == {"request": 1, "all": 1, "use": 1}


def test_the_limit_of_a_claim_is_told_where_it_is_exceeded() -> None:
    many = slice_(*(device(f"d{number}") for number in range(40)))
    (reason,) = tell(many, claim("c", request("r", count=35)))

    assert reason.text.startswith(
        "35 devices wanted (even 33 don't fit) and a claim can have 32 devices at most, node node-a has 40: "
    )


def test_a_pool_that_is_incomplete_for_want_of_a_gate_is_named() -> None:
    counters = slice_(name="s0", slice_count=3, shared_counters=(counter_set("cs", {"u": 4}),))
    plain = slice_(device("a"), name="s1", slice_count=3)
    grouped = slice_(device("b", counters=[consumes("cs", {"u": 1}, groups=("x",))]), name="s2", slice_count=3)
    found = tell(counters, plain, grouped, claim("c"), features=Features())

    assert found[-1].text == "pool gpu.example.test/node-a generation 1: 2 of 3 slices"


def test_requests_that_compete_are_told_with_the_devices_that_would_do_for_each() -> None:
    pool = slice_(device("a", attributes={"size": 1}), device("b", attributes={"size": 2}), device("d"))
    held = allocated(claim("held"), "d")
    wanted = claim("c", request("one", f"{SIZE} == 1"), request("two", f"{SIZE} == 2"), request("any"))
    found = {reason.request: reason.text for reason in tell(pool, held, wanted) if reason.kind == "count"}

    assert found == {
        "one": "1 device wanted, 1 of the 3 devices of node node-a would do: a",
        "two": "1 device wanted, 1 of the 3 devices of node node-a would do: b",
        "any": "1 device wanted, 2 of the 3 devices of node node-a would do: a, b",
    }


def test_a_device_with_a_taint_that_a_request_does_not_tolerate_would_not_do_for_it() -> None:
    pool = slice_(A, device("b", taints=[taint("example.test/ecc")]), C)
    held = allocated(claim("held"), "c")
    accepted = (DeviceToleration(key="example.test/ecc", operator="Exists"),)
    tolerant = [request(name, tolerations=accepted) for name in ("two", "any")]
    found = tell(pool, held, claim("c", request("one"), *tolerant))
    texts = {reason.request: reason.text for reason in found if reason.kind == "count"}

    assert texts["one"] == "1 device wanted, 1 of the 3 devices of node node-a would do: a"
    assert texts["two"] == "1 device wanted, 2 of the 3 devices of node node-a would do: a, b"

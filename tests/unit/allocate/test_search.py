"""The search: which devices a claim gets, in upstream's order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.model.claim import DerivedAttribute, DeviceRequest, ResourceClaim
from claimsmith.model.decision import Allocation, Pending, Refused, Undecided
from claimsmith.model.features import Features
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
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
    node,
    on_nodes,
    opaque,
    request,
    result,
    slice_,
    sub,
    taint,
    taint_rule,
    toleration,
)
from tests.unit.allocate.solving import ask, devices, problem, reasons, solve

A, B, C = device("a"), device("b"), device("c")


def test_the_first_device_of_the_class_is_taken() -> None:
    assert devices(ask(slice_(A, B), claim("c"))) == [["a"]]


def test_a_device_in_use_is_passed_over() -> None:
    assert devices(ask(slice_(A, B), allocated(claim("held"), "a"), claim("c"))) == [["b"]]


def test_a_device_held_with_admin_access_is_free() -> None:
    held = _as_admin(allocated(claim("held", request("r", admin_access=True)), "a"))

    assert devices(ask(slice_(A), held, claim("c"))) == [["a"]]


def test_two_claims_get_different_devices() -> None:
    assert devices(ask(slice_(A, B), claim("c"), claim("d"))) == [["a"], ["b"]]


def test_devices_of_one_request_come_in_order() -> None:
    assert devices(ask(slice_(A, B, C), claim("c", request("r", count=2)))) == [["a", "b"]]


def test_slices_are_tried_by_name_whatever_their_order_in_the_list() -> None:
    late = slice_(A, name="z", slice_count=2)
    early = slice_(B, name="a", slice_count=2)

    assert devices(ask(late, early, claim("c"))) == [["b"]]


def test_like_upstream_the_stable_allocator_tries_slices_as_they_are_listed() -> None:
    asked = problem(
        slice_(B, name="2", slice_count=2), slice_(A, name="1", slice_count=2), claim("c"), features=Features.none()
    )

    assert devices(solve(asked, like_upstream=True)) == [["b"]]
    assert devices(solve(asked)) == [["a"]]


def test_pools_with_binding_conditions_come_last() -> None:
    bound = slice_(device("a", binding_conditions=("x.example/ready",)), name="s1", pool="a-pool")

    assert devices(ask(bound, slice_(B, name="s2", pool="b-pool"), claim("c"))) == [["b"]]


def test_a_slice_whose_node_selector_cant_be_read_is_left_out_of_all_devices() -> None:
    signed = NodeSelectorRequirement(key="rank", operator="Gt", values=("-1",))
    unreadable = NodeSelector(terms=(NodeSelectorTerm(match_expressions=(signed,)),))
    wanted = claim("c", request("r", allocation_mode="All"))
    asked = problem(
        slice_(A, name="1", pool="p"),
        slice_(B, name="2", pool="q", node=None, node_selector=unreadable),
        wanted,
        on=node(labels={"rank": "1"}),
    )

    assert devices(solve(asked)) == [["a"]]


def test_a_device_of_another_node_is_not_seen() -> None:
    assert isinstance(ask(slice_(A, node="node-b"), claim("c")), Pending)


def test_request_selectors_narrow_the_class() -> None:
    big = device("big", attributes={"size": 2})
    wanted = request("r", 'device.attributes["gpu.example.test"].size == 2')

    assert devices(ask(slice_(device("small", attributes={"size": 1}), big), claim("c", wanted))) == [["big"]]


def test_a_selector_that_fails_on_one_device_leaves_the_others() -> None:
    wanted = request("r", 'device.attributes["gpu.example.test"].size == 2')
    decision = ask(slice_(A, device("b", attributes={"size": 2})), claim("c", wanted))

    assert devices(decision) == [["b"]]
    assert isinstance(decision, Allocation)
    assert [warning.devices[0].device for warning in decision.warnings] == ["a"]


def test_like_upstream_a_selector_that_fails_on_one_device_aborts() -> None:
    wanted = request("r", 'device.attributes["gpu.example.test"].size == 2')
    asked = problem(slice_(A, device("b", attributes={"size": 2})), claim("c", wanted))
    decision = solve(asked, like_upstream=True)

    assert isinstance(decision, Refused)
    assert decision.kind == "cel-runtime"


def test_like_upstream_a_device_in_use_hides_the_error_of_its_selector() -> None:
    wanted = request("r", 'device.attributes["gpu.example.test"].size == 2')
    asked = problem(slice_(A, device("b", attributes={"size": 2})), allocated(claim("held"), "a"), claim("c", wanted))

    assert devices(solve(asked, like_upstream=True)) == [["b"]]


def test_without_newer_gates_no_selector_sees_a_device_that_allows_several_allocations() -> None:
    shared = device("shared", allow_multiple_allocations=True)
    wanted = claim("c", request("r", "device.allowMultipleAllocations"))

    assert isinstance(ask(slice_(shared), wanted, features=Features.none()), Pending)
    assert devices(ask(slice_(shared), wanted)) == [["shared"]]


def test_a_missing_class_is_refused() -> None:
    decision = ask(slice_(A), claim("c", request("r", klass="unknown")))

    assert isinstance(decision, Refused)
    assert decision.kind == "no-class"


def test_more_than_32_devices_are_refused_before_any_search() -> None:
    decision = ask(slice_(A), claim("c", request("r", count=20), request("s", count=13)))

    assert isinstance(decision, Refused)
    assert (decision.kind, decision.steps) == ("limit", 0)
    assert "33 devices requested, at most 32 allowed per claim" in decision.text


@pytest.mark.parametrize(("like_upstream", "node_only"), [(False, True), (True, False)])
def test_a_node_with_more_than_32_devices_for_a_request_for_all_says_nothing_of_other_nodes(
    like_upstream: bool, node_only: bool
) -> None:
    many = slice_(*(device(f"d{number}") for number in range(33)))
    asked = problem(many, claim("c", request("r", allocation_mode="All")))
    decision = solve(asked, like_upstream=like_upstream)

    assert isinstance(decision, Refused)
    assert (decision.kind, decision.node_only) == ("limit", node_only)


def test_a_huge_count_is_refused() -> None:
    decision = ask(slice_(A), claim("c", request("r", count=2**62), request("s", count=2**62)))

    assert isinstance(decision, Refused)
    assert decision.kind == "limit"


def test_all_takes_every_matching_device() -> None:
    assert devices(ask(slice_(A, B), claim("c", request("r", allocation_mode="All")))) == [["a", "b"]]


def test_all_of_nothing_does_not_fit() -> None:
    assert isinstance(ask(slice_(), claim("c", request("r", allocation_mode="All"))), Pending)


def test_all_needs_each_device_to_be_free() -> None:
    decision = ask(slice_(A, B), allocated(claim("held"), "b"), claim("c", request("r", allocation_mode="All")))

    assert isinstance(decision, Pending)


def test_all_is_refused_while_a_pool_is_incomplete() -> None:
    decision = ask(slice_(A, slice_count=2), claim("c", request("r", allocation_mode="All")))

    assert isinstance(decision, Refused)
    assert (decision.kind, decision.node_only) == ("all-incomplete-pool", True)


def test_all_devices_of_an_alternative_are_looked_at_before_a_later_alternative_is_refused() -> None:
    wanted = alternatives("r", sub("one", allocation_mode="All"), sub("two", klass="missing"))
    decision = ask(slice_(A, slice_count=2), claim("c", wanted))

    assert isinstance(decision, Refused)
    assert decision.kind == "all-incomplete-pool"


def test_like_upstream_a_constraint_on_all_devices_counts_before_their_capacity() -> None:
    full = device("full", capacity={"bandwidth": capacity(10)}, allow_multiple_allocations=True)
    share = result("full", share="00000000-0000-4000-8000-000000000009", consumed={"bandwidth": 10})
    held = allocated(claim("held"), share)
    wanted = claim("c", request("r", allocation_mode="All"), constraints=[match("gpu.example.test/slot")])
    asked = problem(slice_(full), held, wanted)
    decision = solve(asked, like_upstream=True)

    assert isinstance(decision, Refused)
    assert decision.kind == "all-constraint"
    assert isinstance(solve(asked), Pending)


def test_like_upstream_a_constraint_on_all_devices_aborts_whichever_equal_devices_were_tried() -> None:
    two, all_of_them = request("r0", count=2), request("r1", allocation_mode="All")
    wanted = claim("c", two, all_of_them, constraints=[match("gpu.example.test/slot", "r1")])
    decision = solve(problem(slice_(A, B, C), wanted), like_upstream=True)

    assert isinstance(decision, Refused)
    assert decision.kind == "all-constraint"


def test_all_with_a_constraint_tries_the_next_alternative() -> None:
    both = slice_(device("a", attributes={"numa": 0}), device("b", attributes={"numa": 1}))
    wanted = alternatives("r", sub("every", allocation_mode="All"), sub("one"))
    asked = problem(both, claim("c", wanted, constraints=[match("gpu.example.test/numa")]))

    assert devices(solve(asked)) == [["a"]]
    aborted = solve(asked, like_upstream=True)
    assert isinstance(aborted, Refused)
    assert aborted.kind == "all-constraint"


def test_the_first_alternative_that_fits_is_chosen() -> None:
    wanted = alternatives("r", sub("two", count=2), sub("one"))
    decision = ask(slice_(A), claim("c", wanted))

    assert devices(decision) == [["a"]]
    assert isinstance(decision, Allocation)
    assert decision.results[0].results[0].request == "r/one"


def test_an_alternative_that_leaves_nothing_to_a_later_request_is_given_up() -> None:
    wanted = alternatives("r", sub("two", count=2), sub("one"))

    assert devices(ask(slice_(A, B), claim("c", wanted, request("s")))) == [["a", "b"]]


def test_an_alternative_beyond_the_limit_is_skipped() -> None:
    many = slice_(*(device(f"d{number:02d}") for number in range(40)))
    wanted = alternatives("r", sub("all", count=20), sub("few", count=1))
    decision = ask(many, claim("c", wanted, request("s", count=20)))

    assert isinstance(decision, Allocation)
    assert decision.results[0].results[0].request == "r/few"


def test_matching_devices_are_found_by_stepping_back() -> None:
    nodes = [0, 1, 1]
    pool = slice_(*(device(f"d{place}", attributes={"numa": numa}) for place, numa in enumerate(nodes)))
    decision = ask(pool, claim("c", request("r", count=2), constraints=[match("gpu.example.test/numa")]))

    assert devices(decision) == [["d1", "d2"]]


def test_a_device_without_the_attribute_satisfies_no_constraint() -> None:
    asked = claim("c", constraints=[match("gpu.example.test/numa")])

    assert devices(ask(slice_(A, device("b", attributes={"numa": 0})), asked)) == [["b"]]


def test_distinct_devices_differ_pairwise() -> None:
    values = ["red", "blue", "red", "green"]
    pool = slice_(*(device(f"d{place}", attributes={"rail": value}) for place, value in enumerate(values)))
    decision = ask(pool, claim("c", request("r", count=3), constraints=[distinct("gpu.example.test/rail")]))

    assert devices(decision) == [["d0", "d1", "d3"]]


def test_a_list_whose_gate_is_off_serves_the_first_device_only() -> None:
    listed = [device(name, attributes={"slot": (3, 4)}) for name in ("a", "b")]
    one = claim("c", request("r"), constraints=[distinct("gpu.example.test/slot")])
    two = claim("c", request("r", count=2), constraints=[distinct("gpu.example.test/slot")])

    assert devices(ask(slice_(*listed), one, features=Features())) == [["a"]]
    assert isinstance(ask(slice_(*listed), two, features=Features()), Pending)


def test_list_values_need_one_value_that_all_have() -> None:
    values = [(1, 2), (1,), (2,), (2,)]
    pool = slice_(*(device(f"d{place}", attributes={"numa": value}) for place, value in enumerate(values)))
    decision = ask(pool, claim("c", request("r", count=3), constraints=[match("gpu.example.test/numa")]))

    assert devices(decision) == [["d0", "d2", "d3"]]


def test_a_tainted_device_is_passed_over_and_gives_its_counters_back() -> None:
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("cs", {"u": 1}),))
    parts = slice_(
        device("bad", taints=[taint()], counters=[consumes("cs", {"u": 1})]),
        device("good", counters=[consumes("cs", {"u": 1})]),
        name="devices",
        slice_count=2,
    )

    assert devices(ask(counters, parts, claim("c"))) == [["good"]]


def test_tolerations_are_part_of_the_result() -> None:
    accepted = toleration("example.test/broken")
    decision = ask(slice_(device("a", taints=[taint()])), claim("c", request("r", tolerations=(accepted,))))

    assert isinstance(decision, Allocation)
    assert decision.results[0].results[0].tolerations == (accepted,)


def test_an_administrators_taint_keeps_claims_away() -> None:
    rule = taint_rule(taint=taint(), device="a")

    assert devices(ask(slice_(A, B), rule, claim("c"))) == [["b"]]


def test_partitions_of_a_card_share_its_counters() -> None:
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 3}),))
    parts = slice_(
        device("big", counters=[consumes("card", {"u": 2})]),
        device("half-0", counters=[consumes("card", {"u": 1})]),
        device("half-1", counters=[consumes("card", {"u": 1})]),
        name="devices",
        slice_count=2,
    )

    assert devices(ask(counters, parts, claim("c"), claim("d"))) == [["big"], ["half-0"]]
    assert isinstance(ask(counters, parts, claim("c"), claim("d"), claim("e")), Pending)


def test_a_device_in_use_that_is_no_longer_published_keeps_its_counters() -> None:
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 4}),))
    now = slice_(device("mid", counters=[consumes("card", {"u": 2})]), name="devices", slice_count=2)
    before = slice_(device("big", counters=[consumes("card", {"u": 3})]), name="devices", slice_count=2)
    asked = problem(counters, now, allocated(claim("held"), "big"), claim("c"), history=[before])

    assert "big held by default/held is no longer published" in reasons(solve(asked))
    assert devices(solve(asked, like_upstream=True)) == [["mid"]]


def test_nothing_is_left_of_a_pool_when_nobody_knows_what_a_vanished_device_takes() -> None:
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 4}),))
    now = slice_(device("mid", counters=[consumes("card", {"u": 2})]), name="devices", slice_count=2)
    decision = ask(counters, now, allocated(claim("held"), "big"), claim("c"))

    assert any("what it takes is not known" in text for text in reasons(decision))


def test_shares_fill_a_device_up() -> None:
    nic = device("nic", capacity={"bandwidth": capacity(10)}, allow_multiple_allocations=True)
    wanted = [claim(name, request("r", capacity={"bandwidth": 4})) for name in ("c", "d", "e")]

    assert devices(ask(slice_(nic), *wanted[:2])) == [["nic"], ["nic"]]
    assert isinstance(ask(slice_(nic), *wanted), Pending)


def test_each_share_has_an_id_and_its_amount() -> None:
    nic = device("nic", capacity={"bandwidth": capacity(10)}, allow_multiple_allocations=True)
    decision = ask(slice_(nic), claim("c", request("r", capacity={"bandwidth": 4})))

    assert isinstance(decision, Allocation)
    share = decision.results[0].results[0]
    assert share.share_id == "00000000-0000-4000-8000-000000000001"
    assert {name: str(amount) for name, amount in (share.consumed_capacity or {}).items()} == {"bandwidth": "4"}


def test_a_second_share_takes_no_counters() -> None:
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 4}),))
    shared = device(
        "a",
        capacity={"memory": capacity("40Gi", default="1Gi", minimum="1Gi")},
        counters=[consumes("card", {"u": 3})],
        allow_multiple_allocations=True,
    )
    wanted = [claim(name, request("r", capacity={"memory": "8Gi"})) for name in ("c", "d")]

    assert devices(ask(counters, slice_(shared, name="d", slice_count=2), *wanted)) == [["a"], ["a"]]


def test_a_capacity_that_cant_be_computed_aborts_like_upstream_and_is_passed_over_by_default() -> None:
    odd = device(
        "odd",
        capacity={"bandwidth": capacity("9E", default=1, minimum=1, step=2)},
        allow_multiple_allocations=True,
    )
    asked = problem(slice_(odd), claim("c", request("r", capacity={"bandwidth": "9223372036854775807"})))
    aborted = solve(asked, like_upstream=True)

    assert isinstance(aborted, Refused)
    assert aborted.kind == "capacity"
    assert isinstance(solve(asked), Pending)


def test_admin_access_ignores_who_holds_the_device() -> None:
    decision = ask(slice_(A), allocated(claim("held"), "a"), claim("c", request("r", admin_access=True)))

    assert devices(decision) == [["a"]]
    assert isinstance(decision, Allocation)
    assert decision.results[0].results[0].admin_access is True


def test_an_administrator_may_have_a_device_that_another_claim_of_the_pod_gets() -> None:
    decision = ask(slice_(A), claim("c"), claim("d", request("r", admin_access=True)))

    assert devices(decision) == [["a"], ["a"]]


def test_an_administrator_cant_have_a_device_of_the_same_claim() -> None:
    assert isinstance(ask(slice_(A), claim("c", request("r"), request("s", admin_access=True))), Pending)


def test_a_device_that_an_administrator_got_is_not_given_to_a_later_claim() -> None:
    decision = ask(slice_(A), claim("c", request("r", admin_access=True)), claim("d"))

    assert isinstance(decision, Pending)


def test_groups_that_dont_meet_keep_devices_apart() -> None:
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 4}),))
    parts = slice_(
        device("mig", counters=[consumes("card", {"u": 1}, groups=("mig",))]),
        device("vgpu", counters=[consumes("card", {"u": 1}, groups=("vgpu",))]),
        name="devices",
        slice_count=2,
    )
    decision = ask(counters, parts, allocated(claim("held"), "mig"), claim("c"))

    assert any("can't be used beside" in text for text in reasons(decision))


def test_of_devices_in_use_that_clash_the_first_decides_who_may_join() -> None:
    counters = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"u": 4}),))
    parts = slice_(
        device("a", counters=[consumes("card", {"u": 1}, groups=("x",))]),
        device("b", counters=[consumes("card", {"u": 1}, groups=("x",))]),
        device("plain", counters=[consumes("card", {"u": 1})]),
        name="devices",
        slice_count=2,
    )

    assert devices(ask(counters, parts, allocated(claim("held"), "a", "plain"), claim("c"))) == [["b"]]


def test_a_driver_without_node_operations_needs_a_node_that_can_do_without() -> None:
    skipping = slice_(A, skip_node_operations=("Prepare",))

    assert isinstance(ask(skipping, claim("c")), Pending)


def test_a_local_device_pins_the_claim_to_the_node() -> None:
    decision = ask(slice_(A), claim("c"))

    assert isinstance(decision, Allocation)
    selector = decision.results[0].node_selector
    assert selector is not None
    assert selector.terms[0].match_fields == (
        NodeSelectorRequirement(key="metadata.name", operator="In", values=("node-a",)),
    )


def test_network_devices_keep_their_own_node_selector() -> None:
    shared = slice_(A, node=None, node_selector=on_nodes(kubernetes_io_hostname="node-a"), pool="net")
    labelled = slice_(A, node=None, pool="net", node_selector=_hostname("node-a"))
    decision = ask(labelled, claim("c"))

    assert isinstance(decision, Allocation)
    assert decision.results[0].node_selector == labelled.node_selector
    assert isinstance(ask(shared, claim("c")), Pending)


def test_a_device_for_all_nodes_leaves_the_claim_free() -> None:
    decision = ask(slice_(A, node=None, all_nodes=True, pool="net"), claim("c"))

    assert isinstance(decision, Allocation)
    assert decision.results[0].node_selector is None


def test_class_configuration_comes_first_and_lists_its_requests() -> None:
    gpu = klass("gpu", config=[opaque({"from": "class"})])
    asked = claim("c", request("r"), request("s"), config=[opaque({"from": "claim"}, "s")])
    decision = ask(slice_(A, B), gpu, asked)

    assert isinstance(decision, Allocation)
    found = [(config.source, config.requests) for config in decision.results[0].config]
    assert found == [("FromClass", ()), ("FromClaim", ("s",))]


def test_configuration_of_an_alternative_that_was_not_chosen_is_left_out() -> None:
    wanted = alternatives("r", sub("two", count=2), sub("one"))
    asked = claim("c", wanted, request("s"), config=[opaque({}, "r/two"), opaque({}, "r/one")])
    decision = ask(slice_(A, B), asked)

    assert isinstance(decision, Allocation)
    assert [config.requests for config in decision.results[0].config] == [("r/one",)]


def test_a_pod_without_claims_to_allocate_is_served() -> None:
    decision = solve(problem(slice_(A)))

    assert decision == Allocation(node="node-a", results=(), steps=1)


def test_a_search_out_of_steps_is_undecided() -> None:
    asked = problem(slice_(A, B, C), claim("c", request("r", count=3)))

    assert isinstance(solve(asked, budget_steps=2), Undecided)


@pytest.mark.parametrize("gate", ["prioritized_list", "admin_access", "derived_attributes"])
def test_a_claim_that_needs_a_gate_is_refused_when_it_is_off(gate: str) -> None:
    wanted = {
        "prioritized_list": alternatives("r", sub("one")),
        "admin_access": request("r", admin_access=False),
        "derived_attributes": _with_derived(),
    }[gate]
    decision = ask(slice_(A), claim("c", wanted), features=Features(**{gate: False}))

    assert isinstance(decision, Refused)
    assert decision.kind == "feature-off"


def test_the_stable_allocator_knows_no_distinct_attributes() -> None:
    asked = (slice_(device("a", attributes={"slot": 3})), claim("c", constraints=[distinct("gpu.example.test/slot")]))
    decision = ask(*asked, features=Features.none())

    assert isinstance(decision, Refused)
    assert decision.kind == "invalid-claim"
    assert devices(ask(*asked, features=Features())) == [["a"]]


def test_a_derived_attribute_shadows_the_published_one() -> None:
    pool = slice_(device("a", attributes={"slot": 3}), device("b", attributes={"slot": 5}))
    wanted = _with_derived(count=2)
    decision = ask(pool, claim("c", wanted, constraints=[match("gpu.example.test/slot")]))

    assert devices(decision) == [["a", "b"]]


def _as_admin(held: ResourceClaim) -> ResourceClaim:
    """The claim with its devices held for administration only."""
    assert held.allocation is not None
    results = tuple(replace(item, admin_access=True) for item in held.allocation.results)
    return replace(held, allocation=replace(held.allocation, results=results))


def _hostname(name: str) -> NodeSelector:
    """Nodes with this host name."""
    test = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=(name,))
    return NodeSelector(terms=(NodeSelectorTerm(match_expressions=(test,)),))


def _with_derived(count: int = 1) -> DeviceRequest:
    """A request that computes which of a pair of slots a device has: odd or even."""
    odd = DerivedAttribute(name="gpu.example.test/slot", expression='device.attributes["gpu.example.test"].slot % 2')
    plain = request("r", count=count)
    assert plain.exactly is not None
    return replace(plain, exactly=replace(plain.exactly, derived_attributes=(odd,)))

"""Why claims are pending: the words that people need."""

from __future__ import annotations

from claimsmith.allocate.explain import explain_nodes
from claimsmith.allocate.explain.text import format_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason
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
    device_id,
    distinct,
    match,
    node,
    request,
    result,
    slice_,
    snapshot,
    sub,
    taint,
)
from tests.unit.allocate.solving import ask, reasons

A, B = device("a"), device("b")
SIZE = 'device.attributes["gpu.example.test"].size'


def explain(*objects: ResourceSlice | ResourceClaim) -> list[str]:
    return reasons(ask(*objects))


def test_a_device_in_use_names_its_holder() -> None:
    assert explain(slice_(A), allocated(claim("held"), "a"), claim("c")) == ["a in use by default/held"]


def test_all_devices_that_are_too_many_for_a_claim_are_counted() -> None:
    many = slice_(*(device(f"d{number}") for number in range(33)))
    wanted = claim("c", request("r", allocation_mode="All"))
    cluster = PreparedCluster.from_snapshot(snapshot(many, wanted), Features.all())
    found = explain_nodes(cluster, (wanted,), nodes=(node(),))

    assert [reason.text for reason in found] == ["33 devices requested, at most 32 allowed per claim"]


def test_a_missing_class_is_told() -> None:
    wanted = claim("c", request("r", klass="nope"))
    found = explain_nodes(PreparedCluster.from_snapshot(snapshot(wanted), Features.all()), (wanted,), nodes=(node(),))

    assert [reason.text for reason in found] == ["device class nope does not exist"]


def test_a_selector_shows_the_part_that_is_false() -> None:
    text = f'device.driver == "gpu.example.test" && {SIZE} == 2'
    found = explain(slice_(device("a", attributes={"size": 1})), claim("c", request("r", text)))

    assert f"a: selector {SIZE} == 2 is false" in found


def test_a_class_selector_names_the_class() -> None:
    other = slice_(device("a"), driver="nic.example.test")

    assert any(text.startswith("a: selector of class gpu") for text in explain(other, claim("c")))


def test_a_selector_that_fails_shows_why() -> None:
    found = explain(slice_(A), claim("c", request("r", f"{SIZE} == 2")))

    assert any("can't be evaluated" in text and "size" in text for text in found)


def test_no_device_at_all_is_said() -> None:
    assert explain(claim("c")) == ["no matching device on node-a"]


def test_a_taint_is_shown() -> None:
    tainted = device("a", taints=[taint("example.test/ecc", value="retired")])

    assert explain(slice_(tainted), claim("c")) == [
        "a tainted example.test/ecc=retired:NoSchedule, which is not tolerated"
    ]


def test_a_counter_shows_what_is_left_and_what_is_needed() -> None:
    counters = slice_(name="s0", slice_count=2, shared_counters=(counter_set("cs", {"memory": "40Gi"}),))
    parts = [device(name, counters=[consumes("cs", {"memory": "30Gi"})]) for name in ("a", "b")]
    found = explain(counters, slice_(*parts, name="s1", slice_count=2), allocated(claim("held"), "b"), claim("c"))

    assert "a: counter memory of set cs: 10Gi of 40Gi left, 30Gi needed" in found


def test_a_capacity_shows_what_is_left_and_what_is_needed() -> None:
    nic = device("nic", capacity={"bandwidth": capacity("40Gi")}, allow_multiple_allocations=True)
    held = allocated(claim("held"), result("nic", share="s", consumed={"bandwidth": "30Gi"}))
    found = explain(slice_(nic), held, claim("c", request("r", capacity={"bandwidth": "20Gi"})))

    assert found == ["nic: 10Gi of 40Gi bandwidth left, 20Gi needed"]


def test_a_capacity_that_no_device_has_is_told() -> None:
    found = explain(slice_(A), claim("c", request("r", capacity={"memory": 1})))

    assert found == ["a: capacity memory is not there"]


def test_an_incomplete_pool_says_how_much_of_it_is_there() -> None:
    found = explain(slice_(A, generation=8, slice_count=2), claim("c"))

    assert "pool gpu.example.test/node-a generation 8: 1 of 2 slices" in found


def test_an_invalid_pool_says_why() -> None:
    assert "pool gpu.example.test/node-a generation 1: duplicate device name a" in explain(slice_(A, A), claim("c"))


def test_an_outdated_pool_is_told() -> None:
    newer = slice_(B, name="s2", pool="p", generation=2, node="node-b")
    found = explain(slice_(A, name="s1", pool="p", slice_count=2), newer, claim("c"))

    assert "pool gpu.example.test/p: its slices for this node are older than the newest generation" in found


def test_too_few_devices_are_counted() -> None:
    found = explain(slice_(A, B), allocated(claim("held"), "b"), claim("c", request("r", count=2)))

    assert found == ["b in use by default/held", "2 devices needed, only 1 can be had"]


def test_the_largest_set_with_equal_values_is_told() -> None:
    pool = slice_(*(device(f"d{place}", attributes={"numa": place // 2}) for place in range(6)))
    found = explain(pool, claim("c", request("r", count=3), constraints=[match("gpu.example.test/numa")]))

    assert found == ["largest set with equal gpu.example.test/numa: 2, needed 3"]


def test_the_number_of_distinct_values_is_told() -> None:
    pool = slice_(*(device(f"d{place}", attributes={"rail": place % 2}) for place in range(6)))
    found = explain(pool, claim("c", request("r", count=3), constraints=[distinct("gpu.example.test/rail")]))

    assert found == ["only 2 distinct values of gpu.example.test/rail, 3 needed"]


def test_requests_that_only_clash_together_are_told() -> None:
    assert explain(slice_(A), claim("c"), claim("d")) == ["2 devices needed by all requests together, 1 can be had"]


def test_each_alternative_is_explained() -> None:
    wanted = alternatives("r", sub("big", f"{SIZE} == 2"), sub("small", f"{SIZE} == 1"))
    decision = ask(slice_(device("a", attributes={"size": 3})), claim("c", wanted))

    assert {reason.request for reason in getattr(decision, "reasons", ())} == {"r/big", "r/small"}


def test_devices_with_the_same_reason_are_told_together() -> None:
    pool = slice_(*(device(f"d{place}") for place in range(6)))
    found = explain(pool, allocated(claim("held"), *(f"d{place}" for place in range(6))), claim("c"))

    assert found == ["d0, d1, d2, d3 and 2 more in use by default/held"]


def test_a_gate_that_is_off_is_told() -> None:
    bound = device("a", binding_conditions=("x.example/ready",))
    decision = ask(slice_(bound), claim("c"), features=Features(device_binding_and_status=False))

    assert "a has binding conditions, which are off" in reasons(decision)


def on_three_nodes() -> tuple[Reason, ...]:
    nodes = [node(f"n{number}") for number in range(3)]
    slices = [slice_(A, name=f"s{item.name}", node=item.name) for item in nodes]
    held = [allocated(claim(f"held-{item.name}"), device_id("a", pool=item.name), node=item.name) for item in nodes]
    cluster = PreparedCluster.from_snapshot(snapshot(*nodes, *slices, *held))
    return explain_nodes(cluster, [claim("c")], nodes=nodes)


def test_text_for_people_goes_node_by_node() -> None:
    lines = format_reasons(on_three_nodes()).splitlines()

    assert lines[:2] == ["node n0:", "  claim default/c, request r: a in use by default/held-n0"]
    assert len(lines) == 6

"""The independent checker tells which slices, pools and devices a node can use: rules 1, 2, 3 and 7."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.model.features import Features
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders import claim, consumes, counter_set, device, device_id, node, on_nodes, result, slice_
from tests.unit.allocate.solving import problem
from tests.unit.allocate.verifying import find_broken, find_texts, granted

A, B = device("a"), device("b")


def test_a_slice_of_another_node_gives_no_devices() -> None:
    asked = problem(slice_(A), slice_(B, name="s2", node="node-b"), claim("c"))

    assert find_broken(asked, granted("a")) == []
    assert find_broken(asked, granted(result(device_id("b", pool="node-b")))) == ["device"]


@pytest.mark.parametrize(
    ("operator", "values", "found", "rules"),
    [
        ("In", ("a", "b"), "a", []),
        ("In", ("a", "b"), "c", ["device"]),
        ("In", ("a", "b"), None, ["device"]),
        ("NotIn", ("a", "b"), "c", []),
        ("NotIn", ("a", "b"), None, []),
        ("NotIn", ("a", "b"), "a", ["device"]),
        ("Exists", (), "a", []),
        ("Exists", (), None, ["device"]),
        ("DoesNotExist", (), None, []),
        ("DoesNotExist", (), "a", ["device"]),
        ("Gt", ("3",), "4", []),
        ("Gt", ("3",), "3", ["device"]),
        ("Lt", ("3",), "2", []),
        ("Lt", ("3",), "3", ["device"]),
    ],
)
def test_a_node_selector_lets_matching_nodes_in(
    operator: str, values: tuple[str, ...], found: str | None, rules: list[str]
) -> None:
    test = NodeSelectorRequirement(key="zone", operator=operator, values=values)
    selector = NodeSelector(terms=(NodeSelectorTerm(match_expressions=(test,)),))
    net = slice_(A, node=None, pool="net", node_selector=selector)
    asked = problem(net, claim("c"), on=node(labels={} if found is None else {"zone": found}))

    assert find_broken(asked, granted(result(device_id("a", pool="net")), selector=selector)) == rules


def test_a_device_of_another_node_in_a_slice_of_several_cant_be_selected() -> None:
    mixed = slice_(
        device("here", node_name="node-a"),
        device("there", node_name="node-b"),
        device("labelled", node_selector=on_nodes(zone="z")),
        device("anywhere", all_nodes=True),
        node=None,
        pool="net",
        per_device_node_selection=True,
    )
    asked = problem(mixed, claim("c"))

    assert find_broken(asked, granted(result(device_id("here", pool="net")))) == []
    assert find_broken(asked, granted(result(device_id("there", pool="net")))) == ["selector"]
    labelled = granted(result(device_id("labelled", pool="net")), selector=on_nodes(zone="z"))
    assert find_broken(asked, labelled) == ["selector"]
    assert find_broken(asked, granted(result(device_id("anywhere", pool="net")), selector=None)) == []


def test_a_slice_of_devices_for_other_nodes_alone_gives_none() -> None:
    far = slice_(device("a", node_name="node-b"), node=None, pool="net", per_device_node_selection=True)

    assert find_broken(problem(far, claim("c")), granted(result(device_id("a", pool="net")))) == ["device"]


def test_slices_with_groups_count_only_with_their_gate() -> None:
    counters = slice_(name="s1", slice_count=2, shared_counters=(counter_set("cs", {"u": 1}),))
    grouped = slice_(device("a", counters=[consumes("cs", {"u": 1}, groups=("g",))]), name="s2", slice_count=2)
    asked = problem(counters, grouped, claim("c"))

    assert find_broken(asked, granted("a")) == []
    assert find_broken(replace(asked, features=Features()), granted("a")) == ["device"]


def test_slices_for_single_devices_count_only_with_the_gate_of_partitions() -> None:
    mixed = slice_(device("a", node_name="node-a"), node=None, pool="net", per_device_node_selection=True)
    asked = problem(mixed, claim("c"))
    off = replace(asked, features=Features(partitionable_devices=False))

    assert find_broken(asked, granted(result(device_id("a", pool="net")))) == []
    assert find_broken(off, granted(result(device_id("a", pool="net")))) == ["device"]


def test_a_device_of_an_old_generation_is_gone() -> None:
    old, new = slice_(A, name="s1"), slice_(B, name="s2", generation=2)
    asked = problem(old, new, claim("c"))

    assert find_broken(asked, granted("b")) == []
    assert find_broken(asked, granted("a")) == ["device"]


def test_a_pool_with_a_slice_missing_gives_no_devices() -> None:
    half, rest = slice_(A, name="s1", slice_count=2), slice_(B, name="s2", slice_count=2)

    assert find_broken(problem(half, rest, claim("c")), granted("a")) == []
    assert find_broken(problem(half, claim("c")), granted("a")) == ["device"]


def test_a_pool_that_is_renewed_on_another_node_gives_no_devices_while_it_is_split() -> None:
    here = slice_(A, name="s1", pool="p", slice_count=2)
    there = slice_(B, name="s2", pool="p", slice_count=2, node="node-b")
    renewed = slice_(B, name="s3", pool="p", slice_count=1, generation=2, node="node-b")
    got = granted(result(device_id("a", pool="p")))

    assert find_broken(problem(here, there, claim("c")), got) == []
    assert find_broken(problem(here, there, renewed, claim("c")), got) == ["device"]


COUNTERS = slice_(name="s0", slice_count=3, shared_counters=(counter_set("cs", {"u": 1}),))
PLAIN = slice_(A, name="s1", slice_count=3)


@pytest.mark.parametrize(
    "third",
    [
        slice_(A, name="s2", slice_count=3),
        slice_(name="s2", slice_count=3, shared_counters=(counter_set("cs", {"u": 1}),)),
        slice_(device("b", counters=[consumes("other", {"u": 1})]), name="s2", slice_count=3),
        slice_(device("b", counters=[consumes("other", {})]), name="s2", slice_count=3),
        slice_(device("b", counters=[consumes("cs", {"v": 1})]), name="s2", slice_count=3),
        slice_(device("b", counters=[consumes("cs", {"v": 1})]), name="s2", slice_count=3, node="b", pool="node-a"),
    ],
    ids=["device-twice", "set-twice", "unknown-set", "unknown-set-nothing-taken", "unknown-counter", "on-another-node"],
)
def test_a_pool_that_contradicts_itself_gives_no_devices(third: ResourceSlice) -> None:
    sound = slice_(device("b", counters=[consumes("cs", {"u": 1})]), name="s2", slice_count=3)

    assert find_broken(problem(COUNTERS, PLAIN, sound, claim("c")), granted("a")) == []
    assert find_broken(problem(COUNTERS, PLAIN, third, claim("c")), granted("a")) == ["device"]


def test_slices_beyond_the_number_that_a_pool_tells_are_not_looked_at() -> None:
    surplus = slice_(device("b", counters=[consumes("nil", {"u": 1})]), name="s2", node="node-b", pool="node-a")

    assert find_broken(problem(slice_(A), surplus, claim("c")), granted("a")) == []


def test_counters_make_a_pool_invalid_only_with_their_gate() -> None:
    asked = problem(slice_(A, device("b", counters=[consumes("nil", {"u": 1})])), claim("c"))

    assert find_broken(asked, granted("a")) == ["device"]
    assert find_broken(replace(asked, features=Features(partitionable_devices=False)), granted("a")) == []


@pytest.mark.parametrize(("pool", "name"), [("node-a", "z"), ("other", "a")], ids=["unknown-device", "unknown-pool"])
def test_a_device_that_nobody_publishes_is_no_device(pool: str, name: str) -> None:
    asked = problem(slice_(A), claim("c"))

    assert find_broken(asked, granted(result(device_id(name, pool=pool)))) == ["device"]


def test_the_reason_says_what_is_wrong_with_the_pool() -> None:
    asked = problem(slice_(A, slice_count=2), claim("c"))

    assert any("pool is incomplete on node node-a" in text for text in find_texts(asked, granted("a")))


def test_a_device_for_a_request_that_nobody_made_is_refused() -> None:
    asked = problem(slice_(A), claim("c"))

    assert find_broken(asked, granted(result("a", request="s"))) == ["device", "requests"]


def test_every_claim_has_one_result() -> None:
    asked = problem(slice_(A, B), claim("c"), claim("d"))

    assert find_broken(asked, granted("a"), granted("b")) == []
    assert find_broken(asked, granted("a")) == ["results"]

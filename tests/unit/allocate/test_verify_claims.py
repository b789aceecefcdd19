"""The independent checker sees what a claim's devices must keep together: rules 4, 5, 6, 16 and 17."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import (
    AllocationConfig,
    DerivedAttribute,
    DeviceConstraint,
    DeviceRequest,
    OpaqueConfig,
)
from claimsmith.model.features import Features
from claimsmith.model.semver import parse_semver
from claimsmith.model.topology import NodeSelector, NodeSelectorTerm
from claimsmith.testing.builders import (
    DRIVER,
    Attribute,
    alternatives,
    claim,
    device,
    device_id,
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
)
from tests.unit.allocate.solving import problem
from tests.unit.allocate.verifying import HERE, SHARE_1, SHARE_2, find_broken, granted

A, B, C = device("a"), device("b"), device("c")
ATTRIBUTE = "gpu.example.test/x"


def test_a_claim_holds_at_most_32_devices() -> None:
    names = [f"d{number}" for number in range(33)]
    pool = slice_(*map(device, names))

    assert find_broken(problem(pool, claim("c", request(count=32))), granted(*names[:32])) == []
    assert find_broken(problem(pool, claim("c", request(count=33))), granted(*names)) == ["limit"]


@pytest.mark.parametrize("names", ["a", "abc"])
def test_a_request_gets_the_number_of_devices_that_it_asks_for(names: str) -> None:
    asked = problem(slice_(A, B, C), claim("c", request(count=2)))

    assert find_broken(asked, granted("a", "b")) == []
    assert find_broken(asked, granted(*names)) == ["count"]


def test_a_request_gets_no_device_twice_not_even_a_shared_one() -> None:
    shared = [device(name, allow_multiple_allocations=True) for name in ("a", "b")]
    asked = problem(slice_(*shared), claim("c", request(count=2)))
    one, two, again = result("a", share=SHARE_1), result("b", share=SHARE_2), result("a", share=SHARE_2)

    assert find_broken(asked, granted(one, two)) == []
    assert find_broken(asked, granted(one, again)) == ["count"]


@pytest.mark.parametrize(
    "requests", [("s", "r", "t"), ("r", "t", "r"), ("r", "s")], ids=["swapped", "torn-apart", "one-without"]
)
def test_each_request_has_one_group_of_devices_in_the_claims_order(requests: tuple[str, ...]) -> None:
    asked = problem(slice_(A, B, C), claim("c", request("r"), request("s"), request("t")))
    right = [result(name, request=of) for name, of in zip("abc", "rst", strict=True)]
    wrong = [result(name, request=of) for name, of in zip("abc", requests, strict=False)]

    assert find_broken(asked, granted(*right)) == []
    assert "requests" in find_broken(asked, granted(*wrong))


def test_alternatives_are_not_mixed() -> None:
    wanted = alternatives("r", sub("one", count=2), sub("two", count=2))
    asked = problem(slice_(A, B), claim("c", wanted))

    assert find_broken(asked, granted(*(result(name, request="r/two") for name in "ab"))) == []
    assert find_broken(asked, granted(result("a", request="r/one"), result("b", request="r/two"))) == ["requests"]


ALL = claim("c", request(allocation_mode="All"))


def test_all_means_every_device_that_can_be_selected() -> None:
    mixed = slice_(A, B, device("small", attributes={"size": 1}))
    wanted = request("r", '!has(device.attributes["gpu.example.test"].size)', allocation_mode="All")
    asked = problem(mixed, claim("c", wanted))

    assert find_broken(asked, granted("a", "b")) == []
    assert find_broken(asked, granted("a")) == ["all"]
    assert find_broken(asked, granted("a", "b", "small")) == ["selector", "all"]


def test_all_means_no_device_that_is_too_small_for_the_request() -> None:
    pool = slice_(device("a", capacity={"memory": 8}), device("b", capacity={"memory": 4}))
    asked = problem(pool, claim("c", request(allocation_mode="All", capacity={"memory": 8})))

    assert find_broken(asked, granted("a")) == []
    assert find_broken(asked, granted("a", "b")) == ["capacity", "all"]


def test_all_needs_pools_without_gaps() -> None:
    gap = slice_(B, name="s2", pool="gap", slice_count=2)
    twice = slice_(B, B, name="s2", pool="twice")

    assert find_broken(problem(slice_(A), ALL), granted("a")) == []
    assert find_broken(problem(slice_(A), gap, ALL), granted("a")) == ["all"]
    assert find_broken(problem(slice_(A), twice, ALL), granted("a")) == ["all"]


def constrained(
    first: Attribute | None, second: Attribute | None, constraint: DeviceConstraint, *, features: Features | None = None
) -> AllocationProblem:
    """Two requests, `r` and `s` with the alternative `s/one`, for devices with these values of an attribute."""
    a = device("a", attributes={} if first is None else {"x": first})
    b = device("b", attributes={} if second is None else {ATTRIBUTE: second})
    asked = claim("c", request("r"), alternatives("s", sub("one")), constraints=[constraint])
    return problem(slice_(a, b), asked, features=features)


BOTH = granted(result("a", request="r"), result("b", request="s/one"))


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        (1, 1, []),
        (1, 2, ["constraint"]),
        (1, None, ["constraint"]),
        (None, None, ["constraint"]),
        (1, True, ["constraint"]),
        ((1, 2), (2, 3), []),
        ((1, 2), 2, []),
        ((1, 2), (3, 4), ["constraint"]),
        ("x", ("x", "y"), []),
        (parse_semver("1.0.0"), parse_semver("1.0.0"), []),
        (parse_semver("1.0.0+a"), parse_semver("1.0.0+b"), ["constraint"]),
        (parse_semver("1.0.0"), "1.0.0", ["constraint"]),
    ],
)
def test_matching_devices_have_a_value_in_common(
    first: Attribute | None, second: Attribute | None, rules: list[str]
) -> None:
    assert find_broken(constrained(first, second, match(ATTRIBUTE)), BOTH) == rules


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        (1, 2, []),
        (1, 1, ["constraint"]),
        (1, None, ["constraint"]),
        (1, True, []),
        ((1, 2), (3, 4), []),
        ((1, 2), (2, 3), ["constraint"]),
    ],
)
def test_distinct_devices_have_no_value_in_common(
    first: Attribute | None, second: Attribute | None, rules: list[str]
) -> None:
    assert find_broken(constrained(first, second, distinct(ATTRIBUTE)), BOTH) == rules


def test_one_value_must_be_common_to_all_devices() -> None:
    pool = slice_(
        *(device(name, attributes={"x": value}) for name, value in zip("abc", ((1, 2), (2, 3), (3, 1)), strict=True))
    )
    wanted = claim("c", request(count=3), constraints=[match(ATTRIBUTE)])
    two = claim("c", request(count=2), constraints=[match(ATTRIBUTE)])

    assert find_broken(problem(pool, two), granted("a", "b")) == []
    assert find_broken(problem(pool, wanted), granted("a", "b", "c")) == ["constraint"]


@pytest.mark.parametrize(
    ("requests", "rules"),
    [
        ((), ["constraint"]),
        (("r", "s"), ["constraint"]),
        (("r", "s/one"), ["constraint"]),
        (("r",), []),
        (("s",), []),
        (("r", "s/other"), []),
    ],
)
def test_a_constraint_binds_the_requests_that_it_names(requests: tuple[str, ...], rules: list[str]) -> None:
    assert find_broken(constrained(1, 2, match(ATTRIBUTE, *requests)), BOTH) == rules


def test_lists_are_compared_only_with_their_gate() -> None:
    listed = constrained((1,), (1,), match(ATTRIBUTE))

    assert find_broken(listed, BOTH) == []
    assert find_broken(replace(listed, features=Features()), BOTH) == ["constraint"]


def test_an_attribute_of_another_domain_is_another_attribute() -> None:
    assert find_broken(constrained(1, 1, match("other.example.test/x")), BOTH) == ["constraint"]


def test_a_derived_attribute_takes_the_place_of_the_published_one() -> None:
    pool = slice_(device("a", attributes={"x": 3}), device("b", attributes={"x": 5}))
    size = f'device.attributes["{DRIVER}"].x'

    def asked(expression: str) -> AllocationProblem:
        derived = DerivedAttribute(name=ATTRIBUTE, expression=expression)
        wanted = DeviceRequest(name="r", exactly=replace(sub("", count=2), derived_attributes=(derived,)))
        return problem(pool, claim("c", wanted, constraints=[match(ATTRIBUTE)]))

    assert find_broken(asked(f"{size} / 3"), granted("a", "b")) == []
    assert find_broken(asked(f"{size} / 5"), granted("a", "b")) == ["constraint"]
    assert find_broken(asked(f"{size} / 0"), granted("a", "b")) == ["constraint"]


def test_a_device_of_one_node_pins_the_claim_to_it() -> None:
    asked = problem(slice_(A), claim("c"))

    assert find_broken(asked, granted("a", selector=HERE)) == []
    assert find_broken(asked, granted("a", selector=None)) == ["node-selector"]
    assert find_broken(asked, granted("a", selector=on_nodes(zone="z"))) == ["node-selector"]


def test_a_device_for_all_nodes_leaves_the_claim_free_unless_it_binds() -> None:
    got = result(device_id("a", pool="net"))
    free = problem(slice_(A, node=None, all_nodes=True, pool="net"), claim("c"))
    binding = problem(slice_(device("a", binds_to_node=True), node=None, all_nodes=True, pool="net"), claim("c"))

    assert find_broken(free, granted(got, selector=None)) == []
    assert find_broken(free, granted(got, selector=HERE)) == ["node-selector"]
    assert find_broken(binding, granted(got, selector=HERE)) == []
    assert find_broken(binding, granted(got, selector=None)) == ["node-selector"]


def test_node_selectors_of_several_devices_are_joined_without_repetition() -> None:
    one = slice_(A, name="s1", node=None, pool="p1", node_selector=on_nodes(zone="z"))
    two = slice_(B, name="s2", node=None, pool="p2", node_selector=on_nodes(zone="z", rack="r"))
    at = node(labels={"zone": "z", "rack": "r"})
    asked = problem(one, two, claim("c", request(count=2)), on=at)
    got = (result(device_id("a", pool="p1")), result(device_id("b", pool="p2")))
    twice = (*on_nodes(zone="z").terms[0].match_expressions, *on_nodes(zone="z", rack="r").terms[0].match_expressions)

    assert find_broken(asked, granted(*got, selector=on_nodes(zone="z", rack="r"))) == []
    assert find_broken(asked, granted(*got, selector=on_nodes(zone="z"))) == ["node-selector"]
    repeated = NodeSelector(terms=(NodeSelectorTerm(match_expressions=twice),))
    assert find_broken(asked, granted(*got, selector=repeated)) == ["node-selector"]


def test_the_selection_of_a_single_device_counts_instead_of_its_slices() -> None:
    pool = slice_(
        device("a", node_selector=on_nodes(zone="z")),
        device("b", node_name="node-a"),
        node=None,
        pool="net",
        per_device_node_selection=True,
    )
    asked = problem(pool, claim("c"), on=node(labels={"zone": "z"}))
    a, b = result(device_id("a", pool="net")), result(device_id("b", pool="net"))

    assert find_broken(asked, granted(a, selector=on_nodes(zone="z"))) == []
    assert find_broken(asked, granted(a, selector=HERE)) == ["node-selector"]
    assert find_broken(asked, granted(b, selector=HERE)) == []


def config(source: str, *requests: str, parameters: object) -> AllocationConfig:
    """Configuration of an allocation for the builders' driver."""
    return AllocationConfig(source=source, requests=requests, opaque=OpaqueConfig(driver=DRIVER, parameters=parameters))


CLASS, PART = config("FromClass", parameters=1), config("FromClaim", "s", parameters=2)


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        (CLASS,),
        (PART,),
        (PART, CLASS),
        (CLASS, CLASS, PART),
        (config("FromClaim", parameters=1), PART),
        (config("FromClass", "r", "s", parameters=1), PART),
        (CLASS, config("FromClaim", parameters=2)),
        (CLASS, config("FromClaim", "s", parameters=3)),
    ],
)
def test_configuration_is_the_classes_then_the_claims(wrong: tuple[AllocationConfig, ...]) -> None:
    asked = problem(
        slice_(A, B),
        klass("gpu", config=[opaque(1)]),
        claim("c", request("r"), request("s"), config=[opaque(2, "s")]),
    )
    got = (result("a", request="r"), result("b", request="s"))

    assert find_broken(asked, granted(*got, config=(CLASS, PART))) == []
    assert find_broken(asked, granted(*got, config=wrong)) == ["config"]


def test_configuration_of_an_alternative_goes_with_it() -> None:
    wanted = alternatives("r", sub("one"), sub("two"))
    asked = problem(
        slice_(A, B), claim("c", wanted, request("s"), config=[opaque(1, "r/one"), opaque(2, "r/two"), opaque(3, "r")])
    )
    got = (result("a", request="r/two"), result("b", request="s"))
    one, two, both = (
        config("FromClaim", name, parameters=place) for place, name in enumerate(("r/one", "r/two", "r"), start=1)
    )

    assert find_broken(asked, granted(*got, config=(two, both))) == []
    assert find_broken(asked, granted(*got, config=(one, two, both))) == ["config"]
    assert find_broken(asked, granted(*got, config=(both,))) == ["config"]


def test_configuration_of_a_class_goes_with_the_alternative_that_uses_it() -> None:
    wanted = alternatives("r", sub("one", klass="big"), sub("two", klass="small"))
    classes = (klass("big", config=[opaque(1)]), klass("small", config=[opaque(2)]))
    asked = problem(slice_(A), *classes, claim("c", wanted))
    big, small = (config("FromClass", parameters=number) for number in (1, 2))

    assert find_broken(asked, granted(result("a", request="r/two"), config=(small,))) == []
    assert find_broken(asked, granted(result("a", request="r/two"), config=(big,))) == ["config"]

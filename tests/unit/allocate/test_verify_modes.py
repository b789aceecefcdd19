"""The independent checker allows in each mode what docs/deviations.md says, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.model.claim import AllocationResult
from claimsmith.model.features import Features
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    claim,
    consumes,
    counter_set,
    device,
    device_id,
    match,
    node,
    request,
    result,
    slice_,
    sub,
    taint,
)
from tests.unit.allocate.solving import problem
from tests.unit.allocate.verifying import find_broken, granted

COUNTERS = slice_(name="counters", slice_count=2, shared_counters=(counter_set("card", {"units": 4}),))
NOW = slice_(device("mid", counters=[consumes("card", {"units": 2})]), name="devices", slice_count=2)
BEFORE = slice_(device("big", counters=[consumes("card", {"units": 3})]), name="devices", slice_count=2)
GROUP = "gpu.example.test/group"
STABLE = replace(Features.none(), partitionable_devices=True, prioritized_list=True)
ONE, TWO = device("one", attributes={"group": 1}), device("two", attributes={"group": 2})
UNREADABLE = NodeSelector(
    terms=(NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="zone", operator="Near"),)),)
)


def broken(asked: AllocationProblem, *allocations: AllocationResult) -> tuple[list[str], list[str]]:
    """Return the rules that are broken by default, and like upstream."""
    return find_broken(asked, *allocations), find_broken(asked, *allocations, like_upstream=True)


def test_a_vanished_device_keeps_its_counters_by_default_alone() -> None:
    asked = problem(COUNTERS, NOW, allocated(claim("held"), "big"), claim("c"), history=[BEFORE])

    assert broken(asked, granted("mid")) == (["counter"], [])


def test_a_vanished_device_is_remembered_from_an_older_generation() -> None:
    older = replace(BEFORE, generation=0, devices=(device("big", counters=[consumes("card", {"units": 1})]),))
    asked = problem(COUNTERS, NOW, older, allocated(claim("held"), "big"), claim("c"))

    assert broken(asked, granted("mid")) == ([], [])


def test_a_vanished_device_that_nobody_remembers_leaves_nothing_by_default() -> None:
    asked = problem(COUNTERS, NOW, allocated(claim("held"), "big"), claim("c"))

    assert broken(asked, granted("mid")) == (["counter"], [])


def test_counters_of_another_node_make_a_pool_complete_for_the_stable_implementation_alone() -> None:
    far = slice_(name="far", node="node-b", pool="p", slice_count=1, shared_counters=(counter_set("card", {"u": 1}),))
    near = slice_(ONE, name="near", pool="p", slice_count=2)
    asked = problem(far, near, claim("c"), features=STABLE)
    found = broken(asked, granted(result(device_id("one", pool="p"))))

    assert found == ([], ["device"])


def test_a_slice_whose_node_selector_cant_be_read_ends_upstreams_search_alone() -> None:
    asked = problem(slice_(ONE), slice_(TWO, node=None, pool="net", node_selector=UNREADABLE), claim("c"))

    assert broken(asked, granted("one")) == ([], ["abort"])


def test_a_node_selector_that_can_be_read_ends_no_search() -> None:
    readable = NodeSelector(
        terms=(
            NodeSelectorTerm(
                match_expressions=(
                    NodeSelectorRequirement(key="example.com/zone", operator="In", values=("z",)),
                    NodeSelectorRequirement(key="cards", operator="Gt", values=("3",)),
                    NodeSelectorRequirement(key="gone", operator="DoesNotExist"),
                ),
                match_fields=(NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=("x",)),),
            ),
        )
    )
    asked = problem(slice_(ONE), slice_(TWO, node=None, pool="net", node_selector=readable), claim("c"))

    assert broken(asked, granted("one")) == ([], [])


def test_a_selector_for_all_devices_that_fails_on_one_ends_upstreams_search_alone() -> None:
    odd = device("odd")
    wanted = claim("c", request("r", 'device.attributes["gpu.example.test"].group == 1', allocation_mode="All"))
    asked = problem(slice_(ONE, odd), wanted)

    assert broken(asked, granted("one")) == ([], ["abort"])


def test_a_selector_that_a_false_one_hides_ends_no_search() -> None:
    missing = 'device.attributes["gpu.example.test"].missing == 1'
    wanted = claim("c", alternatives("r", sub("few", "true"), sub("all", "false", missing, allocation_mode="All")))

    assert broken(problem(slice_(ONE), wanted), granted(result("one", request="r/few"))) == ([], [])


def test_a_constraint_that_excludes_one_of_all_devices_ends_upstreams_search_alone() -> None:
    wanted = claim(
        "c",
        alternatives("r", sub("all", "true", allocation_mode="All"), sub("one", "true")),
        constraints=[match(GROUP)],
    )

    assert broken(problem(slice_(ONE, TWO), wanted), granted(result("one", request="r/one"))) == ([], ["abort"])


def test_all_devices_of_which_one_is_not_to_be_had_are_passed_over_in_both_modes() -> None:
    tainted = device("two", attributes={"group": 2}, taints=[taint("x", effect="NoSchedule")])
    wanted = claim(
        "c",
        alternatives("r", sub("all", "true", allocation_mode="All"), sub("one", "true")),
        constraints=[match(GROUP)],
    )

    assert broken(problem(slice_(ONE, tainted), wanted), granted(result("one", request="r/one"))) == ([], [])


def test_all_devices_while_a_pool_is_incomplete_are_wrong_in_both_modes() -> None:
    wanted = claim("c", alternatives("r", sub("all", "true", allocation_mode="All"), sub("one", "true")))
    asked = problem(slice_(ONE), slice_(TWO, pool="other", slice_count=2), wanted, on=node())

    assert broken(asked, granted(result("one", request="r/one"))) == (["all"], ["all"])

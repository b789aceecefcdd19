"""Explanations grouped over nodes, as text, as notes of events, and as JSON."""

from __future__ import annotations

import json

from claimsmith.allocate.explain.context import ExplainContext
from claimsmith.allocate.explain.pending import ExplainLimits
from claimsmith.allocate.explain.report import encode_explanation, format_explanation, format_note, merge_groups
from claimsmith.allocate.explain.text import EVENT_LENGTH_MAX
from claimsmith.allocate.explain.values import Explanation
from claimsmith.model.decision import Reason
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.testing.builders import allocated, claim, device, device_id, node, request, slice_, taint
from tests.unit.allocate.explaining import why

SIZE = 'device.attributes["gpu.example.test"].size'
WANTED = claim("c", request("r", f"{SIZE} > 4"))


def cluster(count: int, *, size: int = 1, prefix: str = "small") -> list[Node | ResourceSlice]:
    """Nodes with two equal devices each."""
    objects: list[Node | ResourceSlice] = []
    for number in range(count):
        name = f"{prefix}-{number}"
        devices = (device(f"gpu-{place}", attributes={"size": size}) for place in range(2))
        objects += [node(name), slice_(*devices, name=f"s-{name}", node=name, pool=name)]
    return objects


def mixed() -> Explanation:
    """Three nodes of small devices, and two of large ones that claims hold."""
    large = cluster(2, size=8, prefix="large")
    held = [
        allocated(claim(f"held-{number}-{place}"), device_id(f"gpu-{place}", pool=f"large-{number}"))
        for number in range(2)
        for place in range(2)
    ]
    return why(*cluster(3), *large, *held, WANTED)


def test_equal_nodes_are_one_group() -> None:
    found = mixed()

    assert [group.nodes for group in found.groups] == [("small-0", "small-1", "small-2"), ("large-0", "large-1")]


def test_nodes_of_which_a_clause_says_otherwise_are_no_group() -> None:
    found = why(*cluster(2), *cluster(1, size=8, prefix="large"), claim("c", request("r", f"{SIZE} in [1]", count=3)))

    assert [group.nodes for group in found.groups] == [("small-0", "small-1"), ("large-0",)]


def test_a_hundred_equal_nodes_cost_no_more_searches_than_one() -> None:
    limits = ExplainLimits(with_fixes=False)

    assert why(*cluster(100), WANTED, limits=limits).searches == why(*cluster(1), WANTED, limits=limits).searches


def test_devices_in_another_order_make_no_other_group() -> None:
    sizes = {"node-0": (1, 2), "node-1": (2, 1)}
    objects: list[Node | ResourceSlice] = []
    for name, (one, two) in sizes.items():
        devices = (device("gpu-0", attributes={"size": one}), device("gpu-1", attributes={"size": two}))
        objects += [node(name), slice_(*devices, name=f"s-{name}", node=name, pool=name)]

    assert [group.nodes for group in why(*objects, WANTED).groups] == [("node-0", "node-1")]


def test_nodes_of_many_kinds_are_looked_at_up_to_a_limit_and_the_rest_is_called_so() -> None:
    objects = [*cluster(3), *cluster(1, size=2, prefix="other")]
    objects[-1] = slice_(device("gpu-0", attributes={"size": 2}), name="s", node="other-0", pool="other-0")
    held = allocated(claim("held"), device_id("gpu-0", pool="other-0"))
    found = why(*objects, held, WANTED, limits=ExplainLimits(groups_max=1))

    assert [(len(group.nodes), group.is_irreducible) for group in found.groups] == [(3, True), (1, False)]
    assert not found.is_irreducible


def test_what_the_other_pods_of_a_gang_hold_is_told_as_theirs_on_nodes_that_are_not_looked_at_in_full() -> None:
    other = slice_(device("gpu-0", attributes={"size": 8}), name="s", node="other", pool="other")
    held = allocated(claim("held"), device_id("gpu-0", pool="other"))
    context = ExplainContext(beside=frozenset({held.ref}))
    found = why(*cluster(3), node("other"), other, held, WANTED, limits=ExplainLimits(groups_max=1), context=context)

    assert "gpu-0 in use by the other pods of the gang" in format_explanation(found)


def test_groups_of_the_same_rules_are_told_together() -> None:
    objects = [
        *cluster(2),
        node("one"),
        slice_(device("gpu-0", attributes={"size": 1}), name="s", node="one", pool="one"),
    ]
    found = why(*objects, WANTED)

    assert len(found.groups) == 2
    assert [group.nodes for group in merge_groups(found.groups)] == [("small-0", "small-1", "one")]


def test_the_text_tells_groups_reasons_and_what_would_help() -> None:
    lines = format_explanation(mixed()).splitlines()

    assert lines[0] == "3 nodes (small-0, small-1, small-2), as on small-0:"
    assert f"    gpu-0, gpu-1: selector {SIZE} > 4 is false" in lines
    assert "    gpu-0 in use by default/held-0-0, gpu-1 in use by default/held-0-1" in lines
    assert f"  claim default/c, request r: relax {SIZE} > 4 to >= 1 → 3 nodes (small-0, small-1, small-2)" in lines


def test_a_note_tells_how_many_nodes_and_which_one_is_shown() -> None:
    note = format_note(why(*cluster(2), WANTED, limits=ExplainLimits(with_fixes=False)))
    reason = f"gpu-0, gpu-1: selector {SIZE} > 4 is false"

    assert note == f"0/2 nodes can serve the claims; 2 nodes, as on small-0: claim default/c, request r: {reason}"


def test_a_note_of_one_node_names_no_node() -> None:
    note = format_note(why(*cluster(1), WANTED, limits=ExplainLimits(with_fixes=False)))

    assert note.startswith("0/1 nodes can serve the claims; claim default/c, request r: gpu-0, gpu-1: selector")


def test_a_note_tells_nodes_first_that_could_serve_at_another_time() -> None:
    assert (
        "; 2 nodes, as on large-0: claim default/c, request r: gpu-0 in use by"
        in format_note(mixed()).partition("small")[0]
    )


def test_a_note_is_never_too_long() -> None:
    objects: list[Node | ResourceSlice] = []
    for number in range(40):
        tainted = device(f"device-{number}", taints=[taint(f"example.test/broken-{number}")])
        objects += [node(f"n{number}"), slice_(tainted, name=f"s{number}", node=f"n{number}", pool=f"p{number}")]
    note = format_note(why(*objects, claim("c")))

    assert EVENT_LENGTH_MAX // 2 < len(note) <= EVENT_LENGTH_MAX


def test_json_has_the_reasons_and_the_changes() -> None:
    value = json.loads(json.dumps(encode_explanation(mixed())))
    group, fix = value["groups"][0], value["fixes"][0]

    assert (value["nodes"], value["irreducible"], group["nodes"]) == (5, True, ["small-0", "small-1", "small-2"])
    assert group["reasons"][1]["data"]["expression"] == f"{SIZE} > 4"
    assert fix["changes"] == [{"op": "set-selectors", "claim": "default/c", "request": "r", "value": [f"{SIZE} >= 1"]}]


def test_a_node_that_can_take_no_pod_is_told_with_that_reason_alone() -> None:
    refused = {"small-0": (Reason(kind="node", text="node is unschedulable", node="small-0"),)}
    found = why(*cluster(2), WANTED, refused=refused)

    assert [reason.text for group in found.groups if group.nodes == ("small-0",) for reason in group.reasons] == [
        "node is unschedulable"
    ]


def test_lifting_what_keeps_the_pod_away_is_told_where_devices_would_do() -> None:
    refused = {"large-0": (Reason(kind="node", text="node is unschedulable", node="large-0"),)}
    found = why(*cluster(1), *cluster(1, size=8, prefix="large"), WANTED, refused=refused)
    fix = next(fix for fix in found.fixes if fix.changes[0].op == "change-pod")

    assert fix.nodes == ("large-0",)

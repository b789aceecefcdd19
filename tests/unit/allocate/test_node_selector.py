"""Node selectors: which nodes match, which selectors are wrong, what can serve as an index key."""

from __future__ import annotations

import pytest

from claimsmith.allocate.prepared.node_selector import NAME_ANCHOR, find_anchors, find_selector_error, matches_node
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders import node


def labels(key: str, operator: str, *values: str) -> NodeSelector:
    test = NodeSelectorRequirement(key=key, operator=operator, values=values)
    return NodeSelector(terms=(NodeSelectorTerm(match_expressions=(test,)),))


def fields(operator: str, *values: str) -> NodeSelector:
    test = NodeSelectorRequirement(key="metadata.name", operator=operator, values=values)
    return NodeSelector(terms=(NodeSelectorTerm(match_fields=(test,)),))


NODE = node("node-a", labels={"zone": "a", "rank": "7"})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (labels("zone", "In", "a", "b"), True),
        (labels("zone", "In", "b"), False),
        (labels("absent", "In", "a"), False),
        (labels("zone", "NotIn", "b"), True),
        (labels("absent", "NotIn", "a"), True),
        (labels("zone", "Exists"), True),
        (labels("absent", "DoesNotExist"), True),
        (labels("rank", "Gt", "6"), True),
        (labels("rank", "Gt", "7"), False),
        (labels("rank", "Lt", "8"), True),
        (labels("zone", "Gt", "1"), False),
        (fields("In", "node-a"), True),
        (fields("In", "node-b"), False),
        (fields("NotIn", "node-b"), True),
    ],
)
def test_operators_match_as_upstream(selector: NodeSelector, expected: bool) -> None:
    assert matches_node(selector, NODE) is expected


def test_a_term_without_requirements_matches_nothing() -> None:
    assert not matches_node(NodeSelector(terms=(NodeSelectorTerm(),)), NODE)


def test_one_term_that_holds_is_enough() -> None:
    both = NodeSelector(terms=(*labels("zone", "In", "b").terms, *labels("zone", "In", "a").terms))

    assert matches_node(both, NODE)


@pytest.mark.parametrize(
    ("selector", "part"),
    [
        (labels("zone", "In"), "no values"),
        (labels("zone", "Near", "a"), "allowed operators In"),
        (labels("zone", "Exists", "a"), "allowed 0"),
        (labels("rank", "Gt", "many"), "allowed an integer"),
        (labels("rank", "Lt", "9223372036854775808"), "allowed an integer"),
        (labels("rank", "Gt", "-1"), "found '-1'"),
        (labels("", "Exists"), "found ''"),
        (labels("zone", "In", "a", "no value"), "found 'no value'"),
        (fields("In", "a", "b"), "allowed exactly one"),
        (fields("Exists"), "allowed In, NotIn"),
    ],
)
def test_a_wrong_selector_is_told_apart(selector: NodeSelector, part: str) -> None:
    error = find_selector_error(selector)

    assert error is not None
    assert part in error


def test_the_requirement_with_the_fewest_values_is_the_index_key() -> None:
    term = NodeSelectorTerm(
        match_expressions=(
            NodeSelectorRequirement(key="zone", operator="In", values=("a", "b")),
            NodeSelectorRequirement(key="host", operator="In", values=("h",)),
        )
    )

    assert find_anchors(NodeSelector(terms=(term,))) == frozenset({("host", "h")})


def test_the_name_of_the_node_is_the_best_index_key() -> None:
    assert find_anchors(fields("In", "node-a")) == frozenset({(NAME_ANCHOR, "node-a")})


@pytest.mark.parametrize(
    "selector",
    [
        labels("zone", "Exists"),
        labels("zone", "In"),
        NodeSelector(terms=(*labels("a", "In", "1").terms, *labels("b", "In", "1").terms)),
    ],
)
def test_a_selector_that_says_nothing_certain_has_no_index_key(selector: NodeSelector) -> None:
    assert find_anchors(selector) is None

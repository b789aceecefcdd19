"""A prepared cluster follows its snapshots: the answers are those of a cluster that is prepared anew."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.allocate.prepared.index import KNOWN_SHAPES_MAX, PreparedCluster
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision, Pending
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders import (
    allocated,
    claim,
    consumes,
    counter_set,
    device,
    node,
    request,
    slice_,
    snapshot,
    taint,
    taint_rule,
)
from tests.unit.allocate.solving import number_shares

A, B = device("a"), device("b")


def decide(cluster: PreparedCluster, *nodes: Node, wanted: ResourceClaim | None = None) -> list[Decision]:
    wanted = wanted or claim("c")
    return list(allocate_on_nodes(cluster, (wanted,), nodes=nodes or (node(),), share_ids=number_shares()))


def first(decisions: list[Decision]) -> str | None:
    """The device of the first decision; None when the claim doesn't fit."""
    decision = decisions[0]
    if isinstance(decision, Allocation):
        return decision.results[0].results[0].device
    assert isinstance(decision, Pending), decision
    return None


def test_each_node_gets_a_decision_in_order() -> None:
    nodes = [node(name) for name in ("node-a", "node-b", "node-c")]
    cluster = PreparedCluster.from_snapshot(snapshot(*nodes, slice_(A, node="node-b")))
    decisions = decide(cluster, *nodes)

    assert [decision.node for decision in decisions] == ["node-a", "node-b", "node-c"]
    assert [isinstance(decision, Allocation) for decision in decisions] == [False, True, False]


def test_a_claim_that_takes_a_device_is_seen() -> None:
    before = snapshot(slice_(A, B))
    cluster = PreparedCluster.from_snapshot(before)

    assert first(decide(cluster)) == "a"
    cluster.update(_with_claims(before, allocated(claim("held"), "a")))
    assert first(decide(cluster)) == "b"


def test_a_claim_that_gives_its_device_back_is_seen() -> None:
    before = snapshot(slice_(A), allocated(claim("held"), "a"))
    cluster = PreparedCluster.from_snapshot(before)

    assert first(decide(cluster)) is None
    cluster.update(replace(before, claims={}))
    assert first(decide(cluster)) == "a"


def test_counters_follow_the_claims() -> None:
    counters = slice_(name="s0", slice_count=2, shared_counters=(counter_set("cs", {"u": 1}),))
    parts = [device(name, counters=[consumes("cs", {"u": 1})]) for name in ("a", "b")]
    before = snapshot(counters, slice_(*parts, name="s1", slice_count=2))
    cluster = PreparedCluster.from_snapshot(before)

    assert first(decide(cluster)) == "a"
    cluster.update(_with_claims(before, allocated(claim("held"), "b")))
    assert first(decide(cluster)) is None
    cluster.update(before)
    assert first(decide(cluster)) == "a"


def test_a_changed_slice_is_read_anew() -> None:
    before = snapshot(slice_(A))
    cluster = PreparedCluster.from_snapshot(before)

    assert first(decide(cluster)) == "a"
    cluster.update(replace(before, slices=(slice_(device("a", taints=[taint()]), B),)))
    assert first(decide(cluster)) == "b"


def test_a_slice_of_a_network_pool_reaches_nodes_that_were_looked_at_before() -> None:
    before = snapshot()
    cluster = PreparedCluster.from_snapshot(before)

    assert first(decide(cluster)) is None
    cluster.update(replace(before, slices=(slice_(A, node=None, all_nodes=True, pool="net"),)))
    assert first(decide(cluster)) == "a"


def test_a_removed_slice_is_forgotten() -> None:
    before = snapshot(slice_(A, name="s1", pool="p1"), slice_(B, name="s2", pool="p2"))
    cluster = PreparedCluster.from_snapshot(before)

    assert first(decide(cluster)) == "a"
    cluster.update(replace(before, slices=before.slices[1:]))
    assert first(decide(cluster)) == "b"


def test_a_newer_generation_on_another_node_is_noticed() -> None:
    here = slice_(A, name="s1", pool="p", slice_count=2)
    there = slice_(B, name="s2", pool="p", slice_count=2, node="node-b")
    before = snapshot(here, there)
    cluster = PreparedCluster.from_snapshot(before)

    assert first(decide(cluster)) == "a"
    cluster.update(replace(before, slices=(here, replace(there, generation=2))))
    assert first(decide(cluster)) is None


def test_a_node_with_other_labels_is_looked_at_again() -> None:
    net = slice_(A, node=None, pool="net", node_selector=_zone("a"))
    cluster = PreparedCluster.from_snapshot(snapshot(net))

    assert first(decide(cluster, node(labels={"zone": "b"}))) is None
    assert first(decide(cluster, node(labels={"zone": "a"}))) == "a"


def test_an_administrators_taint_comes_and_goes() -> None:
    before = snapshot(slice_(A, B))
    cluster = PreparedCluster.from_snapshot(before)
    cluster.update(replace(before, taint_rules=(taint_rule(taint=taint(), device="a"),)))

    assert first(decide(cluster)) == "b"
    cluster.update(before)
    assert first(decide(cluster)) == "a"


def test_slices_by_node_selector_are_found_without_trying_each_on_each_node() -> None:
    count = 300
    nodes = [node(f"n{number}", labels={"zone": f"z{number}"}) for number in range(count)]
    slices = [
        slice_(A, name=f"s{number:03d}", node=None, pool=f"p{number}", node_selector=_zone(f"z{number}"))
        for number in range(count)
    ]
    cluster = PreparedCluster.from_snapshot(snapshot(*nodes, *slices))
    visible = [cluster.find_visible(item) for item in nodes]

    assert [len(found) for found in visible] == [1] * count
    assert all(isinstance(decision, Allocation) for decision in decide(cluster, *nodes))


def test_the_answers_of_many_selectors_are_not_kept_for_ever() -> None:
    cluster = PreparedCluster.from_snapshot(snapshot(slice_(device("a", attributes={"size": 1}))))
    for number in range(KNOWN_SHAPES_MAX + 2):
        wanted = claim("c", request("r", f'device.attributes["gpu.example.test"].size == {number}'))
        decide(cluster, wanted=wanted)

    assert cluster.selectors.known_texts < KNOWN_SHAPES_MAX
    assert first(decide(cluster)) == "a"


def test_pods_of_the_same_shape_share_their_answers() -> None:
    cluster = PreparedCluster.from_snapshot(snapshot(slice_(A)))
    decide(cluster, wanted=claim("c"))
    known = cluster.selectors.known_texts
    decide(cluster, wanted=claim("d"))

    assert cluster.selectors.known_texts == known


def _with_claims(before: ClusterSnapshot, *claims: ResourceClaim) -> ClusterSnapshot:
    return replace(before, claims={item.ref: item for item in claims})


def _zone(value: str) -> NodeSelector:
    test = NodeSelectorRequirement(key="zone", operator="In", values=(value,))
    return NodeSelector(terms=(NodeSelectorTerm(match_expressions=(test,)),))


def test_a_change_on_one_node_leaves_the_others_prepared() -> None:
    kept: ResourceSlice = slice_(A)
    before = snapshot(kept)
    cluster = PreparedCluster.from_snapshot(before)
    decide(cluster)
    view = cluster.view_node(node())
    cluster.update(replace(before, slices=(kept, slice_(B, name="other", node="node-b"))))

    assert cluster.view_node(node()) is view

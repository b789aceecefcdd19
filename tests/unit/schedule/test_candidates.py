from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.cluster.cache import ClusterCache
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.node import Node, NodeTaint
from claimsmith.model.workload import Container, Pod, PodToleration
from claimsmith.schedule.candidates import CandidateIndex, Candidates, PodNeeds
from claimsmith.schedule.filter import NodeFilter
from claimsmith.schedule.score import Placement, order_nodes
from claimsmith.schedule.usage import UsageIndex, plan_requests
from claimsmith.testing.builders import allocated, claim, node, pod, quantities, result

GPU = "vendor.example/gpu"


class Cluster:
    """A cache whose changes reach an index, as in the scheduler."""

    def __init__(self, *nodes: Node, placement: Placement = "spread") -> None:
        self.cache, self.usage = ClusterCache(), UsageIndex()
        self.index = CandidateIndex(self.cache.nodes, self.usage, matches=matches_node, placement=placement)
        self.cache.subscribe_pods(self.usage.see_pod)
        self.cache.subscribe_pods(lambda old, new: self.touch(*(item.node_name for item in (old, new) if item)))
        self.cache.subscribe_nodes(lambda old, new: self.touch(*(item.name for item in (old, new) if item)))
        for item in nodes:
            self.cache.see_node(None, item)

    def touch(self, *names: str) -> None:
        for name in names:
            self.index.touch(name)

    def place(self, name: str, node_name: str, *, cpu: int = 1) -> Pod:
        placed = pod(name, node_name=node_name, requests={"cpu": cpu})
        self.cache.see_pod(None, placed)
        return placed

    def find(self, wanted: Pod, *claims: ResourceClaim) -> list[str]:
        return in_order(self.index.find(PodNeeds(pod=wanted, allocated=claims)))

    def scan(self, wanted: Pod, placement: Placement) -> list[str]:
        """What a look at every node says."""
        checks = NodeFilter(pod=wanted, wanted=plan_requests(wanted), claims=(), matches=matches_node)
        pairs = [(item, self.usage.find(item)) for item in self.cache.nodes.values()]
        fits = [(item, used) for item, used in pairs if not checks.find_reasons(item, used)]
        return [item.name for item in order_nodes(fits, placement=placement)]


def in_order(found: Candidates) -> list[str]:
    return [item.name for _, nodes in found.groups for item in nodes]


def small(*names: str) -> tuple[Node, ...]:
    return tuple(node(name, allocatable={"cpu": 4}) for name in names)


def test_the_emptiest_node_comes_first() -> None:
    cluster = Cluster(*small("a", "b", "c"))
    cluster.place("x", "a")

    assert cluster.find(pod("p")) == ["b", "c", "a"]


def test_a_pod_like_an_earlier_one_costs_a_look_at_the_changed_nodes_alone() -> None:
    cluster = Cluster(*small(*(f"n{number:04}" for number in range(1000))))
    cluster.find(pod("first", requests={"cpu": 1}))
    first = cluster.index.looks
    cluster.place("first", "n0000")
    found = cluster.find(pod("second", requests={"cpu": 1}))

    assert (first, cluster.index.looks - first, found[0], found[-1]) == (1000, 1, "n0001", "n0000")


def test_many_changes_of_one_node_cost_one_look() -> None:
    cluster = Cluster(*small("a", "b"))
    cluster.find(pod("p"))
    before = cluster.index.looks
    for number in range(5):
        cluster.place(f"x{number}", "a", cpu=0)
    cluster.find(pod("p"))

    assert cluster.index.looks - before == 1


def test_a_pod_that_asks_for_something_else_is_judged_by_itself() -> None:
    cluster = Cluster(*small("a"))
    cluster.find(pod("p"))

    assert cluster.find(pod("q", requests={"cpu": 5})) == []


def test_pods_that_tolerate_different_taints_are_judged_apart() -> None:
    cluster = Cluster(node("a", taints=[NodeTaint(key="k", effect="NoSchedule")]))
    tolerant = pod("q", tolerations=(PodToleration(key="k", operator="Exists"),))

    assert (cluster.find(pod("p")), cluster.find(tolerant)) == ([], ["a"])


def test_a_node_that_is_gone_is_no_candidate() -> None:
    first, second = small("a", "b")
    cluster = Cluster(first, second)
    cluster.find(pod("p"))
    cluster.cache.see_node(first, None)

    assert cluster.find(pod("p")) == ["b"]


def test_an_allocated_claim_leaves_its_node_alone() -> None:
    cluster = Cluster(*small("a", "b"))

    assert cluster.find(pod("p", "claim"), allocated(claim(), "gpu-0", node="b")) == ["b"]


def test_two_claims_of_different_nodes_leave_none() -> None:
    cluster = Cluster(*small("a", "b"))
    claims = [allocated(claim(name), "gpu-0", node=name) for name in ("a", "b")]

    assert cluster.find(pod("p", "a", "b"), *claims) == []


def test_a_claim_of_no_single_node_leaves_the_nodes_that_can_use_it() -> None:
    able = replace(node("b"), declared_features=frozenset({"DRAOptionalNodeOperations"}))
    device = replace(result("gpu-0"), skip_node_operations=("NodePrepareResources",))
    cluster = Cluster(node("a"), able)

    assert cluster.find(pod("p", "claim"), allocated(claim(), device, node=None)) == ["b"]


def test_it_tells_whether_a_node_is_short_of_something() -> None:
    cluster = Cluster(*small("a", "b"))
    cluster.place("x", "a", cpu=4)
    wanted = PodNeeds(pod=pod("p", requests={"cpu": 1}))
    short = cluster.index.find(wanted).is_short
    cluster.cache.see_pod(cluster.cache.pods[next(iter(cluster.cache.pods))], None)

    assert (short, cluster.index.find(wanted).is_short) == (True, False)


def test_nodes_are_grouped_by_who_serves_extended_resources() -> None:
    cluster = Cluster(node("devices"), node("plugin", allocatable={GPU: 1}))
    main = Container(name="main", requests=quantities({GPU: 1}))
    found = cluster.index.find(PodNeeds(pod=pod("p", containers=[main]), class_names={GPU: "gpus"}))
    groups = {item.name: plan.claim is not None for plan, nodes in found.groups for item in nodes}

    assert groups == {"devices": True, "plugin": False}


def test_a_resource_that_gets_a_class_is_judged_anew() -> None:
    cluster = Cluster(node("a"))
    wanted = pod("p", containers=[Container(name="main", requests=quantities({GPU: 1}))])
    without = in_order(cluster.index.find(PodNeeds(pod=wanted, class_names={GPU: None})))

    assert (without, in_order(cluster.index.find(PodNeeds(pod=wanted, class_names={GPU: "gpus"})))) == ([], ["a"])


def test_refused_nodes_have_their_reasons() -> None:
    cluster = Cluster(*small("a"), node("b", unschedulable=True))
    refused = cluster.index.find(PodNeeds(pod=pod("p"))).find_refused()

    assert {name: [reason.text for reason in reasons] for name, reasons in refused.items()} == {
        "b": ["node is unschedulable"]
    }


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["place", "end", "cordon", "open", "drop", "find"]), st.integers(0, 4), st.integers(0, 3)
    ),
    max_size=30,
)


@pytest.mark.parametrize("placement", ["spread", "pack"])
@given(changes=CHANGES)
def test_it_agrees_with_a_look_at_every_node(placement: Placement, changes: Iterable[tuple[str, int, int]]) -> None:
    cluster = Cluster(*small(*"abcde"), placement=placement)
    for number, (change, where, amount) in enumerate(changes):
        apply(cluster, number, change, name="abcde"[where], amount=amount)
        for cpu in (amount, 3) if change == "find" else ():
            wanted = pod("p", requests={"cpu": cpu})

            assert cluster.find(wanted) == cluster.scan(wanted, placement)


def apply(cluster: Cluster, number: int, change: str, *, name: str, amount: int) -> None:
    old = cluster.cache.nodes.get(name)
    match change:
        case "place":
            cluster.place(f"x{number}", name, cpu=amount)
        case "end":
            for placed in [item for item in cluster.cache.pods.values() if item.node_name == name][:1]:
                cluster.cache.see_pod(placed, None)
        case "cordon" | "open":
            cluster.cache.see_node(old, node(name, allocatable={"cpu": 4}, unschedulable=change == "cordon"))
        case "drop" if old is not None:
            cluster.cache.see_node(old, None)

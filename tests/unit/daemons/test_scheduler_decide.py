from __future__ import annotations

from dataclasses import replace

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.cluster.cache import ClusterCache, Reservation
from claimsmith.daemons.scheduler_decide import Decider, Placed, Unplaced
from claimsmith.model.claim import ResourceClaim
from claimsmith.schedule.queue import Change
from claimsmith.testing.builders import (
    allocated,
    claim,
    device,
    device_id,
    gpu,
    klass,
    node,
    pod,
    result,
    slice_,
    taint,
    taint_rule,
)


class Cluster:
    """Nodes with one card each, all in use."""

    def __init__(self, nodes: int = 20) -> None:
        self.cache = ClusterCache()
        self.decider = Decider(self.cache, PreparedCluster())
        self.cache.see_class(None, klass())
        self.holders: dict[str, ResourceClaim] = {}
        for number in range(nodes):
            name = f"n{number:02}"
            self.cache.see_node(None, node(name))
            self.cache.see_slice(None, slice_(gpu("gpu-0"), name=name, node=name))
            held = allocated(claim(f"held-{name}"), result(device_id("gpu-0", pool=name)), node=name)
            self.holders[name] = held
            self.cache.see_claim(None, held)

    def decide(self, name: str) -> str:
        """The node for a new pod with a claim of its own; empty for none."""
        wanted = pod(name, name, requests={"cpu": 1})
        self.cache.see_claim(None, claim(name))
        self.cache.see_pod(None, wanted)
        outcome = self.decider.decide(wanted)
        if isinstance(outcome, Placed):
            decided = tuple(replace(item, allocation=got) for item, got in outcome.allocated)
            self.cache.assume(Reservation(pod=wanted, node=outcome.node, claims=decided))
        return outcome.node if isinstance(outcome, Placed) else ""

    def searches_of(self, name: str) -> int:
        """On how many nodes devices are searched for."""
        before = self.decider.searches
        self.decide(name)
        return self.decider.searches - before

    def free(self, node_name: str) -> None:
        held = self.holders[node_name]
        self.cache.see_claim(held, replace(held, allocation=None, reserved_for=()))


def test_a_pod_like_one_that_found_no_devices_is_not_searched_for_again() -> None:
    cluster = Cluster()

    assert [cluster.searches_of(name) for name in ("a", "b", "c")] == [20, 0, 0]


def test_a_device_that_comes_free_costs_one_search_and_is_found() -> None:
    cluster = Cluster()
    cluster.decide("a")
    cluster.free("n07")
    before = cluster.decider.searches

    assert (cluster.decide("b"), cluster.decider.searches - before) == ("n07", 1)


def test_a_device_that_was_taken_meanwhile_is_not_found_twice() -> None:
    cluster = Cluster()
    cluster.free("n07")

    assert [cluster.decide(name) for name in ("a", "b")] == ["n07", ""]


def test_a_new_slice_is_searched() -> None:
    cluster = Cluster()
    cluster.decide("a")
    cluster.cache.see_slice(None, slice_(device("gpu-1"), name="more", node="n03", pool="more"))

    assert cluster.decide("b") == "n03"


def test_a_taint_rule_that_goes_makes_all_nodes_hopeful() -> None:
    cluster, rule = Cluster(), taint_rule(taint=taint(), pool="n05")
    cluster.free("n05")
    cluster.cache.see_taint_rule(None, rule)
    tainted = cluster.decide("a")
    cluster.cache.see_taint_rule(rule, None)

    assert (tainted, cluster.decide("b")) == ("", "n05")


def test_a_pod_that_was_not_searched_for_waits_for_devices_all_the_same() -> None:
    cluster = Cluster()
    cluster.decide("a")
    wanted = pod("b", "b")
    cluster.cache.see_claim(None, claim("b"))
    outcome = cluster.decider.decide(wanted)

    assert isinstance(outcome, Unplaced)
    assert all(outcome.helps(change) for change in changes())
    assert "in use" in outcome.message


def changes() -> list[Change]:
    return [Change(kind) for kind in ("claim-freed", "slice", "class", "taint-rule", "node")]


def test_no_explanation_is_made_unless_it_is_asked_for() -> None:
    cluster = Cluster()
    cluster.cache.see_claim(None, claim("a"))
    outcome = cluster.decider.decide(pod("a", "a"), explain=False)

    assert isinstance(outcome, Unplaced)
    assert (outcome.message, outcome.reasons) == ("", ())


def test_the_devices_of_nodes_that_are_not_looked_at_one_by_one_are_counted() -> None:
    cluster = Cluster(nodes=230)
    cluster.cache.see_claim(None, claim("one"))
    wanted = pod("one", "one")
    cluster.cache.see_pod(None, wanted)
    outcome = cluster.decider.decide(wanted)

    assert isinstance(outcome, Unplaced)
    assert outcome.message.startswith("0/230 nodes can serve the claims; 200 nodes, as on n00: ")
    assert outcome.message.endswith("claim default/one, request r: 30 devices on 30 nodes: in use")

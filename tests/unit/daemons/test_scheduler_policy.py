"""Pods placed by a policy: the best node and devices, and never none where the first would do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.policy.objective import FRAGMENTATION, PACK, POLICIES, SPREAD, Policy
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_bind import build_reservation
from claimsmith.daemons.scheduler_decide import Decider, Placed, Unplaced
from claimsmith.model.claim import ResourceClaim
from claimsmith.testing.builders import claim, gpu, klass, node, pod, request, slice_

BIG = 'device.capacity["gpu.example.test"].memory.compareTo(quantity("40Gi")) > 0'


class Cluster:
    """A scheduler's view of a cluster, decided by a policy."""

    def __init__(self, policy: Policy | None, **cards: str) -> None:
        self.cache = ClusterCache()
        self.decider = Decider(self.cache, PreparedCluster(), policy=policy)
        self.cache.see_class(None, klass())
        for name, memory in cards.items():
            self.add_node(name, *memory.split())

    def add_node(self, name: str, *memory: str, cpu: str = "64") -> None:
        self.cache.see_node(None, node(name, allocatable={"cpu": cpu}))
        self.cache.see_slice(
            None, slice_(*(gpu(f"gpu-{n}", memory=m) for n, m in enumerate(memory)), name=name, node=name)
        )

    def decide(self, name: str, *selectors: str, cpu: str = "1") -> Placed | Unplaced:
        wanted = claim(name, request("r", *selectors))
        made = pod(name, name, requests={"cpu": cpu})
        self.cache.see_claim(None, wanted)
        self.cache.see_pod(None, made)
        outcome = self.decider.decide(made)
        if isinstance(outcome, Placed):
            self.cache.assume(build_reservation(made, outcome))
        return outcome

    def place(self, name: str, *selectors: str, cpu: str = "1") -> str:
        """Node and device of a new pod; empty for none."""
        outcome = self.decide(name, *selectors, cpu=cpu)
        if isinstance(outcome, Unplaced):
            return ""
        return f"{outcome.node}/{outcome.allocated[0][1].results[0].device}"


def test_without_a_policy_the_first_device_is_taken() -> None:
    assert Cluster(None, a="80Gi 24Gi").place("p") == "a/gpu-0"


@pytest.mark.parametrize("policy", [PACK, SPREAD, FRAGMENTATION])
def test_a_small_wish_takes_the_small_device(policy: Policy) -> None:
    cluster = Cluster(policy, a="80Gi", b="24Gi 80Gi")

    assert cluster.place("p") == "b/gpu-0"
    assert [cluster.place(name, BIG) != "" for name in ("q", "r")] == [True, True]


def test_pods_pack_on_a_node_that_is_in_use() -> None:
    cluster = Cluster(PACK, a="24Gi 24Gi", b="24Gi 24Gi")
    found = [cluster.place(name) for name in ("p", "q")]

    assert len({item.partition("/")[0] for item in found}) == 1


def test_pods_spread_over_nodes() -> None:
    cluster = Cluster(SPREAD, a="24Gi 24Gi", b="24Gi 24Gi")
    found = [cluster.place(name) for name in ("p", "q")]

    assert {item.partition("/")[0] for item in found} == {"a", "b"}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_node_without_room_is_passed_over(policy: Policy) -> None:
    cluster = Cluster(policy, a="24Gi 24Gi")
    cluster.add_node("b", "80Gi", cpu="1")

    assert cluster.place("p", cpu="2").startswith("a/")
    assert cluster.place("q", BIG, cpu="2") == ""


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_a_pod_that_fits_nowhere_is_told_why_and_placed_when_a_device_comes_free(policy: Policy) -> None:
    cluster = Cluster(policy, a="24Gi")
    cluster.place("p")
    outcome = cluster.decide("q")
    held = cluster.cache.claims.find(claim("p").ref)
    assert held is not None
    free(cluster, held)

    assert isinstance(outcome, Unplaced)
    assert "gpu-0 in use by default/p" in outcome.message
    assert cluster.place("r") == "a/gpu-0"


def free(cluster: Cluster, held: ResourceClaim) -> None:
    """Let the API server show a claim without its devices."""
    cluster.cache.forget(pod("p", "p"))
    cluster.cache.see_claim(held, replace(held, allocation=None, reserved_for=()))


def test_claims_like_those_that_found_nothing_are_not_searched_for_again() -> None:
    cluster = Cluster(PACK, a="24Gi", b="24Gi")
    for name in ("p", "q", "r"):
        cluster.place(name)
    before = cluster.decider.searches
    cluster.place("s")

    assert cluster.decider.searches - before <= 1

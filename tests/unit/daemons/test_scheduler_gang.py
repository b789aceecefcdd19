"""The decision for the pods of one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from claimsmith.allocate.joint import JointDecision
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_bind import build_reservation
from claimsmith.daemons.scheduler_claims import Unplaced
from claimsmith.daemons.scheduler_decide import Decider
from claimsmith.daemons.scheduler_gang import GangDecider, GangPlaced
from claimsmith.daemons.scheduler_joint import JointDecider
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import Container, Pod, PodClaim
from claimsmith.schedule.gangs import Gang
from claimsmith.schedule.queue import Change
from claimsmith.testing.builders import (
    allocated,
    alternatives,
    claim,
    consumes,
    counter_set,
    device,
    gpu,
    klass,
    node,
    on_nodes,
    pod,
    pod_group,
    quantities,
    slice_,
    sub,
)

PART = 'device.attributes["gpu.example.test"].part'


class Cluster:
    """A cluster with gangs, decided jointly or in turn."""

    def __init__(self, group: PodGroup | None = None, *, is_joint: bool = True) -> None:
        self.cache = ClusterCache()
        cluster = PreparedCluster()
        self.decider = Decider(self.cache, cluster)
        joint = JointDecider(self.cache, cluster, self.decider) if is_joint else None
        self.gangs = GangDecider(self.cache, self.decider, joint=joint)
        self.group = group or pod_group()
        self.pods: list[Pod] = []
        self.cache.see_class(None, klass())
        self.cache.see_group(None, self.group)

    def add_cards(self, name: str, *devices: str, cpu: str = "64", labels: Mapping[str, str] | None = None) -> None:
        self.cache.see_node(None, node(name, allocatable={"cpu": cpu}, labels=labels))
        if devices:
            self.cache.see_slice(None, slice_(*map(gpu, devices), name=name, node=name))

    def add_pod(self, name: str, *claims: ResourceClaim, cpu: str = "1", node_name: str = "") -> Pod:
        for item in claims:
            if self.cache.claims.find(item.ref) is None:
                self.cache.see_claim(None, item)
        names = [item.ref.name for item in claims]
        made = pod(name, *names, requests={"cpu": cpu}, pod_group="gang", node_name=node_name)
        self.cache.see_pod(None, made)
        self.pods.append(made)
        return made

    def gang(self) -> Gang:
        waiting = tuple(item for item in self.pods if not item.node_name)
        placed = tuple(item for item in self.pods if item.node_name)
        return Gang(ref=self.group.ref, group=self.group, waiting=waiting, placed=placed)

    def decide(self) -> GangPlaced | Unplaced:
        return self.gangs.decide(self.gang())

    def nodes(self) -> dict[str, str]:
        """The nodes of the pods that get one."""
        outcome = self.decide()
        return (
            {item.ref.name: placed.node for item, placed in outcome.placed} if isinstance(outcome, GangPlaced) else {}
        )

    def message(self) -> str:
        outcome = self.decide()
        assert isinstance(outcome, Unplaced)
        return outcome.message


def halves(cluster: Cluster) -> None:
    """A card that is one whole or two halves, and two pods that would rather have the whole."""
    cluster.add_cards("node-a")
    parts = [("whole", 2), ("half-1", 1), ("half-2", 1)]
    devices = [
        device(name, attributes={"part": name.split("-")[0]}, counters=[consumes("card", {"slots": slots})])
        for name, slots in parts
    ]
    counters = (counter_set("card", {"slots": 2}),)
    cluster.cache.see_slice(None, slice_(name="counters", shared_counters=counters, slice_count=2))
    cluster.cache.see_slice(None, slice_(*devices, name="parts", slice_count=2))
    wish = alternatives("r", sub("whole", f'{PART} == "whole"'), sub("half", f'{PART} == "half"'))
    for name in ("a", "b"):
        cluster.add_pod(name, claim(f"c-{name}", wish))


def devices_of(outcome: GangPlaced | Unplaced) -> list[str]:
    assert isinstance(outcome, GangPlaced)
    return sorted(item.device for _, placed in outcome.placed for _, got in placed.allocated for item in got.results)


def test_a_gang_that_upstream_starves_gets_the_halves() -> None:
    cluster = Cluster()
    halves(cluster)

    assert devices_of(cluster.decide()) == ["half-1", "half-2"]


def test_in_turn_the_first_pod_takes_the_whole_and_the_gang_starves() -> None:
    cluster = Cluster(is_joint=False)
    halves(cluster)

    assert cluster.message().startswith("pod group default/gang: 1 of at least 2 pods fit together; then pod b: ")


def test_nothing_is_counted_by_a_decision() -> None:
    cluster = Cluster()
    halves(cluster)
    before = cluster.cache.snapshot()
    cluster.decide()
    after = cluster.cache.snapshot()

    assert (after.claims, after.pods) == (before.claims, before.pods)
    assert not cluster.cache.is_trial


@pytest.mark.parametrize("is_joint", [True, False])
def test_all_or_none_are_placed(is_joint: bool) -> None:
    cluster = Cluster(is_joint=is_joint)
    cluster.add_cards("node-a", "gpu-0")
    for name in ("a", "b"):
        cluster.add_pod(name, claim(f"c-{name}"))

    assert cluster.nodes() == {}
    cluster.add_cards("node-b", "gpu-0")
    assert sorted(cluster.nodes().values()) == ["node-a", "node-b"]


@pytest.mark.parametrize("is_joint", [True, False])
def test_pods_beyond_the_least_count_may_be_left(is_joint: bool) -> None:
    cluster = Cluster(is_joint=is_joint)
    cluster.add_cards("node-a", "gpu-0", "gpu-1")
    for name in ("a", "b", "c"):
        cluster.add_pod(name, claim(f"c-{name}"))
    outcome = cluster.decide()

    assert isinstance(outcome, GangPlaced)
    assert (len(outcome.placed), len(outcome.left)) == (2, 1)


def test_pods_that_have_their_node_count_for_the_least_count() -> None:
    cluster = Cluster()
    cluster.add_cards("node-a", "gpu-0")
    cluster.add_pod("a", node_name="node-a")
    cluster.add_pod("b", claim("c-b"))

    assert cluster.nodes() == {"b": "node-a"}


def test_a_claim_that_pods_share_takes_them_to_the_node_that_has_room_for_all() -> None:
    cluster = Cluster()
    cluster.add_cards("node-a", "gpu-0", cpu="3")
    cluster.add_cards("node-b", "gpu-0", cpu="4")
    shared = claim("shared")
    for name in ("a", "b"):
        cluster.add_pod(name, shared, cpu="2")
    outcome = cluster.decide()

    assert isinstance(outcome, GangPlaced)
    assert {placed.node for _, placed in outcome.placed} == {"node-b"}
    assert [(len(placed.allocated), len(placed.reserved)) for _, placed in outcome.placed] == [(1, 0), (0, 1)]


def test_a_claim_that_pods_share_and_no_node_has_room_for_says_how_much_is_missing() -> None:
    cluster = Cluster()
    for name in ("node-a", "node-b"):
        cluster.add_cards(name, "gpu-0", cpu="3")
    shared = claim("shared")
    for name in ("a", "b"):
        cluster.add_pod(name, shared, cpu="2")

    assert cluster.message() == (
        "pod group default/gang: 1 of at least 2 pods fit together; "
        "pods a, b share claim default/shared: no node offers 4 cpu next to a free gpu"
    )


def test_pods_share_devices_that_several_nodes_reach() -> None:
    cluster = Cluster()
    for name in ("node-a", "node-b"):
        cluster.add_cards(name, cpu="2", labels={"zone": "z"})
    cluster.cache.see_slice(
        None, slice_(gpu("far"), name="far", node=None, pool="far", node_selector=on_nodes(zone="z"))
    )
    shared = claim("shared")
    for name in ("a", "b"):
        cluster.add_pod(name, shared, cpu="2")

    assert sorted(cluster.nodes().values()) == ["node-a", "node-b"]


@pytest.mark.parametrize("is_joint", [True, False])
def test_pods_without_claims_are_a_gang_too(is_joint: bool) -> None:
    cluster = Cluster(is_joint=is_joint)
    cluster.add_cards("node-a", cpu="3")
    for name in ("a", "b"):
        cluster.add_pod(name, cpu="2")

    assert cluster.nodes() == {}
    cluster.add_cards("node-b", cpu="3")
    assert sorted(cluster.nodes().values()) == ["node-a", "node-b"]


def test_room_on_a_node_is_taken_by_the_pods_together() -> None:
    cluster = Cluster()
    cluster.add_cards("node-a", "gpu-0", "gpu-1", cpu="3")
    for name in ("a", "b"):
        cluster.add_pod(name, claim(f"c-{name}"), cpu="2")

    assert cluster.nodes() == {}


# --- topology ---------------------------------------------------------------------------------------------------------


def racks(**racks: str) -> Cluster:
    """A cluster of one card per node, with the rack of each node."""
    cluster = Cluster(pod_group(topology="rack"))
    for name, rack in racks.items():
        cluster.add_cards(name, "gpu-0", labels={"rack": rack} if rack else {})
    return cluster


def test_all_pods_go_to_one_rack() -> None:
    cluster = racks(a="one", b="two", c="one", d="")
    for name in ("x", "y"):
        cluster.add_pod(name, claim(name))

    assert set(cluster.nodes().values()) == {"a", "c"}


def test_no_rack_with_room_for_all_is_told_with_the_best_one() -> None:
    cluster = racks(a="one", b="two")
    for name in ("x", "y"):
        cluster.add_pod(name, claim(name))

    assert "1 of at least 2 pods fit together on nodes with rack=one; then pod y: 0/1 nodes" in cluster.message()


def test_pods_follow_those_that_have_their_node() -> None:
    cluster = racks(a="one", b="two", c="two")
    cluster.add_pod("x", node_name="a")
    cluster.add_pod("y", claim("y"))

    assert cluster.nodes() == {"y": "a"}


def test_pods_in_two_racks_are_a_contradiction() -> None:
    cluster = racks(a="one", b="two")
    cluster.add_pod("x", node_name="a")
    cluster.add_pod("y", node_name="b")
    cluster.add_pod("z", claim("z"))
    outcome = cluster.decide()

    assert isinstance(outcome, Unplaced)
    assert outcome.reason == "SchedulerError"
    assert "found pods on nodes a, b, allowed nodes with one value of label rack" in outcome.message


def test_no_node_with_the_label_is_told() -> None:
    cluster = racks(a="")
    for name in ("x", "y"):
        cluster.add_pod(name, claim(name))

    assert "no node has the label" in cluster.message()


# --- what keeps a gang from being tried -------------------------------------------------------------------------------


def test_a_claim_that_is_missing_keeps_the_gang_waiting_for_it() -> None:
    cluster = Cluster()
    cluster.add_cards("node-a", "gpu-0", "gpu-1")
    cluster.add_pod("a", claim("c-a"))
    lacking = pod("b", "nowhere", pod_group="gang")
    cluster.cache.see_pod(None, lacking)
    cluster.pods.append(lacking)
    outcome = cluster.decide()

    assert isinstance(outcome, Unplaced)
    assert outcome.message == (
        "pod group default/gang: 1 of at least 2 pods can be tried; "
        "pod b: claim default/nowhere does not exist; create it"
    )
    assert not outcome.tried
    assert outcome.helps(Change("claim", "default/nowhere"))
    assert not outcome.helps(Change("claim", "default/other"))


def test_claims_that_are_not_made_yet_are_no_news() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        made = pod(name, PodClaim(name="t", template_name="t"), pod_group="gang")
        cluster.cache.see_pod(None, made)
        cluster.pods.append(made)
    outcome = cluster.decide()

    assert isinstance(outcome, Unplaced)
    assert outcome.quiet


def test_an_incomplete_gang_says_what_is_missing() -> None:
    cluster = Cluster(pod_group(least=3))
    cluster.add_pod("a")

    assert cluster.message() == "pod group default/gang has 1 of at least 3 pods; create the others"


def test_claims_that_tie_waiting_pods_to_nodes_are_to_be_freed() -> None:
    cluster = Cluster()
    cluster.add_cards("node-a", "gpu-0")
    left_over = allocated(claim("c-a"), "gpu-0", reserved_for=["a"])
    cluster.add_pod("a", replace(left_over, reserved_for=()))
    cluster.add_pod("b", claim("c-b"))
    outcome = cluster.decide()

    assert isinstance(outcome, Unplaced)
    assert [item.ref for item in outcome.stale] == [ClaimRef("default", "c-a")]


def test_a_device_that_comes_free_may_help() -> None:
    cluster = Cluster()
    cluster.add_cards("node-a", "gpu-0")
    for name in ("a", "b"):
        cluster.add_pod(name, claim(f"c-{name}"))
    outcome = cluster.decide()

    assert isinstance(outcome, Unplaced)
    assert all(outcome.helps(Change(kind)) for kind in ("claim-freed", "slice", "node"))
    assert not outcome.helps(Change("claim", "default/other"))


# --- extended resources -----------------------------------------------------------------------------------------------


def counting(name: str) -> Pod:
    amounts = quantities({"example.test/gpu": "1"})
    return pod(name, pod_group="gang", containers=[Container(name="main", requests=amounts, limits=amounts)])


def test_pods_that_only_count_get_devices_of_their_own() -> None:
    cluster = Cluster()
    cluster.cache.see_class(None, klass(extended_resource_name="example.test/gpu"))
    cluster.add_cards("node-a", "gpu-0", "gpu-1")
    for name in ("a", "b"):
        made = counting(name)
        cluster.cache.see_pod(None, made)
        cluster.pods.append(made)

    assert devices_of(cluster.decide()) == ["gpu-0", "gpu-1"]


def test_pods_that_only_count_may_go_to_nodes_of_a_device_plugin_and_of_devices() -> None:
    cluster = Cluster()
    cluster.cache.see_class(None, klass(extended_resource_name="example.test/gpu"))
    cluster.add_cards("node-a", "gpu-0")
    cluster.cache.see_node(None, node("node-b", allocatable={"example.test/gpu": "1"}))
    for name in ("a", "b"):
        made = counting(name)
        cluster.cache.see_pod(None, made)
        cluster.pods.append(made)

    assert sorted(cluster.nodes().values()) == ["node-a", "node-b"]


# --- what changes while an answer is looked for -----------------------------------------------------------------------


def ready() -> Cluster:
    cluster = Cluster()
    cluster.add_cards("node-a", "gpu-0", "gpu-1")
    for name in ("a", "b"):
        cluster.add_pod(name, claim(f"c-{name}"))
    return cluster


def take(cluster: Cluster, change: str) -> None:
    """Let something happen to the cluster."""
    if change == "device":
        cluster.cache.see_claim(None, allocated(claim("other"), "gpu-0"))
    elif change == "pod":
        cluster.cache.see_pod(cluster.pods[0], None)
    elif change == "claim":
        cluster.cache.see_claim(claim("c-a"), allocated(claim("c-a"), "gpu-0", reserved_for=["x"]))
    elif change == "node":
        cluster.cache.see_node(cluster.cache.nodes["node-a"], node("node-a", unschedulable=True))
    elif change == "slice":
        cluster.cache.see_slice(None, slice_(gpu("more"), name="more", pool="more"))
    else:
        cluster.cache.see_pod(None, pod("else", node_name="node-a"))


def finish(cluster: Cluster, change: str, *, has_answer: bool = True) -> tuple[GangPlaced | Unplaced, int]:
    """Decide while something happens; returns the outcome, and how many devices were searched for in turn."""
    steps = cluster.gangs.steps(cluster.gang())
    answer: JointDecision = next(steps)()
    take(cluster, change)
    before = cluster.decider.searches
    try:
        steps.send(answer if has_answer else None)
    except StopIteration as end:
        outcome: GangPlaced | Unplaced = end.value
        return outcome, cluster.decider.searches - before
    raise AssertionError("one answer was to be enough")


@pytest.mark.parametrize("change", ["device", "pod", "claim", "node", "slice"])
def test_an_answer_that_rests_on_what_has_changed_is_not_used(change: str) -> None:
    outcome, searched = finish(ready(), change)

    assert searched > 0 or isinstance(outcome, Unplaced)


def test_an_answer_that_rests_on_nothing_that_has_changed_is_used() -> None:
    outcome, searched = finish(ready(), "another pod")

    assert isinstance(outcome, GangPlaced)
    assert searched == 0


def test_without_an_answer_pods_are_tried_in_turn() -> None:
    outcome, searched = finish(ready(), "another pod", has_answer=False)

    assert isinstance(outcome, GangPlaced)
    assert searched > 0


def test_a_device_that_was_taken_meanwhile_is_not_given_out() -> None:
    cluster = ready()
    outcome, _ = finish(cluster, "device")

    assert isinstance(outcome, Unplaced)


def test_a_decision_can_be_counted_as_it_is() -> None:
    cluster = ready()
    outcome = cluster.decide()
    assert isinstance(outcome, GangPlaced)
    for item, placed in outcome.placed:
        cluster.cache.assume(build_reservation(item, placed))

    assert sorted(item.node_name for item in cluster.cache.pods.values()) == ["node-a", "node-a"]
    assert {cluster.cache.claims.is_in_flight(ClaimRef("default", name)) for name in ("c-a", "c-b")} == {True}

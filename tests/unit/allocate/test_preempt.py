"""Who has to go so that others get a place: the cheapest, and nobody without need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.replan.preempt import PreemptionCost, PreemptLimits, find_victims
from claimsmith.allocate.whatif.trial import Placement
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.model.names import DeviceId
from claimsmith.model.podgroup import PodGroup, PodGroupSpec
from claimsmith.testing.builders import DRIVER, allocated, claim, device, gpu, metadata, node, slice_
from tests.unit.allocate.trying import budget, cluster, held_by, names, ref, running, sharing, stranger, waiting

TRIAL = SchedulerTrial()


def test_nobody_goes_when_there_is_room() -> None:
    found = find_victims(cluster({"a": 2}, running("one", "a", "g0")), [waiting("new", priority=9)], place=TRIAL)

    assert (found.status, found.victims, found.cost) == ("needless", (), None)


def test_the_pod_of_lowest_priority_goes() -> None:
    held = [running("high", "a", "g0", priority=5), running("low", "b", "g0", priority=1)]
    found = find_victims(cluster({"a": 1, "b": 1}, *held), [waiting("new", priority=9)], place=TRIAL)

    assert (found.status, names(found.victims)) == ("optimal", ["low"])
    assert found.cost == PreemptionCost(highest_priority=1, violations=0, pods=1, priorities=0)
    assert [item.node for item in found.decisions if isinstance(item, Placement)] == ["b"]


def test_two_of_low_priority_go_before_one_of_higher() -> None:
    held = [running("high", "a", "g0", "g1", priority=5), running("one", "b", "g0"), running("two", "b", "g1")]
    found = find_victims(cluster({"a": 2, "b": 2}, *held), [waiting("new", 2, priority=9)], place=TRIAL)

    assert (found.status, names(found.victims)) == ("optimal", ["one", "two"])


def test_one_goes_before_two_of_the_same_priority() -> None:
    held = [running("one", "a", "g0"), running("two", "a", "g1"), running("both", "b", "g0", "g1")]
    found = find_victims(cluster({"a": 2, "b": 2}, *held), [waiting("new", 2, priority=9)], place=TRIAL)

    assert names(found.victims) == ["both"]


@pytest.mark.parametrize("priority", [9, 10])
def test_nobody_of_equal_or_higher_priority_goes(priority: int) -> None:
    held = running("one", "a", "g0", priority=priority)
    found = find_victims(cluster({"a": 1}, held), [waiting("new", priority=9)], place=TRIAL)

    assert (found.status, found.victims, found.candidates) == ("impossible", (), 0)
    assert "in use by default/one-gpu" in found.message


def test_a_pod_that_would_not_fit_on_an_empty_cluster_preempts_nobody() -> None:
    found = find_victims(cluster({"a": 1}, running("one", "a", "g0")), [waiting("new", 2, priority=9)], place=TRIAL)

    assert (found.status, found.victims, found.candidates) == ("impossible", (), 1)


def test_all_users_of_a_shared_claim_go() -> None:
    users = [sharing("one", "a", "both"), sharing("two", "a", "both")]
    found = find_victims(
        cluster({"a": 1}, held_by("both", "a", "g0", "one", "two"), *users), [waiting("new", priority=9)], place=TRIAL
    )

    assert (names(found.victims), found.cost) == (["one", "two"], PreemptionCost(0, 0, 2, 0))


def test_a_claim_shared_with_a_pod_of_higher_priority_is_not_freed() -> None:
    users = [sharing("one", "a", "both"), sharing("two", "a", "both", priority=10)]
    snapshot = cluster({"a": 1}, held_by("both", "a", "g0", "one", "two"), *users)

    assert find_victims(snapshot, [waiting("new", priority=9)], place=TRIAL).status == "impossible"


def test_a_claim_that_something_else_uses_too_is_not_freed() -> None:
    shared = held_by("both", "a", "g0", "one")
    shared = replace(shared, reserved_for=(*shared.reserved_for, stranger("job")))
    snapshot = cluster({"a": 1}, shared, sharing("one", "a", "both"))

    assert find_victims(snapshot, [waiting("new", priority=9)], place=TRIAL).status == "impossible"


def test_pods_also_go_for_want_of_other_resources() -> None:
    held = [running("busy", "a", cpu=6), running("idle", "a", cpu=1), running("card", "a", "g0", cpu=1)]
    found = find_victims(cluster({"a": 2}, *held, cpu=8), [waiting("new", priority=9, cpu=6)], place=TRIAL)

    assert names(found.victims) == ["busy"]


def test_holders_on_other_nodes_go_when_the_device_is_shared_by_nodes() -> None:
    fabric = slice_(device("one"), device("two"), node=None, pool="fabric", all_nodes=True)
    far = allocated(claim("far"), DeviceId(DRIVER, "fabric", "one"), node=None, reserved_for=("one",))
    snapshot = cluster({"a": 0, "b": 0}, fabric, far, sharing("one", "a", "far"), running("two", "b", priority=1))
    found = find_victims(snapshot, [waiting("new", 2, priority=9)], place=TRIAL)

    assert names(found.victims) == ["one"]


def test_a_budget_protects_its_pods_when_others_will_do() -> None:
    held = [running("web", "a", "g0", app="web"), running("batch", "b", "g0", priority=3)]
    snapshot = cluster({"a": 1, "b": 1}, *held, budget("keep", 0, app="web"))
    found = find_victims(snapshot, [waiting("new", priority=9)], place=TRIAL)

    assert (names(found.victims), found.cost) == (["batch"], PreemptionCost(3, 0, 1, 3))


def test_against_a_budget_nobody_goes_unless_that_is_asked_for() -> None:
    snapshot = cluster({"a": 1}, running("web", "a", "g0", app="web"), budget("keep", 0, app="web"))
    strict = find_victims(snapshot, [waiting("new", priority=9)], place=TRIAL)
    limits = PreemptLimits(violate_budgets=True)
    loose = find_victims(snapshot, [waiting("new", priority=9)], place=TRIAL, limits=limits)

    assert (strict.status, strict.victims) == ("forbidden", ())
    assert strict.message == "default/web could go only against disruption budgets"
    assert (names(loose.victims), loose.cost) == (["web"], PreemptionCost(0, 1, 1, 0))


def test_a_budget_counts_all_of_its_pods_together() -> None:
    held = [running("one", "a", "g0", app="web"), running("two", "a", "g1", app="web")]
    held.append(running("x", "b", "g0", "g1", priority=1))
    snapshot = cluster({"a": 2, "b": 2}, *held, budget("keep", 1, app="web"))
    found = find_victims(snapshot, [waiting("new", 2, priority=9)], place=TRIAL)

    assert names(found.victims) == ["x"]


def test_pods_that_are_ending_are_waited_for() -> None:
    holder, made = running("one", "a", "g0")
    holder = replace(holder, metadata=replace(holder.metadata, deletion_timestamp="2024-01-01T00:00:00Z"))
    found = find_victims(cluster({"a": 1}, (holder, made)), [waiting("new")], place=TRIAL)

    assert (found.status, found.victims, found.leaving) == ("leaving", (), (ref("one"),))


def test_a_pod_that_may_not_preempt_is_refused() -> None:
    asked = replace(waiting("new", priority=9), preemption_policy="Never")
    found = find_victims(cluster({"a": 1}, running("one", "a", "g0")), [asked], place=TRIAL)

    assert found.status == "forbidden"
    assert found.message == "default/new may not preempt: preemptionPolicy is Never"


def test_victims_of_a_gang_are_chosen_for_all_of_its_pods_together() -> None:
    held = [running("one", "a", "g0"), running("two", "b", "g0"), running("three", "c", "g0", priority=1)]
    gang = [waiting("x", priority=9), waiting("y", priority=9)]
    found = find_victims(cluster({"a": 1, "b": 1, "c": 1}, *held), gang, place=TRIAL)

    assert (found.status, names(found.victims)) == ("optimal", ["one", "two"])
    assert [item.node for item in found.decisions if isinstance(item, Placement)] == ["a", "b"]


def test_a_gang_takes_no_more_than_the_least_that_it_needs() -> None:
    held = [running("one", "a", "g0"), running("two", "b", "g0")]
    gang = [waiting("x", priority=9), waiting("y", priority=9)]
    found = find_victims(cluster({"a": 1, "b": 1}, *held), gang, place=TRIAL, min_count=1)

    assert len(found.victims) == 1


def test_when_trying_has_to_end_early_that_is_said_and_still_nobody_goes_without_need() -> None:
    held = [running(f"p{n}", "a", f"g{n}") for n in range(6)]
    limits = PreemptLimits(trials_max=1)
    found = find_victims(cluster({"a": 6}, *held), [waiting("new", 3, priority=9)], place=TRIAL, limits=limits)

    assert (found.status, len(found.victims)) == ("minimal", 3)


def test_victims_of_different_sizes_are_exchanged_for_the_cheapest() -> None:
    cards = slice_(*(gpu(f"g{n}") for n in range(4)), node="a", pool="a", name="a-gpus")
    held = [running("big", "a", "g0", "g1", "g2", priority=1), running("small", "a", "g3", priority=2)]
    snapshot = cluster({}, node("a"), cards, *held)

    assert names(find_victims(snapshot, [waiting("new", 3, priority=9)], place=TRIAL).victims) == ["big"]
    assert names(find_victims(snapshot, [waiting("new", 1, priority=9)], place=TRIAL).victims) == ["big"]
    assert names(find_victims(snapshot, [waiting("new", 4, priority=9)], place=TRIAL).victims) == ["big", "small"]


def test_a_group_that_is_only_disrupted_whole_goes_whole() -> None:
    spec = PodGroupSpec(min_count=2, disruption_mode="all")
    group = PodGroup(metadata=metadata("gang", {}, namespaced=True), spec=spec)
    held = [running("one", "a", "g0"), running("two", "b", "g0")]
    gang = [(replace(holder, pod_group="gang"), made) for holder, made in held]
    found = find_victims(cluster({"a": 1, "b": 1}, group, *gang), [waiting("new", priority=9)], place=TRIAL)

    assert (names(found.victims), found.cost) == (["one", "two"], PreemptionCost(0, 0, 2, 0))


def test_a_group_with_a_pod_of_higher_priority_that_is_only_disrupted_whole_stays() -> None:
    spec = PodGroupSpec(min_count=2, disruption_mode="all")
    group = PodGroup(metadata=metadata("gang", {}, namespaced=True), spec=spec)
    held = [running("one", "a", "g0"), running("two", "b", "g0", priority=10)]
    gang = [(replace(holder, pod_group="gang"), made) for holder, made in held]
    found = find_victims(cluster({"a": 1, "b": 1}, group, *gang), [waiting("new", priority=9)], place=TRIAL)

    assert found.status == "impossible"

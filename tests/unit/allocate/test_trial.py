"""Pods tried on snapshots: placed, taken away, made again."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.allocate.whatif.trial import (
    NoPlace,
    Placement,
    index_users,
    place_all,
    put_pod,
    renew_pod,
    sort_queue,
    take_pods,
)
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.model.names import ClaimRef
from claimsmith.model.podgroup import PodGroup, PodGroupSpec
from claimsmith.model.workload import PodClaim
from claimsmith.testing.builders import (
    DRIVER,
    NAMESPACE,
    alternatives,
    claim,
    claim_ref,
    consumes,
    counter_set,
    device,
    metadata,
    node,
    pod,
    slice_,
    sub,
    template,
)
from tests.unit.allocate.trying import SET, cluster, held_by, names, ref, running, sharing, stranger, waiting


def test_a_placed_pod_is_on_its_node_with_a_claim_of_its_own_that_is_reserved_for_it() -> None:
    snapshot = cluster({"a": 1})
    found = SchedulerTrial()(snapshot, waiting("new"))

    assert isinstance(found, Placement)
    assert (found.node, found.pod.claim_names) == ("a", {"gpu": "new-gpu-0"})
    after = put_pod(snapshot, found)
    made = after.claims[claim_ref("new-gpu-0")]
    assert made.allocation is not None
    assert [user.name for user in made.reserved_for] == ["new"]
    assert snapshot.claims == {}


def test_a_pod_without_a_place_comes_back_as_it_was_with_the_reason() -> None:
    snapshot = cluster({"a": 1}, running("first", "a", "g0"))
    asked = waiting("new")
    found = SchedulerTrial()(snapshot, asked)

    assert isinstance(found, NoPlace)
    assert found.pod == asked
    assert "in use by default/first-gpu" in found.message


def test_a_missing_template_is_named() -> None:
    found = SchedulerTrial()(cluster({"a": 1}), waiting("new", 9))

    assert isinstance(found, NoPlace)
    assert "claim template default/gpus-9 does not exist" in found.message


def test_what_was_tried_leaves_no_trace() -> None:
    trial, snapshot = SchedulerTrial(), cluster({"a": 1})
    first, second = trial(snapshot, waiting("new")), trial(snapshot, waiting("new"))

    assert isinstance(first, Placement)
    assert isinstance(second, Placement)
    assert first.claims == second.claims


def test_a_trial_follows_from_one_snapshot_to_any_other() -> None:
    trial = SchedulerTrial()
    full, empty = cluster({"a": 1}, running("first", "a", "g0")), cluster({"b": 2})

    assert isinstance(trial(full, waiting("new")), NoPlace)
    assert getattr(trial(empty, waiting("new")), "node", "") == "b"
    assert isinstance(trial(full, waiting("new")), NoPlace)
    assert getattr(trial(take_pods(full, [ref("first")]), waiting("new")), "node", "") == "a"


def test_each_decision_counts_for_the_next() -> None:
    _, decisions = place_all(cluster({"a": 2}), [waiting(f"p{n}") for n in range(3)], place=SchedulerTrial())

    assert [isinstance(item, Placement) for item in decisions] == [True, True, False]


def test_a_claim_that_was_made_for_a_pod_goes_with_it() -> None:
    after = take_pods(cluster({"a": 1}, running("first", "a", "g0")), [ref("first")])

    assert (after.pods, after.claims) == ({}, {})


def test_a_shared_claim_is_given_back_by_the_last_of_its_users() -> None:
    users = [sharing("one", "a", "both"), sharing("two", "a", "both")]
    snapshot = cluster({"a": 1}, held_by("both", "a", "g0", "one", "two"), *users)
    left, freed = take_pods(snapshot, [ref("one")]), take_pods(snapshot, [ref("one"), ref("two")])

    assert [user.name for user in left.claims[claim_ref("both")].reserved_for] == ["two"]
    assert left.claims[claim_ref("both")].allocation is not None
    assert freed.claims[claim_ref("both")].allocation is None


def test_a_user_without_a_reservation_keeps_a_claim_too() -> None:
    users = [sharing("one", "a", "both"), sharing("two", "a", "both")]
    after = take_pods(cluster({"a": 1}, held_by("both", "a", "g0", "one"), *users), [ref("one")])

    assert after.claims[claim_ref("both")].allocation is not None


def test_taking_nobody_gives_the_very_same_snapshot() -> None:
    snapshot = cluster({"a": 1})

    assert take_pods(snapshot, [ref("nobody")]) is snapshot


def test_users_of_claims_are_pods_and_strangers() -> None:
    shared = held_by("both", "a", "g0", "one")
    shared = replace(shared, reserved_for=(*shared.reserved_for, stranger("job")))
    found = index_users(cluster({"a": 1}, shared, sharing("one", "a", "both"), sharing("two", "a", "both")))

    assert found[claim_ref("both")].pods == {ref("one"), ref("two")}
    assert found[claim_ref("both")].strangers == ("jobs/job",)


def test_pods_that_wait_or_have_ended_use_no_claim() -> None:
    waits, ended = pod("waits", "mine"), pod("ended", "mine", node_name="a", phase="Succeeded")

    assert ClaimRef(NAMESPACE, "mine") not in index_users(cluster({"a": 1}, claim("mine"), waits, ended))


def test_a_pod_that_is_made_again_has_no_node_and_no_claims_yet() -> None:
    holder, _ = running("first", "a", "g0")
    again = renew_pod(holder)

    assert (again.node_name, again.phase, again.claim_names) == ("", "Pending", {})
    assert again.claims == holder.claims


def test_the_queue_goes_by_priority_then_by_age() -> None:
    old = waiting("old")
    old = replace(old, metadata=replace(old.metadata, creation_timestamp="2024-01-01T00:00:00Z"))

    assert names(sort_queue([waiting("new"), old, waiting("high", priority=5)])) == ["high", "old", "new"]


def test_a_pod_that_needs_more_in_another_cluster_is_counted_anew() -> None:
    trial = SchedulerTrial()
    small, large = (cluster({"a": 0}, running("one", "a", cpu=cpu), cpu=4) for cpu in (1, 4))

    assert isinstance(trial(small, waiting("new", 0, cpu=2)), Placement)
    assert isinstance(trial(large, waiting("new", 0, cpu=2)), NoPlace)


GANG = PodGroup(metadata=metadata("gang", {}, namespaced=True), spec=PodGroupSpec(min_count=2))


def test_a_gang_is_placed_together_where_its_first_pod_stands() -> None:
    members = [waiting(name, pod_group="gang") for name in ("one", "two")]
    queue = [members[0], waiting("other"), members[1]]
    _, decisions = place_all(cluster({"a": 3}, GANG), queue, place=SchedulerTrial())

    assert [item.pod.metadata.name for item in decisions if isinstance(item, Placement)] == ["one", "two", "other"]


def test_a_gang_of_which_too_few_fit_takes_nothing() -> None:
    members = [waiting(name, pod_group="gang") for name in ("one", "two")]
    snapshot = cluster({"a": 1}, GANG)
    after, decisions = place_all(snapshot, [*members, waiting("other")], place=SchedulerTrial())

    assert [isinstance(item, Placement) for item in decisions] == [False, False, True]
    assert isinstance(decisions[0], NoPlace)
    assert decisions[0].message.startswith("pod group default/gang: 1 of at least 2 pods fit together; then pod two:")
    assert list(after.pods) == [ref("other")]


def test_pods_of_a_gang_that_run_already_count() -> None:
    holder, made = running("first", "a", "g0")
    snapshot = cluster({"a": 2}, GANG, (replace(holder, pod_group="gang"), made))
    members = [waiting(name, pod_group="gang") for name in ("one", "two")]
    _, decisions = place_all(snapshot, members, place=SchedulerTrial())

    assert [isinstance(item, Placement) for item in decisions] == [True, False]


def test_pods_of_a_group_share_its_claim_which_is_freed_by_the_last_of_them() -> None:
    entry = PodClaim(name="gpu", template_name="gpus-1")
    group = replace(GANG, spec=replace(GANG.spec, claims=(entry,)))
    members = [waiting(name, pod_group="gang") for name in ("one", "two")]
    after, decisions = place_all(cluster({"a": 1}, group), members, place=SchedulerTrial())

    assert [isinstance(item, Placement) for item in decisions] == [True, True]
    (claim_ref_of_gang,) = after.claims
    assert index_users(after)[claim_ref_of_gang].pods == {ref("one"), ref("two")}
    assert take_pods(after, [ref("one")]).claims[claim_ref_of_gang].allocation is not None
    assert take_pods(after, [ref("one"), ref("two")]).claims[claim_ref_of_gang].allocation is None


def test_a_claim_is_not_taken_for_one_that_was_made_for_an_older_pod_of_the_name() -> None:
    old = claim("new-gpu-0", owner_references=(replace(SET, kind="Pod", uid="old"),))
    found = SchedulerTrial()(cluster({"a": 1}, old), waiting("new"))

    assert isinstance(found, Placement)
    assert found.pod.claim_names == {"gpu": "new-gpu-1"}


def test_a_gang_that_deciding_one_by_one_starves_is_placed() -> None:
    sizes = {"whole": 2, "half-0": 1, "half-1": 1}
    parts = [
        device(name, attributes={"size": size}, counters=[consumes("card", {"slots": size})])
        for name, size in sizes.items()
    ]
    slices = (
        slice_(name="counters", node="a", slice_count=2, shared_counters=(counter_set("card", {"slots": 2}),)),
        slice_(*parts, name="parts", node="a", slice_count=2),
    )
    wish = alternatives("r", *(sub(f"s{n}", f'device.attributes["{DRIVER}"].size == {n}') for n in (2, 1)))
    entry = PodClaim(name="card", template_name="any-size")
    members = [pod(name, entry, pod_group="gang") for name in ("one", "two")]
    snapshot = cluster({}, node("a"), *slices, template("any-size", wish), GANG)
    _, decisions = place_all(snapshot, members, place=SchedulerTrial())

    assert [isinstance(item, Placement) for item in decisions] == [True, True]

from __future__ import annotations

from dataclasses import replace
from typing import Any

from claimsmith.embedded.controllers.claim_plans import (
    build_template_claim,
    find_made_claim,
    find_owning_pod,
    find_pod_claims,
    get_generate_name,
    is_pod_done,
    plan_upkeep,
)
from claimsmith.model.claim import FINALIZER, ConsumerReference, ResourceClaim
from claimsmith.model.metadata import OwnerReference
from claimsmith.model.names import PodRef
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.testing.builders import allocated, claim, pod, template

DELETED = "2030-01-01T00:00:00Z"
ENTRY = PodClaim(name="gpu", template_name="template")


def owned_by(owner: Pod, **fields: Any) -> ResourceClaim:
    reference = OwnerReference(api_version="v1", kind="Pod", name=owner.metadata.name, uid=owner.uid, controller=True)
    return claim("c", owner_references=(reference,), **fields)


def gone(*names: str) -> Any:
    return lambda consumer: consumer.name in names


def deleted(found: Pod) -> Pod:
    return replace(found, metadata=replace(found.metadata, deletion_timestamp=DELETED))


def test_a_claim_in_use_needs_nothing() -> None:
    used = allocated(claim(), "gpu-0", reserved_for=["a"])

    assert not plan_upkeep(used, gone(), None).is_needed


def test_consumers_that_are_gone_are_taken_off_and_the_others_keep_the_devices() -> None:
    upkeep = plan_upkeep(allocated(claim(), "gpu-0", reserved_for=["a", "b"]), gone("a"), None)

    assert (upkeep.release, upkeep.deallocate, upkeep.delete) == (frozenset({"uid-a"}), False, False)


def test_when_the_last_consumer_goes_the_claim_is_deallocated() -> None:
    assert plan_upkeep(allocated(claim(), "gpu-0", reserved_for=["a"]), gone("a"), None).deallocate


def test_a_claim_allocated_ahead_is_left_alone() -> None:
    assert not plan_upkeep(allocated(claim(), "gpu-0"), gone(), None).is_needed


def test_an_unused_claim_that_is_being_deleted_is_released() -> None:
    free = claim(deletion_timestamp=DELETED, finalizers=(FINALIZER,))
    held = allocated(claim(deletion_timestamp=DELETED), "gpu-0")

    assert plan_upkeep(free, gone(), None).deallocate
    assert plan_upkeep(held, gone(), None).deallocate


def test_a_used_claim_that_is_being_deleted_waits() -> None:
    used = allocated(claim(deletion_timestamp=DELETED), "gpu-0", reserved_for=["a"])

    assert not plan_upkeep(used, gone(), None).is_needed


def test_a_consumer_of_another_kind_is_kept() -> None:
    group = ConsumerReference(api_group="scheduling.k8s.io", resource="podgroups", name="a", uid="g")
    used = replace(allocated(claim(), "gpu-0"), reserved_for=(group,))

    assert not plan_upkeep(used, gone("a"), None).is_needed


def test_the_claim_of_a_finished_pod_is_deleted() -> None:
    owner = pod("p", phase="Succeeded")

    assert plan_upkeep(owned_by(owner), gone(), owner).delete


def test_the_claim_of_a_pod_made_anew_is_deleted() -> None:
    old = pod("p")
    new = replace(old, metadata=replace(old.metadata, uid="another"))

    assert plan_upkeep(owned_by(old), gone(), new).delete


def test_the_claim_of_a_waiting_pod_stays() -> None:
    owner = pod("p")

    assert not plan_upkeep(owned_by(owner), gone(), owner).is_needed


def test_a_claim_is_not_deleted_twice() -> None:
    owner = pod("p", phase="Succeeded")

    assert not plan_upkeep(owned_by(owner, deletion_timestamp=DELETED), gone(), owner).delete


def test_a_pod_is_done_when_it_ended_or_was_deleted_without_a_node() -> None:
    waiting, running = pod("p"), pod("p", node_name="a")

    assert [is_pod_done(item) for item in (pod("p", phase="Failed"), deleted(waiting))] == [True, True]
    assert [is_pod_done(item) for item in (waiting, running, deleted(running))] == [False, False, False]


def test_a_claim_from_a_template_belongs_to_the_pod_and_remembers_its_entry() -> None:
    made = build_template_claim(pod("p"), ENTRY, replace(template(), labels={"a": "b"}, annotations={"c": "d"}))

    assert made["metadata"] == {
        "generateName": "p-gpu-",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}],
    }


def test_long_names_are_cut_in_proportion() -> None:
    name = get_generate_name("p" * 200, "c" * 50)

    assert name == "p" * 45 + "-" + "c" * 11
    assert len(name) <= 57


def test_the_owner_of_a_claim_is_the_controlling_pod() -> None:
    assert find_owning_pod(owned_by(pod("p"))) == (PodRef("default", "p"), "uid-p")
    assert find_owning_pod(claim()) == (None, "")


def test_a_claim_that_an_earlier_try_made_is_found_by_owner_and_entry() -> None:
    owner = pod("p")
    mine = owned_by(owner, annotations={"resource.kubernetes.io/pod-claim-name": "gpu"})
    other = owned_by(owner, annotations={"resource.kubernetes.io/pod-claim-name": "nic"})

    assert find_made_claim(owner, ENTRY, (other, mine)) == mine.ref
    assert find_made_claim(owner, ENTRY, (other,)) is None


def test_a_consumer_of_another_group_is_left_alone_even_if_its_kind_is_named_pods() -> None:
    foreign = ConsumerReference(resource="pods", api_group="other.example", name="a", uid="uid-a")

    assert not plan_upkeep(allocated(claim(), "gpu-0", reserved_for=[foreign]), gone("a"), None).is_needed


def test_a_pod_uses_the_claims_that_it_names_those_made_for_it_and_the_special_one() -> None:
    user = pod("p", "mine", ENTRY, PodClaim(name="not-made", template_name="t"), claim_names={"gpu": "made"})
    found = find_pod_claims(replace(user, extended_claim_name="special"))

    assert [(ref.name, must_own) for ref, must_own in found] == [("mine", False), ("made", True), ("special", True)]

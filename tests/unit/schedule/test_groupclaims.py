"""Whose a claim is that pods of a group use."""

from __future__ import annotations

from dataclasses import replace

from claimsmith.model.claim import ConsumerReference, ResourceClaim
from claimsmith.model.metadata import OwnerReference
from claimsmith.model.workload import PodClaim
from claimsmith.schedule.groupclaims import (
    consumer_of_group,
    find_claim_consumer,
    is_group_claim,
    is_made_for,
    is_owned_by_group_of,
    is_used_by,
    reserve_claim,
)
from claimsmith.testing.builders import allocated, claim, claim_ref, pod, pod_group

SHARED = PodClaim(name="c", claim_name="shared")
GROUP = pod_group("gang", SHARED)
MEMBER = pod("p", SHARED, PodClaim(name="own", claim_name="own"), pod_group="gang")


def test_a_claim_is_the_groups_when_name_and_source_are_the_same() -> None:
    assert is_group_claim(SHARED, GROUP)
    assert not is_group_claim(PodClaim(name="other", claim_name="shared"), GROUP)
    assert not is_group_claim(PodClaim(name="c", template_name="shared"), GROUP)
    assert not is_group_claim(SHARED, None)


def test_a_claim_of_the_group_is_reserved_for_the_group() -> None:
    found = find_claim_consumer(MEMBER, claim_ref("shared"), GROUP)

    assert found == consumer_of_group(GROUP)
    assert (found.api_group, found.resource, found.name) == ("scheduling.k8s.io", "podgroups", "gang")


def test_other_claims_are_reserved_for_the_pod() -> None:
    assert find_claim_consumer(MEMBER, claim_ref("own"), GROUP).name == "p"
    assert find_claim_consumer(MEMBER, claim_ref("shared"), None).name == "p"


def test_a_claim_made_from_a_template_for_the_group_is_found_by_the_pods_status() -> None:
    entry = PodClaim(name="c", template_name="t")
    member = replace(pod("p", entry, pod_group="gang"), claim_names={"c": "gang-c-x"})

    assert find_claim_consumer(member, claim_ref("gang-c-x"), pod_group("gang", entry)).resource == "podgroups"


def test_a_claim_is_reserved_once_for_all_pods_of_the_group_that_shares_it() -> None:
    other = pod("q", SHARED, pod_group="gang")
    found = reserve_claim(reserve_claim(claim("shared"), MEMBER, GROUP), other, GROUP)

    assert found.reserved_for == (consumer_of_group(GROUP),)


def test_a_claim_of_pods_by_themselves_is_reserved_for_each() -> None:
    found = reserve_claim(reserve_claim(claim("own"), MEMBER, GROUP), pod("q"), None)

    assert [item.name for item in found.reserved_for] == ["p", "q"]


def test_a_claim_is_used_by_all_pods_of_the_group_that_it_is_reserved_for() -> None:
    held = allocated(claim("shared"), "gpu-0", reserved_for=[consumer_of_group(GROUP)])

    assert is_used_by(held, MEMBER)
    assert not is_used_by(held, pod("q", pod_group="other"))
    assert not is_used_by(held, pod("q"))


def test_only_pod_groups_of_their_api_group_count() -> None:
    assert consumer_of_group(GROUP).is_pod_group
    assert not ConsumerReference(api_group="example.test", resource="podgroups", name="gang", uid="u").is_pod_group


def owned(
    kind: str, name: str, *, uid: str = "u", api: str = "scheduling.k8s.io/v1beta1", controller: bool = True
) -> ResourceClaim:
    owner = OwnerReference(api_version=api, kind=kind, name=name, uid=uid, controller=controller)
    made = claim("made")
    return replace(made, metadata=replace(made.metadata, owner_references=(owner,)))


def test_a_claim_is_owned_by_the_group_that_controls_it() -> None:
    assert is_owned_by_group_of(owned("PodGroup", "gang"), MEMBER)
    assert is_owned_by_group_of(owned("PodGroup", "gang", api="scheduling.k8s.io/v1"), MEMBER)
    assert not is_owned_by_group_of(owned("PodGroup", "gang", controller=False), MEMBER)
    assert not is_owned_by_group_of(owned("PodGroup", "other"), MEMBER)
    assert not is_owned_by_group_of(owned("Pod", "gang"), MEMBER)
    assert not is_owned_by_group_of(owned("PodGroup", "gang", api="example.test/v1"), MEMBER)
    assert not is_owned_by_group_of(owned("PodGroup", ""), pod("alone"))


def test_a_claim_was_made_for_a_pod_or_its_group() -> None:
    assert is_made_for(owned("PodGroup", "gang", uid=GROUP.uid), MEMBER, GROUP)
    assert not is_made_for(owned("PodGroup", "gang", uid=GROUP.uid), MEMBER, None)
    assert is_made_for(owned("Pod", "p", uid=MEMBER.uid), MEMBER, None)

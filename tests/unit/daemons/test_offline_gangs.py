"""Gangs on manifests alone."""

from __future__ import annotations

from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.offline import OfflineCluster
from claimsmith.daemons.offline_decision import OfflineDecision
from claimsmith.daemons.tour import TOUR_FOLDER
from tests.unit.daemons.test_offline import CARDS, CLASS, TEMPLATE, decide, devices, pod

GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
"""
QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {"gpu.deviceclass.resource.k8s.io/devices": "%d"}}
"""
MEMBER = "schedulingGroup: {podGroupName: gang}"


def outcomes(found: list[OfflineDecision]) -> list[tuple[str, str, list[str]]]:
    return [(item.target.rpartition("/")[2], item.outcome, devices(item)) for item in found]


def test_the_pods_of_a_gang_are_placed_together() -> None:
    found = decide(GROUP, pod("a", more=MEMBER), pod("b", more=MEMBER))

    assert outcomes(found) == [("a", "allocated", ["one"]), ("b", "allocated", ["two"])]


def test_a_gang_that_does_not_fit_leaves_its_devices_to_others() -> None:
    high = "priority: 5\n  " + MEMBER
    group = GROUP.replace("minCount: 2}}", "minCount: 3}}\n  priority: 5")
    found = decide(group, *(pod(name, more=high) for name in "abc"), pod("alone"))

    assert outcomes(found)[:3] == [(name, "pending", []) for name in "abc"]
    assert outcomes(found)[3] == ("alone", "allocated", ["one"])
    assert {item.message.split(";")[0] for item in found[:3]} == {
        "pod group default/gang: 2 of at least 3 pods fit together"
    }


def test_a_pod_beyond_the_least_count_is_told_why_it_waits() -> None:
    found = decide(GROUP, *(pod(name, more=MEMBER) for name in "abc"))

    assert [item.outcome for item in found] == ["allocated", "allocated", "pending"]
    assert "pod group default/gang: 2 of at least 2 pods fit together; then pod c: " in found[2].message


def test_pods_whose_group_is_missing_wait_for_it() -> None:
    (found,) = decide(pod("a", more=MEMBER))

    assert (found.outcome, found.message) == ("pending", "pod group default/gang does not exist; create it")


def test_a_claim_of_the_group_is_made_once() -> None:
    group = f"{GROUP}  resourceClaims: [{{name: gpu, resourceClaimTemplateName: any}}]\n"
    texts = [CARDS, CLASS, TEMPLATE, group, *(pod(name, more=MEMBER) for name in "ab")]
    cluster = OfflineCluster(parse_manifests("\n---\n".join(texts), source="files"))
    found = list(cluster.decide())
    (claim,) = cluster.snapshot.claims.values()

    assert outcomes(found) == [("a", "allocated", ["one"]), ("b", "allocated", ["one"])]
    assert (claim.ref.name, [user.name for user in claim.reserved_for]) == ("gang-gpu-0", ["gang"])


def test_a_missing_template_keeps_the_whole_gang_waiting() -> None:
    found = decide(GROUP, pod("a", more=MEMBER), pod("b", source="resourceClaimTemplateName: none", more=MEMBER))

    assert {item.outcome for item in found} == {"pending"}
    assert "claim template default/none does not exist; create it" in found[0].message


def test_a_gang_whose_claims_break_a_quota_is_refused_with_the_quota() -> None:
    found = decide(QUOTA % 1, GROUP, pod("a", more=MEMBER), pod("b", more=MEMBER))

    assert outcomes(found) == [("a", "pending", []), ("b", "pending", [])]
    assert {item.message.partition(" more needed")[0] for item in found} == {
        "pod group default/gang: quotas allow the claims of 1 of at least 2 pods; 0/1 nodes can serve the claims; "
        "quota default/team: 0 of 1 gpu.deviceclass.resource.k8s.io/devices used, 2"
    }
    assert [reason.kind for reason in found[0].reasons] == ["quota"]


def test_a_gang_that_a_quota_refuses_takes_nothing_of_it() -> None:
    found = decide(QUOTA % 1, GROUP, pod("a", more=MEMBER), pod("b", more=MEMBER), pod("alone"))

    assert outcomes(found)[2] == ("alone", "allocated", ["one"])


def test_a_pod_beyond_the_least_count_is_told_of_the_quota_by_itself() -> None:
    found = decide(QUOTA % 2, GROUP, *(pod(name, more=MEMBER) for name in "abc"))

    assert outcomes(found) == [("a", "allocated", ["one"]), ("b", "allocated", ["two"]), ("c", "pending", [])]
    assert "claim default/c-gpu-0: quota default/team: 2 of 2 " in found[2].message


def test_a_claim_of_the_group_counts_once_for_its_quota() -> None:
    group = f"{GROUP}  resourceClaims: [{{name: gpu, resourceClaimTemplateName: any}}]\n"
    found = decide(QUOTA % 1, group, *(pod(name, more=MEMBER) for name in "ab"))

    assert outcomes(found) == [("a", "allocated", ["one"]), ("b", "allocated", ["one"])]


def test_a_gang_that_is_not_complete_waits_for_its_pods_first() -> None:
    (found,) = decide(QUOTA % 0, GROUP, pod("a", more=MEMBER))

    assert found.message == "pod group default/gang has 1 of at least 2 pods; create the others"


def test_like_upstream_the_tours_gang_starves() -> None:
    files = ("00-devices.yaml", "10-classes.yaml", "85-gang.yaml")
    manifests = [
        item
        for name in files
        for item in parse_manifests((TOUR_FOLDER / name).read_text(encoding="utf-8"), source=name)
    ]
    ours, theirs = (list(OfflineCluster(manifests, like_upstream=same).decide()) for same in (False, True))

    assert outcomes(ours) == [("pair-0", "allocated", ["half-1"]), ("pair-1", "allocated", ["half-2"])]
    assert outcomes(theirs) == [("pair-0", "pending", []), ("pair-1", "pending", [])]

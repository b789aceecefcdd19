"""Explanations of what waits in manifests: pods, claims, pod groups, quotas."""

from __future__ import annotations

import pytest

from claimsmith.allocate.explain.report import format_explanation
from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.offline import OfflineCluster
from claimsmith.daemons.offline_decision import OfflineDecision
from claimsmith.errors import InputError
from tests.unit.daemons.test_offline import ALLOCATED, CARDS, CLASS, RUNNING, TEMPLATE, claim

QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: default}
spec: {hard: {"gpu.deviceclass.resource.k8s.io/devices": "1"}}
"""
GROUP = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: default}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
"""


def pod(name: str, *, group: str = "", tolerates: str = "") -> str:
    joins = f"schedulingGroup: {{podGroupName: {group}}}" if group else "restartPolicy: Always"
    selects = f"nodeSelector: {{zone: {tolerates}}}" if tolerates else "priority: 0"
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  {joins}
  {selects}
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: any}}]
  containers: [{{name: c, image: 'x:1', resources: {{claims: [{{name: gpu}}]}}}}]
"""


def explain(target: str, *texts: str) -> OfflineDecision:
    return OfflineCluster(parse_manifests("\n---\n".join((CARDS, CLASS, TEMPLATE, *texts)), source="test")).explain(
        target
    )


def told(decision: OfflineDecision) -> str:
    assert decision.explanation is not None
    return format_explanation(decision.explanation)


def test_a_claim_is_explained_with_what_would_help() -> None:
    text = told(explain("claim/big", claim("big", model="H100")))

    assert "one, two: selector device.attributes" in text
    assert "what would help:" in text


def test_what_waits_before_it_counts() -> None:
    found = explain("pod/c", pod("a"), pod("b"), pod("c"))

    assert "one in use by default/a-gpu-0, two in use by default/b-gpu-0" in told(found)


def test_what_fits_is_told_with_its_devices() -> None:
    found = explain("pod/a", pod("a"))

    assert (found.outcome, found.node, found.explanation) == ("allocated", "alpha", None)


def test_a_quota_keeps_a_pods_claim_from_being_made() -> None:
    found = explain("pod/b", QUOTA, pod("a"), pod("b"))

    assert found.message.startswith(
        "0/1 nodes can serve the claims; claim default/b-gpu-0: quota default/team: 1 of 1 "
    )
    assert "raise gpu.deviceclass.resource.k8s.io/devices of quota default/team to 2 → 1 node (alpha)" in told(found)


def test_a_pod_group_is_explained_by_the_pod_that_fits_beside_no_other() -> None:
    found = explain("podgroup/gang", GROUP, *(pod(f"p{number}", group="gang") for number in range(3)))
    text = told(found)

    assert found.target == "podgroup/default/gang"
    assert "note: pod group default/gang needs 3 pods at once, and 2 fit; the reasons are those of pod p2" in text
    assert "lower the minCount of pod group default/gang from 3 to 2 → 1 node (alpha)" in text


def gang_of(count: int, *, wants: str = "") -> tuple[str, ...]:
    """A gang that needs all of its pods, each with a claim of the template."""
    group = GROUP.replace("minCount: 3", f"minCount: {count}")
    template = TEMPLATE.replace("name: any", "name: some").replace("Name: gpu", f"Name: gpu{wants}")
    pods = (
        pod(f"p{number}", group="gang").replace("TemplateName: any", "TemplateName: some") for number in range(count)
    )
    return (template, group, *pods)


def claim_held() -> str:
    return (
        claim("held")
        + """status:
  allocation:
    devices: {results: [{request: gpu, driver: gpu.example.com, pool: alpha, device: one}]}
"""
    )


def fixes(decision: OfflineDecision) -> list[str]:
    assert decision.explanation is not None
    return [fix.text for fix in decision.explanation.fixes]


def test_as_many_nodes_are_proposed_as_the_whole_gang_needs() -> None:
    found = explain("podgroup/gang", *gang_of(5))

    assert fixes(found) == ["add 2 nodes like alpha", "lower the minCount of pod group default/gang from 5 to 2"]


def test_the_claims_of_the_gangs_own_pods_are_never_proposed_to_be_freed() -> None:
    found = explain("podgroup/gang", *gang_of(3))

    assert "one, two in use by the other pods of the gang" in told(found)
    assert not any("free" in text for text in fixes(found))


def test_a_claim_of_others_is_proposed_to_be_freed_where_the_whole_gang_fits_then() -> None:
    enough, few = (explain("podgroup/gang", claim_held(), *gang_of(count)) for count in (2, 3))

    assert "free claim default/held" in fixes(enough)
    assert not any("free" in text for text in fixes(few))


def test_a_selector_is_relaxed_for_all_pods_of_a_gang_as_far_as_all_of_them_need() -> None:
    model = 'device.attributes["gpu.example.com"].model'
    wants = f""", selectors: [{{cel: {{expression: '{model} == "L40"'}}}}]"""
    found = explain("podgroup/gang", *gang_of(2, wants=wants))

    assert f'drop the selector {model} == "L40"' in fixes(found)[0]
    assert "relax" not in " ".join(fixes(found))


def test_fewer_devices_are_proposed_for_all_pods_of_a_gang() -> None:
    found = explain("podgroup/gang", *gang_of(2, wants=", count: 2"))

    assert "ask for 1 device instead of 2" in fixes(found)[0]


def test_a_quota_that_keeps_a_gang_is_raised_for_all_that_it_needs() -> None:
    group = GROUP.replace("minCount: 3", "minCount: 2")
    text = told(explain("podgroup/gang", QUOTA, group, *(pod(f"p{number}", group="gang") for number in range(3))))

    assert "raise gpu.deviceclass.resource.k8s.io/devices of quota default/team to 2 → 1 node (alpha)" in text
    assert "note: pod group default/gang: quotas allow the claims of 1 of at least 2 pods" in text


def test_a_pod_of_a_gang_is_explained_like_the_gang() -> None:
    pods = [pod(f"p{number}", group="gang") for number in range(3)]

    assert told(explain("pod/p0", GROUP, *pods)) == told(explain("podgroup/gang", GROUP, *pods))


def test_a_node_selector_of_the_pod_is_a_reason() -> None:
    text = told(explain("pod/a", pod("a", tolerates="east")))

    assert "node does not have the label zone=east of the pod's nodeSelector" in text
    assert "change the pod or the node: node does not have the label zone=east" in text


def test_too_little_of_a_nodes_resources_is_told_with_the_amounts() -> None:
    large = pod("a").replace("resources: {", "resources: {requests: {cpu: 40, memory: 1Ti}, ")
    text = told(explain("pod/a", large))

    amounts = "cpu: 40 wanted, 32 of 32 left; memory: 1Ti wanted, 128Gi of 128Gi left"
    assert f"node has too little cpu, memory left ({amounts})" in text
    assert f"change the pod or the node: node has too little cpu, memory left ({amounts}) → 1 node (alpha)" in text


def test_the_template_is_named_that_has_to_be_changed() -> None:
    wants = """, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].model == "T40"'}}]"""
    template = TEMPLATE.replace("name: any", "name: some").replace("Name: gpu", f"Name: gpu{wants}")
    found = explain("pod/a", template, pod("a").replace("TemplateName: any", "TemplateName: some"))

    assert fixes(found)[0].startswith("ResourceClaimTemplate default/some, request gpu: relax ")
    assert fixes(found)[0].endswith('to == "T4"')


def test_a_target_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match="found no such pod or claim"):
        explain("podgroup/none", pod("a"))


def test_a_pod_group_that_fits_is_told_with_what_each_pod_gets() -> None:
    found = explain("podgroup/gang", *gang_of(2))

    assert (found.target, found.outcome, found.was_there) == ("podgroup/default/gang", "allocated", False)
    assert [(item.target, item.node) for item in found.members] == [
        ("pod/default/p0", "alpha"),
        ("pod/default/p1", "alpha"),
    ]


def test_what_runs_already_is_told_as_such() -> None:
    runs = pod("a", group="gang").replace("spec:", "spec:\n  nodeName: alpha", 1)
    waits, one, both = (explain(target, GROUP, runs, pod("b")) for target in ("pod/b", "pod/a", "podgroup/gang"))

    assert (waits.was_there, one.was_there, both.was_there) == (False, True, True)
    assert [item.target for item in both.members] == ["pod/default/a"]


def test_a_claim_that_has_its_devices_is_told_as_such() -> None:
    found = explain("claim/held", claim_held())

    assert (found.outcome, found.was_there) == ("allocated", True)


def test_a_claim_that_is_allocated_now_is_told_as_one_that_fits() -> None:
    alone, used = (explain(target, claim("c"), pod("a")) for target in ("claim/c", "claim/a-gpu-0"))

    assert [(found.outcome, found.node, found.was_there) for found in (alone, used)] == [
        ("allocated", "alpha", False),
        ("allocated", "alpha", False),
    ]


def test_a_claim_of_a_pod_that_runs_is_told_as_one_that_has_its_devices() -> None:
    found = OfflineCluster(parse_manifests("\n---\n".join((CARDS, CLASS, ALLOCATED, RUNNING)), source="test")).explain(
        "claim/team/taken"
    )

    assert (found.outcome, found.was_there) == ("allocated", True)


def test_pods_of_a_group_that_are_placed_now_are_told_as_ones_that_fit() -> None:
    group = GROUP.replace("gang: {minCount: 3}", "basic: {}")
    found = explain("podgroup/gang", group, pod("a", group="gang"), pod("b", group="gang"))

    assert (found.outcome, found.was_there) == ("allocated", False)
    assert [item.target for item in found.members] == ["pod/default/a", "pod/default/b"]

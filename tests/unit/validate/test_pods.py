from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import POD
from claimsmith.validate import validate_status_update, validate_update
from tests.unit.validate.objects import Json, created, edited, pod, short

CLAIM = {"name": "gpu", "resourceClaimName": "c"}


def container(**fields: Any) -> Json:
    return {"name": "c", "image": "busybox", **fields}


def test_a_plain_pod_is_allowed() -> None:
    assert created(POD, pod()) == []


@pytest.mark.parametrize(
    ("spec", "issue"),
    [
        ({"containers": []}, ("Required", "spec.containers")),
        ({"containers": [{"image": "x"}]}, ("Required", "spec.containers[0].name")),
        ({"containers": [{"name": "c"}]}, ("Required", "spec.containers[0].image")),
        ({"containers": [container(), container()]}, ("Duplicate", "spec.containers[1].name")),
        ({"initContainers": [container()]}, ("Duplicate", "spec.containers[0].name")),
        ({"restartPolicy": "Sometimes"}, ("NotSupported", "spec.restartPolicy")),
        ({"schedulingGroup": {}}, ("Invalid", "spec.schedulingGroup.podGroupName")),
        ({"schedulingGroup": {"podGroupName": "A"}}, ("Invalid", "spec.schedulingGroup.podGroupName")),
        ({"resourceClaims": [{"name": "gpu"}]}, ("Invalid", "spec.resourceClaims[0]")),
        ({"resourceClaims": [CLAIM, CLAIM]}, ("Duplicate", "spec.resourceClaims[1]")),
        (
            {"resourceClaims": [{**CLAIM, "resourceClaimTemplateName": "t"}]},
            ("Invalid", "spec.resourceClaims[0]"),
        ),
        (
            {"containers": [container(resources={"claims": [{"name": "gpu"}]})]},
            ("NotFound", "spec.containers[0].resources.claims[0]"),
        ),
        (
            {"resourceClaims": [CLAIM], "containers": [container(resources={"claims": [{"name": "gpu"}] * 2})]},
            ("Duplicate", "spec.containers[0].resources.claims[1]"),
        ),
        (
            {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            ("Invalid", "spec.containers[0].resources.requests"),
        ),
        (
            {"containers": [container(resources={"requests": {"example.com/gpu": "1"}})]},
            ("Required", "spec.containers[0].resources.limits"),
        ),
        (
            {"containers": [container(resources={"limits": {"cpu": "-1"}})]},
            ("Invalid", "spec.containers[0].resources.limits[cpu]"),
        ),
        ({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, ("Forbidden", "spec.nodeName")),
        ({"schedulingGates": [{"name": "a"}, {"name": "a"}]}, ("Duplicate", "spec.schedulingGates[1]")),
    ],
)
def test_a_rule_of_pods_is_kept(spec: Json, issue: tuple[str, str]) -> None:
    assert created(POD, pod(**spec)) == [issue]


def test_a_pod_with_claims_and_extended_resources_is_allowed() -> None:
    resources = {"claims": [{"name": "gpu", "request": "r"}], "limits": {"example.com/nic": "1", "cpu": "2"}}

    assert created(POD, pod(resourceClaims=[CLAIM], containers=[container(resources=resources)])) == []


@pytest.mark.parametrize(
    ("change", "issues"),
    [
        ({"containers": [container(image="other")]}, []),
        ({"activeDeadlineSeconds": 5}, []),
        ({"tolerations": [{"key": "k", "operator": "Exists"}]}, []),
        ({"containers": [container(), container(name="more")]}, [("Forbidden", "spec.containers")]),
        ({"containers": []}, [("Required", "spec.containers"), ("Forbidden", "spec.containers")]),
        ({"initContainers": [container(name="first")]}, [("Forbidden", "spec.initContainers")]),
        ({"containers": [container(image="")]}, [("Required", "spec.containers[0].image")]),
        ({"containers": [container(image=" a")]}, [("Invalid", "spec.containers[0].image")]),
        ({"containers": [container(command=["sh"])]}, [("Forbidden", "spec")]),
        ({"terminationGracePeriodSeconds": 5}, [("Forbidden", "spec")]),
        ({"nodeName": "node-a"}, [("Forbidden", "spec")]),
        ({"resourceClaims": [CLAIM]}, [("Forbidden", "spec")]),
        ({"nodeSelector": {"zone": "a"}}, [("Forbidden", "spec")]),
        ({"schedulingGates": [{"name": "late"}]}, [("Forbidden", "spec.schedulingGates[0].name")]),
    ],
)
def test_little_of_a_pod_may_change(change: Json, issues: list[tuple[str, str]]) -> None:
    assert short(validate_update(POD, pod(), pod(**change))) == issues


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"),
    [(60, 30, True), (60, 60, True), (60, 90, False), (60, None, False), (None, -1, False)],
)
def test_a_deadline_may_only_come_nearer(before: int | None, after: int | None, is_allowed: bool) -> None:
    def with_deadline(seconds: int | None) -> Json:
        return pod() if seconds is None else pod(activeDeadlineSeconds=seconds)

    issues = short(validate_update(POD, with_deadline(before), with_deadline(after)))
    assert issues == ([] if is_allowed else [("Invalid", "spec.activeDeadlineSeconds")])


def test_gates_may_go_and_a_gated_pod_may_be_narrowed() -> None:
    gated = pod(schedulingGates=[{"name": "claimsmith.dev/allocate"}])

    assert validate_update(POD, gated, pod()) == ()
    assert validate_update(POD, gated, edited(gated, lambda obj: obj["spec"].update(nodeSelector={"a": "b"}))) == ()


def test_tolerations_do_not_go() -> None:
    old = pod(tolerations=[{"key": "k", "operator": "Exists"}])

    assert short(validate_update(POD, old, pod())) == [("Forbidden", "spec.tolerations")]


def test_a_status_write_does_not_place_a_pod() -> None:
    assert short(validate_status_update(POD, pod(), pod(nodeName="node-a"))) == [("Invalid", "status")]

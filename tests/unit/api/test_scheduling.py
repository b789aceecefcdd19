from __future__ import annotations

import json
from typing import Any

import pytest

from claimsmith.api.core import parse_pod
from claimsmith.api.manifests import parse_manifests
from claimsmith.api.objects import parse_objects
from claimsmith.api.scheduling import encode_pod_group, encode_workload, parse_pod_group, parse_workload
from claimsmith.errors import FieldError
from claimsmith.model.podgroup import PodGroup, Workload
from claimsmith.model.workload import PodClaim

GROUP: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": "team", "uid": "u"},
    "spec": {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
        "resourceClaims": [
            {"name": "shared", "resourceClaimName": "big"},
            {"name": "own", "resourceClaimTemplateName": "template"},
        ],
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
        "priority": 7,
        "preemptionPolicy": "Never",
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "parentCompositePodGroupName": "parent",
    },
    "status": {
        "conditions": [
            {
                "type": "PodGroupInitiallyScheduled",
                "status": "True",
                "reason": "r",
                "message": "m",
                "lastTransitionTime": "2024-05-01T00:00:00Z",
            }
        ],
        "resourceClaimStatuses": [{"name": "own", "resourceClaimName": "train-own-x"}],
    },
}
LEAF = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 3}
WORKLOAD: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "Workload",
    "metadata": {"name": "w", "namespace": "team"},
    "spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"},
        "podGroupTemplates": [LEAF, {"name": "driver", "schedulingPolicy": {"basic": {}}}],
        "compositePodGroupTemplates": [
            {
                "name": "all",
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "zone"}]},
                "disruptionMode": {"single": {}},
                "podGroupTemplates": [LEAF],
                "compositePodGroupTemplates": [{"name": "inner", "schedulingPolicy": {"basic": {}}}],
            }
        ],
    },
}


def test_a_pod_group_with_every_field_comes_back_as_it_was() -> None:
    assert encode_pod_group(parse_pod_group(GROUP)) == GROUP


def test_what_a_gang_needs_is_read() -> None:
    group = parse_pod_group(json.dumps(GROUP))

    assert str(group.ref) == "team/train"
    assert group.spec.is_gang
    assert group.spec.min_count == 4
    assert group.spec.topology_keys == ("example.com/rack",)
    assert group.spec.claims == (
        PodClaim(name="shared", claim_name="big"),
        PodClaim(name="own", template_name="template"),
    )
    assert str(group.template) == "w/t"
    assert group.claim_names == {"own": "train-own-x"}


def test_a_group_of_single_pods_has_no_least_number_and_is_disrupted_one_by_one() -> None:
    group = parse_pod_group({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}})

    assert not group.spec.is_gang
    assert group.spec.disruption_mode == "single"
    assert "status" not in encode_pod_group(group)


def test_a_workload_with_every_field_comes_back_as_it_was() -> None:
    assert encode_workload(parse_workload(WORKLOAD)) == WORKLOAD


def test_a_workload_nested_beyond_all_bounds_is_refused() -> None:
    text = '{"spec":' + '{"compositePodGroupTemplates":[' * 450 + "]}" * 450 + "}"

    with pytest.raises(FieldError, match="found 'too deep nesting', allowed at most 200 levels"):
        parse_workload(text, source="body")


def test_groups_and_workloads_are_among_the_objects_of_files() -> None:
    text = f"{json.dumps(GROUP)}\n{json.dumps(WORKLOAD)}"
    group, workload = parse_objects(parse_manifests(text, source="f.json"))

    assert isinstance(group, PodGroup)
    assert isinstance(workload, Workload)


def test_a_pod_names_its_group() -> None:
    spec = {"containers": [{"name": "c"}], "schedulingGroup": {"podGroupName": "train"}}

    assert parse_pod({"metadata": {"name": "p"}, "spec": spec}).pod_group == "train"

"""Pod groups and workloads; `tests/conformance/validation` has what the API server itself says of thousands."""

from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.kinds import POD_GROUP, WORKLOAD
from claimsmith.validate import validate_create, validate_update

Json = dict[str, Any]
LEAF: Json = {"name": "leaf", "schedulingPolicy": {"gang": {"minCount": 2}}}


def group(**spec: Any) -> Json:
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec}
    return {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}


def workload(*templates: Json, **spec: Any) -> Json:
    return {
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"podGroupTemplates": list(templates), **spec},
    }


def nested(depth: int) -> Json:
    template: Json = {"name": f"level-{depth}", "schedulingPolicy": {"basic": {}}}
    return (
        {**template, "podGroupTemplates": [LEAF]}
        if depth == 1
        else {
            **template,
            "compositePodGroupTemplates": [nested(depth - 1)],
        }
    )


@pytest.mark.parametrize(
    ("spec", "issue"),
    [
        ({"schedulingPolicy": {}}, ("Invalid", "spec.schedulingPolicy")),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, ("Invalid", "spec.schedulingPolicy")),
        ({"schedulingPolicy": {"gang": {}}}, ("Required", "spec.schedulingPolicy.gang.minCount")),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}}, ("Invalid", "spec.schedulingPolicy.gang.minCount")),
        (
            {"resourceClaims": [{"name": f"c{i}", "resourceClaimName": "x"} for i in range(5)]},
            ("TooMany", "spec.resourceClaims"),
        ),
        ({"resourceClaims": [{"name": "c"}]}, ("Invalid", "spec.resourceClaims[0]")),
        (
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            ("TooMany", "spec.schedulingConstraints.topology"),
        ),
        ({"priority": 1_000_000_001}, ("Invalid", "spec.priority")),
        ({"parentCompositePodGroupName": "p"}, ("Required", "spec.workloadRef")),
    ],
)
def test_a_rule_of_groups_is_kept(spec: Json, issue: tuple[str, str]) -> None:
    found = validate_create(POD_GROUP, group(**spec))

    assert [(entry.type, entry.path) for entry in found] == [issue]


def test_four_claims_and_one_topology_key_are_allowed() -> None:
    claims = [{"name": f"c{i}", "resourceClaimTemplateName": "t"} for i in range(4)]

    assert (
        validate_create(POD_GROUP, group(resourceClaims=claims, schedulingConstraints={"topology": [{"key": "a"}]}))
        == ()
    )


def test_an_absent_disruption_mode_is_single() -> None:
    assert validate_update(POD_GROUP, group(), group(disruptionMode={"single": {}})) == ()


@pytest.mark.parametrize(
    ("templates", "issues"),
    [
        ([{**LEAF, "name": f"t{i}"} for i in range(8)], []),
        ([{**LEAF, "name": f"t{i}"} for i in range(9)], [("TooMany", "spec.podGroupTemplates")]),
        ([], [("Invalid", "spec")]),
        ([LEAF, {**LEAF, "name": "other", "priority": 1}], [("Invalid", "spec")]),
    ],
)
def test_a_rule_of_workloads_is_kept(templates: list[Json], issues: list[tuple[str, str]]) -> None:
    found = validate_create(WORKLOAD, workload(*templates))

    assert [(entry.type, entry.path) for entry in found] == issues


def test_templates_are_nested_at_most_four_levels_deep() -> None:
    good = workload(compositePodGroupTemplates=[nested(3)])
    bad = workload(compositePodGroupTemplates=[nested(4)])

    assert validate_create(WORKLOAD, good) == ()
    assert [entry.path for entry in validate_create(WORKLOAD, bad)] == ["spec.compositePodGroupTemplates[0]"]

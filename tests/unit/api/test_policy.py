from __future__ import annotations

from typing import Any

import pytest

from claimsmith.api.policy import (
    encode_budget,
    encode_priority_class,
    encode_quota,
    parse_budget,
    parse_priority_class,
    parse_quota,
)
from claimsmith.errors import FieldError
from claimsmith.model.metadata import Metadata

BUDGET: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "team"},
    "spec": {
        "minAvailable": "50%",
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        },
    },
    "status": {"disruptionsAllowed": 2, "disruptedPods": {"web-1": "1970-01-01T00:00:00Z"}},
}
QUOTA: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus", "namespace": "team"},
    "spec": {
        "hard": {"gpu.deviceclass.resource.k8s.io/devices": "4"},
        "scopeSelector": {
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}],
        },
    },
    "status": {"used": {"gpu.deviceclass.resource.k8s.io/devices": "1"}},
}
PRIORITY: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
    "globalDefault": True,
    "preemptionPolicy": "Never",
}


def pod(namespace: str = "team", **labels: str) -> Metadata:
    return Metadata(name="x", namespace=namespace, labels=labels)


@pytest.mark.parametrize(
    ("metadata", "selected"),
    [
        (pod(app="web", tier="a"), True),
        (pod(app="web", tier="c"), False),
        (pod(app="web"), False),
        (pod(app="web", tier="a", old="yes"), False),
        (pod("other", app="web", tier="a"), False),
    ],
)
def test_a_budget_selects_pods_of_its_namespace_by_all_conditions(metadata: Metadata, selected: bool) -> None:
    assert parse_budget(BUDGET).selects(metadata) is selected


def test_a_budget_without_a_selector_selects_nothing_and_one_that_is_empty_selects_everything() -> None:
    without = parse_budget({**BUDGET, "spec": {"maxUnavailable": 1}})
    empty = parse_budget({**BUDGET, "spec": {"maxUnavailable": 1, "selector": {}}})

    assert (without.selects(pod()), empty.selects(pod())) == (False, True)


def test_a_budget_whose_status_was_never_written_does_not_say_how_many_pods_may_go() -> None:
    assert parse_budget({**BUDGET, "status": None}).disruptions_allowed is None


def test_a_budget_comes_back_as_it_was() -> None:
    assert encode_budget(parse_budget(BUDGET)) == BUDGET


def test_a_quota_comes_back_as_it_was() -> None:
    assert encode_quota(parse_quota(QUOTA)) == QUOTA


def test_short_scopes_of_a_quota_count_as_conditions_too() -> None:
    quota = parse_quota({**QUOTA, "spec": {"hard": {"pods": 3}, "scopes": ["Terminating"]}})

    assert [(scope.name, scope.operator) for scope in quota.scopes] == [("Terminating", "Exists")]


def test_a_priority_class_comes_back_as_it_was() -> None:
    assert encode_priority_class(parse_priority_class(PRIORITY)) == PRIORITY


def test_a_budget_of_another_version_is_refused() -> None:
    with pytest.raises(FieldError, match="allowed policy/v1"):
        parse_budget({**BUDGET, "apiVersion": "policy/v1beta1"})

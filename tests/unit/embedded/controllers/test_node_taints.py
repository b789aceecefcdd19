from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from claimsmith.embedded.controllers.cordons import plan_taints
from claimsmith.embedded.controllers.node_taints import find_stay_s
from claimsmith.model.node import NodeTaint
from claimsmith.model.workload import PodToleration

BROKEN = NodeTaint(key="broken", effect="NoExecute")
OLD = NodeTaint(key="old", effect="NoExecute", value="very")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def tolerate(key: str, seconds: int | None = None) -> PodToleration:
    return PodToleration(key=key, operator="Exists", toleration_seconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "stay_s"),
    [
        ([], 0.0),
        ([tolerate("broken")], 0.0),
        ([tolerate("broken"), tolerate("old")], None),
        ([tolerate("broken", 60), tolerate("old")], 60.0),
        ([tolerate("broken", 60), tolerate("old", 30)], 30.0),
        ([tolerate("broken", -5), tolerate("old")], 0.0),
        ([tolerate("broken", 60), tolerate("broken"), tolerate("old")], 60.0),
    ],
)
def test_a_pod_stays_as_long_as_it_tolerates_all_taints(tolerations: list[PodToleration], stay_s: float | None) -> None:
    assert find_stay_s(tolerations, [BROKEN, OLD]) == stay_s


@pytest.mark.parametrize(
    ("spec", "taints"),
    [
        ({}, None),
        ({"unschedulable": True, "taints": [CORDON]}, None),
        ({"unschedulable": True}, [{**CORDON, "timeAdded": "2026-01-01T00:00:00Z"}]),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}, CORDON]}, [{"key": "a", "effect": "NoSchedule"}]),
    ],
)
def test_a_node_is_tainted_while_it_is_cordoned(spec: dict[str, Any], taints: list[dict[str, Any]] | None) -> None:
    assert plan_taints({"spec": spec}, NOW) == taints

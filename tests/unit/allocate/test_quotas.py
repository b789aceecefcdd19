"""What quotas count of claims and pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.quotas import count_claim, count_pod, find_quota_limit
from claimsmith.model.metadata import Metadata
from claimsmith.model.policy import QuotaScope, ResourceQuota
from claimsmith.model.workload import Container
from claimsmith.testing.builders import NAMESPACE, alternatives, claim, pod, quantities, request, sub
from tests.unit.allocate.trying import cluster, running, waiting

DEVICES = "{}.deviceclass.resource.k8s.io/devices"


def test_each_claim_counts_as_one_with_its_devices_by_class() -> None:
    spec = claim("c", request("a", count=2), request("b", klass="nic"), request("c", count=1)).spec

    assert count_claim(spec) == {
        "count/resourceclaims.resource.k8s.io": 1000,
        DEVICES.format("gpu"): 3000,
        DEVICES.format("nic"): 1000,
    }


def test_of_alternatives_the_worst_of_each_class_counts() -> None:
    spec = claim("c", alternatives("r", sub("a", count=1), sub("b", count=4), sub("c", klass="nic", count=2))).spec

    assert (count_claim(spec)[DEVICES.format("gpu")], count_claim(spec)[DEVICES.format("nic")]) == (4000, 2000)


def test_a_request_for_all_devices_counts_as_the_most_that_a_claim_can_get() -> None:
    assert count_claim(claim("c", request(allocation_mode="All")).spec)[DEVICES.format("gpu")] == 32_000


def test_a_pod_counts_with_what_runs_or_what_starts_whichever_is_more() -> None:
    init = Container(name="init", requests=quantities({"cpu": 5}))
    sidecar = Container(name="side", requests=quantities({"cpu": 1}), restart_policy="Always")
    main = Container(name="main", requests=quantities({"cpu": 2}), limits=quantities({"memory": "1Gi"}))
    counted = count_pod(replace(pod("p"), containers=(main,), init_containers=(init, sidecar)))

    assert {name: counted[name] for name in ("pods", "cpu", "requests.cpu", "limits.memory")} == {
        "pods": 1000,
        "cpu": 5000,
        "requests.cpu": 5000,
        "limits.memory": 1024**3 * 1000,
    }


def test_what_a_pod_asks_for_as_a_whole_counts_instead() -> None:
    counted = count_pod(replace(waiting("p", cpu=2), requests=quantities({"cpu": 7})))

    assert counted["cpu"] == 7000


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        (QuotaScope(name="NotTerminating"), True),
        (QuotaScope(name="Terminating"), False),
        (QuotaScope(name="BestEffort"), False),
        (QuotaScope(name="NotBestEffort"), True),
        (QuotaScope(name="PriorityClass"), True),
        (QuotaScope(name="PriorityClass", operator="DoesNotExist"), False),
        (QuotaScope(name="PriorityClass", operator="In", values=("high",)), True),
        (QuotaScope(name="PriorityClass", operator="NotIn", values=("high",)), False),
    ],
    ids=lambda value: f"{value.name} {value.operator} {value.values}" if isinstance(value, QuotaScope) else "",
)
def test_a_scope_says_which_pods_are_counted(scope: QuotaScope, covered: bool) -> None:
    quota = ResourceQuota(
        metadata=Metadata(name="q", namespace=NAMESPACE), hard=quantities({"pods": 3}), scopes=(scope,)
    )
    asked = replace(waiting("p", cpu=1), priority_class="high")
    found = find_quota_limit(replace(cluster({"a": 1}), quotas=(quota,)), asked)

    assert (found is not None) == covered


def test_a_quota_that_is_used_up_leaves_room_for_none() -> None:
    quota = ResourceQuota(metadata=Metadata(name="q", namespace=NAMESPACE), hard=quantities({"pods": 1}))
    held = [running("one", "a", "g0"), running("two", "a", "g1")]
    found = find_quota_limit(replace(cluster({"a": 2}, *held), quotas=(quota,)), waiting("p"))

    assert found is not None
    assert (found.copies, found.text) == (0, "quota default/q: 2 of 1 pods used, 1 for each")

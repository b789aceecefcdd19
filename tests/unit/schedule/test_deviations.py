"""Pods are scheduled otherwise than by kube-scheduler where docs/deviations.md says so."""

from __future__ import annotations

from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.api.core_pods import parse_pod
from claimsmith.schedule.extended import plan_class_names
from claimsmith.schedule.filter import NodeFilter
from claimsmith.schedule.usage import UsageIndex, plan_requests
from claimsmith.testing.builders import klass, node

IMPLICIT = "deviceclass.resource.kubernetes.io/"


def test_a_class_that_loses_its_extended_resource_to_another_keeps_its_implicit_name() -> None:
    old = klass("old", extended_resource_name="example.com/gpu", creation_timestamp="2030-01-01T00:00:00Z")
    new = klass("new", extended_resource_name="example.com/gpu", creation_timestamp="2030-01-02T00:00:00Z")

    assert plan_class_names([old, new]) == {"example.com/gpu": "new", f"{IMPLICIT}old": "old", f"{IMPLICIT}new": "new"}


def test_a_node_is_judged_without_inter_pod_affinity_and_host_ports() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nowhere"}}}
    wanted = parse_pod(
        {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
                "containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}],
            },
        }
    )
    checks = NodeFilter(pod=wanted, wanted=plan_requests(wanted), claims=(), matches=matches_node)

    assert list(checks.find_reasons(node(), UsageIndex.of_pods(()).find(node()))) == []

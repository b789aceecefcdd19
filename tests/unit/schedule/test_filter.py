from __future__ import annotations

from dataclasses import replace

from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.node import Node, NodeTaint
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.model.workload import Container, Pod, PodToleration
from claimsmith.schedule.filter import NodeFilter
from claimsmith.schedule.usage import UsageIndex, plan_requests
from claimsmith.testing.builders import allocated, claim, node, pod, quantities, result

CORDON = "node.kubernetes.io/unschedulable"


def texts(wanted: Pod, found: Node, *others: Pod, claims: tuple[ResourceClaim, ...] = ()) -> list[str]:
    checks = NodeFilter(pod=wanted, wanted=plan_requests(wanted), claims=claims, matches=matches_node)
    usage = UsageIndex.of_pods(others).find(found)
    return [reason.text for reason in checks.find_reasons(found, usage)]


def test_a_ready_node_with_room_takes_a_pod() -> None:
    assert texts(pod(), node()) == []


def test_a_cordoned_node_takes_only_pods_that_tolerate_it() -> None:
    cordoned = node(unschedulable=True, taints=[NodeTaint(key=CORDON, effect="NoSchedule")])
    tolerant = pod(tolerations=(PodToleration(key=CORDON, operator="Exists"),))

    assert (texts(pod(), cordoned), texts(tolerant, cordoned)) == (["node is unschedulable"], [])


def test_a_node_that_is_not_ready_takes_no_pod() -> None:
    assert texts(pod(), node(ready=False)) == ["node is not ready"]


def test_a_taint_is_named_with_its_value_and_effect() -> None:
    tainted = node(taints=[NodeTaint(key="team", value="a", effect="NoExecute")])

    assert texts(pod(), tainted) == ["node has the taint team=a:NoExecute that the pod does not tolerate"]


def test_a_toleration_of_another_value_does_not_help() -> None:
    tainted = node(taints=[NodeTaint(key="team", value="a", effect="NoSchedule")])
    other = pod(tolerations=(PodToleration(key="team", value="b"),))

    assert len(texts(other, tainted)) == 1


def test_a_toleration_without_key_accepts_every_taint() -> None:
    tainted = node(taints=[NodeTaint(key="team", value="a", effect="NoSchedule")])

    assert texts(pod(tolerations=(PodToleration(operator="Exists"),)), tainted) == []


def test_a_taint_that_only_prefers_is_ignored() -> None:
    assert texts(pod(), node(taints=[NodeTaint(key="slow", effect="PreferNoSchedule")])) == []


def test_the_node_selector_names_the_label_that_is_missing() -> None:
    wanted = pod(node_selector={"zone": "b"})

    assert texts(wanted, node(labels={"zone": "a"})) == [
        "node does not have the label zone=b of the pod's nodeSelector"
    ]


def test_a_claim_that_is_allocated_elsewhere_keeps_the_pod_off() -> None:
    elsewhere = allocated(claim("c"), "gpu-0", node="node-b")

    assert texts(pod("p", "c"), node("node-a"), claims=(elsewhere,)) == ["claim default/c is allocated for other nodes"]


def test_a_claim_that_is_allocated_for_every_node_keeps_nobody_off() -> None:
    everywhere = allocated(claim("c"), "gpu-0", node=None)

    assert texts(pod("p", "c"), node("node-a"), claims=(everywhere,)) == []


def test_a_claim_whose_devices_skip_node_operations_needs_a_node_that_declares_it() -> None:
    device = replace(result("gpu-0"), skip_node_operations=("NodePrepareResources",))
    claims = (allocated(claim(), device, node=None),)
    able = replace(node(), declared_features=frozenset({"DRAOptionalNodeOperations"}))

    assert "need DRAOptionalNodeOperations" in texts(pod(), node(), claims=claims)[0]
    assert texts(pod(), able, claims=claims) == []


def test_what_other_pods_take_counts() -> None:
    small = node(allocatable={"cpu": 3, "memory": "8Gi"})
    wanted = pod("new", requests={"cpu": 2, "memory": "1Gi"})
    present = pod("old", requests={"cpu": 2}, node_name=small.name)

    assert texts(wanted, small, present) == ["node has too little cpu left"]


def test_a_finished_pod_takes_nothing() -> None:
    small = node(allocatable={"cpu": 3})
    done = pod("old", requests={"cpu": 2}, node_name=small.name, phase="Succeeded")

    assert texts(pod("new", requests={"cpu": 2}), small, done) == []


def test_a_full_node_takes_no_further_pod() -> None:
    one = node(allocatable={"pods": 1})

    assert texts(pod("new"), one, pod("old", node_name=one.name)) == ["node has too little pods left"]


def test_a_node_affinity_that_does_not_match_is_told() -> None:
    requirement = NodeSelectorRequirement(key="zone", operator="In", values=("b",))
    term = NodeSelectorTerm(match_expressions=(requirement,))
    wanted = Pod(metadata=pod().metadata, node_affinity=NodeSelector(terms=(term,)))

    assert texts(wanted, node(labels={"zone": "a"})) == ["node does not match the pod's node affinity"]


def test_init_containers_count_by_the_largest_and_sidecars_stay() -> None:
    def container(name: str, cpu: str, policy: str = "") -> Container:
        return Container(name=name, requests=quantities({"cpu": cpu}), restart_policy=policy)

    wanted = Pod(
        metadata=pod().metadata,
        init_containers=(container("side", "1", "Always"), container("first", "5"), container("second", "2")),
        containers=(container("a", "1"), container("b", "500m")),
        overhead=quantities({"cpu": "250m"}),
    )

    assert plan_requests(wanted) == {"cpu": 6250, "pods": 1000}


def test_a_node_that_reports_no_amounts_is_not_judged_by_them() -> None:
    unknown = Node(metadata=node().metadata)

    assert texts(pod(requests={"cpu": 2}), unknown) == []


def test_usage_follows_a_pod_that_moves_and_goes() -> None:
    index, there = UsageIndex(), pod("p", requests={"cpu": 1}, node_name="node-a")
    index.see_pod(None, there)
    taken = dict(index.find(node("node-a")).amounts)
    index.see_pod(there, None)

    assert (taken, index.find(node("node-a")).amounts) == ({"cpu": 1000, "pods": 1000}, {})

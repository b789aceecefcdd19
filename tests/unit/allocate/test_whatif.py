"""What would be: changes of a cluster, how many more fit, drained nodes, nodes to buy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.whatif import change_snapshot, count_fitting, drain_nodes, find_cheapest_nodes
from claimsmith.allocate.whatif.changes import (
    AddNodes,
    AddPods,
    AddSlices,
    Change,
    CordonNodes,
    NodeTemplate,
    RemoveDevices,
    RemoveDriver,
    RemoveNodes,
    RemovePods,
    SetQuota,
    TaintDevices,
    TaintNodes,
    copy_pod,
    find_template,
    get_template,
)
from claimsmith.allocate.whatif.trial import NoPlace, Placement, put_pod
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.errors import InputError
from claimsmith.model.device import DeviceTaint
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import DeviceId
from claimsmith.model.node import NodeTaint
from claimsmith.model.policy import QuotaScope, ResourceQuota
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.testing.builders import DRIVER, NAMESPACE, device, node, quantities, slice_
from tests.unit.allocate.trying import (
    DAEMONS,
    budget,
    cluster,
    gpus,
    held_by,
    names,
    ref,
    running,
    sharing,
    waiting,
)

TRIAL = SchedulerTrial()


def like(name: str, count: int, *, cost: float = 1.0, maximum: int | None = None) -> NodeTemplate:
    return NodeTemplate(node=node(name), slices=(gpus(name, count),), cost=cost, maximum=maximum)


def quota(name: str, hard: dict[str, int], *scopes: QuotaScope) -> ResourceQuota:
    return ResourceQuota(metadata=Metadata(name=name, namespace=NAMESPACE), hard=quantities(hard), scopes=scopes)


def fits(snapshot: ClusterSnapshot, count: int = 1) -> int:
    return count_fitting(snapshot, waiting("new", count), place=TRIAL, explain=False).on_nodes


# --- changes ----------------------------------------------------------------------------------------------------------


def test_added_nodes_have_devices_of_their_own_that_can_be_allocated() -> None:
    snapshot = cluster({"a": 2}, running("one", "a", "g0"))
    template = find_template(snapshot, "a")
    assert template is not None
    after = change_snapshot(snapshot, [AddNodes(template=template, count=2)])

    assert list(after.nodes) == ["a", "a-new-1", "a-new-2"]
    assert after.nodes["a-new-1"].labels["kubernetes.io/hostname"] == "a-new-1"
    assert {(item.node_name, item.pool) for item in after.slices} == {
        ("a", "a"), ("a-new-1", "a-new-1"), ("a-new-2", "a-new-2")
    }  # fmt: skip
    assert (fits(snapshot), fits(after)) == (1, 5)


def test_a_pool_that_is_not_named_after_its_node_gets_a_name_for_each_copy() -> None:
    template = NodeTemplate(node=node("a"), slices=(slice_(device("d"), node="a", pool="cards"),))
    after = change_snapshot(cluster({}), [AddNodes(template=template)])

    assert [(item.name, item.pool) for item in after.slices] == [("slice-0-a-new-1", "cards-a-new-1")]


def test_adding_again_goes_on_counting() -> None:
    after = change_snapshot(cluster({}), [AddNodes(template=like("t", 1)), AddNodes(template=like("t", 1))])

    assert list(after.nodes) == ["t-new-1", "t-new-2"]


def test_removed_nodes_take_their_pods_and_devices_along() -> None:
    snapshot = cluster({"a": 1, "b": 1}, running("one", "a", "g0"))
    after = change_snapshot(snapshot, [RemoveNodes(names=("a",))])

    assert (list(after.nodes), list(after.pods), list(after.claims)) == (["b"], [], [])
    assert [item.node_name for item in after.slices] == ["b"]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (CordonNodes(names=("a",)), 1),
        (TaintNodes(names=("a", "b"), taint=NodeTaint(key="k", effect="NoSchedule")), 0),
        (TaintNodes(names=("a",), taint=NodeTaint(key="k", effect="PreferNoSchedule")), 3),
        (TaintDevices(taint=DeviceTaint(key="k", effect="NoSchedule"), pool="a"), 1),
        (TaintDevices(taint=DeviceTaint(key="k", effect="NoSchedule"), pool="a", device="g0"), 2),
        (TaintDevices(taint=DeviceTaint(key="k", effect="NoSchedule")), 0),
        (RemoveDriver(driver=DRIVER), 0),
        (RemoveDevices(devices=frozenset({DeviceId(DRIVER, "a", "g0"), DeviceId(DRIVER, "b", "g0")})), 1),
        (AddSlices(slices=(slice_(device("x"), node="b", pool="more", name="more"),)), 4),
        (AddPods(pods=(running("one", "a", "g0")[0],)), 3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_fits_after_a_change(change: Change, left: int) -> None:
    snapshot = cluster({"a": 2, "b": 1})

    assert (fits(snapshot), fits(change_snapshot(snapshot, [change]))) == (3, left)


def test_removed_pods_give_their_devices_back() -> None:
    snapshot = cluster({"a": 1}, running("one", "a", "g0"))

    assert (fits(snapshot), fits(change_snapshot(snapshot, [RemovePods(pods=(ref("one"),))]))) == (0, 1)


def test_a_slice_of_the_same_name_replaces_the_old_one() -> None:
    snapshot = cluster({"a": 1})
    larger = slice_(device("x"), device("y"), device("z"), node="a", pool="a", name="a-gpus")

    assert fits(change_snapshot(snapshot, [AddSlices(slices=(larger,))])) == 3


def test_a_quota_that_is_set_again_counts_once() -> None:
    first, second = quota("q", {"pods": 5}), quota("q", {"pods": 2})
    after = change_snapshot(cluster({"a": 9}), [SetQuota(quota=first), SetQuota(quota=second)])

    assert after.quotas == (second,)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (RemoveNodes(names=("x",)), r"node 'x': not in the cluster, allowed a, b; correct it"),
        (CordonNodes(names=("x",)), r"node 'x': not in the cluster"),
        (TaintNodes(names=("x",), taint=NodeTaint(key="k", effect="NoSchedule")), r"node 'x'"),
        (TaintDevices(taint=DeviceTaint(key="k", effect="NoSchedule"), pool="x"), r"device '\*/x/\*'.*allowed gpu"),
        (RemoveDriver(driver="x"), rf"driver 'x': not in the cluster, allowed {DRIVER}"),
        (RemoveDevices(devices=frozenset({DeviceId(DRIVER, "a", "g7")})), r"device 'gpu.example.test/a/g7'"),
        (RemovePods(pods=(ref("x"),)), r"pod 'default/x': not in the cluster, allowed none"),
    ],
)
def test_a_change_of_what_is_not_there_is_refused(change: Change, told: str) -> None:
    with pytest.raises(InputError, match=told):
        change_snapshot(cluster({"a": 1, "b": 1}), [change])


def test_a_template_is_one_of_the_file_or_a_node_of_the_cluster() -> None:
    snapshot, named = cluster({"a": 1}), {"big": like("big", 8)}

    assert get_template(snapshot, named, "big") is named["big"]
    assert get_template(snapshot, named, "a").node.name == "a"
    with pytest.raises(InputError, match="node template 'x': not in the cluster, allowed big, a; correct it"):
        get_template(snapshot, named, "x")


@pytest.mark.parametrize(("cost", "maximum"), [(0.0, None), (-1.0, None), (1.0, -1)])
def test_a_template_that_costs_nothing_is_refused(cost: float, maximum: int | None) -> None:
    with pytest.raises(InputError, match="node template 't': found"):
        like("t", 1, cost=cost, maximum=maximum)


# --- how many more ----------------------------------------------------------------------------------------------------


def test_copies_are_counted_by_node_and_grouped_by_number() -> None:
    snapshot = cluster({"a": 4, "b": 4, "c": 2, "d": 0}, running("one", "a", "g0"))
    found = count_fitting(snapshot, waiting("new", 2), place=TRIAL)

    assert (found.total, found.by_node) == (4, {"a": 1, "b": 2, "c": 1})
    assert found.groups == {2: ("b",), 1: ("a", "c")}
    assert found.stopped is not None
    assert "node-count" not in found.stopped.message
    assert "in use by" in found.stopped.message


def test_counting_ends_at_the_maximum() -> None:
    found = count_fitting(cluster({"a": 4}), waiting("new"), place=TRIAL, maximum=3)

    assert (found.total, found.stopped) == (3, None)


def test_other_resources_limit_copies_too() -> None:
    assert count_fitting(cluster({"a": 8}, cpu=10), waiting("new", cpu=4), place=TRIAL).total == 2


def test_nodes_that_share_a_pool_share_what_is_in_it() -> None:
    fabric = slice_(device("x"), device("y"), node=None, pool="fabric", all_nodes=True)

    assert fits(cluster({"a": 0, "b": 0, "c": 0}, fabric)) == 2


def test_a_pod_that_shares_its_claim_fits_many_times_on_one_node() -> None:
    shared = replace(held_by("both", "a", "g0"), reserved_for=())
    found = count_fitting(cluster({"a": 1, "b": 1}, shared, pods=3), sharing_pod(), place=TRIAL)

    assert found.by_node == {"a": 3}


def sharing_pod() -> Pod:
    return replace(sharing("new", "", "both"), phase="Pending")


@pytest.mark.parametrize(
    ("hard", "copies", "resource"),
    [
        ({"gpu.deviceclass.resource.k8s.io/devices": 5}, 2, "gpu.deviceclass.resource.k8s.io/devices"),
        ({"count/resourceclaims.resource.k8s.io": 4}, 3, "count/resourceclaims.resource.k8s.io"),
        ({"pods": 2, "gpu.deviceclass.resource.k8s.io/devices": 9}, 1, "pods"),
        ({"requests.cpu": 5}, 2, "requests.cpu"),
        ({"cpu": 5}, 2, "cpu"),
    ],
)
def test_a_quota_ends_it_earlier(hard: dict[str, int], copies: int, resource: str) -> None:
    snapshot = change_snapshot(cluster({"a": 9}, running("one", "a", "g0", cpu=1)), [SetQuota(quota=quota("q", hard))])
    found = count_fitting(snapshot, waiting("new", 2, cpu=2), place=TRIAL)

    assert (found.on_nodes, found.total) == (4, copies)
    assert found.quota is not None
    assert (found.quota.quota, found.quota.resource) == ("default/q", resource)


def test_a_quota_for_other_pods_does_not_count() -> None:
    scoped = quota("q", {"pods": 0}, QuotaScope(name="PriorityClass", operator="In", values=("high",)))
    elsewhere = replace(quota("q", {"pods": 0}), metadata=Metadata(name="q", namespace="other"))
    snapshot = change_snapshot(cluster({"a": 3}), [SetQuota(quota=scoped), SetQuota(quota=elsewhere)])

    assert count_fitting(snapshot, waiting("new"), place=TRIAL).total == 3
    high = replace(waiting("new"), priority_class="high")
    assert count_fitting(snapshot, high, place=TRIAL).total == 0


def test_a_quota_says_what_is_used_of_it() -> None:
    limit = quota("q", {"gpu.deviceclass.resource.k8s.io/devices": 3})
    snapshot = change_snapshot(cluster({"a": 9}, running("one", "a", "g0")), [SetQuota(quota=limit)])
    found = count_fitting(snapshot, waiting("new", 2), place=TRIAL)

    assert found.quota is not None
    assert found.quota.text == "quota default/q: 1 of 3 gpu.deviceclass.resource.k8s.io/devices used, 2 for each"


# --- drained nodes ----------------------------------------------------------------------------------------------------


def test_pods_of_a_drained_node_find_another_place_or_say_why_not() -> None:
    held = [running("one", "a", "g0", priority=1), running("two", "a", "g1")]
    found = drain_nodes(cluster({"a": 2, "b": 1}, *held), ["a"], place=TRIAL)

    assert [(move.pod.metadata.name, getattr(move.decision, "node", "")) for move in found.moves] == [
        ("one", "b"), ("two", "")
    ]  # fmt: skip
    assert "node is unschedulable" in found.pending[0].message


def test_pods_that_wait_compete_by_priority_with_those_that_are_evicted() -> None:
    held = running("old", "a", "g0", priority=1)
    snapshot = cluster({"a": 1, "b": 1}, held, waiting("high", priority=2), waiting("low", priority=0))
    found = drain_nodes(snapshot, ["a"], place=TRIAL)

    assert [isinstance(item, Placement) for item in found.queue] == [True, False]
    assert names(item.pod for item in found.pending) == ["old"]


def test_a_waiting_pod_that_loses_its_place_is_named() -> None:
    held = running("old", "a", "g0", priority=5)
    found = drain_nodes(cluster({"a": 1, "b": 1}, held, waiting("mine")), ["a"], place=TRIAL)

    assert found.displaced == (ref("mine"),)


def test_daemons_stay_and_bare_pods_are_not_made_again() -> None:
    held = [running("agent", "a", owner=DAEMONS), running("bare", "a", "g0", owner=None), running("set", "a", "g1")]
    found = drain_nodes(cluster({"a": 2, "b": 2}, *held), ["a"], place=TRIAL)

    assert found.staying == (ref("agent"),)
    assert {move.pod.metadata.name: move.is_remade for move in found.moves} == {"bare": False, "set": True}


def test_pods_that_share_a_claim_go_together_so_that_it_comes_free() -> None:
    users = [sharing("one", "a", "both"), sharing("two", "a", "both")]
    found = drain_nodes(cluster({"a": 1, "b": 1}, held_by("both", "a", "g0", "one", "two"), *users), ["a"], place=TRIAL)

    assert [getattr(move.decision, "node", "") for move in found.moves] == ["b", "b"]


def test_a_budget_that_forbids_an_eviction_is_named() -> None:
    held = [running("one", "a", "g0", app="web"), running("two", "a", "g1", app="web")]
    snapshot = cluster({"a": 2, "b": 2}, *held, budget("keep", None, maximum=1, app="web"))
    short = cluster({"a": 2, "b": 0}, *held, budget("keep", None, maximum=1, app="web"))

    assert [move.budgets for move in drain_nodes(snapshot, ["a"], place=TRIAL).moves] == [(), ()]
    assert [move.budgets for move in drain_nodes(short, ["a"], place=TRIAL).moves] == [(), ("default/keep",)]


def test_two_nodes_can_be_drained_at_once() -> None:
    held = [running("one", "a", "g0"), running("two", "b", "g0")]
    found = drain_nodes(cluster({"a": 1, "b": 1, "c": 2}, *held), ["a", "b"], place=TRIAL)

    assert [getattr(move.decision, "node", "") for move in found.moves] == ["c", "c"]


# --- nodes to buy -----------------------------------------------------------------------------------------------------


def test_nothing_is_bought_when_everything_runs() -> None:
    found = find_cheapest_nodes(cluster({"a": 1}, waiting("one")), [like("t", 8)], place=TRIAL)

    assert (found.status, found.counts, found.cost) == ("needless", {}, 0.0)


def test_the_cheapest_mix_is_bought() -> None:
    pods = [waiting(f"p{n}") for n in range(5)]
    offers = [like("big", 4, cost=3.0), like("small", 1, cost=1.0)]
    found = find_cheapest_nodes(cluster({}, *pods), offers, place=TRIAL)

    assert (found.status, found.counts, found.cost, found.bound) == ("optimal", {"big": 1, "small": 1}, 4.0, 4.0)
    assert all(isinstance(item, Placement) for item in found.decisions)


def test_room_that_is_there_is_used_first() -> None:
    pods = [waiting(f"p{n}") for n in range(3)]
    found = find_cheapest_nodes(cluster({"a": 2}, *pods), [like("t", 1)], place=TRIAL)

    assert found.counts == {"t": 1}


def test_no_more_than_the_maximum_is_bought() -> None:
    pods = [waiting(f"p{n}") for n in range(4)]
    offers = [like("cheap", 1, cost=1.0, maximum=2), like("dear", 1, cost=5.0)]
    found = find_cheapest_nodes(cluster({}, *pods), offers, place=TRIAL)

    assert (found.counts, found.cost) == ({"cheap": 2, "dear": 2}, 12.0)


def test_when_all_that_can_be_had_is_too_little_the_rest_is_explained() -> None:
    pods = [waiting(f"p{n}") for n in range(3)]
    found = find_cheapest_nodes(cluster({}, *pods), [like("t", 1, maximum=2)], place=TRIAL)

    assert (found.status, found.counts) == ("impossible", {"t": 2})
    assert sum(isinstance(item, NoPlace) and bool(item.message) for item in found.decisions) == 1


def test_a_pod_that_no_node_helps_is_left_out_and_explained() -> None:
    found = find_cheapest_nodes(cluster({}, waiting("one"), waiting("huge", 8)), [like("t", 1)], place=TRIAL)

    assert (found.status, found.counts) == ("optimal", {"t": 1})
    assert names(item.pod for item in found.hopeless) == ["huge"]


def test_when_trying_has_to_end_early_a_choice_and_a_bound_are_given() -> None:
    pods = [waiting(f"p{n}") for n in range(6)]
    offers = [like("big", 4, cost=3.5), like("small", 1, cost=1.0)]
    found = find_cheapest_nodes(cluster({}, *pods), offers, place=TRIAL, placements_max=0)

    assert found.status in ("feasible", "optimal")
    assert found.bound <= 5.5 <= found.cost <= 6.0
    assert all(isinstance(item, Placement) for item in found.decisions)


def test_copies_of_a_pod_have_names_and_claims_of_their_own() -> None:
    snapshot = cluster({"a": 2})
    for number in range(2):
        found = TRIAL(snapshot, copy_pod(waiting("new"), number))
        assert isinstance(found, Placement)
        snapshot = put_pod(snapshot, found)

    assert sorted(str(ref) for ref in snapshot.claims) == ["default/new-copy-0-gpu-0", "default/new-copy-1-gpu-0"]

"""Pods that a change of the cluster ends, or takes devices from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.whatif import change_snapshot
from claimsmith.allocate.whatif.changes import Change, RemoveDevices, RemoveNodes, RemovePods, TaintDevices, TaintNodes
from claimsmith.allocate.whatif.ending import find_ends, take_ended
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.device import DeviceTaint, DeviceToleration
from claimsmith.model.names import DeviceId
from claimsmith.model.node import NodeTaint
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod, PodToleration
from claimsmith.testing.builders import DRIVER
from tests.unit.allocate.trying import DAEMONS, Held, cluster, ref, running, waiting

GONE = DeviceTaint(key="sick", value="yes", effect="NoExecute")
DOWN = NodeTaint(key="down", effect="NoExecute")


def told(snapshot: ClusterSnapshot, *changes: Change) -> list[tuple[str, bool, tuple[str, ...]]]:
    """Return name, whether it ends, and causes of each pod that the changes touch."""
    ends = find_ends(snapshot, change_snapshot(snapshot, changes))
    return [(end.pod.metadata.name, end.ends, end.causes) for end in ends]


def two_pods(*, first: Held | None = None) -> ClusterSnapshot:
    return cluster({"a": 2, "b": 2}, first or running("one", "a", "g0"), running("two", "b", "g1"), waiting("three"))


def test_pods_of_a_removed_node_end() -> None:
    assert told(two_pods(), RemoveNodes(names=("a",))) == [("one", True, ("node a is gone",))]


def test_a_pod_that_is_removed_by_name_is_not_told_again() -> None:
    assert told(two_pods(), RemovePods(pods=(ref("two"),))) == []


def test_a_taint_that_evicts_ends_the_pods_of_its_node() -> None:
    assert told(two_pods(), TaintNodes(names=("a",), taint=DOWN)) == [
        ("one", True, ("node a gets taint down:NoExecute",))
    ]


@pytest.mark.parametrize("seconds", [None, 300])
def test_a_pod_that_tolerates_a_taint_for_ever_stays(seconds: int | None) -> None:
    pod, claim = running("one", "a", "g0")
    accepts = PodToleration(key="down", operator="Exists", toleration_seconds=seconds)
    ends = told(two_pods(first=(replace(pod, tolerations=(accepts,)), claim)), TaintNodes(names=("a",), taint=DOWN))

    assert bool(ends) == (seconds is not None)


def test_a_taint_that_keeps_pods_away_ends_none() -> None:
    assert told(two_pods(), TaintNodes(names=("a",), taint=replace(DOWN, effect="NoSchedule"))) == []


def test_a_taint_that_was_there_ends_none() -> None:
    snapshot = change_snapshot(two_pods(), [TaintNodes(names=("a",), taint=DOWN)])

    assert told(snapshot, RemoveNodes(names=("b",))) == [("two", True, ("node b is gone",))]


def test_a_taint_of_a_device_ends_who_holds_it() -> None:
    assert told(two_pods(), TaintDevices(taint=GONE, driver=DRIVER, pool="b", device="g1")) == [
        ("two", True, (f"{DRIVER}/b/g1 gets taint sick=yes:NoExecute",))
    ]
    assert told(two_pods(), TaintDevices(taint=GONE, driver=DRIVER, pool="b", device="g0")) == []


@pytest.mark.parametrize(("effect", "stays"), [("NoExecute", True), ("", False)])
def test_an_allocation_keeps_a_pod_only_if_its_toleration_names_the_effect(effect: str, *, stays: bool) -> None:
    pod, claim = running("one", "a", "g0")
    snapshot = two_pods(first=(pod, tolerating(claim, DeviceToleration(key="sick", value="yes", effect=effect))))

    assert (told(snapshot, TaintDevices(taint=GONE, pool="a")) == []) == stays


def tolerating(claim: ResourceClaim, toleration: DeviceToleration) -> ResourceClaim:
    assert claim.allocation is not None
    results = tuple(replace(result, tolerations=(toleration,)) for result in claim.allocation.results)
    return replace(claim, allocation=replace(claim.allocation, results=results))


def test_a_pod_runs_on_without_a_device_that_is_published_no_longer() -> None:
    assert told(two_pods(), RemoveDevices(devices=frozenset({DeviceId(DRIVER, "a", "g0")}))) == [
        ("one", False, (f"holds {DRIVER}/a/g0, which is gone",))
    ]


def waiting_after(*pods: Held) -> list[str]:
    """Return what waits once node `a` is gone, with pods that were on it."""
    before = cluster({"a": 2, "b": 2}, *pods)
    after = change_snapshot(before, [RemoveNodes(names=("a",))])
    left: ClusterSnapshot = take_ended(after, find_ends(before, after))
    return [pod.metadata.name for pod in left.pods.values() if is_waiting(pod)]


def is_waiting(pod: Pod) -> bool:
    return not pod.node_name and not pod.claim_names


def test_what_has_a_controller_waits_again() -> None:
    assert waiting_after(running("one", "a", "g0"), running("two", "b", "g0")) == ["one"]


def test_what_nobody_makes_again_is_gone() -> None:
    daemon = running("daemon", "a", "g0", owner=DAEMONS)

    assert waiting_after(running("one", "a", "g1", owner=None), daemon) == []

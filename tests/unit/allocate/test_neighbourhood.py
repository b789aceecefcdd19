"""Parts of a cluster: nodes that share no pool are looked at apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.replan.preempt import find_victims
from claimsmith.allocate.whatif.neighbourhood import Neighbourhoods, finds_every_node_alike
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import PodClaim
from claimsmith.testing.builders import allocated, claim, claim_ref, device, device_id, node, on_nodes, pod, slice_
from tests.unit.allocate.trying import cluster, names, running, sharing, waiting


def wide(**fields: object) -> ResourceSlice:
    return slice_(device("x"), node=None, pool="wide", name="wide", **fields)  # type: ignore[arg-type]


def labelled(*slices: ResourceSlice) -> ClusterSnapshot:
    nodes = [node("a", labels={"zone": "1"}), node("b", labels={"zone": "1"}), node("c", labels={"zone": "2"})]
    return cluster({}, *nodes, *slices)


@pytest.mark.parametrize(
    ("slices", "groups"),
    [
        ((), [("a",), ("b",), ("c",)]),
        ((wide(all_nodes=True),), [("a", "b", "c")]),
        ((wide(node_selector=on_nodes(zone="1")),), [("a", "b"), ("c",)]),
        ((slice_(device("x"), node="a", pool="p", name="s1"), slice_(device("y"), node="c", pool="p", name="s2")),
         [("a", "c"), ("b",)]),
        ((slice_(device("x", node_name="b"), device("y", node_selector=on_nodes(zone="2")), node=None, pool="p",
                 name="s", per_device_node_selection=True),), [("a",), ("b", "c")]),
        ((slice_(device("x"), node="elsewhere", pool="p", name="s"),), [("a",), ("b",), ("c",)]),
    ],
)  # fmt: skip
def test_nodes_that_reach_one_pool_are_together(slices: tuple[ResourceSlice, ...], groups: list[object]) -> None:
    assert list(Neighbourhoods(labelled(*slices)).split()) == groups


def test_a_part_has_its_nodes_their_pools_and_those_who_hold_devices_of_them() -> None:
    fabric = slice_(device("f"), node=None, pool="fabric", name="fabric", all_nodes=True)
    far = allocated(claim("far"), device_id("f", pool="fabric"), node=None, reserved_for=("holder",))
    snapshot = cluster({"a": 1, "b": 1, "c": 1}, fabric, far, sharing("holder", "b", "far"), running("one", "a", "g0"))
    part = Neighbourhoods(replace(snapshot, claims={**snapshot.claims})).cut(("a",))

    assert (list(part.nodes), [item.name for item in part.slices]) == (["a"], ["a-gpus", "fabric"])
    assert sorted(map(str, part.claims)) == ["default/far", "default/one-gpu"]
    assert sorted(names(part.pods.values())) == ["holder", "one"]


def test_claims_that_are_asked_for_stay_in_every_part() -> None:
    anywhere = allocated(claim("mine"), device_id("gone", pool="gone"), node=None)
    snapshot = cluster({"a": 1}, anywhere)

    assert list(Neighbourhoods(snapshot).cut(("a",)).claims) == []
    assert list(Neighbourhoods(snapshot).cut(("a",), keep=[claim_ref("mine")]).claims) == [claim_ref("mine")]


def test_a_pod_whose_claim_is_allocated_already_can_preempt_for_the_rest() -> None:
    anywhere = allocated(claim("mine"), device_id("gone", pool="gone"), node=None)
    asked = replace(waiting("new", priority=9), claims=(PodClaim(name="a", claim_name="mine"), waiting("x").claims[0]))
    found = find_victims(cluster({"a": 1}, anywhere, running("one", "a", "g0")), [asked], place=SchedulerTrial())

    assert (found.status, names(found.victims)) == ("optimal", ["one"])


def test_only_pods_with_claims_of_their_own_are_counted_node_by_node() -> None:
    assert finds_every_node_alike(waiting("new"))
    assert not finds_every_node_alike(pod("new", "shared"))

"""A few moves so that a larger piece comes free, each of which can be done when its turn comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimsmith.allocate.replan.defrag import DefragPlan, Goal, Shape, measure, plan_defrag
from claimsmith.allocate.whatif.trial import put_pods, take_pods
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import PodClaim
from claimsmith.testing.builders import (
    DRIVER,
    claim,
    consumes,
    counter_set,
    device,
    node,
    pod,
    request,
    slice_,
    template,
)
from tests.unit.allocate.trying import DAEMONS, Held, budget, cluster, held_by, names, running, sharing, waiting

TRIAL = SchedulerTrial()


def room(count: int, wanted: int | None = None) -> Goal:
    """The goal that pods with so many GPUs fit."""
    return Goal(name="room", shapes=(Shape(name=f"{count} GPUs", pod=waiting("probe", count), wanted=wanted),))


def plan(snapshot: ClusterSnapshot, goal: Goal, moves: int) -> DefragPlan:
    return plan_defrag(snapshot, goal, moves=moves, place=TRIAL)


def told(found: DefragPlan) -> list[tuple[list[str], list[str]]]:
    """Names of the pods of each step, and the nodes that they go to."""
    return [(names(step.pods), [item.node for item in step.placements]) for step in found.steps]


def test_the_node_that_costs_fewest_moves_is_emptied() -> None:
    held = [running("one", "a", "g0"), running("two", "a", "g1"), running("three", "b", "g0")]
    found = plan(cluster({"a": 4, "b": 4}, *held), room(4), 5)

    assert (told(found), found.before, found.after) == ([(["three"], ["a"])], (0,), (1,))


def test_as_many_holes_are_made_as_moves_allow() -> None:
    held = [running("one", "a", "g0"), running("two", "b", "g0"), running("three", "c", "g0")]
    snapshot = cluster({"a": 4, "b": 4, "c": 4}, *held)

    assert (plan(snapshot, room(4), 1).after, plan(snapshot, room(4), 1).stopped) == ((1,), "moves")
    assert (plan(snapshot, room(4), 9).after, plan(snapshot, room(4), 9).stopped) == ((2,), "stuck")


def test_no_more_is_moved_than_is_wanted() -> None:
    held = [running("one", "a", "g0"), running("two", "b", "g0"), running("three", "c", "g0")]
    found = plan(cluster({"a": 4, "b": 4, "c": 4}, *held), room(4, wanted=1), 9)

    assert (found.moves, found.after, found.stopped) == (1, (1,), "reached")


def test_without_moves_nothing_is_planned() -> None:
    found = plan(cluster({"a": 4}, running("one", "a", "g0")), room(4), 0)

    assert (found.steps, found.before, found.after, found.stopped) == ((), (0,), (0,), "moves")


def test_a_goal_that_is_reached_costs_nothing() -> None:
    found = plan(cluster({"a": 4}), room(4, wanted=1), 3)

    assert (found.steps, found.before, found.stopped) == ((), (1,), "reached")


def test_a_pod_without_another_place_is_not_moved() -> None:
    held = [running("one", "a", "g0", cpu=7), running("two", "b", "g0", cpu=1), running("busy", "b", cpu=1)]
    found = plan(cluster({"a": 4, "b": 4}, *held, cpu=8), room(4), 5)

    assert told(found) == [(["two"], ["a"])]


@pytest.mark.parametrize("kept", ["daemon", "ending", "budget"])
def test_some_pods_are_never_moved(kept: str) -> None:
    holder, made = running("one", "a", "g0", owner=DAEMONS) if kept == "daemon" else running("one", "a", "g0", app="x")
    if kept == "ending":
        holder = replace(holder, metadata=replace(holder.metadata, deletion_timestamp="2024-01-01T00:00:00Z"))
    rest = [budget("keep", 0, app="x")] if kept == "budget" else []

    assert plan(cluster({"a": 2, "b": 1}, (holder, made), *rest), room(2), 5).stopped == "stuck"


def test_pods_that_share_a_claim_move_in_one_step() -> None:
    users = [sharing("one", "a", "both"), sharing("two", "a", "both")]
    snapshot = cluster({"a": 2, "b": 1}, held_by("both", "a", "g0", "one", "two"), *users)
    found = plan(snapshot, room(2), 2)

    assert told(found) == [(["one", "two"], ["b", "b"])]
    assert plan(snapshot, room(2), 1).steps == ()


def test_a_step_that_needs_the_room_of_another_waits_for_it() -> None:
    lanes = slice_(
        *(device(f"f{n}", attributes={"lane": n}) for n in range(3)),
        node=None,
        pool="lanes",
        name="lanes",
        all_nodes=True,
    )
    held = [on_lane("one", 0, 1, gpu="g0", lane="f1"), on_lane("two", 0, 2, gpu="g1", lane="f0")]
    probe = pod("probe", PodClaim(name="gpus", template_name="both"))
    both = template("both", request("r", IS_GPU, count=3))
    goal = Goal(name="node", shapes=(Shape(name="node", pod=probe, wanted=1),))
    wishes = [template(f"lane-{n}", request("gpu", IS_GPU), request("lane", on(0, n))) for n in (1, 2)]
    snapshot = cluster({"a": 3, "b": 2}, lanes, both, *wishes, *held)
    found = plan(snapshot, goal, 2)

    assert (told(found), found.after) == ([(["two"], ["b"]), (["one"], ["b"])], (1,))
    assert replay(snapshot, found) == []


IS_GPU = f'"model" in device.attributes["{DRIVER}"]'


def on(*lanes: int) -> str:
    """The selector of some lanes."""
    return f'device.attributes["{DRIVER}"].?lane.orValue(-1) in {list(lanes)}'


def on_lane(name: str, *lanes: int, gpu: str, lane: str) -> Held:
    """A pod on node a with a GPU and one of two lanes that every node reaches."""
    holder, made = running(name, "a", gpu)
    wish = PodClaim(name="gpu", template_name=f"lane-{lanes[-1]}")
    spec = claim("x", request("gpu", IS_GPU), request("lane", on(*lanes))).spec
    assert made.allocation is not None
    got = replace(made.allocation.results[0], request="gpu")
    results = (got, replace(got, request="lane", pool="lanes", device=lane))
    return replace(holder, claims=(wish,)), replace(
        made, spec=spec, allocation=replace(made.allocation, results=results)
    )


def replay(snapshot: ClusterSnapshot, found: DefragPlan) -> list[str]:
    """Carry out a plan step by step; return the devices that were taken while another claim held them."""
    wrong: list[str] = []
    for step in found.steps:
        snapshot = take_pods(snapshot, [pod.ref for pod in step.pods])
        taken = {id for claim in snapshot.allocated_claims() for id in devices_of(claim)}
        made = [claim for placement in step.placements for claim in placement.claims]
        wrong += [str(id) for claim in made for id in devices_of(claim) if id in taken]
        snapshot = put_pods(snapshot, step.placements)
    assert snapshot == found.cluster
    return wrong


def devices_of(claim: ResourceClaim) -> list[DeviceId]:
    return [] if claim.allocation is None else [item.device_id for item in claim.allocation.results]


def test_the_hole_is_named_so_that_it_can_be_kept_free() -> None:
    found = plan(cluster({"a": 2, "b": 1}, running("one", "a", "g0")), room(2), 1)

    assert found.kept_free == (DeviceId(DRIVER, "a", "g0"), DeviceId(DRIVER, "a", "g1"))


def test_several_shapes_are_served_in_their_order() -> None:
    held = [running("one", "a", "g0"), running("two", "b", "g0")]
    goal = Goal(
        name="teams",
        shapes=(
            Shape(name="four", pod=waiting("four", 4), wanted=1),
            Shape(name="two", pod=waiting("two-of", 2), wanted=1),
        ),
    )
    found = plan(cluster({"a": 4, "b": 4}, *held), goal, 1)

    assert (found.before, found.after) == ((0, 1), (1, 1))


def test_the_largest_piece_that_can_be_had_is_freed() -> None:
    goal = Goal(
        name="largest",
        shapes=tuple(Shape(name=f"{n}", pod=waiting(f"probe-{n}", n)) for n in (8, 4, 2, 1)),
        kind="largest",
    )
    held = [running("one", "a", "g0"), running("two", "a", "g3")]
    snapshot = cluster({"a": 4, "b": 2}, *held)
    found = plan(snapshot, goal, 2)

    assert (measure(snapshot, goal, place=TRIAL), found.after, found.stopped) == ((2,), (3,), "reached")
    assert (plan(snapshot, goal, 1).steps, plan(snapshot, goal, 1).stopped) == ((), "stuck")


def test_parts_are_brought_together_so_that_a_whole_card_comes_free() -> None:
    held = [running("one", "a", "half-0"), running("two", "b", "half-1")]
    wholes = template("wholes", request("r", 'device.attributes["gpu.example.test"].profile == "2g"'))
    probe = pod("probe", PodClaim(name="card", template_name="wholes"))
    goal = Goal(name="whole", shapes=(Shape(name="2g", pod=probe, wanted=2),))
    found = plan(cluster({}, node("a"), node("b"), *parts("a"), *parts("b"), wholes, *held), goal, 1)

    assert (told(found), found.before, found.after) == ([(["one"], ["b"])], (0,), (1,))
    assert found.kept_free == (DeviceId(DRIVER, "a", "whole"),)


def parts(name: str) -> tuple[ResourceSlice, ResourceSlice]:
    """The slices of a node with a card that can be had whole or in halves."""
    sizes = {"whole": 2, "half-0": 1, "half-1": 1}
    devices = [
        device(part, attributes={"profile": f"{size}g"}, counters=[consumes("card", {"slots": size})])
        for part, size in sizes.items()
    ]
    counters = (counter_set("card", {"slots": 2}),)
    return (
        slice_(node=name, name=f"{name}-counters", slice_count=2, shared_counters=counters),
        slice_(*devices, node=name, name=f"{name}-parts", slice_count=2),
    )

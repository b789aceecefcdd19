"""Second looks at plans: the cluster has changed so that the rest of a plan would do harm, or is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from claimsmith.allocate.replan.defrag import DefragPlan, Goal, Shape, plan_defrag
from claimsmith.allocate.whatif.changes import CordonNodes, change_snapshot
from claimsmith.daemons.carryout import Step, Verdict
from claimsmith.daemons.plan_checks import HOLD_LABEL, check_defrag, check_drain, check_preemption
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.errors import InputError
from claimsmith.model.device import DeviceTaint
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import DeviceId
from claimsmith.model.pool import DeviceTaintRule
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.testing.builders import DRIVER
from tests.unit.allocate.trying import Held, cluster, ref, running, waiting

TRIAL = SchedulerTrial()
NEW = waiting("new", priority=9)


def steps(*held: Held) -> tuple[Step, ...]:
    return tuple((pod,) for pod, _ in held)


# --- preemption -------------------------------------------------------------------------------------------------------


def find_new(snapshot: ClusterSnapshot) -> tuple[Sequence[Pod], int | None]:
    if snapshot.pods[ref("new")].node_name:
        raise InputError("target 'pod/new': found no such pod, allowed one that waits; correct it")
    return [snapshot.pods[ref("new")]], None


def preempt(snapshot: ClusterSnapshot, *left: Held) -> Verdict:
    return check_preemption(find_new, place=TRIAL)(snapshot, steps(*left))


def test_victims_that_still_make_room_may_go() -> None:
    one = running("one", "a", "g0")

    assert preempt(cluster({"a": 1}, one, NEW), one) == Verdict()


def test_victims_that_would_not_make_room_any_more_stay() -> None:
    one, other = running("one", "a", "g0"), running("other", "a", "g0", priority=9)
    verdict = preempt(cluster({"a": 1}, other, NEW), one)

    assert "the cluster has changed, the victims would not do: " in verdict.problem
    assert "in use by default/other-gpu" in verdict.problem


def test_nobody_goes_when_there_is_room_by_now() -> None:
    one = running("one", "a", "g0")

    assert preempt(cluster({"a": 2}, one, NEW), one).is_needless


def test_nobody_goes_when_those_that_are_ending_make_room() -> None:
    one, two = running("one", "a", "g0"), running("two", "a", "g1")
    ending = replace(one[0], metadata=replace(one[0].metadata, deletion_timestamp="2026-01-01T00:00:00Z"))

    assert preempt(cluster({"a": 2}, (ending, one[1]), two, NEW), two).is_needless


def test_nobody_goes_for_a_pod_that_waits_no_longer() -> None:
    one = running("one", "a", "g0")

    assert preempt(cluster({"a": 1}, one, replace(NEW, node_name="b")), one).is_needless


# --- drain ------------------------------------------------------------------------------------------------------------


def drain(snapshot: ClusterSnapshot, *, cordoned: bool = True) -> Verdict:
    seen = change_snapshot(snapshot, [CordonNodes(names=("a",))]) if cordoned else snapshot
    return check_drain(["a"], place=TRIAL)(seen, ())


def test_pods_with_another_place_may_leave_a_cordoned_node() -> None:
    assert drain(cluster({"a": 1, "b": 1}, running("one", "a", "g0"))) == Verdict()


def test_a_node_that_takes_pods_again_is_not_drained() -> None:
    problem = drain(cluster({"a": 1, "b": 1}, running("one", "a", "g0")), cordoned=False).problem

    assert problem == "node a takes pods again; cordon it and plan anew"


def test_a_pod_whose_place_is_taken_stays() -> None:
    problem = drain(cluster({"a": 1, "b": 1}, running("one", "a", "g0"), running("new", "b", "g0"))).problem

    assert problem.startswith("the cluster has changed, pod default/one would wait: ")


def test_a_pod_that_waits_keeps_its_place() -> None:
    problem = drain(cluster({"a": 1, "b": 1}, running("one", "a", "g0", priority=5), waiting("new"))).problem

    assert problem == "the cluster has changed, pod default/new would lose the place that it could have now"


def test_a_node_that_is_gone_needs_no_drain() -> None:
    assert drain(cluster({"b": 1}), cordoned=False) == Verdict()


# --- moves ------------------------------------------------------------------------------------------------------------

ONE, TWO = running("one", "a", "g0"), running("two", "b", "g0")
SPREAD = cluster({"a": 2, "b": 2}, ONE, TWO)
GOAL = Goal(name="room", shapes=(Shape(name="pair", pod=waiting("goal", 2), wanted=1),))


@pytest.fixture
def plan() -> DefragPlan:
    found = plan_defrag(SPREAD, GOAL, moves=1, place=TRIAL)
    assert found.moves == 1
    return found


def hold(plan: DefragPlan, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The cluster with the taints that keep the plan's devices free."""
    rules = tuple(
        DeviceTaintRule(
            metadata=Metadata(name=f"hold-{number}", labels={HOLD_LABEL: "x"}),
            taint=DeviceTaint(key=HOLD_LABEL, effect="NoSchedule"),
            selects=True,
            driver=item.driver,
            pool=item.pool,
            device=item.device,
        )
        for number, item in enumerate(sorted(plan.kept_free))
    )
    return replace(snapshot, taint_rules=rules)


def defrag(plan: DefragPlan, snapshot: ClusterSnapshot) -> Verdict:
    return check_defrag(plan, place=TRIAL)(hold(plan, snapshot), [step.pods for step in plan.steps])


def test_moves_that_still_gain_as_much_are_done(plan: DefragPlan) -> None:
    assert defrag(plan, SPREAD) == Verdict()


def test_a_pod_that_is_gone_stops_the_moves(plan: DefragPlan) -> None:
    moved = plan.steps[0].pods[0]
    problem = defrag(plan, replace(SPREAD, pods={k: pod for k, pod in SPREAD.pods.items() if k != moved.ref})).problem

    assert problem == f"the cluster has changed, pod {moved.ref} is not there any more; plan anew"


def test_a_place_that_somebody_took_stops_the_moves(plan: DefragPlan) -> None:
    target = plan.steps[0].placements[0].node
    new = running("new", target, "g1")
    problem = defrag(plan, cluster({"a": 2, "b": 2}, ONE, TWO, new)).problem

    assert problem.startswith(f"the cluster has changed, pod {plan.steps[0].pods[0].ref} would wait: ")


def test_a_hole_that_somebody_took_stops_the_moves(plan: DefragPlan) -> None:
    hole = plan.steps[0].pods[0].node_name
    (free,) = (item for item in plan.kept_free if item != DeviceId(DRIVER, hole, "g0"))
    new = running("new", hole, free.device)
    problem = defrag(plan, cluster({"a": 2, "b": 2}, ONE, TWO, new)).problem

    assert problem == "the cluster has changed, the moves that are left would gain less; plan anew"

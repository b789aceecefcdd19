"""A few pods moved so that a larger piece comes free: a plan of steps, each of which can be done when its turn comes.

A goal is a shape, or several: pods that are only thought of, of which as many as possible shall fit. A hole for one
more is where pods are that have a place elsewhere: they are found as victims are for a pod that preempts, but of any
priority, and only if all of them find another place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from claimsmith.allocate.prepared.problem import merge_taint_rules
from claimsmith.allocate.replan.cheapest_set import find_cheapest_set
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.allocate.whatif.budgets import BudgetLedger
from claimsmith.allocate.whatif.changes import copy_pod
from claimsmith.allocate.whatif.draining import group_by_claims, is_remade, stays_on_node
from claimsmith.allocate.whatif.neighbourhood import Neighbourhoods
from claimsmith.allocate.whatif.trial import (
    Placement,
    PlacePod,
    find_pod_claims,
    put_pod,
    put_pods,
    renew_pod,
    take_pods,
)
from claimsmith.model.claim import DeviceResult, ResourceClaim
from claimsmith.model.names import ClaimRef, DeviceId, PodRef
from claimsmith.model.podgroup import PodGroupRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["DefragPlan", "Goal", "MoveStep", "Shape", "measure", "plan_defrag"]

TRIALS_MAX = 500
"""Most sets of pods that are tried for one node."""
_RETRIES_MAX = 4
_WANTED_MAX = 1_000
_ANY_PRIORITIES = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What there shall be room for.

    Args:
        name: For people.
        pod: A pod that is thought of; its templates are in the snapshot.
        wanted: For how many there shall be room at the same time; None for as many as possible.
    """

    name: str
    pod: Pod
    wanted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a plan shall raise.

    Args:
        name: For people.
        shapes: Of kind `count`: room for all of them together, the first ones first. Of kind `largest`: from the
            largest on; room for one of the first that can be had.
    """

    name: str
    shapes: tuple[Shape, ...]
    kind: Literal["count", "largest"] = "count"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep:
    """Pods that are evicted together, since they share claims, and where their successors go.

    Args:
        pods: As they were.
        placements: Of their successors, in the same order.
    """

    pods: tuple[Pod, ...]
    placements: tuple[Placement, ...]

    @property
    def is_remade(self) -> bool:
        """Whether something makes all successors; else somebody has to create them."""
        return all(map(is_remade, self.pods))


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragPlan:
    """Steps to be done in order.

    Args:
        before, after: What the goal measures (see `measure`).
        kept_free: Devices that nobody may take while the plan is carried out, or the gain is lost.
        cluster: The cluster after the last step.
        stopped: Why it goes no further: `reached`, `moves` (no move is left), or `stuck` (no set of moves helps).
    """

    goal: Goal
    steps: tuple[MoveStep, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    kept_free: tuple[DeviceId, ...]
    cluster: ClusterSnapshot
    stopped: Literal["reached", "moves", "stuck"]

    @property
    def moves(self) -> int:
        """How many pods are moved."""
        return sum(len(step.pods) for step in self.steps)


def measure(snapshot: ClusterSnapshot, goal: Goal, *, place: PlacePod) -> tuple[int, ...]:
    """Return how far a goal is reached; larger is better.

    Returns:
        Of kind `count`: for how many of each shape there is room, each after those before it. Of kind `largest`: how
        many shapes from the smallest up to the largest that fits.
    """
    if goal.kind == "largest":
        fits = (index for index, shape in enumerate(goal.shapes) if _fits(snapshot, shape.pod, place))
        return (len(goal.shapes) - next(fits, len(goal.shapes)),)
    counts = []
    for shape in goal.shapes:
        snapshot, count = _fill(snapshot, shape, place=place)
        counts.append(count)
    return tuple(counts)


def _fits(snapshot: ClusterSnapshot, pod: Pod, place: PlacePod) -> bool:
    return isinstance(place(snapshot, pod, explain=False), Placement)


def _fill(snapshot: ClusterSnapshot, shape: Shape, *, place: PlacePod) -> tuple[ClusterSnapshot, int]:
    count = 0
    for number in range(_WANTED_MAX if shape.wanted is None else shape.wanted):
        found = place(snapshot, copy_pod(shape.pod, number), explain=False)
        if not isinstance(found, Placement):
            break
        snapshot, count = put_pod(snapshot, found), count + 1
    return snapshot, count


def plan_defrag(snapshot: ClusterSnapshot, goal: Goal, *, moves: int, place: PlacePod) -> DefragPlan:
    """Return steps that move at most some pods and raise a goal; each next hole is the one that costs fewest moves.

    Pods of DaemonSets, static pods, pods that are ending, those that a disruption budget keeps, and those of groups
    that are only disrupted whole are not moved.

    Args:
        moves: Most pods to move; >= 0.
    """
    planner = _Planner(snapshot, place=place, left=moves)
    before = measure(snapshot, goal, place=place)
    if goal.kind == "largest":
        stopped = planner.raise_largest(snapshot, goal, before[0])
    else:
        stopped = planner.raise_counts(snapshot, goal)
    cluster = snapshot
    for step in planner.steps:
        cluster = put_pods(take_pods(cluster, [pod.ref for pod in step.pods]), step.placements)
    return DefragPlan(
        goal=goal,
        steps=tuple(planner.steps),
        before=before,
        after=measure(cluster, goal, place=place) if planner.steps else before,
        kept_free=tuple(planner.kept_free),
        cluster=cluster,
        stopped=stopped,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hole:
    """Pods that have to go, and what goes into their place."""

    node: str
    pods: tuple[Pod, ...]
    probe: Placement


class _Planner:
    """Finds hole after hole.

    Args:
        cluster: The cluster before the first move, whose disruption budgets count.
        left: How many pods may still be moved.
    """

    def __init__(self, cluster: ClusterSnapshot, *, place: PlacePod, left: int) -> None:
        self._place, self._left = place, left
        ledger = BudgetLedger.of(cluster)
        self._fixed = frozenset(ref for ref, pod in cluster.pods.items() if not _is_movable(pod, cluster, ledger))
        self.steps: list[MoveStep] = []
        self.kept_free: list[DeviceId] = []

    def raise_largest(self, world: ClusterSnapshot, goal: Goal, before: int) -> Literal["reached", "moves", "stuck"]:
        """Make a hole for the largest shape that can be had; only those larger than what fits already."""
        larger = goal.shapes[: len(goal.shapes) - before]
        for shape in larger:
            if self._make_hole(world, copy_pod(shape.pod, 0)) is not None:
                return "reached"
        return "stuck" if larger else "reached"

    def raise_counts(self, world: ClusterSnapshot, goal: Goal) -> Literal["reached", "moves", "stuck"]:
        """Fill the cluster with the shapes, and make a hole whenever the next one does not fit."""
        for shape in goal.shapes:
            world, count = _fill(world, shape, place=self._place)
            while shape.wanted is None or count < shape.wanted:
                if self._left == 0:
                    return "moves"
                larger = self._make_hole(world, copy_pod(shape.pod, count))
                if larger is None:
                    return "stuck"
                world, count = larger, count + 1
        return "reached"

    def _make_hole(self, world: ClusterSnapshot, probe: Pod) -> ClusterSnapshot | None:
        """Move pods so that the probe fits; return the cluster with the probe in the hole."""
        for hole in self._find_holes(world, probe):
            made = self._move_out(world, hole)
            if made is not None:
                steps, after = made
                self.steps += steps
                self._left -= len(hole.pods)
                self.kept_free += [item.device_id for claim in hole.probe.claims for item in _results(claim)]
                return put_pod(after, hole.probe)
        return None

    def _find_holes(self, world: ClusterSnapshot, probe: Pod) -> Iterable[_Hole]:
        """Yield holes by the number of pods to be moved; a pod without another place is left out of later ones."""
        neighbourhoods, claims = Neighbourhoods(world), find_pod_claims(probe)
        nodes = {name: frozenset[PodRef]() for name in world.nodes}
        for _ in range(_RETRIES_MAX):
            holes: list[_Hole] = []
            for name, stuck in nodes.items():
                hole = self._find_hole(neighbourhoods.cut((name,), keep=claims), probe, name, stuck)
                if hole is not None and len(hole.pods) == 1:
                    yield hole  # none can cost less
                if hole is not None and len(hole.pods) <= self._left:
                    holes.append(hole)
            holes.sort(key=lambda hole: len(hole.pods))
            yield from (hole for hole in holes if len(hole.pods) > 1)
            nodes = {hole.node: nodes[hole.node] | stuck for hole in holes if (stuck := self._find_stuck(world, hole))}

    def _find_hole(self, part: ClusterSnapshot, probe: Pod, node: str, stuck: frozenset[PodRef]) -> _Hole | None:
        pods = [pod for ref, pod in part.pods.items() if ref not in self._fixed and ref not in stuck and pod.node_name]
        pods = [pod for pod in pods if not pod.metadata.uid.startswith("copy/")]
        pods.sort(key=lambda pod: (-len(pod.claims), -pod.priority))

        def is_enough(chosen: frozenset[int]) -> bool:
            return _fits(take_pods(part, [pods[number].ref for number in chosen]), probe, self._place)

        found = find_cheapest_set(
            range(len(pods)),
            is_enough=is_enough,
            cost=lambda chosen: (len(chosen), sum(max(0, pods[number].priority) for number in chosen)),
            trials_max=TRIALS_MAX,
            at_most=(self._left, _ANY_PRIORITIES),
        )
        if found is None:
            return None
        victims = tuple(pods[number] for number in sorted(found.chosen))
        placed = self._place(take_pods(part, [pod.ref for pod in victims]), probe, explain=False)
        return _Hole(node=node, pods=victims, probe=placed) if isinstance(placed, Placement) else None

    def _move_out(self, world: ClusterSnapshot, hole: _Hole) -> tuple[list[MoveStep], ClusterSnapshot] | None:
        """Return the steps that empty a hole, in an order in which they can be done; None when there is none."""
        found = self._place_elsewhere(world, hole)
        if isinstance(found, PodRef):
            return None
        waiting, cluster, steps = list(found), world, []
        while waiting:
            for step in waiting:
                after = self._try_step(cluster, step)
                if after is not None:
                    cluster = after
                    steps.append(step)
                    waiting.remove(step)
                    break
            else:
                return None
        return steps, cluster

    def _place_elsewhere(self, world: ClusterSnapshot, hole: _Hole) -> list[MoveStep] | PodRef:
        """Return new places of the pods of a hole while it is kept free; or the pod that has none."""
        cluster = put_pod(take_pods(world, [pod.ref for pod in hole.pods]), hole.probe)
        steps = []
        for pods in group_by_claims(hole.pods):
            placements: list[Placement] = []
            for pod in pods:
                found = self._place(cluster, renew_pod(pod), explain=False)
                if not isinstance(found, Placement):
                    return pod.ref
                cluster = put_pod(cluster, found)
                placements.append(found)
            steps.append(MoveStep(pods=pods, placements=tuple(placements)))
        return steps

    def _find_stuck(self, world: ClusterSnapshot, hole: _Hole) -> frozenset[PodRef]:
        found = self._place_elsewhere(world, hole)
        return frozenset((found,)) if isinstance(found, PodRef) else frozenset()

    def _try_step(self, cluster: ClusterSnapshot, step: MoveStep) -> ClusterSnapshot | None:
        """Return the cluster after a step; None when it can't be done yet."""
        cluster = take_pods(cluster, [pod.ref for pod in step.pods])
        for placement in step.placements:
            only = replace(cluster, nodes={placement.node: cluster.nodes[placement.node]})
            if not _fits(only, renew_pod(placement.pod), self._place) or not _is_valid(cluster, placement):
                return None
            cluster = put_pod(cluster, placement)
        return cluster


def _is_movable(pod: Pod, snapshot: ClusterSnapshot, budgets: BudgetLedger) -> bool:
    group = snapshot.pod_groups.get(PodGroupRef(pod.metadata.namespace, pod.pod_group))
    if stays_on_node(pod) or pod.metadata.deletion_timestamp is not None or pod.finished:
        return False
    return (group is None or group.spec.disruption_mode != "all") and not budgets.count_violations([pod])


def _is_valid(cluster: ClusterSnapshot, placement: Placement) -> bool:
    """Tell whether the devices of a placement can be had on a cluster as it is, by the independent checker."""
    new = [claim for claim in placement.claims if _is_new(cluster, claim.ref)]
    if not new:
        return True
    case = VerifyCase(
        node=cluster.nodes[placement.node],
        claims=tuple(replace(claim, allocation=None, reserved_for=()) for claim in new),
        slices=merge_taint_rules(cluster.slices, cluster.taint_rules),
        classes=cluster.classes,
        allocated=cluster.allocated_claims(),
    )
    return not verify_allocation(case, [claim.allocation for claim in new if claim.allocation is not None])


def _is_new(cluster: ClusterSnapshot, ref: ClaimRef) -> bool:
    known = cluster.claims.get(ref)
    return known is None or known.allocation is None


def _results(claim: ResourceClaim) -> tuple[DeviceResult, ...]:
    return () if claim.allocation is None else claim.allocation.results

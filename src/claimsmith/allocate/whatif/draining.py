"""What becomes of pods, and of the queue, when nodes are drained; also the plan in which it is done.

Source: which pods stay: filters.go in k8s.io/kubectl v0.37.2 pkg/drain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from claimsmith.allocate.whatif.budgets import BudgetLedger
from claimsmith.allocate.whatif.changes import CordonNodes, change_snapshot
from claimsmith.allocate.whatif.trial import (
    NoPlace,
    Placement,
    PlacePod,
    PodDecision,
    find_pod_claims,
    place_all,
    put_pod,
    renew_pod,
    sort_queue,
    split_queue,
    take_pods,
)
from claimsmith.model.names import PodRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = [
    "DrainOutcome",
    "PodMove",
    "drain_nodes",
    "find_waiting",
    "group_by_claims",
    "is_remade",
    "stays_on_node",
]

_STAYING_OWNERS = frozenset({"DaemonSet", "Node"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMove:
    """A pod leaves its node, and its successor goes elsewhere or waits.

    Args:
        pod: The pod as it was.
        decision: Where its successor goes, at this step; decisions of earlier steps count.
        is_remade: False when nothing makes a successor: somebody has to create the pod again.
        budgets: Disruption budgets that forbid it at this step; the eviction has to wait for them.
    """

    pod: Pod
    decision: PodDecision
    is_remade: bool = True
    budgets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOutcome:
    """What becomes of pods when nodes are drained.

    Args:
        nodes: Names of the nodes.
        moves: In the order in which the pods are evicted; pods that share a claim go one after another.
        staying: Pods of DaemonSets and static pods.
        queue: What becomes of the pods that wait now.
        displaced: Pods that wait now, would find a place, and don't any more.
        after: The cluster afterwards.
    """

    nodes: tuple[str, ...]
    moves: tuple[PodMove, ...]
    staying: tuple[PodRef, ...]
    queue: tuple[PodDecision, ...]
    displaced: tuple[PodRef, ...]
    after: ClusterSnapshot

    @property
    def pending(self) -> tuple[NoPlace, ...]:
        """The successors of pods for which there is no place."""
        return tuple(move.decision for move in self.moves if isinstance(move.decision, NoPlace))


def drain_nodes(snapshot: ClusterSnapshot, names: Collection[str], *, place: PlacePod) -> DrainOutcome:
    """Return what becomes of all pods when nodes take no more pods and those on them are evicted one after another.

    Waiting pods and successors of evicted ones compete as in a scheduler's queue: by priority, those that wait first.

    Raises:
        InputError: A node is not there.
    """
    cluster = change_snapshot(snapshot, [CordonNodes(names=tuple(names))])
    on_nodes = [pod for pod in cluster.pods.values() if pod.node_name in names and not pod.finished]
    staying = tuple(pod.ref for pod in on_nodes if stays_on_node(pod))
    groups = group_by_claims(pod for pod in on_nodes if not stays_on_node(pod))
    waiting = find_waiting(cluster)
    before = _find_placed(snapshot, waiting, place=place)
    budgets = BudgetLedger.of(snapshot)
    moves: list[PodMove] = []
    queue: list[PodDecision] = []
    for is_evicted, pods in _interleave(split_queue(cluster, waiting), groups):
        if is_evicted:
            cluster, made = _move(cluster, pods, place=place, budgets=budgets)
            moves += made
        else:
            cluster, decisions = place_all(cluster, pods, place=place)
            queue += decisions
    displaced = tuple(item.pod.ref for item in queue if isinstance(item, NoPlace) and item.pod.ref in before)
    return DrainOutcome(
        nodes=tuple(names),
        moves=tuple(moves),
        staying=staying,
        queue=tuple(queue),
        displaced=displaced,
        after=cluster,
    )


def stays_on_node(pod: Pod) -> bool:
    """Tell whether a drain leaves a pod where it is: its owner would put it back at once."""
    return any(owner.kind in _STAYING_OWNERS and owner.controller for owner in pod.metadata.owner_references)


def is_remade(pod: Pod) -> bool:
    """Tell whether something makes a successor for a pod that is gone."""
    return any(owner.controller for owner in pod.metadata.owner_references)


def find_waiting(snapshot: ClusterSnapshot) -> tuple[Pod, ...]:
    """Return the pods that wait for a node, in the order in which they are taken."""
    return sort_queue(
        pod
        for pod in snapshot.pods.values()
        if not pod.node_name and not pod.finished and pod.metadata.deletion_timestamp is None
    )


def _find_placed(snapshot: ClusterSnapshot, waiting: Iterable[Pod], *, place: PlacePod) -> frozenset[PodRef]:
    _, decisions = place_all(snapshot, waiting, place=place, explain=False)
    return frozenset(item.pod.ref for item in decisions if isinstance(item, Placement))


def group_by_claims(pods: Iterable[Pod]) -> list[tuple[Pod, ...]]:
    """Return pods in groups that share claims: such a claim comes free when the last of its pods has gone."""
    everything = list(pods)
    users: defaultdict[object, list[int]] = defaultdict(list)
    for number, pod in enumerate(everything):
        for claim in find_pod_claims(pod):
            users[claim].append(number)
    group_of = list(range(len(everything)))
    for members in users.values():
        first = min(group_of[number] for number in members)
        joined = {group_of[number] for number in members}
        group_of = [first if group in joined else group for group in group_of]
    groups: defaultdict[int, list[Pod]] = defaultdict(list)
    for number, pod in enumerate(everything):
        groups[group_of[number]].append(pod)
    return [sort_queue(members) for members in groups.values()]


def _interleave(
    waiting: Iterable[tuple[Pod, ...]], groups: Iterable[tuple[Pod, ...]]
) -> list[tuple[bool, tuple[Pod, ...]]]:
    """Return waiting pods and groups to evict by priority, the waiting ones first among equals; which they are."""
    everything = [(False, pods) for pods in waiting] + [(True, pods) for pods in groups]
    return sorted(everything, key=lambda item: (-item[1][0].priority, item[0]))


def _move(
    cluster: ClusterSnapshot, pods: tuple[Pod, ...], *, place: PlacePod, budgets: BudgetLedger
) -> tuple[ClusterSnapshot, list[PodMove]]:
    """Evict pods and place their successors; those that find no place wait from then on."""
    cluster = take_pods(cluster, [pod.ref for pod in pods])
    moves = []
    for pod in pods:
        forbidding = budgets.take(pod)
        decision = place(cluster, renew_pod(pod))
        if isinstance(decision, Placement):
            cluster = put_pod(cluster, decision)
            budgets.give_back(pod)
        else:
            cluster = replace(cluster, pods={**cluster.pods, pod.ref: renew_pod(pod)})
        moves.append(PodMove(pod=pod, decision=decision, is_remade=is_remade(pod), budgets=forbidding))
    return cluster, moves

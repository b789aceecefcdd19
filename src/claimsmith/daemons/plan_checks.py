"""Second looks at plans: whether what is left of one still does what it is for, on the cluster as it is now. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from claimsmith.allocate.replan.defrag import DefragPlan, measure
from claimsmith.allocate.whatif.draining import drain_nodes, find_waiting
from claimsmith.allocate.whatif.trial import NoPlace, Placement, PlacePod, place_all, put_pod, renew_pod, take_pods
from claimsmith.daemons.carryout import Check, Step, Verdict
from claimsmith.errors import InputError
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["HOLD_LABEL", "Target", "check_defrag", "check_drain", "check_preemption"]

Target = Callable[[ClusterSnapshot], tuple[Sequence[Pod], int | None]]
"""Returns the pods that are to get a place, and how many of them must (None for all); raises InputError for none."""

HOLD_LABEL: Final = "claimsmith.dev/keeps-free"
"""Label of the taint rules that keep devices free while a plan is carried out."""


def check_preemption(target: Target, *, place: PlacePod) -> Check:
    """Return the check of victims: with all that are left gone, the pods get their places; and without they don't."""

    def fits(snapshot: ClusterSnapshot, pods: Sequence[Pod], needed: int) -> tuple[bool, str]:
        _, decisions = place_all(snapshot, pods, place=place)
        message = next((item.message for item in decisions if isinstance(item, NoPlace)), "")
        return sum(isinstance(item, Placement) for item in decisions) >= needed, message

    def check(snapshot: ClusterSnapshot, left: Sequence[Step]) -> Verdict:
        try:
            pods, least = target(snapshot)
        except InputError:
            return Verdict(is_needless=True)  # bound, or gone
        needed, cluster = len(pods) if least is None else least, _without_leaving(snapshot)
        if fits(cluster, pods, needed)[0]:
            return Verdict(is_needless=True)
        enough, message = fits(_without(cluster, left), pods, needed)
        return Verdict(problem="" if enough else f"the cluster has changed, the victims would not do: {message}")

    return check


def check_drain(names: Collection[str], *, place: PlacePod) -> Check:
    """Return the check of a drain: the nodes take no pods, and all that leave them, or wait, have another place."""

    def check(snapshot: ClusterSnapshot, _: Sequence[Step]) -> Verdict:
        open_again = [name for name in names if name in snapshot.nodes and not snapshot.nodes[name].unschedulable]
        if open_again:
            return Verdict(problem=f"node {open_again[0]} takes pods again; cordon it and plan anew")
        present = [name for name in names if name in snapshot.nodes]
        found = drain_nodes(_without_leaving(snapshot), present, place=place)
        for item in found.pending:
            return Verdict(problem=f"the cluster has changed, pod {item.pod.ref} would wait: {item.message}")
        for ref in found.displaced:
            return Verdict(problem=f"the cluster has changed, pod {ref} would lose the place that it could have now")
        return Verdict()

    return check


def check_defrag(plan: DefragPlan, *, place: PlacePod) -> Check:
    """Return the check of moves: all pods that are left to move have a place elsewhere, and the gain is what it was."""

    def check(snapshot: ClusterSnapshot, left: Sequence[Step]) -> Verdict:
        cluster = _without_leaving(snapshot)
        cluster, _ = place_all(cluster, find_waiting(cluster), place=place, explain=False)
        for pod in (pod for step in left for pod in step):
            known = snapshot.pods.get(pod.ref)
            if known is None or known.uid != pod.uid:
                return Verdict(problem=f"the cluster has changed, pod {pod.ref} is not there any more; plan anew")
        for step in left:
            cluster = take_pods(cluster, [pod.ref for pod in step])
            for pod in step:
                found = place(cluster, renew_pod(pod))
                if isinstance(found, NoPlace):
                    return Verdict(problem=f"the cluster has changed, pod {pod.ref} would wait: {found.message}")
                cluster = put_pod(cluster, found)
        reached = measure(_without_holds(cluster), plan.goal, place=place)
        if reached < plan.after:
            return Verdict(problem="the cluster has changed, the moves that are left would gain less; plan anew")
        return Verdict()

    return check


def _without_leaving(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the cluster once the pods that are ending have gone."""
    going = [ref for ref, pod in snapshot.pods.items() if pod.node_name and pod.metadata.deletion_timestamp is not None]
    return take_pods(snapshot, going)


def _without(snapshot: ClusterSnapshot, steps: Sequence[Step]) -> ClusterSnapshot:
    uids = {pod.uid for step in steps for pod in step}
    return take_pods(snapshot, [ref for ref, pod in snapshot.pods.items() if pod.uid in uids])


def _without_holds(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    rules = tuple(rule for rule in snapshot.taint_rules if HOLD_LABEL not in rule.metadata.labels)
    return replace(snapshot, taint_rules=rules)

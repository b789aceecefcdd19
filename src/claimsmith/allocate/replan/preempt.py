"""Which pods of lower priority have to go so that a pod, or several together, get a place: the cheapest such set.

Upstream's preemption does not know devices: it never frees any. Here a victim gives back what its claims hold, a shared
claim when all its users go; the search is over what can be reached from a node, wherever it is held.

Source: order of costs after pickOneNodeForPreemption in pkg/scheduler/framework/preemption of kubernetes v1.37.2, with
the highest priority before the budgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from claimsmith.allocate.replan.cheapest_set import TRIALS_MAX, CheapestSet, find_cheapest_set
from claimsmith.allocate.whatif.budgets import BudgetLedger
from claimsmith.allocate.whatif.neighbourhood import Neighbourhoods
from claimsmith.allocate.whatif.trial import (
    NoPlace,
    Placement,
    PlacePod,
    PodDecision,
    find_pod_claims,
    place_all,
    take_pods,
)
from claimsmith.model.names import PodRef
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["PreemptLimits", "Preemption", "PreemptionCost", "find_victims"]

Unit = tuple[Pod, ...]
"""Pods that can only be given up together."""


class PreemptionCost(NamedTuple):
    """What removing some pods costs; compared in this order.

    Args:
        highest_priority: Of the victims.
        violations: How many of them go against a disruption budget.
        pods: How many they are.
        priorities: Sum of their priorities above the lowest of all candidates.
    """

    highest_priority: int
    violations: int
    pods: int
    priorities: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptLimits:
    """How far the search goes.

    Args:
        violate_budgets: Whether victims may go against disruption budgets when nothing else helps.
        trials_max: Most sets to try per node for the cheapest; then the best so far is taken, of which each victim is
            needed. For several pods, which cost more to place, a tenth of it in all.
    """

    violate_budgets: bool = False
    trials_max: int = TRIALS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Who has to go.

    Args:
        status: `needless`: they fit as it is; `leaving`: they fit once the pods that are ending have gone; `optimal`:
            no cheaper victims; `minimal`: no victim can be spared, but others might be cheaper; `impossible`: nobody's
            removal helps; `forbidden`: the victims could go only against disruption budgets, or the pod may not
            preempt at all.
        victims: By priority and name, the lowest first.
        leaving: Pods that are ending and that the answer counts as gone.
        cost: None without victims.
        decisions: Where the pods go then; for `impossible` why they don't, without all pods that could go.
        trials: How many sets were tried.
        candidates: How many pods could go at all: on nodes, and of lower priority.
        message: Why nobody goes; empty when somebody does.
    """

    status: Literal["needless", "leaving", "optimal", "minimal", "impossible", "forbidden"]
    victims: tuple[Pod, ...] = ()
    leaving: tuple[PodRef, ...] = ()
    cost: PreemptionCost | None = None
    decisions: tuple[PodDecision, ...] = ()
    trials: int = 0
    candidates: int = 0
    message: str = ""


def find_victims(
    snapshot: ClusterSnapshot,
    pods: Sequence[Pod],
    *,
    place: PlacePod,
    min_count: int | None = None,
    limits: PreemptLimits | None = None,
) -> Preemption:
    """Return the cheapest set of pods whose removal gives pods a place; never one of equal or higher priority.

    Args:
        pods: The pods, which wait; they are placed in this order.
        min_count: How many of them must get a place; None for all.
    """
    search = _Search(
        snapshot=snapshot,
        pods=tuple(pods),
        place=place,
        needed=len(pods) if min_count is None else min_count,
        limits=limits or PreemptLimits(),
    )
    return search.run()


@dataclass(slots=True, kw_only=True)
class _Search:
    snapshot: ClusterSnapshot
    pods: tuple[Pod, ...]
    place: PlacePod
    needed: int
    limits: PreemptLimits
    trials: int = 0
    _budgets: BudgetLedger = field(default_factory=BudgetLedger)
    _lowest: int = 0
    _best: tuple[tuple[int, ...], tuple[Pod, ...], bool] | None = field(default=None)

    def run(self) -> Preemption:
        if self._fits(self.snapshot):
            return self._conclude("needless", self.snapshot)
        leaving = tuple(ref for ref, pod in self.snapshot.pods.items() if pod.metadata.deletion_timestamp is not None)
        cluster = take_pods(self.snapshot, [ref for ref in leaving if self.snapshot.pods[ref].node_name])
        if leaving and self._fits(cluster):
            return self._conclude("leaving", cluster, leaving=leaving)
        never = [str(pod.ref) for pod in self.pods if pod.preemption_policy == "Never"]
        if never:
            message = f"{', '.join(never)} may not preempt: preemptionPolicy is Never"
            return self._conclude("forbidden", cluster, leaving=leaving, message=message)
        candidates = self._find_candidates(cluster.pods.values())
        self._budgets = BudgetLedger.of(self.snapshot)
        self._lowest = min((pod.priority for pod in candidates), default=0)
        self._look_at_parts(cluster, candidates)
        return self._choose(cluster, candidates, leaving)

    def _choose(self, cluster: ClusterSnapshot, candidates: Sequence[Pod], leaving: tuple[PodRef, ...]) -> Preemption:
        if self._best is None:
            emptied = take_pods(cluster, [pod.ref for pod in candidates])
            found = self._conclude("impossible", emptied, leaving=leaving, explain=True)
            return replace(found, candidates=len(candidates))
        _, victims, is_optimal = self._best
        cost = self._cost(victims)
        if cost.violations and not self.limits.violate_budgets:
            names = ", ".join(str(pod.ref) for pod in victims)
            message = f"{names} could go only against disruption budgets"
            return self._conclude("forbidden", cluster, leaving=leaving, message=message)
        left = take_pods(cluster, [pod.ref for pod in victims])
        found = self._conclude("optimal" if is_optimal else "minimal", left, leaving=leaving)
        return Preemption(
            status=found.status,
            victims=victims,
            leaving=leaving,
            cost=cost,
            decisions=found.decisions,
            trials=self.trials,
            candidates=len(candidates),
        )

    def _conclude(
        self,
        status: Literal["needless", "leaving", "optimal", "minimal", "impossible", "forbidden"],
        cluster: ClusterSnapshot,
        *,
        leaving: tuple[PodRef, ...] = (),
        message: str = "",
        explain: bool = False,
    ) -> Preemption:
        _, decisions = place_all(cluster, self.pods, place=self.place, explain=explain)
        if explain:
            message = next((item.message for item in decisions if isinstance(item, NoPlace)), message)
        return Preemption(status=status, leaving=leaving, decisions=decisions, trials=self.trials, message=message)

    def _find_candidates(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return the pods that may go at all: on nodes, and of lower priority than each of those that come."""
        priority = min((pod.priority for pod in self.pods), default=0)
        return [pod for pod in pods if pod.node_name and not pod.finished and pod.priority < priority]

    def _fits(self, cluster: ClusterSnapshot) -> bool:
        _, decisions = place_all(cluster, self.pods, place=self.place, explain=False)
        return sum(isinstance(item, Placement) for item in decisions) >= self.needed

    def _look_at_parts(self, cluster: ClusterSnapshot, candidates: Sequence[Pod]) -> None:
        """Look at each node for itself when there is one pod; at all of them together for several."""
        if len(self.pods) > 1:
            self._look_at(cluster, candidates)
            return
        neighbourhoods = Neighbourhoods(cluster)
        for name in cluster.nodes:
            part = neighbourhoods.cut((name,), keep=find_pod_claims(self.pods[0]))
            self._look_at(part, self._find_candidates(part.pods.values()))
            if self._best is not None and self._best[0] == self._key(PreemptionCost(self._lowest, 0, 1, 0)):
                return

    def _look_at(self, part: ClusterSnapshot, candidates: Sequence[Pod]) -> None:
        """Take the cheapest victims of a part of the cluster if no cheaper ones are known."""
        units = self._gather_units(candidates)
        worth = sorted(filter(self._may_improve, units), key=self._value, reverse=True)

        def is_enough(chosen: frozenset[int]) -> bool:
            return self._fits(take_pods(part, [pod.ref for number in chosen for pod in worth[number]]))

        found = find_cheapest_set(
            range(len(worth)),
            is_enough=is_enough,
            cost=lambda chosen: self._key(self._cost(_join(worth[number] for number in chosen))),
            trials_max=self.limits.trials_max // (1 if len(self.pods) == 1 else 10),
        )
        if found is not None:
            self._keep(found, worth)

    def _gather_units(self, candidates: Sequence[Pod]) -> list[Unit]:
        """Return what can be given up: pods one by one, those of a group that is only disrupted whole together.

        Source: disruptionMode of PodGroup; KEP-5710.
        """
        units: dict[object, Unit] = {}
        for pod in candidates:
            group = self.snapshot.pod_groups.get(PodGroupRef(pod.metadata.namespace, pod.pod_group))
            if group is None or group.spec.disruption_mode != "all":
                units[pod.ref] = (pod,)
            elif group.ref not in units:
                members = [item for item in self.snapshot.pods.values() if _is_member(item, group)]
                if len(self._find_candidates(members)) == len(members):
                    units[group.ref] = tuple(members)
        return list(units.values())

    def _keep(self, found: CheapestSet, worth: Sequence[Unit]) -> None:
        self.trials += found.trials
        pods = _join(worth[number] for number in found.chosen)
        victims = tuple(sorted(pods, key=lambda pod: (pod.priority, pod.ref)))
        key = self._key(self._cost(victims))
        if self._best is None or key < self._best[0]:
            proven = found.is_optimal and (self._best is None or self._best[2])
            self._best = (key, victims, proven)
        elif not found.is_optimal:
            self._best = (self._best[0], self._best[1], False)

    def _may_improve(self, unit: Unit) -> bool:
        """Tell whether a set with this unit may still be cheaper than the best that is known."""
        return self._best is None or self._key(self._cost(unit)) < self._best[0]

    def _value(self, unit: Unit) -> tuple[int, ...]:
        """How much a unit is best spared; those that are worth least stand first among what is given up."""
        return (*self._key(self._cost(unit)), -sum(len(pod.claims) for pod in unit))

    def _cost(self, victims: Sequence[Pod]) -> PreemptionCost:
        return PreemptionCost(
            highest_priority=max((pod.priority for pod in victims), default=self._lowest),
            violations=self._budgets.count_violations(victims),
            pods=len(victims),
            priorities=sum(pod.priority - self._lowest for pod in victims),
        )

    def _key(self, cost: PreemptionCost) -> tuple[int, ...]:
        """Return what costs are compared by: budgets come first when they must be respected."""
        if self.limits.violate_budgets:
            return tuple(cost)
        return (cost.violations, cost.highest_priority, cost.pods, cost.priorities)


def _join(units: Iterable[Unit]) -> tuple[Pod, ...]:
    return tuple(pod for unit in units for pod in unit)


def _is_member(pod: Pod, group: PodGroup) -> bool:
    """Tell whether a pod is of a group and runs, or is about to."""
    is_of_group = PodGroupRef(pod.metadata.namespace, pod.pod_group) == group.ref
    return is_of_group and bool(pod.node_name) and not pod.finished

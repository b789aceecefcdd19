"""How many pods disruption budgets allow to go.

Source: filterPodsWithPDBViolation in pkg/scheduler/framework/preemption of kubernetes v1.37.2; getExpectedPodCount in
pkg/controller/disruption (what a budget allows when its controller has not said so yet).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from claimsmith.model.names import PodRef
from claimsmith.model.policy import BudgetRef, DisruptionBudget
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod

__all__ = ["BudgetLedger", "find_allowed"]


@dataclass(slots=True, eq=False)
class BudgetLedger:
    """What is left of each budget while pods go and come back.

    Args:
        budgets: The budgets, each with how many pods may go.
    """

    budgets: dict[BudgetRef, tuple[DisruptionBudget, int]] = field(default_factory=dict)
    _of_pods: dict[PodRef, tuple[BudgetRef, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: ClusterSnapshot) -> BudgetLedger:
        """Return the budgets of a cluster."""
        return cls({ref: (budget, find_allowed(budget, snapshot)) for ref, budget in snapshot.budgets.items()})

    def take(self, pod: Pod) -> tuple[str, ...]:
        """Count a pod as gone; return the budgets that forbid it, as `namespace/name`."""
        forbidding = []
        for ref in self._find_budgets(pod):
            budget, left = self.budgets[ref]
            self.budgets[ref] = (budget, left - 1)
            if left <= 0:
                forbidding.append(str(ref))
        return tuple(forbidding)

    def give_back(self, pod: Pod) -> None:
        """Count a pod as back: its successor runs."""
        for ref in self._find_budgets(pod):
            budget, left = self.budgets[ref]
            self.budgets[ref] = (budget, left + 1)

    def count_violations(self, pods: Iterable[Pod]) -> int:
        """Return how many of some pods could only go against a budget, when they all go at once; none is counted."""
        taken: Counter[BudgetRef] = Counter()
        violations = 0
        for pod in pods:
            refs = self._find_budgets(pod)
            violations += any(self.budgets[ref][1] <= taken[ref] for ref in refs)
            taken.update(refs)
        return violations

    def _find_budgets(self, pod: Pod) -> tuple[BudgetRef, ...]:
        known = self._of_pods.get(pod.ref)
        if known is None:
            known = tuple(ref for ref, (budget, _) in self.budgets.items() if _counts(budget, pod))
            self._of_pods[pod.ref] = known
        return known


def find_allowed(budget: DisruptionBudget, snapshot: ClusterSnapshot) -> int:
    """Return how many pods of a budget may go now.

    It is what its controller says; of a budget that it has not looked at yet, what follows from the pods on nodes,
    all of which count as healthy.
    """
    if budget.disruptions_allowed is not None:
        return budget.disruptions_allowed
    pods = [pod for pod in snapshot.pods.values() if not pod.finished and budget.selects(pod.metadata)]
    healthy = sum(bool(pod.node_name) for pod in pods)
    if budget.max_unavailable is not None:
        wanted = len(pods) - _scale(budget.max_unavailable, len(pods))
    elif budget.min_available is not None:
        wanted = _scale(budget.min_available, len(pods))
    else:
        return 0
    return max(0, healthy - max(0, wanted))


def _counts(budget: DisruptionBudget, pod: Pod) -> bool:
    """Tell whether a budget is touched when a pod goes; one that it knows to be gone is counted already."""
    return budget.selects(pod.metadata) and pod.metadata.name not in budget.disrupted_pods


def _scale(amount: int | str, total: int) -> int:
    """Return a count, or the count that a percentage stands for, rounded up; what is neither counts as all.

    Source: GetScaledValueFromIntOrPercent of k8s.io/apimachinery v0.37.2.
    """
    if isinstance(amount, int):
        return amount
    number = amount.removesuffix("%")
    return -(-int(number) * total // 100) if amount.endswith("%") and number.isdigit() else total

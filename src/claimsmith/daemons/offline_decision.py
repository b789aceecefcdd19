"""What pods and claims of a cluster without controllers get, as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from claimsmith.allocate.explain.report import format_note
from claimsmith.allocate.explain.values import Explanation
from claimsmith.allocate.joint import JointDecision
from claimsmith.daemons.scheduler_decide import Unplaced
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.names import ClaimRef
from claimsmith.model.workload import Pod

__all__ = ["OfflineDecision", "tell_allocated", "tell_pending", "tell_unplaced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineDecision:
    """What a pod, or a claim that no pod uses, gets.

    Args:
        target: `pod/NAMESPACE/NAME` or `claim/NAMESPACE/NAME`.
        group: The gang that the pod is a part of, as `podgroup/NAMESPACE/NAME`; empty for none.
        node: The node; empty when there is none.
        allocations: What each claim has or gets.
        message: Why there is no node, in one text.
        reasons: The same for machines.
        explanation: Why, in sets of reasons, and what would help; None when it is no matter of nodes.
        was_there: What is told was so before anything was decided: a pod that runs, a claim that has its devices.
        members: What each pod gets, where the target is a pod group.
        joint: The decision for the whole gang, with what is proven of it; None where its pods were tried in turn.
    """

    target: str
    outcome: Literal["allocated", "pending", "refused"]
    node: str = ""
    allocations: tuple[tuple[ClaimRef, AllocationResult], ...] = ()
    message: str = ""
    reasons: tuple[Reason, ...] = ()
    explanation: Explanation | None = None
    group: str = ""
    was_there: bool = False
    members: tuple[OfflineDecision, ...] = ()
    joint: JointDecision | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What it can be asked for by."""
        return (self.target, self.group) if self.group else (self.target,)


def tell_allocated(target: str, node: str, claims: Iterable[ResourceClaim]) -> OfflineDecision:
    """Return what a pod or claim has or gets."""
    return OfflineDecision(target=target, outcome="allocated", node=node, allocations=tuple(_allocations(claims)))


def tell_pending(target: str, explanation: Explanation) -> OfflineDecision:
    """Return why a pod or claim waits."""
    return OfflineDecision(
        target=target,
        outcome="pending",
        message=format_note(explanation),
        reasons=explanation.reasons,
        explanation=explanation,
    )


def tell_unplaced(pod: Pod, unplaced: Unplaced) -> OfflineDecision:
    """Return what the scheduler says of a pod that it places nowhere."""
    outcome: Literal["pending", "refused"] = "refused" if unplaced.reason == "SchedulerError" else "pending"
    return OfflineDecision(
        target=f"pod/{pod.ref}",
        outcome=outcome,
        message=unplaced.message,
        reasons=unplaced.reasons,
        explanation=unplaced.explanation,
    )


def _allocations(claims: Iterable[ResourceClaim]) -> Iterator[tuple[ClaimRef, AllocationResult]]:
    for claim in claims:
        if claim.allocation is not None:
            yield claim.ref, claim.allocation

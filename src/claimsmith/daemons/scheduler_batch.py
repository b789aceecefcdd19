"""Pods that are due at the same moment: decided one after the other, and jointly where that leaves one without devices.

The joint answer is taken only if it places all that the other way would, and more: nobody loses a place to another pod.

Deviates: pods-together.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

from claimsmith.allocate.joint import JointDecision, JointLimits
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_bind import build_reservation
from claimsmith.daemons.scheduler_claims import Unplaced
from claimsmith.daemons.scheduler_decide import Attempt, Decider, Placed
from claimsmith.daemons.scheduler_joint import JointDecider, Solve, is_outdated
from claimsmith.model.workload import Pod
from claimsmith.schedule.fruitless import get_claims_key

__all__ = ["BATCH_LIMITS", "JOINT_EVERY_S", "BatchDecider", "BatchSteps"]

JOINT_EVERY_S: Final = 2.0
"""Least time between two joint decisions: in a full cluster the same pods are tried again and again."""
BATCH_LIMITS: Final = JointLimits(solver_effort=0.25, nodes_max=64)
"""How much may be spent on a joint decision for pods that are in no group."""

BatchSteps = Generator[Solve, JointDecision | None, tuple[Placed | Unplaced, ...]]
"""Decisions on their way: gives what is to be solved, is sent the answer (None for none), returns one for each pod."""


class BatchDecider:
    """Decides for several pods on what a cache shows.

    Args:
        cache: The cluster, with earlier decisions counted.
        decider: Decides for single pods.
        joint: Decides for several pods at once.
        clock: Monotonic seconds.
    """

    def __init__(
        self, cache: ClusterCache, decider: Decider, joint: JointDecider, *, clock: Callable[[], float]
    ) -> None:
        self._cache, self._decider, self._joint, self._clock = cache, decider, joint, clock
        self._next_s = 0.0

    def steps(self, pods: Sequence[Pod], *, explain: Callable[[Pod], bool]) -> BatchSteps:
        """Decide for pods; nothing is counted or written yet.

        Args:
            pods: In the order in which they are served.
            explain: Tells of which pods that get no place it should be said why.
        """
        outcomes = self._decide_in_turn(pods, explain)
        if not _is_worth_it(outcomes) or self._clock() < self._next_s:
            return outcomes
        looked = [self._decider.look(pod) for pod in pods]
        attempts = [item for item in looked if isinstance(item, Attempt)]
        seen = self._cache.snapshot()
        if not (_differ(attempts) or self._share_counters(outcomes)):
            return outcomes
        decision = yield self._joint.plan(attempts)
        self._next_s = self._clock() + JOINT_EVERY_S
        now = self._cache.snapshot()
        if now is not seen:  # What was decided before may rest on what has changed.
            outcomes = self._decide_in_turn(pods, explain)
        if decision is None or is_outdated(decision, attempts, seen=seen, now=now):
            return outcomes
        with self._cache.trial():
            found = {pod.uid: placed for pod, placed in self._joint.read(attempts, decision)}
        placed_before = {pod.uid for pod, outcome in zip(pods, outcomes, strict=True) if isinstance(outcome, Placed)}
        if not placed_before < found.keys():
            return outcomes
        return tuple(found.get(pod.uid, outcome) for pod, outcome in zip(pods, outcomes, strict=True))

    def _decide_in_turn(self, pods: Sequence[Pod], explain: Callable[[Pod], bool]) -> tuple[Placed | Unplaced, ...]:
        """Decide for one pod after the other, each with the decisions before it counted."""
        outcomes = []
        with self._cache.trial():
            for pod in pods:
                outcome = self._decider.decide(pod, explain=explain(pod))
                if isinstance(outcome, Placed):
                    self._cache.assume(build_reservation(pod, outcome))
                outcomes.append(outcome)
        return tuple(outcomes)

    def _share_counters(self, outcomes: Sequence[Placed | Unplaced]) -> bool:
        """Whether devices that were chosen draw on counters, so that others of their pools would have left more."""
        pools = {
            result.device_id.pool_id
            for outcome in outcomes
            if isinstance(outcome, Placed)
            for _, got in outcome.allocated
            for result in got.results
        }
        return any(item.shared_counters and item.pool_id in pools for item in self._cache.snapshot().slices)


def _is_worth_it(outcomes: Sequence[Placed | Unplaced]) -> bool:
    """Whether some pod got devices while another one, which was tried, got none."""
    gets = any(isinstance(outcome, Placed) and outcome.allocated for outcome in outcomes)
    return gets and any(map(_is_starved, outcomes))


def _is_starved(outcome: Placed | Unplaced) -> bool:
    return isinstance(outcome, Unplaced) and outcome.tried and not outcome.quiet


def _differ(attempts: Sequence[Attempt]) -> bool:
    """Whether pods ask for different things, or leave a choice; those that want the same can't help by swapping."""
    wanted = {get_claims_key(attempt.claims.wanted) for attempt in attempts}
    if len(wanted) > 1:
        return True
    specs = [claim.spec for attempt in attempts[:1] for claim in attempt.claims.wanted]
    return any(spec.constraints or any(request.first_available for request in spec.requests) for spec in specs)

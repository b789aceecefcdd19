"""The depth-first search over one node: upstream's order, with equal devices tried once and failed states remembered.

The search keeps its own stack, so that its depth has no limit but the number of devices wanted.

Source: allocateOne and allocateDevice in structured/internal/experimental, k8s.io/dynamic-resource-allocation v0.37.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from claimsmith.allocate.prepared.plan import PodPlan, RequestPlan
from claimsmith.allocate.prepared.screening import Candidate, Screened
from claimsmith.allocate.search.attempt import Attempt, Fatal, Taken
from claimsmith.allocate.search.lookahead import Lookahead
from claimsmith.allocate.search.symmetry import Symmetry
from claimsmith.model.claim import ALLOCATION_RESULTS_MAX
from claimsmith.model.deviations import Deviation

__all__ = ["Engine", "Insight", "Outcome", "SearchLimits"]

STOP_INTERVAL: Final = 64
"""Steps between two looks at `should_stop`."""
PATIENCE: Final = 32
"""Failures after which a search is worth the effort of counting ahead."""
STRIDE_MAX: Final = 512
"""Fruitless counts after which the search counts ahead only every 64th step."""


@dataclass(frozen=True, slots=True)
class Insight:
    """What makes a search clever.

    Args:
        symmetry: Which devices and states are equal; None when an abort that upstream shows depends on the order of
            equal devices.
        lookahead: Counts devices against open requests; None when a failure may hide an abort that upstream shows.
    """

    symmetry: Symmetry | None
    lookahead: Lookahead | None


class Outcome(Enum):
    """How a search, or a part of it, ended."""

    FOUND = "found"
    FAILED = "failed"
    TOO_MANY = "too many"
    PUSHED = "pushed"
    FATAL = "fatal"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """When a search gives up.

    Args:
        budget_steps: Most steps; None for no limit.
        should_stop: Asked now and then; True ends the search.
        patience: Failures after which the search counts ahead and remembers failed states; no answer depends on it.
    """

    budget_steps: int | None = None
    should_stop: Callable[[], bool] | None = None
    patience: int = PATIENCE


@dataclass(slots=True, eq=False)
class _Frame:
    """A choice that is open: an alternative of a request, or one device for a request."""

    claim: int
    request: int
    plan: RequestPlan | None
    position: int = 0
    candidates: tuple[Candidate, ...] = ()
    next: int = 0
    taken: Taken | None = None
    all_too_many: bool = True
    failed: set[object] | None = None
    memo: object = None
    tried: object = None


@dataclass(slots=True, eq=False)
class Engine:
    """One search on one node.

    Args:
        find_candidates: The devices that a request may choose from.
        find_all: The devices that a request for all devices stands for.
        prepare_insight: Gives what makes a search clever; called when the first choice has failed.
        deviations: Without ALL_WITH_CONSTRAINT a constraint that excludes one of all devices aborts the allocation.
    """

    plan: PodPlan
    attempt: Attempt
    find_candidates: Callable[[RequestPlan], Screened]
    find_all: Callable[[RequestPlan], Screened]
    limits: SearchLimits
    deviations: frozenset[Deviation]
    prepare_insight: Callable[[], Insight]
    steps: int = 0
    fatal: Fatal | None = None
    chosen: dict[tuple[int, int], int] = field(default_factory=dict)
    _frames: list[_Frame] = field(default_factory=list)
    _failures: int = 0
    _stride: int = 0
    _next_count: int = 0
    _insight: Insight | None = None
    _memo: dict[object, Outcome] = field(default_factory=dict)
    _least_after: dict[int, list[int]] = field(default_factory=dict)

    def run(self) -> Outcome:
        """Search; FOUND leaves the devices in `attempt` and the alternatives in `chosen`."""
        outcome = self._enter(0, 0, None, 0, 0)
        while True:
            if outcome is Outcome.PUSHED:
                outcome = self._try_next(self._frames[-1])
            elif outcome in (Outcome.FAILED, Outcome.TOO_MANY) and self._frames:
                outcome = self._resume(self._frames[-1], outcome)
            else:
                break
        if outcome is Outcome.FOUND:
            self._note_alternatives()
        return outcome

    def _enter(self, claim: int, request: int, plan: RequestPlan | None, position: int, start: int) -> Outcome:
        """Go to the next device that is wanted, and open the choice of it."""
        claims = self.plan.claims
        while True:
            self.steps += 1
            if self._must_stop():
                return Outcome.STOPPED
            if claim >= len(claims):
                return Outcome.FOUND
            groups = claims[claim].groups
            if request >= len(groups):
                claim, request, plan, position, start = claim + 1, 0, None, 0, 0
                continue
            group = groups[request]
            if plan is None:
                if group.prioritized:
                    self._frames.append(_Frame(claim, request, None))
                    return Outcome.PUSHED
                plan = group.alternatives[0]
            if plan.takes_all:
                candidates = self.find_all(plan).candidates
                count = len(candidates)
                if not count:
                    return Outcome.FAILED
            else:
                candidates, count = (), plan.count
            if position >= count:
                request, plan, position, start = request + 1, None, 0, 0
                continue
            break
        if self._exceeds_limit(claim, request, count - position):
            return Outcome.TOO_MANY
        memo = self._remember(plan, position)
        if memo is not None and memo in self._memo:
            return self._memo[memo]
        if self._failures >= self.limits.patience and self._is_hopeless(plan, position, start):
            return Outcome.FAILED
        if not plan.takes_all:
            screened = self.find_candidates(plan)
            candidates = screened.candidates
            if len(candidates) - start < count - position and not self._may_abort(plan, screened):
                return Outcome.FAILED
        next = position if plan.takes_all else start
        self._frames.append(_Frame(claim, request, plan, position, candidates, next, memo=memo))
        return Outcome.PUSHED

    def _exceeds_limit(self, claim: int, request: int, wanted: int) -> bool:
        """Whether the claim gets too many devices, with the fewest for its later requests once the search counts ahead.

        No other device changes that. Found out later, it would look like a failure of the devices that are chosen: a
        count that is found to fall short before the limit is reached makes the search try others, one by one.
        """
        least = wanted + self.attempt.count_results(claim)
        if self._failures >= self.limits.patience and self._get_insight().lookahead is not None:
            least += self._count_least_after(claim)[request]
        return least > ALLOCATION_RESULTS_MAX

    def _count_least_after(self, claim: int) -> list[int]:
        """For each request of a claim, how many devices the later ones want at least."""
        known = self._least_after.get(claim)
        if known is None:
            least = [
                min(
                    (len(self.find_all(p).candidates) if p.takes_all else p.count for p in group.alternatives),
                    default=0,
                )
                for group in self.plan.claims[claim].groups
            ]
            known = self._least_after[claim] = [sum(least[place + 1 :]) for place in range(len(least))]
        return known

    def _try_next(self, frame: _Frame) -> Outcome:
        """Make the frame's next choice, and go on from there; the frame is closed when it has none left."""
        plan = frame.plan
        if plan is None:
            return self._try_alternative(frame)
        if plan.takes_all:
            return self._try_one_of_all(frame, plan)
        attempt, candidates = self.attempt, frame.candidates
        for place in range(frame.next, len(candidates)):
            candidate = candidates[place]
            if attempt.is_used(candidate, plan):
                continue
            if candidate.poison is not None:
                return self._abort(Fatal(candidate.poison.kind, candidate.poison.text, plan, candidate))
            if frame.failed is not None:
                frame.tried = self._find_key(candidate)
                if frame.tried in frame.failed:
                    continue
            taken = attempt.take(candidate, plan)
            if taken is None:
                continue
            if isinstance(taken, Fatal):
                return self._abort(taken)
            frame.taken, frame.next = taken, place + 1
            return self._enter(frame.claim, frame.request, plan, frame.position + 1, place + 1)
        return self._close(frame, Outcome.FAILED)

    def _try_alternative(self, frame: _Frame) -> Outcome:
        alternatives = self.plan.claims[frame.claim].groups[frame.request].alternatives
        if frame.next >= len(alternatives):
            return self._close(frame, Outcome.TOO_MANY if frame.all_too_many else Outcome.FAILED)
        plan = alternatives[frame.next]
        frame.next += 1
        return self._enter(frame.claim, frame.request, plan, 0, 0)

    def _try_one_of_all(self, frame: _Frame, plan: RequestPlan) -> Outcome:
        """Take the device whose turn it is; there is no other choice."""
        if frame.taken is not None or frame.next != frame.position:
            return self._close(frame, Outcome.FAILED)
        candidate = frame.candidates[frame.position]
        frame.next += 1
        if candidate.blocked or self.attempt.is_used(candidate, plan):
            return self._close(frame, Outcome.FAILED)
        taken = self.attempt.take(candidate, plan, must=Deviation.ALL_WITH_CONSTRAINT not in self.deviations)
        if isinstance(taken, Fatal):
            return self._abort(taken)
        if taken is None:
            return self._close(frame, Outcome.FAILED)
        frame.taken = taken
        return self._enter(frame.claim, frame.request, plan, frame.position + 1, 0)

    def _resume(self, frame: _Frame, outcome: Outcome) -> Outcome:
        """Take back the frame's choice after what came behind it has failed.

        A later claim never fails for wanting too many: its smallest alternatives fit, which was checked before.
        """
        if frame.plan is None:
            if outcome is Outcome.FAILED:
                frame.all_too_many = False
            return Outcome.PUSHED
        self._failures += 1
        if frame.taken is not None:
            self.attempt.undo(frame.taken)
            if outcome is Outcome.FAILED and not frame.plan.takes_all:
                self._note_failed(frame)
            frame.taken = None
        if outcome is Outcome.TOO_MANY or frame.plan.takes_all:
            return self._close(frame, outcome)
        return Outcome.PUSHED

    def _note_failed(self, frame: _Frame) -> None:
        """Keep the key of a device that has failed, so that equal ones are passed over."""
        if frame.failed is None:
            frame.failed = set()
            frame.tried = self._find_key(frame.candidates[frame.next - 1])
        frame.failed.add(frame.tried)

    def _find_key(self, candidate: Candidate) -> object:
        """Return what equal devices have in common."""
        symmetry = self._get_insight().symmetry
        return candidate if symmetry is None else symmetry.device_key(candidate)

    def _close(self, frame: _Frame, outcome: Outcome) -> Outcome:
        self._frames.pop()
        if frame.memo is not None:
            self._memo[frame.memo] = outcome
        return outcome

    def _abort(self, fatal: Fatal) -> Outcome:
        self.fatal = fatal
        return Outcome.FATAL

    def _remember(self, plan: RequestPlan, position: int) -> object:
        """The state under which this choice is opened, when it is worth remembering."""
        if position or self._failures < self.limits.patience:
            return None
        symmetry = self._get_insight().symmetry
        if symmetry is None:
            return None
        return (id(plan), self.attempt.count_results(plan.claim), symmetry.state_key(plan.claim))

    def _may_abort(self, plan: RequestPlan, screened: Screened) -> bool:
        """Whether a look at the candidates may abort the allocation, as upstream does."""
        return screened.poisoned or (bool(plan.derived) and Deviation.SELECTOR_ERROR not in self.deviations)

    def _is_hopeless(self, plan: RequestPlan, position: int, start: int) -> bool:
        """Count ahead, less and less often as long as it finds nothing."""
        lookahead = self._get_insight().lookahead
        if lookahead is None or self.steps < self._next_count:
            return False
        if lookahead.is_hopeless(plan, position, start):
            self._stride = 0
            return True
        self._stride = min(self._stride + 1, STRIDE_MAX)
        self._next_count = self.steps + self._stride // 8
        return False

    def _get_insight(self) -> Insight:
        if self._insight is None:
            self._insight = self.prepare_insight()
        return self._insight

    def _must_stop(self) -> bool:
        budget = self.limits.budget_steps
        if budget is not None and self.steps > budget:
            return True
        ask = self.limits.should_stop
        return ask is not None and self.steps % STOP_INTERVAL == 0 and ask()

    def _note_alternatives(self) -> None:
        for frame in self._frames:
            if frame.plan is None:
                self.chosen[frame.claim, frame.request] = frame.next - 1

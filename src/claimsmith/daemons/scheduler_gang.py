"""The decision for the pods of one group: nodes and devices for at least as many as it needs, or for none.

All pods are decided jointly. Where that finds nothing, they are tried one after the other, each with the decisions for
those before it counted: so pods also meet that share a claim over several nodes, or whose extended resources are served
in different ways.

Source: schedule_one_podgroup.go and plugin topologyaware in kubernetes v1.37.2 pkg/scheduler, for what a group is owed;
which devices its pods get is ours.

Deviates: joint-gangs.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace

from claimsmith.allocate.explain.values import Explanation
from claimsmith.allocate.joint import JointDecision
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_bind import build_reservation
from claimsmith.daemons.scheduler_claims import Unplaced, find_stale_claims
from claimsmith.daemons.scheduler_decide import Attempt, Decider, Placed
from claimsmith.daemons.scheduler_joint import JointDecider, Solve, is_outdated
from claimsmith.daemons.scheduler_reasons import explain_member
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.names import ClaimRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import Gang, find_mismatch
from claimsmith.schedule.queue import Change
from claimsmith.schedule.sharing import describe_shortage, find_roomy_nodes, sum_requests

__all__ = ["GangDecider", "GangPlaced", "Placings", "Problems", "Steps"]

Placings = tuple[tuple[Pod, Placed], ...]
"""Pods, each with what it gets."""
Problems = tuple[tuple[Pod, Unplaced], ...]
"""Pods, each with the reason why it gets nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced:
    """Nodes and devices for pods of a group.

    Args:
        placed: The pods, each with what it gets; as many as the group needs, or more.
        left: The other pods that wait, each with the reason.
        answer: The joint decision that it is, with what is proven of it; None where pods were tried in turn.
    """

    placed: Placings
    left: Problems = ()
    answer: JointDecision | None = None


Steps = Generator[Solve, JointDecision | None, "GangPlaced | Unplaced"]
"""A decision on its way: gives what is to be solved, is sent the answers (None for none), and returns the decision."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """What came of one set of nodes."""

    placed: Placings = ()
    left: Problems = ()
    answer: JointDecision | None = None


@dataclass(frozen=True, slots=True)
class _Domain:
    """Nodes with one value of the group's topology label; all nodes when it names none."""

    name: str
    nodes: Collection[str] | None


class GangDecider:
    """Decides for groups of pods on what a cache shows.

    Args:
        cache: The cluster, with earlier decisions counted.
        decider: Decides for single pods.
        joint: Decides for several pods at once; None: they are tried in turn, as upstream does.
    """

    def __init__(self, cache: ClusterCache, decider: Decider, *, joint: JointDecider | None) -> None:
        self._cache, self._decider, self._joint = cache, decider, joint

    def decide(self, gang: Gang, *, explain: bool = True) -> GangPlaced | Unplaced:
        """Return the decision for a group; nothing is counted or written yet.

        Args:
            gang: The group with its pods.
            explain: Say why there is no place; else the message is empty.
        """
        steps = self.steps(gang, explain=explain)
        try:
            solve = next(steps)
            while True:
                solve = steps.send(solve())
        except StopIteration as end:
            decided: GangPlaced | Unplaced = end.value
            return decided

    def steps(self, gang: Gang, *, explain: bool = True) -> Steps:
        """Decide as `decide` does, but let the caller do what may take long: each step is sent what it comes to."""
        text = gang.describe_gap()
        if text:
            return Unplaced(message=text, helps=_helps_never, tried=False)
        domains = self._find_domains(gang)
        mismatch = find_mismatch(gang) or (domains if isinstance(domains, str) else "")
        if mismatch or isinstance(domains, str):
            return Unplaced(message=mismatch, helps=_helps_node, reason="SchedulerError")
        seen = self._cache.snapshot()
        attempts, untried = self._look(gang)
        if len(attempts) < gang.needed:
            return _join_problems(gang, untried)
        best = yield from self._place_jointly(gang, attempts, domains, seen)
        trials: list[tuple[_Domain, _Trial]] = []
        if len(best.placed) < gang.needed:
            trials = self._place_each_in_turn(attempts, domains)
            best = max((trial for _, trial in trials), key=lambda item: len(item.placed), default=best)
        if len(best.placed) >= gang.needed:
            left = (*self._find_left(best, attempts), *untried)
            return GangPlaced(placed=best.placed, left=left, answer=best.answer)
        return self._refuse(gang, attempts, trials, explain=explain)

    def _look(self, gang: Gang) -> tuple[list[Attempt], Problems]:
        """Return the pods that can be tried, and those that can't, with the reason."""
        attempts: list[Attempt] = []
        problems: list[tuple[Pod, Unplaced]] = []
        for pod in gang.waiting:
            found = self._decider.look(pod)
            if isinstance(found, Unplaced):
                problems.append((pod, found))
            else:
                attempts.append(found)
        return attempts, tuple(problems)

    def _find_domains(self, gang: Gang) -> tuple[_Domain, ...] | str:
        """Return the sets of nodes that the group may go to, the largest first, or why that can't be told.

        Source: GeneratePlacements in topology_placement.go of kubernetes v1.37.2.
        """
        key = gang.topology_key
        if not key:
            return (_Domain("", None),)
        found = [self._cache.nodes.get(pod.node_name) for pod in gang.placed]
        taken = {None if node is None else node.labels.get(key) for node in found}
        if None in taken or len(taken) > 1:
            named = ", ".join(sorted({pod.node_name for pod in gang.placed}))
            return (
                f"pod group {gang.ref}: found pods on nodes {named}, allowed nodes with one value of label {key}; "
                "delete the pods that are elsewhere"
            )
        nodes: dict[str, set[str]] = {}
        for node in self._cache.nodes.values():
            value = node.labels.get(key)
            if value is not None and (not taken or value in taken):
                nodes.setdefault(value, set()).add(node.name)
        ordered = sorted(nodes.items(), key=lambda item: (-len(item[1]), item[0]))
        return tuple(_Domain(f"{key}={value}", names) for value, names in ordered)

    # --- trying -------------------------------------------------------------------------------------------------------

    def _place_jointly(
        self, gang: Gang, attempts: Sequence[Attempt], domains: Sequence[_Domain], seen: ClusterSnapshot
    ) -> Generator[Solve, JointDecision | None, _Trial]:
        """Return the first joint answer that places all pods; else the one that places most, if it still holds."""
        best, answer = _Trial(), None
        for domain in domains if self._joint is not None else ():
            trial, decision = yield from self._solve(gang, attempts, domain, seen)
            if len(trial.placed) > len(best.placed):
                best, answer = trial, decision
            if len(best.placed) == len(attempts):
                return best
        if answer is not None and is_outdated(answer, attempts, seen=seen, now=self._cache.snapshot()):
            return _Trial()
        return best

    def _solve(
        self, gang: Gang, attempts: Sequence[Attempt], domain: _Domain, seen: ClusterSnapshot
    ) -> Generator[Solve, JointDecision | None, tuple[_Trial, JointDecision | None]]:
        """Place pods on the nodes of one domain by one joint decision; none when what it rests on has changed."""
        if self._joint is None:
            return _Trial(), None
        fresh = [replace(attempt, within=domain.nodes, decisions=[], full={}) for attempt in attempts]
        decision = yield self._joint.plan(fresh, gang=str(gang.ref), needed=gang.needed)
        if decision is None or is_outdated(decision, fresh, seen=seen, now=self._cache.snapshot()):
            return _Trial(), None
        with self._cache.trial():
            return _Trial(tuple(self._joint.read(fresh, decision)), answer=decision), decision

    def _place_each_in_turn(
        self, attempts: Sequence[Attempt], domains: Sequence[_Domain]
    ) -> list[tuple[_Domain, _Trial]]:
        """Try the domains in turn, until one takes all pods."""
        trials = []
        for domain in domains:
            trial = self._place_in_turn([attempt.pod for attempt in attempts], domain, explain=False)
            trials.append((domain, trial))
            if len(trial.placed) == len(attempts):
                break
        return trials

    def _place_in_turn(self, pods: Sequence[Pod], domain: _Domain, *, explain: bool) -> _Trial:
        """Try pods one after the other, each with those before it counted; the first that fails is explained."""
        placed: list[tuple[Pod, Placed]] = []
        left: list[tuple[Pod, Unplaced]] = []
        ours: set[ClaimRef] = set()
        with self._cache.trial():
            for pod in pods:
                attempt = self._decider.look(pod, ours=frozenset(ours), within=domain.nodes)
                if not isinstance(attempt, Unplaced):
                    outcome = self._decider.choose(attempt, explain=explain and not left)
                else:
                    outcome = attempt
                if isinstance(outcome, Unplaced):
                    left.append((pod, outcome))
                    continue
                reservation = build_reservation(pod, outcome)
                self._cache.assume(reservation)
                ours.update(claim.ref for claim in reservation.claims)
                placed.append((pod, outcome))
        return _Trial(tuple(placed), tuple(left))

    def _find_left(self, best: _Trial, attempts: Sequence[Attempt]) -> Problems:
        """Return the pods beyond what the group needs that got no place."""
        placed = {pod.uid for pod, _ in best.placed}
        known = {pod.uid: problem for pod, problem in best.left}
        return tuple(
            (attempt.pod, known.get(attempt.pod.uid) or Unplaced(message="", helps=_helps_any))
            for attempt in attempts
            if attempt.pod.uid not in placed
        )

    # --- refusing -----------------------------------------------------------------------------------------------------

    def _refuse(
        self, gang: Gang, attempts: Sequence[Attempt], trials: Sequence[tuple[_Domain, _Trial]], *, explain: bool
    ) -> Unplaced:
        """Say how many of the pods fit together at most, and what the first of the others lacks."""
        pods = [attempt.pod for attempt in attempts]
        problems = [problem for _, trial in trials for _, problem in trial.left]
        message, explanation = self._explain(gang, pods, trials) if explain else ("", None)
        return Unplaced(
            message=message,
            helps=lambda change: change.kind == "node" or any(problem.helps(change) for problem in problems),
            reasons=() if explanation is None else explanation.reasons,
            explanation=explanation,
            reason="SchedulerError" if any(item.reason == "SchedulerError" for item in problems) else "Unschedulable",
            stale=self._find_stale(gang, attempts),
        )

    def _explain(
        self, gang: Gang, pods: Sequence[Pod], trials: Sequence[tuple[_Domain, _Trial]]
    ) -> tuple[str, Explanation | None]:
        if not trials:
            where = f"of the pods' group {gang.topology_key}"
            return f"pod group {gang.ref}: no node has the label {where}; label nodes", None
        domain, _ = max(trials, key=lambda item: len(item[1].placed))
        trial = self._place_in_turn(pods, domain, explain=True)
        fit = len(gang.placed) + len(trial.placed)
        where = f" on nodes with {domain.name}" if domain.name else ""
        text = f"pod group {gang.ref}: {fit} of at least {gang.min_count} pods fit together{where}; "
        shared = self._explain_sharing(pods, trial, domain)
        if shared:
            return text + shared, None
        pod, problem = trial.left[0]
        nodes = tuple(dict.fromkeys(item.node for _, item in trial.placed))
        explanation = explain_member(problem.explanation, gang, pod=pod, fit=fit, nodes=nodes)
        return f"{text}then pod {pod.ref.name}: {problem.message}", explanation

    def _explain_sharing(self, pods: Sequence[Pod], trial: _Trial, domain: _Domain) -> str:
        """Say what nodes lack for all pods of a claim whose devices belong to one node; empty when that is not it."""
        attempt = self._decider.look(trial.left[0][0], within=domain.nodes)
        if isinstance(attempt, Unplaced):
            return ""
        usages = {node.name: self._decider.usage.find(node) for _, nodes in attempt.groups() for node in nodes}
        given = {claim.ref: got for _, placed in trial.placed for claim, got in placed.allocated}
        for claim in attempt.claims.wanted:
            got = given.get(claim.ref)
            users = [pod for pod in pods if self._uses(pod, claim)]
            if got is None or got.node_selector is None or len(users) < 2:
                continue
            roomy = find_roomy_nodes(sum_requests(users), usages)
            if isinstance(self._decider.choose(replace(attempt, within=roomy), explain=False), Unplaced):
                return describe_shortage(claim, users, usages)
        return ""

    def _uses(self, pod: Pod, claim: ResourceClaim) -> bool:
        names = [entry.claim_name or pod.claim_names.get(entry.name) for entry in pod.claims]
        return pod.ref.namespace == claim.ref.namespace and claim.ref.name in names

    def _find_stale(self, gang: Gang, attempts: Sequence[Attempt]) -> tuple[ResourceClaim, ...]:
        """Return the claims that tie pods of the group to nodes without need."""
        users = {pod.uid for pod in gang.waiting}
        if gang.group is not None and not gang.placed:
            users.add(gang.group.uid)
        held = {claim.ref: claim for attempt in attempts for claim in attempt.claims.allocated}
        special = [attempt.claims.extended for attempt in attempts if attempt.claims.extended is not None]
        stale = (*special, *find_stale_claims(held.values(), frozenset(users)))
        return tuple({claim.ref: claim for claim in stale}.values())


def _join_problems(gang: Gang, problems: Problems) -> Unplaced:
    """Return why too few pods of a group can be tried: what the first of them waits for."""
    loud = [item for item in problems if not item[1].quiet]
    pod, first = (loud or list(problems))[0]
    count = len(gang.waiting) - len(problems)
    text = f"pod group {gang.ref}: {count} of at least {gang.needed} pods can be tried; pod {pod.ref.name}: "
    return Unplaced(
        message=text + first.message,
        helps=lambda change: any(problem.helps(change) for _, problem in problems),
        reasons=first.reasons,
        reason=first.reason,
        tried=any(problem.tried for _, problem in problems),
        quiet=not loud,
        stale=tuple(claim for _, problem in problems for claim in problem.stale),
    )


def _helps_never(_: Change) -> bool:
    return False


def _helps_node(change: Change) -> bool:
    return change.kind == "node"


def _helps_any(_: Change) -> bool:
    return True

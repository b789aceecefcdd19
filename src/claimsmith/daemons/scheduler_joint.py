"""Pods that were looked at, as a batch for the joint allocation, and its answer as decisions for the pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from claimsmith.allocate.joint import Batch, Gang, JointDecision, JointLimits, Member, allocate_jointly
from claimsmith.allocate.policy.objective import PACK, Policy
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_bind import build_reservation
from claimsmith.daemons.scheduler_decide import Attempt, Decider, Placed, wanted_on
from claimsmith.model.claim import AllocationResult, ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.node import Node
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.schedule.changes import find_node_change
from claimsmith.schedule.claims import make_share_id
from claimsmith.schedule.extended import SPECIAL_NAME, ExtendedPlan
from claimsmith.schedule.usage import NodeUsage, plan_requests

__all__ = ["JointDecider", "Solve", "is_outdated"]

Solve = Callable[[], JointDecision]
"""The part of a joint decision that may take long, and that looks at nothing that changes meanwhile."""

_NANOS: Final = 1_000_000
_PLENTY: Final = 1 << 80
"""Room of a node that reports no amounts, in nano units."""


class JointDecider:
    """Decides for several pods at once.

    Args:
        cache: The cluster, with earlier decisions counted.
        cluster: The allocator's view, which follows the cache.
        decider: Knows what pods take of nodes, and whether these have room for what devices take besides.
        policy: What makes one answer better than another.
        limits: How much may be spent on it.
    """

    def __init__(
        self,
        cache: ClusterCache,
        cluster: PreparedCluster,
        decider: Decider,
        *,
        policy: Policy = PACK,
        limits: JointLimits | None = None,
    ) -> None:
        self._cache, self._cluster, self._decider = cache, cluster, decider
        self._policy, self._limits = policy, limits or JointLimits()

    def plan(self, attempts: Sequence[Attempt], *, gang: str = "", needed: int = 1) -> Solve:
        """Return what has to be solved; everything that it reads of the cache is read now.

        Args:
            attempts: Pods that were looked at, in the order in which equal ones are served.
            gang: Name of the gang that they all are; empty for pods that are placed each for itself.
            needed: Fewest pods of the gang that are of use; >= 1.
        """
        self._cluster.update(self._cache.snapshot())
        members, nodes, demands = [], dict[str, Node](), set[str]()
        for attempt in attempts:
            plan, reachable = _first_group(attempt)
            nodes.update((node.name, node) for node in reachable)
            member = Member(
                name=str(attempt.pod.ref),
                claims=_name_apart(attempt, plan),
                priority=attempt.pod.priority,
                nodes=frozenset(node.name for node in reachable),
                demand={name: milli * _NANOS for name, milli in _find_wanted(attempt.pod, plan).items()},
                gang=gang,
            )
            demands.update(member.demand)
            members.append(member)
        batch = Batch(
            members=tuple(members),
            gangs=(Gang(name=gang, min_count=needed),) if gang else (),
            free={name: _find_free(self._decider.usage.find(node), demands) for name, node in nodes.items()},
        )
        ordered = tuple(nodes.values())
        return lambda: allocate_jointly(
            self._cluster, batch, nodes=ordered, share_ids=make_share_id, policy=self._policy, limits=self._limits
        )

    def read(self, attempts: Sequence[Attempt], decision: JointDecision) -> list[tuple[Pod, Placed]]:
        """Return the pods that the answer places, as far as nodes have room for what their devices take besides.

        It is read inside of a trial of the cache: each pod counts for the next.
        """
        found: list[tuple[Pod, Placed]] = []
        given: dict[ClaimRef, AllocationResult] = {}
        for attempt in attempts:
            answer = decision.decisions[str(attempt.pod.ref)]
            node = self._cache.nodes.get(answer.node) if isinstance(answer, Allocation) else None
            if not isinstance(answer, Allocation) or node is None:
                continue
            plan, _ = next(attempt.groups())
            if self._decider.usage.find(node).find_missing(_find_wanted(attempt.pod, plan)):
                continue
            got = tuple(zip(wanted_on(attempt.claims, plan), answer.results, strict=True))
            placed = self._decider.place(_with_given(attempt, given), plan, node, _without_given(got, given))
            if placed is None:
                continue
            given.update(
                (claim.ref, result) for claim, result in placed.allocated if claim.metadata.name != SPECIAL_NAME
            )
            self._cache.assume(build_reservation(attempt.pod, placed))
            found.append((attempt.pod, placed))
        return found


def is_outdated(
    decision: JointDecision, attempts: Iterable[Attempt], *, seen: ClusterSnapshot, now: ClusterSnapshot
) -> bool:
    """Tell whether something that an answer may rest on has changed while it was looked for.

    Args:
        decision: The answer.
        attempts: The pods that it is for.
        seen: The cluster when the answer was asked for.
        now: The cluster as it is.
    """
    if now is seen:
        return False
    if (seen.slices, seen.taint_rules, seen.classes) != (now.slices, now.taint_rules, now.classes):
        return True
    answers = [answer for answer in decision.decisions.values() if isinstance(answer, Allocation)]
    pools = {result.device_id.pool_id for item in answers for got in item.results for result in got.results}
    return (
        any(_has_changed(attempt, now) for attempt in attempts)
        or any(find_node_change(seen.nodes.get(item.node), now.nodes.get(item.node)) for item in answers)
        or any(item.node not in now.nodes for item in answers)
        or any(device.pool_id in pools for device in _list_held(now) - _list_held(seen))
    )


def _has_changed(attempt: Attempt, now: ClusterSnapshot) -> bool:
    """Whether the pod has gone or got a node, or one of its claims got devices or was made anew."""
    pod = now.pods.get(attempt.pod.ref)
    if pod is None or pod.uid != attempt.pod.uid or pod.node_name or pod.metadata.deletion_timestamp is not None:
        return True
    claims = ((claim, now.claims.get(claim.ref)) for claim in attempt.claims.wanted)
    return any(found is None or found.uid != claim.uid or found.allocation is not None for claim, found in claims)


def _list_held(snapshot: ClusterSnapshot) -> set[DeviceId]:
    allocations = (claim.allocation for claim in snapshot.claims.values() if claim.allocation is not None)
    return {result.device_id for allocation in allocations for result in allocation.results}


def _first_group(attempt: Attempt) -> tuple[ExtendedPlan, tuple[Node, ...]]:
    """The nodes to look at: those on which the pod's extended resources are served in one way, the best."""
    for plan, nodes in attempt.groups():
        return plan, tuple(nodes)
    return ExtendedPlan(), ()


def _name_apart(attempt: Attempt, plan: ExtendedPlan) -> tuple[ResourceClaim, ...]:
    """The claims to allocate; special ones, which have no name yet, are told apart by their pods."""
    claims = []
    for claim in wanted_on(attempt.claims, plan):
        if claim.metadata.name == SPECIAL_NAME:
            claim = replace(claim, metadata=replace(claim.metadata, name=f"{SPECIAL_NAME}/{attempt.pod.uid}"))
        claims.append(claim)
    return tuple(claims)


def _with_given(attempt: Attempt, given: Mapping[ClaimRef, AllocationResult]) -> Attempt:
    """The attempt with those of its claims allocated that another pod of the batch has brought along."""
    shared = tuple(replace(claim, allocation=given[claim.ref]) for claim in attempt.claims.wanted if claim.ref in given)
    if not shared:
        return attempt
    claims = replace(
        attempt.claims,
        allocated=(*attempt.claims.allocated, *shared),
        wanted=tuple(claim for claim in attempt.claims.wanted if claim.ref not in given),
    )
    return replace(attempt, claims=claims)


def _without_given(
    got: Iterable[tuple[ResourceClaim, AllocationResult]], given: Mapping[ClaimRef, AllocationResult]
) -> tuple[tuple[ResourceClaim, AllocationResult], ...]:
    return tuple((claim, result) for claim, result in got if claim.ref not in given)


def _find_wanted(pod: Pod, plan: ExtendedPlan) -> dict[str, int]:
    """What a pod takes of a node besides devices, in thousandths."""
    by_devices = {mapping.resource for mapping in plan.mappings}
    return {name: milli for name, milli in plan_requests(pod).items() if name not in by_devices and milli > 0}


def _find_free(usage: NodeUsage, names: Iterable[str]) -> dict[str, int]:
    """What a node has left of some resources, in nano units; without limit where it is not judged by them."""
    return dict(_iter_free(usage, names))


def _iter_free(usage: NodeUsage, names: Iterable[str]) -> Iterator[tuple[str, int]]:
    for name in names:
        if not usage.offered or (name == "pods" and name not in usage.offered):
            yield name, _PLENTY
        else:
            yield name, (usage.offered.get(name, 0) - usage.amounts.get(name, 0)) * _NANOS

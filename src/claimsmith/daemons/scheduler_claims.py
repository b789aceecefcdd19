"""The claims of a pod as they stand: which have devices, which want some, and which keep the pod from being tried.

Deviates: full-claim, claim-in-allocation, freed-claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from claimsmith.allocate.explain.values import Explanation
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.scheduler_room import RoomCheck
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.names import ClaimRef
from claimsmith.model.podgroup import PodGroup
from claimsmith.model.workload import Pod, PodClaim
from claimsmith.schedule.claims import RESERVED_MAX, is_reserved_for
from claimsmith.schedule.extended import SpecialClaims, find_extended_names
from claimsmith.schedule.gangs import find_group_ref
from claimsmith.schedule.groupclaims import find_claim_consumer, is_group_claim, is_made_for
from claimsmith.schedule.queue import Change

__all__ = ["ClaimFinder", "PodClaims", "Unplaced", "find_stale_claims"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """No node now.

    Args:
        reason: `Unschedulable`, or `SchedulerError` when no search was possible.
        message: Why, for people; empty when no explanation was asked for.
        helps: Tells whether a change in the cluster may help.
        reasons: Why, for machines.
        tried: False when the pod was not tried, since something of it is not there yet.
        quiet: True when that is no news for people, since it lasts but a moment.
        stale: Claims that are allocated where the pod does not fit, and that nobody else uses: they should be freed.
            The special claim of an earlier attempt should be deleted.
        explanation: Why, in sets of reasons; None when it is no matter of nodes, or none was asked for.
    """

    message: str
    helps: Callable[[Change], bool]
    reasons: tuple[Reason, ...] = ()
    reason: str = "Unschedulable"
    tried: bool = True
    quiet: bool = False
    stale: tuple[ResourceClaim, ...] = ()
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaims:
    """The claims of a pod.

    Args:
        allocated: Those that have devices.
        wanted: Those that are to get some.
        extended: The special claim for extended resources that an earlier attempt has made; None for none.
        group: The pod's group; None when it is in none.
    """

    allocated: tuple[ResourceClaim, ...] = ()
    wanted: tuple[ResourceClaim, ...] = ()
    extended: ResourceClaim | None = None
    group: PodGroup | None = None


class ClaimFinder:
    """Finds the claims of pods in a cache.

    Args:
        cache: The cluster, with earlier decisions counted.
        room: Knows which claims can't be shared.
        find_failure: Tells why the devices of an allocated claim will never be ready; empty when they may.
    """

    def __init__(self, cache: ClusterCache, room: RoomCheck, *, find_failure: Callable[[ResourceClaim], str]) -> None:
        self._cache, self._room, self._find_failure = cache, room, find_failure
        self._special = SpecialClaims()
        cache.subscribe_claims(self._special.see_claim)

    def find(self, pod: Pod, *, ours: frozenset[ClaimRef] = frozenset()) -> PodClaims | Unplaced:
        """Return the claims of a pod, or why it can't be tried.

        Args:
            pod: The pod.
            ours: Claims in flight that count as allocated, since they belong to the same decision.
        """
        ref = find_group_ref(pod)
        group = self._cache.groups.get(ref) if ref is not None else None
        if ref is not None and group is None:
            return _wait_for(f"group {ref}", f"pod group {ref} does not exist; create it")
        found: list[ResourceClaim] = []
        for entry in pod.claims:
            claim = self._find_entry(pod, entry, group, ours)
            if isinstance(claim, Unplaced):
                return claim
            if claim is not None and claim not in found:
                found.append(claim)
        allocated = [claim for claim in found if claim.allocation is not None]
        shared = self._room.find_sharing_problem(pod, allocated)
        if shared is not None:
            return replace(_wait(shared[0].ref, shared[1]), tried=True)
        extended = self._special.find(pod) if find_extended_names(pod) else None
        if extended is not None:
            problem = self._find_problem(pod, extended, None, is_owned=True)
            if problem is not None:
                return problem
            if extended.allocation is not None:
                allocated.append(extended)
        wanted = tuple(claim for claim in found if claim.allocation is None)
        return PodClaims(allocated=tuple(allocated), wanted=wanted, extended=extended, group=group)

    def _find_entry(
        self, pod: Pod, entry: PodClaim, group: PodGroup | None, ours: frozenset[ClaimRef]
    ) -> ResourceClaim | Unplaced | None:
        """Return the claim of one entry, or why it can't be used; None when none is needed."""
        name = entry.claim_name or pod.claim_names.get(entry.name, "")
        if name is None:
            return None
        ref = ClaimRef(pod.metadata.namespace, name)
        claim = self._cache.claims.find(ref) if name else None
        if claim is None and not name:
            return _wait(ref, f"claim {entry.name!r} of the pod is not made yet", quiet=True)
        if claim is None:
            return _wait(ref, f"claim {ref} does not exist; create it")
        if ref in ours:
            return claim
        shared = group if is_group_claim(entry, group) else None
        problem = self._find_problem(pod, claim, shared, is_owned=entry.claim_name is None)
        return problem or self._find_failed(pod, claim) or claim

    def _find_problem(
        self, pod: Pod, claim: ResourceClaim, group: PodGroup | None, *, is_owned: bool
    ) -> Unplaced | None:
        """Why the pod can't use the claim now; a group is given when its pods share the claim."""
        ref, maker = claim.ref, "pod" if group is None else "pod group"
        if is_owned and not is_made_for(claim, pod, group):
            return _wait(ref, f"claim {ref} was not made for this {maker}")
        if claim.metadata.deletion_timestamp is not None:
            return _wait(ref, f"claim {ref} is being deleted")
        if self._cache.claims.is_in_flight(ref):
            return _wait(ref, f"claim {ref} is being allocated for another pod", quiet=True)
        if (
            claim.allocation is not None
            and not is_reserved_for(claim, find_claim_consumer(pod, ref, group).uid)
            and len(claim.reserved_for) >= RESERVED_MAX
        ):
            text = f"claim {ref} is used by {len(claim.reserved_for)} pods, the maximum; wait until one of them ends"
            return replace(_wait(ref, text), tried=True)
        return None

    def _find_failed(self, pod: Pod, claim: ResourceClaim) -> Unplaced | None:
        """Why the claim's devices will never be ready; a claim that nobody else uses is given other ones."""
        text = self._find_failure(claim) if claim.allocation is not None else ""
        if not text:
            return None
        is_ours = all(item.uid == pod.uid for item in claim.reserved_for)
        unplaced = _wait(claim.ref, f"claim {claim.ref} can't be used: {text}")
        return replace(unplaced, tried=True, stale=(claim,) if is_ours else ())


def find_stale_claims(allocated: Iterable[ResourceClaim], users: frozenset[str]) -> tuple[ResourceClaim, ...]:
    """Return the claims that tie pods to nodes without need: nobody but the users uses them.

    Args:
        allocated: Claims that have devices.
        users: uids of the pods that got no place, and of their group if none of its pods has one.

    Source: PostFilter in kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources, which takes a random one.
    """
    found = []
    for claim in allocated:
        got = claim.allocation
        tied = got is not None and (
            got.node_selector is not None or any(result.skip_node_operations for result in got.results)
        )
        if tied and all(item.uid in users for item in claim.reserved_for):
            found.append(claim)
    return tuple(found)


def _wait(ref: ClaimRef, message: str, *, quiet: bool = False) -> Unplaced:
    """A pod that can't be tried before something happens to one claim, or to the pod itself."""
    return _wait_for(str(ref), message, quiet=quiet)


def _wait_for(key: str, message: str, *, quiet: bool = False) -> Unplaced:
    return Unplaced(message=message, helps=lambda change: change.key == key, tried=False, quiet=quiet)

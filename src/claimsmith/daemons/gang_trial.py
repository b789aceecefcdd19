"""What would become of a gang in a cluster that differs by a few changes: the scheduler decides for all its pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from claimsmith.allocate.explain.changes import apply_changes
from claimsmith.allocate.explain.values import Change, ChangeOp
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.whatif.changes import AddNodes, change_snapshot, get_template
from claimsmith.allocate.whatif.trial import Placement
from claimsmith.daemons.claim_origins import find_origins
from claimsmith.daemons.trial import SchedulerTrial
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.names import ClaimRef
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import Gang

__all__ = ["GangTrial"]

_DECISIONS_MAX: Final = 60
"""Decisions after which no change is tried any more."""
_UNTRIED: Final[frozenset[ChangeOp]] = frozenset({"enable-gate", "complete-pool", "raise-quota", "change-pod"})
"""Changes that are no part of a snapshot, or of one node alone."""


class GangTrial:
    """Decides anew for a gang that has to wait.

    Args:
        seen: The cluster with the claims of the gang's pods, none of which has devices.
        gang: The gang; its pods know their claims.
        deviations: What to answer otherwise than upstream.
    """

    def __init__(self, seen: ClusterSnapshot, gang: Gang, *, deviations: frozenset[Deviation] = OURS) -> None:
        self._seen, self._gang = seen, gang
        self._trial = SchedulerTrial(deviations=deviations)
        self._origins = {ref: origin for pod in gang.waiting for ref, origin in find_origins(pod, ()).items()}
        self._own = {ref for pod in gang.waiting for ref in _list_claims(pod)}
        self._kept = {ref for pod in gang.placed for ref in _list_claims(pod)}

    def solve(self, changes: Sequence[Change]) -> tuple[str, ...]:
        """Return the nodes of the pods with the changes made for all of them; none when the gang would still wait."""
        group = self._gang.group
        if group is None or self._trial.decisions >= _DECISIONS_MAX or any(map(self._is_out, changes)):
            return ()
        changed = self._change(changes)
        found = self._trial.place_gang(changed, group, self._gang.waiting, explain=False)
        nodes = [item.pod.node_name for item in found if isinstance(item, Placement)]
        return tuple(dict.fromkeys(nodes)) if len(nodes) >= self._gang.needed else ()

    def _is_out(self, change: Change) -> bool:
        """Whether a change can't be tried, or takes from the gang itself."""
        freed = change.value if change.op == "free-claims" and isinstance(change.value, list) else []
        return change.op in _UNTRIED or any(str(ref) in freed for ref in self._own | self._kept)

    def _change(self, changes: Iterable[Change]) -> ClusterSnapshot:
        """Return the cluster with the changes."""
        seen, rest = self._seen, list[Change]()
        for change in changes:
            if change.op == "add-node":
                count = change.value if isinstance(change.value, int) else 1
                seen = change_snapshot(seen, [AddNodes(template=get_template(seen, {}, change.name), count=count)])
            else:
                rest += self._spread(change)
        wanted = tuple(claim for ref, claim in seen.claims.items() if ref in self._own and claim.allocation is None)
        held = tuple(claim for claim in seen.claims.values() if claim.allocation is not None)
        node = next(iter(seen.nodes.values()))
        problem = AllocationProblem(node=node, claims=wanted, classes=dict(seen.classes), allocated=held)
        solved = apply_changes(problem, rest)
        left = {claim.ref for claim in solved.allocated}
        freed = (replace(claim, allocation=None, reserved_for=()) for claim in held if claim.ref not in left)
        claims: list[ResourceClaim] = [*solved.claims, *freed]
        edited = {claim.ref: claim for claim in claims if seen.claims[claim.ref] is not claim}
        return replace(seen, claims={**seen.claims, **edited}, classes=solved.classes)

    def _spread(self, change: Change) -> Iterator[Change]:
        """Yield the change for each claim that is made from the same template."""
        origin = None if change.claim is None else self._origins.get(change.claim)
        if origin is None:
            yield change
            return
        for ref, other in self._origins.items():
            if other.template == origin.template:
                yield replace(change, claim=ref)


def _list_claims(pod: Pod) -> Iterator[ClaimRef]:
    names = (entry.claim_name or pod.claim_names.get(entry.name) for entry in pod.claims)
    return (ClaimRef(pod.ref.namespace, name) for name in names if name)

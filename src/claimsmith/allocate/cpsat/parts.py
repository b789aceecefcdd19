"""The parts of a batch that the model decides about: kinds of equal members, and claims that several members share."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from dataclasses import dataclass, replace

from claimsmith.allocate.cpsat.layout import Layout
from claimsmith.allocate.prepared.eligibility import RequestShape
from claimsmith.allocate.prepared.plan import ClaimPlan, PodPlan, RequestPlan
from claimsmith.model.claim import ALLOCATION_RESULTS_MAX, ResourceClaim
from claimsmith.model.names import ClaimRef

__all__ = ["Part", "Parts", "find_parts", "is_admin", "restrict"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Claims that are allocated together on one node, for one member, for each of several equal ones, or for sharers.

    Args:
        number: Place in the list of parts.
        members: Places of the members, which are all equal; for a shared claim those that have it.
        plan: The claims: those of the first member that only it has, or the shared one.
        shared: Numbers of the parts that stand for claims which the members share with others.
        claim: The shared claim that the part stands for; None for a part of members.
        nodes: Names of the nodes that are allowed.
    """

    number: int
    members: tuple[int, ...]
    plan: PodPlan
    nodes: tuple[str, ...]
    shared: tuple[int, ...] = ()
    claim: ResourceClaim | None = None

    @property
    def count(self) -> int:
        """How often the part can be placed."""
        return 1 if self.claim is not None else len(self.members)

    @property
    def shapes(self) -> frozenset[RequestShape]:
        """What its requests want."""
        return frozenset(request.shape for request in self.plan.requests)

    @property
    def is_admin(self) -> bool:
        """Whether a request looks at devices as an administrator."""
        return is_admin(self.plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All parts of a batch; those of shared claims come first.

    Args:
        left_out: Places of members that the model can't decide about, with the reason.
    """

    parts: tuple[Part, ...]
    left_out: dict[int, str]


def restrict(part: Part, nodes: Container[str]) -> Part:
    """Return the part with no other nodes than these."""
    return replace(part, nodes=tuple(name for name in part.nodes if name in nodes))


def find_parts(layout: Layout, *, apart: bool) -> Parts:
    """Return the parts of a batch.

    Args:
        apart: Keep members with claims of several devices apart, so that terms can look at each of these claims.
    """
    left_out: dict[int, str] = {}
    parts: list[Part] = []
    shared = {ref: users for ref, users in layout.users.items() if len(users) > 1}
    numbers: dict[ClaimRef, int] = {}
    for ref, users in shared.items():
        claim = next(claim for claim in layout.members[users[0]].claims if claim.ref == ref)
        plan = layout.cluster.plan((claim,))
        if plan.refusal is not None:
            left_out.update(dict.fromkeys(users, plan.refusal.text))
            continue
        nodes = dict.fromkeys(name for place in users for name in layout.allowed[place])
        numbers[ref] = len(parts)
        parts.append(Part(number=len(parts), members=users, plan=plan, claim=claim, nodes=tuple(nodes)))
    for key, places in _group_members(layout, shared, left_out, apart=apart).items():
        plan = layout.cluster.plan(_own_claims(layout, places[0], shared))
        needs = tuple(numbers[ref] for ref in _shared_claims(layout, places[0], shared))
        reason = plan.refusal.text if plan.refusal is not None else _find_obstacle(plan, needs, parts)
        if reason:
            left_out.update(dict.fromkeys(places, reason))
            continue
        del key
        nodes_of = layout.allowed[places[0]]
        parts.append(Part(number=len(parts), members=tuple(places), plan=plan, shared=needs, nodes=nodes_of))
    return Parts(parts=tuple(parts), left_out=left_out)


def is_admin(plan: PodPlan) -> bool:
    """Tell whether any request of the claims looks at devices as an administrator."""
    return any(request.shape.admin for request in plan.requests)


def _find_obstacle(plan: PodPlan, needs: Iterable[int], parts: list[Part]) -> str:
    """Why the model can't decide about a member; empty when it can."""
    shares = [parts[number] for number in needs]
    if shares and (is_admin(plan) or any(part.is_admin for part in shares)):
        return "admin access together with a claim that pods share"
    return ""


def _group_members(
    layout: Layout, shared: dict[ClaimRef, tuple[int, ...]], left_out: dict[int, str], *, apart: bool
) -> dict[Hashable, list[int]]:
    """Members by what makes them equal; those that must be looked at one by one stay alone."""
    groups: dict[Hashable, list[int]] = {}
    for place, member in enumerate(layout.members):
        if place in left_out:
            continue
        plan = layout.cluster.plan(_own_claims(layout, place, shared))
        has_shared = bool(_shared_claims(layout, place, shared))
        alone = has_shared or not all(_may_join(claim, apart=apart) for claim in plan.claims)
        key = (
            place if alone else None,
            member.priority,
            member.gang,
            layout.allowed[place],
            tuple(sorted(member.demand.items())),
            tuple(_describe_claim(claim) for claim in plan.claims),
        )
        groups.setdefault(key, []).append(place)
    return groups


def _may_join(claim: ClaimPlan, *, apart: bool) -> bool:
    """Whether equal claims can be counted instead of looked at one by one."""
    if any(constraint.kind == "distinct" for constraint in claim.constraints):
        return False
    if any(request.shape.admin or request.takes_all for request in claim.requests):
        return False
    most = sum(max((request.count for request in group.alternatives), default=0) for group in claim.groups)
    return most <= (1 if apart else ALLOCATION_RESULTS_MAX)


def _describe_claim(claim: ClaimPlan) -> Hashable:
    """What of a claim decides which devices it can have."""
    groups = tuple(
        (group.prioritized, tuple(_describe_request(request) for request in group.alternatives))
        for group in claim.groups
    )
    return (groups, tuple((constraint.kind, constraint.attribute) for constraint in claim.constraints))


def _describe_request(request: RequestPlan) -> Hashable:
    derived = tuple(sorted(request.derived.items()))
    return (request.shape, request.takes_all, request.count, request.constraints, derived)


def _own_claims(layout: Layout, place: int, shared: dict[ClaimRef, tuple[int, ...]]) -> list[ResourceClaim]:
    claims = {claim.ref: claim for claim in layout.members[place].claims if claim.allocation is None}
    return [claim for ref, claim in claims.items() if ref not in shared]


def _shared_claims(layout: Layout, place: int, shared: dict[ClaimRef, tuple[int, ...]]) -> list[ClaimRef]:
    return list(dict.fromkeys(claim.ref for claim in layout.members[place].claims if claim.ref in shared))

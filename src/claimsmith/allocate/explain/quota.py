"""Quotas that keep claims from being made: each one alone is enough to keep a pod waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from claimsmith.allocate.explain.values import Change, Explanation, Fix, NodeGroup
from claimsmith.allocate.quotas import count_claim
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.names import ClaimRef
from claimsmith.model.policy import ResourceQuota

__all__ = ["QuotaGap", "add_quotas", "find_quota_gaps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaGap:
    """A quota that claims to be made would exceed; amounts in thousandths.

    Args:
        quota: `namespace/name`.
        resource: What it counts.
        used: What the other claims of the namespace take.
        wanted: What the claims to be made would take besides.
        claims: Those of them that it counts.
    """

    quota: str
    resource: str
    hard: int
    used: int
    wanted: int
    claims: tuple[ClaimRef, ...]

    @property
    def needed(self) -> str:
        """The amount that the quota would have to allow."""
        return _format(self.used + self.wanted)

    @property
    def reason(self) -> Reason:
        """The gap as a reason."""
        names = ", ".join(map(str, self.claims))
        used, hard, wanted = _format(self.used), _format(self.hard), _format(self.wanted)
        text = f"quota {self.quota}: {used} of {hard} {self.resource} used, {wanted} more needed for claim {names}"
        data = {"quota": self.quota, "resource": self.resource, "used": used, "hard": hard, "wanted": wanted}
        return Reason(kind="quota", text=text, claim=self.claims[0] if len(self.claims) == 1 else None, data=data)


def find_quota_gaps(
    quotas: Iterable[ResourceQuota], claims: Iterable[ResourceClaim], *, others: Iterable[ResourceClaim]
) -> tuple[QuotaGap, ...]:
    """Return the quotas that claims which are still to be made would exceed.

    Args:
        claims: The claims to be made.
        others: The claims that are there.

    Source: pkg/quota/v1/evaluator/core/resource_claims.go of kubernetes v1.37.2: quotas with scopes count no claims.
    """
    wanted = tuple(claims)
    there = [claim for claim in others if claim.ref not in {item.ref for item in wanted}]
    return tuple(gap for quota in quotas if not quota.scopes for gap in _find_gaps(quota, wanted, there))


def _find_gaps(
    quota: ResourceQuota, wanted: tuple[ResourceClaim, ...], there: list[ResourceClaim]
) -> Iterator[QuotaGap]:
    namespace = quota.metadata.namespace
    used: Counter[str] = Counter()
    for claim in there:
        if claim.metadata.namespace == namespace:
            used.update(count_claim(claim.spec))
    counts = {claim.ref: count_claim(claim.spec) for claim in wanted if claim.metadata.namespace == namespace}
    for resource, hard in sorted(quota.hard.items()):
        takers = {ref: counted[resource] for ref, counted in counts.items() if counted.get(resource)}
        total = sum(takers.values())
        if total and used[resource] + total > hard.milli_value():
            yield QuotaGap(
                quota=str(quota.ref),
                resource=resource,
                hard=hard.milli_value(),
                used=used[resource],
                wanted=total,
                claims=tuple(takers),
            )


def add_quotas(explanation: Explanation, gaps: Iterable[QuotaGap]) -> Explanation:
    """Return an explanation of claims that quotas keep from being made.

    Args:
        explanation: What would become of the claims if they were made.
        gaps: At least one.
    """
    found = tuple(gaps)
    raised = tuple(
        Change(op="raise-quota", name=quota, value=dict(amounts)) for quota, amounts in _by_quota(found).items()
    )
    text = "; and ".join(f"raise {gap.resource} of quota {gap.quota} to {gap.needed}" for gap in found)
    if explanation.fits:
        fixes: tuple[Fix, ...] = (Fix(text=text, nodes=explanation.fits, changes=raised),)
    else:
        fixes = tuple(
            replace(fix, text=f"{text}; and {fix.text}", changes=(*raised, *fix.changes), choices=())
            for fix in explanation.fixes
        )
    groups = tuple(NodeGroup(nodes=(), reasons=(gap.reason,)) for gap in found)
    return replace(explanation, groups=(*groups, *explanation.groups), fixes=fixes, fits=())


def _by_quota(gaps: Iterable[QuotaGap]) -> Mapping[str, dict[str, str]]:
    amounts: dict[str, dict[str, str]] = {}
    for gap in gaps:
        amounts.setdefault(gap.quota, {})[gap.resource] = gap.needed
    return amounts


def _format(milli: int) -> str:
    return f"{milli // 1000}" if milli % 1000 == 0 else f"{milli}m"

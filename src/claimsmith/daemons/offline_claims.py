"""The claims of pods in a cluster without controllers: made from templates, as far as quotas allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from claimsmith.allocate.explain.quota import QuotaGap, find_quota_gaps
from claimsmith.cluster.cache import ClusterCache
from claimsmith.daemons.made_claims import find_missing_template, plan_made_claims
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.workload import Pod
from claimsmith.schedule.gangs import find_group_ref

__all__ = ["ClaimMaker", "MadeClaims"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeClaims:
    """The claims that were made for a pod, or that can't be made.

    Args:
        pod: The pod, which knows its claims.
        claims: Those that are new.
        gaps: The quotas that keep all of them from being made; none when they are made.
    """

    pod: Pod
    claims: tuple[ResourceClaim, ...] = ()
    gaps: tuple[QuotaGap, ...] = ()


class ClaimMaker:
    """Makes claims in a cache, as the claim controller and the API server do in a cluster.

    Args:
        cache: The cluster.
    """

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def make(self, pod: Pod) -> MadeClaims:
        """Make the claims that a pod wants from templates, all of them or none."""
        ref = find_group_ref(pod)
        group = self._cache.groups.get(ref) if ref is not None else None
        templates = self._cache.snapshot().templates
        pod, claims = plan_made_claims(pod, group, templates=templates, find_claim=self._cache.claims.find)
        gaps = self.find_gaps(claims)
        if not gaps:
            self._see(claims)
        return MadeClaims(pod=pod, claims=claims, gaps=gaps)

    def find_gaps(self, claims: Iterable[ResourceClaim]) -> tuple[QuotaGap, ...]:
        """Return the quotas that claims to be made would exceed together."""
        seen = self._cache.snapshot()
        return find_quota_gaps(seen.quotas, claims, others=seen.claims.values())

    def find_missing_template(self, pod: Pod) -> str:
        """Return what to say of a claim that can't be made for want of its template; empty when all can be made."""
        return find_missing_template(pod, self._cache.snapshot().templates)

    def unmake(self, claims: Iterable[ResourceClaim]) -> None:
        """Take claims away that were made."""
        for claim in claims:
            self._cache.see_claim(claim, None)

    @contextmanager
    def as_if_made(self, claims: Iterable[ResourceClaim]) -> Iterator[None]:
        """Have claims be there while the context is open, whatever the quotas."""
        made = [claim for claim in claims if self._cache.claims.find(claim.ref) is None]
        self._see(made)
        try:
            yield
        finally:
            self.unmake(made)

    def _see(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            self._cache.see_claim(None, claim)

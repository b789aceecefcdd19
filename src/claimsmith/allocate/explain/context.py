"""What is known of claims beside the cluster: where they come from, and who waits with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.explain.values import Change
from claimsmith.model.names import ClaimRef

__all__ = ["ALONE", "OTHERS", "ExplainContext", "Origin", "SolveGang"]

OTHERS: Final = "the other pods of the gang"
"""Who holds devices in thought."""
SolveGang = Callable[[Sequence[Change]], tuple[str, ...]]
"""Gives the nodes of a gang's pods in the cluster with some changes; none when it would have to wait still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a claim comes from that was made from a template: its spec can't be changed but by the template.

    Args:
        template: Namespace and name of the ResourceClaimTemplate.
        owner: For whom it was made, who has to be made anew to get another one: `pod train-0`.
        is_made: It is there, rather than about to be made.
    """

    template: ClaimRef
    owner: str
    is_made: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainContext:
    """What is known of the claims beside the cluster.

    Args:
        beside: Claims that hold devices only in thought, for other pods of the same gang.
        origins: Where claims come from that were made from templates.
    """

    beside: frozenset[ClaimRef] = frozenset()
    origins: Mapping[ClaimRef, Origin] = field(default_factory=dict)

    def name_claim(self, claim: ClaimRef) -> str:
        """Return what has to be edited to change the spec of a claim."""
        origin = self.origins.get(claim)
        return f"claim {claim}" if origin is None else f"ResourceClaimTemplate {origin.template}"

    def name_holder(self, claim: ClaimRef | None) -> str:
        """Return who holds a device."""
        if claim is None:
            return "a claim that is not known"
        return OTHERS if claim in self.beside else str(claim)


ALONE: Final = ExplainContext()
"""Claims of which nothing more is known."""

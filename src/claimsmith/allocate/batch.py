"""What is decided together: members of a batch, gangs among them, and the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.errors import FieldError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Decision

__all__ = ["Batch", "Gang", "JointDecision", "JointLimits", "Member"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod of a batch, as far as devices and room on nodes go.

    Args:
        name: Tells the members of a batch apart, e.g. `namespace/pod`.
        claims: In the order of the pod's `spec.resourceClaims`. One that has an allocation keeps it, and ties the
            member to the nodes of that allocation. A claim that several members have is allocated once.
        priority: A member of a higher priority is worth more than any number of lower ones.
        nodes: Names of the nodes that are allowed; None for all.
        demand: What the member takes of a node besides devices, by resource name, in nano units.
        gang: Name of the gang that it belongs to; empty for none.
    """

    name: str
    claims: tuple[ResourceClaim, ...] = ()
    priority: int = 0
    nodes: frozenset[str] | None = None
    demand: Mapping[str, int] = field(default_factory=dict)
    gang: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Members of which at least so many are placed, or none.

    Args:
        min_count: Fewest members that are of use; >= 1.
        close_by: Label of nodes in which its members should agree: part of the policies' `closeness`; empty for none.
    """

    name: str
    min_count: int
    close_by: str = ""

    def __post_init__(self) -> None:
        if self.min_count < 1:
            hint = "give the number of pods without which the others are of no use"
            raise FieldError(f"gang {self.name!r}: minCount", self.min_count, allowed=">= 1", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What is to be decided together.

    Args:
        members: In the order in which they came: of equal ones the first is served first.
        free: Room on each node by resource name, in nano units; None when room doesn't count. A node, or a resource,
            that is not named has none.

    Raises:
        FieldError: A name of a member or a gang stands twice, or a member names a gang that is not there.
    """

    members: tuple[Member, ...]
    gangs: tuple[Gang, ...] = ()
    free: Mapping[str, Mapping[str, int]] | None = None

    def __post_init__(self) -> None:
        for what, names in (("members", [m.name for m in self.members]), ("gangs", [g.name for g in self.gangs])):
            for name, count in Counter(names).items():
                if count > 1:
                    hint = f"give the {what} names of their own"
                    raise FieldError(f"batch: {what} named {name!r}", count, allowed="1", hint=hint)
        known = {gang.name for gang in self.gangs}
        for member in self.members:
            if member.gang and member.gang not in known:
                allowed = f"one of {', '.join(sorted(known))}" if known else "no gang"
                hint = "list the gang with its minCount"
                raise FieldError(f"batch: member {member.name!r}: gang", member.gang, allowed=allowed, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLimits:
    """When a joint allocation is content with what it has.

    Args:
        search: For each search on one node.
        solver_effort: How much the solver may think in all, in its own deterministic seconds: each of them takes some
            seconds of one core, the default about one. No clock is read, so that answers are the same in every run.
            0: search alone decides.
        seed: Another number may lead to another one of equally good answers, or to another gap.
        nodes_max: Nodes that the solver looks at; beyond that those with fewest devices of use are left to search.
    """

    search: SearchLimits = field(default_factory=lambda: SearchLimits(budget_steps=100_000))
    solver_effort: float = 0.15
    seed: int = 0
    nodes_max: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class JointDecision:
    """The answer for a batch.

    Args:
        decisions: By member name, in the order of the members. The results of an `Allocation` follow the member's
            claims; one of a claim that several members have is the same in each.
        status: optimal: no answer is better in any term of the objective. feasible: the solver could not prove that;
            `bound` says how much better an answer could be at most. searched: search alone decided.
        objective: Each term with its value, the most important first: members placed by priority (more is better),
            then the policy's terms (less is better).
        bound: The best value that a term could have with the earlier ones as they are, for the first terms of which
            it is known; the last of them may be open, the others are reached.
        decided_by: Who found the answer; cpsat also where the solver proved that search's can't be bettered.
        reason: Why search decided; empty where the solver did.
        unmodelled: What the solver's model leaves out or narrows, so that it proves nothing about it.
        fallbacks: Answers of the solver that could not be turned into allocations or failed the independent check;
            each is a fault of ours, and was not used.
        solver_effort: What the solver has used, in deterministic seconds.
    """

    decisions: Mapping[str, Decision]
    status: Literal["optimal", "feasible", "searched"]
    objective: tuple[tuple[str, int], ...]
    bound: tuple[tuple[str, int], ...] = ()
    decided_by: Literal["cpsat", "search"] = "search"
    reason: str = ""
    unmodelled: tuple[str, ...] = ()
    fallbacks: int = 0
    solver_effort: float = 0.0

"""What an explanation is: reasons grouped over nodes, and fixes that are known to help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from claimsmith.model.decision import Reason
from claimsmith.model.names import ClaimRef

__all__ = ["Change", "ChangeOp", "Explanation", "Fix", "NodeGroup"]

ChangeOp = Literal[
    "set-selectors", "set-class-selectors", "remove-constraint", "free-claims", "tolerate", "set-count", "set-capacity",
    "set-class", "complete-pool", "enable-gate", "add-node", "raise-quota", "set-min-count", "change-pod",
    "rename-capacity",
]  # fmt: skip
"""What a change does; `change-pod` is told in words alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change, in a form that a program can carry out.

    Args:
        claim, request: The claim, and `request` or `request/subrequest` of it, that is changed; None and empty when it
            is about something else.
        name: The class, capacity, pool, gate, node or quota that it is about; empty when it is about nothing of a name.
        value: The new value, as JSON.
        template: The ResourceClaimTemplate that the claim was made from, which has to be changed in its place.
    """

    op: ChangeOp
    claim: ClaimRef | None = None
    request: str = ""
    name: str = ""
    value: object = None
    template: ClaimRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """Something that helps; found out by solving again.

    Args:
        text: For people: `relax … to … >= 24Gi`.
        nodes: Names of the nodes on which everything fits then; the node that is added has none.
        changes: What to do, all of it.
        choices: Single changes of which each one alone does the same as `changes`.
    """

    text: str
    nodes: tuple[str, ...]
    changes: tuple[Change, ...]
    choices: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes that can't serve the claims for the same reasons.

    Args:
        nodes: Their names, in order; empty when the reasons hold whatever the node.
        reasons: As they are on the first of the nodes; on the others devices and holders have other names.
        is_irreducible: Whether it is known that with any one of the reasons gone, and everything else that could speak
            against the claims too, they would fit.
        note: Why that is not known; empty when it is.
    """

    nodes: tuple[str, ...]
    reasons: tuple[Reason, ...]
    is_irreducible: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why something is pending.

    Args:
        node_count: How many nodes were looked at.
        groups: The largest first.
        fixes: The nearest first.
        fits: Nodes on which the claims fit after all.
        searches: How often was searched for devices.
    """

    node_count: int
    groups: tuple[NodeGroup, ...] = ()
    fixes: tuple[Fix, ...] = ()
    fits: tuple[str, ...] = ()
    searches: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_irreducible(self) -> bool:
        """Whether every set of reasons is known to be irreducible."""
        return all(group.is_irreducible for group in self.groups)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons of all groups, each with the first of its nodes."""
        return tuple(reason for group in self.groups for reason in group.reasons)

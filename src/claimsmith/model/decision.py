"""What the allocator decides: devices, or the reasons why not.

`Pending` is a value, not an error: the claims don't fit. `Undecided` means that the search gave up; it must never be
taken for `Pending` nor be cached. `Refused` means that no search can help: the claims themselves, or the state of the
pools, forbid an answer (upstream aborts the pod).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from claimsmith.model.claim import AllocationResult
from claimsmith.model.names import ClaimRef, DeviceId

__all__ = [
    "Allocation",
    "Decision",
    "DecisionWarning",
    "Pending",
    "Reason",
    "ReasonKind",
    "Refused",
    "RefusedKind",
    "Undecided",
]

ReasonKind = Literal[
    "node",
    "no-class",
    "class-selector",
    "selector",
    "selector-error",
    "taint",
    "in-use",
    "counter",
    "capacity",
    "constraint",
    "count",
    "pool-incomplete",
    "pool-invalid",
    "pool-obsolete",
    "binding-conditions",
    "node-operations",
    "compatibility-group",
    "claim-full",
    "resources",
    "claim-missing",
    "feature-off",
    "quota",
    "gang",
]

RefusedKind = Literal[
    "limit",
    "no-class",
    "feature-off",
    "all-incomplete-pool",
    "all-invalid-pool",
    "invalid-pool",
    "all-constraint",
    "cel-runtime",
    "cel-compile",
    "derived-runtime",
    "derived-compile",
    "capacity",
    "node-selector",
    "invalid-claim",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason why devices (or a whole node) did not serve a request.

    Args:
        kind: Which rule.
        text: One sentence for people, e.g. `selector device.capacity[...] > 10Gi is false`.
        node: Node on which it holds; empty for all.
        claim, request: What was asked; None and empty when it is about the node or a pool as such.
        devices: Devices that fell to this reason, in order.
        data: Parts for machines: expression, counter, holder, left, needed …
    """

    kind: ReasonKind
    text: str
    node: str = ""
    claim: ClaimRef | None = None
    request: str = ""
    devices: tuple[DeviceId, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionWarning:
    """Something that the answer had to step around, e.g. a device whose attributes a selector can't read."""

    kind: str
    text: str
    devices: tuple[DeviceId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """Devices for all claims, in the order of the claims."""

    node: str
    results: tuple[AllocationResult, ...]
    steps: int = 0
    warnings: tuple[DecisionWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The claims don't fit (on the node, or on any)."""

    node: str = ""
    reasons: tuple[Reason, ...] = ()
    steps: int = 0
    warnings: tuple[DecisionWarning, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """No search was possible.

    Args:
        node_only: True when other nodes may still give an answer.
    """

    kind: RefusedKind
    text: str
    node: str = ""
    node_only: bool = False
    claim: ClaimRef | None = None
    request: str = ""
    devices: tuple[DeviceId, ...] = ()
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """The search used up its budget, or was told to stop."""

    node: str = ""
    steps: int = 0


Decision = Allocation | Pending | Refused | Undecided

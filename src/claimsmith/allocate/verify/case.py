"""What is checked, and what a check finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.deviations import OURS, Deviation
from claimsmith.model.features import Features
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice

__all__ = ["VerifyCase", "Violation", "is_experimental", "is_stable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCase:
    """The problem that an allocation is the answer of.

    Args:
        claims: The claims allocated together, in order.
        slices: All slices of the cluster, with DeviceTaintRules merged in.
        allocated: Claims that held devices before.
        taken: Devices held as a whole besides those.
        shared: Devices of which shares are held besides those, with what the shares take of each capacity in nano
            units.
        deviations: What the answer may do otherwise than upstream.
        history: Slices that are no longer published; they tell what devices in use consume that have vanished.
    """

    node: Node
    claims: tuple[ResourceClaim, ...]
    slices: tuple[ResourceSlice, ...]
    classes: Mapping[str, DeviceClass]
    allocated: tuple[ResourceClaim, ...] = ()
    taken: frozenset[DeviceId] = frozenset()
    shared: Mapping[DeviceId, Mapping[str, int]] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    deviations: frozenset[Deviation] = OURS
    history: tuple[ResourceSlice, ...] = ()

    @property
    def gathers_like_stable(self) -> bool:
        """Whether pools are gathered as upstream's stable implementation does: counter slices count on every node."""
        return is_stable(self.features) and Deviation.STABLE_POOLS not in self.deviations


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken rule.

    Args:
        rule: Short name of the rule, e.g. `in-use`.
        text: What was found and what is allowed.
    """

    rule: str
    text: str
    claim: ClaimRef
    device: DeviceId | None = None

    def __str__(self) -> str:
        where = f" {self.device}" if self.device else ""
        return f"{self.claim}{where}: {self.rule}: {self.text}"


def is_experimental(features: Features) -> bool:
    """Tell whether upstream's experimental implementation serves the gates."""
    return any(
        (
            features.list_type_attributes,
            features.optional_node_operations,
            features.derived_attributes,
            features.compatibility_groups,
        )
    )


def is_stable(features: Features) -> bool:
    """Tell whether upstream's stable implementation serves the gates.

    It doesn't tell selectors whether a device allows several allocations, and gathers pools in its own way.
    """
    newer = (
        features.device_binding_and_status,
        features.consumable_capacity,
        features.fractional_capacity_range,
    )
    return not (is_experimental(features) or any(newer))

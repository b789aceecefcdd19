"""One allocation problem as a value: everything that an answer for one node depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from claimsmith.allocate.prepared.usage import AllocatedState
from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.device import Device
from claimsmith.model.features import Features
from claimsmith.model.node import Node
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["AllocationProblem", "build_problem", "merge_taint_rules"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationProblem:
    """Claims to allocate together on one node.

    Args:
        claims: Claims without allocation, in the order of the pod's `spec.resourceClaims`.
        slices: All slices of the cluster in list order, with DeviceTaintRules merged in.
        allocated: Claims that hold devices.
        state: Uses besides those of `allocated`, for callers that know devices instead of claims.
        history: Slices that are no longer published. They tell what devices in use consume that have vanished.
    """

    node: Node
    claims: tuple[ResourceClaim, ...]
    slices: tuple[ResourceSlice, ...] = ()
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    allocated: tuple[ResourceClaim, ...] = ()
    state: AllocatedState = field(default_factory=AllocatedState)
    features: Features = field(default_factory=Features)
    history: tuple[ResourceSlice, ...] = ()


def build_problem(
    snapshot: ClusterSnapshot, claims: Iterable[ResourceClaim], *, node: Node, features: Features | None = None
) -> AllocationProblem:
    """Return the problem of allocating claims on one node of a cluster."""
    gates = features or Features()
    return AllocationProblem(
        node=node,
        claims=tuple(claims),
        slices=merge_taint_rules(snapshot.slices, snapshot.taint_rules),
        classes=snapshot.classes,
        allocated=snapshot.allocated_claims(),
        features=gates,
    )


def merge_taint_rules(slices: tuple[ResourceSlice, ...], rules: Iterable[DeviceTaintRule]) -> tuple[ResourceSlice, ...]:
    """Return the slices with each rule's taint appended to the devices that it selects.

    A rule without a device selector selects nothing; an empty selector selects every device.

    Source: resourceslice/tracker in k8s.io/dynamic-resource-allocation v0.37.2.
    """
    active = [rule for rule in rules if rule.selects]
    return tuple(merge_taints(slice, active) for slice in slices) if active else slices


def merge_taints(slice: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return one slice with the rules' taints; the slice itself when no rule is for it."""
    matching = [
        rule
        for rule in rules
        if rule.selects and rule.driver in (None, slice.driver) and rule.pool in (None, slice.pool)
    ]
    if not matching:
        return slice
    return replace(slice, devices=tuple(_taint(device, matching) for device in slice.devices))


def _taint(device: Device, rules: list[DeviceTaintRule]) -> Device:
    added = tuple(rule.taint for rule in rules if rule.device in (None, device.name))
    return replace(device, taints=device.taints + added) if added else device

"""Recorded lines as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from claimsmith.allocate.prepared.eligibility import is_experimental, is_stable
from claimsmith.allocate.prepared.problem import merge_taint_rules
from claimsmith.allocate.prepared.usage import AllocatedState, DeviceUse
from claimsmith.api.core import parse_node
from claimsmith.api.resource import (
    parse_device_class,
    parse_device_taint_rule,
    parse_resource_claim,
    parse_resource_slice,
)
from claimsmith.errors import FieldError
from claimsmith.model.claim import DeviceClass, ResourceClaim
from claimsmith.model.features import Features
from claimsmith.model.names import DeviceId
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.quantity import parse_quantity

__all__ = ["RecordedProblem", "get_field", "parse_features", "parse_problem"]

_ALLOWED: Final = frozenset(
    {
        "name", "features", "node", "nodes", "classes", "slices", "taintRules", "allocatedClaims", "allocated",
        "claims", "sequence", "sequenceNodes", "results", "error", "tags", "meta", "upstream", "state",
        "implementation",
    }
)  # fmt: skip
_SETS: Final = {
    "all": Features.all(),
    "none": Features.none(),
    "default": replace(Features(), fractional_capacity_range=True),
    "stable": replace(
        Features.none(), admin_access=True, prioritized_list=True, partitionable_devices=True, device_taints=True
    ),
}
"""Sets of gates by the names that the recordings use."""
_LOCKED_ON: Final = frozenset({"DRAResourceClaimDeviceStatus"})
"""Gates of the table that can't be off any more, so that they are no gates of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProblem:
    """What upstream was asked.

    Args:
        nodes: Each is asked on its own.
        slices: With DeviceTaintRules merged in.
        allocated: Claims that hold devices.
        state: Devices and shares in use besides those, where it is not known which claims hold them.
        claims: Claims of one pod; empty for a sequence.
        sequence: Claims of pods that come one after the other.
        sequence_nodes: Names of the nodes allowed for each pod; empty for all.
    """

    name: str
    features: Features
    nodes: tuple[Node, ...]
    classes: Mapping[str, DeviceClass]
    slices: tuple[ResourceSlice, ...]
    allocated: tuple[ResourceClaim, ...]
    state: AllocatedState
    claims: tuple[ResourceClaim, ...]
    sequence: tuple[tuple[ResourceClaim, ...], ...]
    sequence_nodes: tuple[tuple[str, ...], ...]


def get_field(record: Mapping[str, Any], key: str, kind: type | tuple[type, ...]) -> Any:
    """Return a field of a record.

    Raises:
        FieldError: It is absent or of another type.
    """
    value = record.get(key)
    if not isinstance(value, kind):
        raise FieldError(key, value, allowed=str(kind), hint="record the case anew")
    return value


def parse_features(value: object) -> Features:
    """Return the gates of a record: the name of a set, names of gates, or gates with their state.

    Raises:
        FieldError: A name is not known.
    """
    if isinstance(value, str) and value in _SETS:
        return _SETS[value]
    if isinstance(value, list):
        gates = (gate for text in value for gate in str(text).split("+") if gate not in _LOCKED_ON)
        return Features.parse(dict.fromkeys(gates, True))
    if isinstance(value, dict) and all(isinstance(on, bool) for on in value.values()):
        return Features.parse(value)
    raise FieldError("features", value, allowed=f"one of {', '.join(_SETS)}, or gates", hint="record the case anew")


def parse_problem(record: Mapping[str, Any]) -> RecordedProblem:
    """Return the problem of a record.

    Raises:
        InputError: Something in it is not understood.
    """
    if unknown := sorted(set(record) - _ALLOWED):
        raise FieldError(unknown[0], record[unknown[0]], allowed="no such field", hint="teach the reader this field")
    nodes = ([record["node"]] if record.get("node") else []) + list(record.get("nodes") or [])
    slices = tuple(parse_resource_slice(item) for item in record.get("slices") or [])
    classes = [parse_device_class(item) for item in record.get("classes") or []]
    return RecordedProblem(
        name=get_field(record, "name", str),
        features=_select(parse_features(record.get("features", "default")), record.get("implementation")),
        nodes=tuple(parse_node(item) for item in nodes),
        classes={item.name: item for item in classes},
        slices=merge_taint_rules(slices, [parse_device_taint_rule(item) for item in record.get("taintRules") or []]),
        allocated=_parse_claims(record.get("allocatedClaims")),
        state=_parse_state({"devices": record.get("allocated")} | (record.get("state") or {})),
        claims=_parse_claims(record.get("claims")),
        sequence=tuple(_parse_claims(step) for step in record.get("sequence") or []),
        sequence_nodes=tuple(tuple(names) for names in record.get("sequenceNodes") or []),
    )


def _parse_claims(items: list[dict[str, Any]] | None) -> tuple[ResourceClaim, ...]:
    return tuple(parse_resource_claim(item) for item in items or [])


def _select(features: Features, implementation: str | None) -> Features:
    """Return gates that select the implementation which was asked: one more is on if need be, which changes no answer.

    Without ConsumableCapacity nothing reads FractionalCapacityRange, and a claim whose gates are off derives nothing.
    """
    if implementation == "incubating" and is_stable(features):
        return replace(features, fractional_capacity_range=True)
    if implementation == "experimental" and not is_experimental(features):
        return replace(features, derived_attributes=True)
    return features


def _parse_state(state: Mapping[str, Any]) -> AllocatedState:
    """Return upstream's allocated state: whole devices, shares (with their ids) and capacity taken by all shares."""
    if unknown := sorted(set(state) - {"devices", "shares", "capacity"}):
        raise FieldError(unknown[0], state[unknown[0]], allowed="no such field", hint="teach the reader this field")
    whole = {_parse_device(text) for text in state.get("devices") or []}
    shares = Counter(_parse_device(text.rpartition("/")[0]) for text in state.get("shares") or [])
    capacity = {_parse_device(text): amounts for text, amounts in (state.get("capacity") or {}).items()}
    uses = {
        device: DeviceUse(
            dedicated=device in whole,
            shares=shares[device] or int(device in capacity),
            consumed={name: parse_quantity(text).nanos for name, text in capacity.get(device, {}).items()},
            tracked=device in capacity,
        )
        for device in {*whole, *shares, *capacity}
    }
    return AllocatedState(uses=uses)


def _parse_device(text: str) -> DeviceId:
    parts = text.split("/")
    if len(parts) < 3:
        raise FieldError("allocated", text, allowed="driver/pool/device", hint="record the case anew")
    return DeviceId(parts[0], "/".join(parts[1:-1]), parts[-1])

"""Parts that many kinds share: object metadata, conditions, node selectors, quantities."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from claimsmith.api.wire import core_selection, meta
from claimsmith.api.wire.base import Quantity as WireQuantity
from claimsmith.model.metadata import Metadata, OwnerReference
from claimsmith.model.quantity import Quantity, parse_quantity
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

__all__ = [
    "encode_conditions",
    "encode_metadata",
    "encode_node_selector",
    "encode_quantities",
    "parse_conditions",
    "parse_metadata",
    "parse_node_selector",
    "parse_quantities",
    "read_quantity",
]


def parse_metadata(wire: meta.ObjectMeta) -> Metadata:
    """Return the metadata of an object; managed fields are left to the server."""
    return Metadata(
        name=wire.name or "",
        namespace=wire.namespace or "",
        generate_name=wire.generate_name or "",
        uid=wire.uid or "",
        resource_version=wire.resource_version or "",
        generation=wire.generation or 0,
        creation_timestamp=wire.creation_timestamp,
        deletion_timestamp=wire.deletion_timestamp,
        labels=wire.labels or {},
        annotations=wire.annotations or {},
        finalizers=tuple(wire.finalizers or ()),
        owner_references=tuple(_parse_owner(owner) for owner in wire.owner_references or ()),
    )


def _parse_owner(wire: meta.OwnerReference) -> OwnerReference:
    return OwnerReference(
        api_version=wire.api_version,
        kind=wire.kind,
        name=wire.name,
        uid=wire.uid,
        controller=bool(wire.controller),
        block_owner_deletion=bool(wire.block_owner_deletion),
    )


def encode_metadata(value: Metadata) -> meta.ObjectMeta:
    """Return the wire form of metadata; what is empty is left out."""
    owners = [
        meta.OwnerReference(
            api_version=owner.api_version,
            kind=owner.kind,
            name=owner.name,
            uid=owner.uid,
            controller=owner.controller or None,
            block_owner_deletion=owner.block_owner_deletion or None,
        )
        for owner in value.owner_references
    ]
    return meta.ObjectMeta(
        name=value.name or None,
        namespace=value.namespace or None,
        generate_name=value.generate_name or None,
        uid=value.uid or None,
        resource_version=value.resource_version or None,
        generation=value.generation or None,
        creation_timestamp=value.creation_timestamp,
        deletion_timestamp=value.deletion_timestamp,
        labels=dict(value.labels) or None,
        annotations=dict(value.annotations) or None,
        finalizers=list(value.finalizers) or None,
        owner_references=owners or None,
    )


def parse_conditions(wire: list[meta.Condition] | None) -> tuple[Mapping[str, object], ...]:
    """Return the conditions of a status, each with the fields that it has."""
    return tuple(msgspec.to_builtins(condition) for condition in wire or ())


def encode_conditions(values: tuple[Mapping[str, object], ...]) -> list[meta.Condition] | None:
    """Return the wire form of the conditions of a status; None for none.

    Raises:
        msgspec.ValidationError: A condition has a field of a wrong type.
    """
    return [msgspec.convert(entry, meta.Condition) for entry in values] or None


def parse_node_selector(wire: core_selection.NodeSelector) -> NodeSelector:
    """Return a node selector."""
    return NodeSelector(
        terms=tuple(
            NodeSelectorTerm(
                match_expressions=_parse_requirements(term.match_expressions),
                match_fields=_parse_requirements(term.match_fields),
            )
            for term in wire.node_selector_terms
        )
    )


def _parse_requirements(
    wire: list[core_selection.NodeSelectorRequirement] | None,
) -> tuple[NodeSelectorRequirement, ...]:
    return tuple(
        NodeSelectorRequirement(key=entry.key, operator=entry.operator, values=tuple(entry.values or ()))
        for entry in wire or ()
    )


def encode_node_selector(value: NodeSelector) -> core_selection.NodeSelector:
    """Return the wire form of a node selector."""
    return core_selection.NodeSelector(
        node_selector_terms=[
            core_selection.NodeSelectorTerm(
                match_expressions=_encode_requirements(term.match_expressions),
                match_fields=_encode_requirements(term.match_fields),
            )
            for term in value.terms
        ]
    )


def _encode_requirements(
    values: tuple[NodeSelectorRequirement, ...],
) -> list[core_selection.NodeSelectorRequirement] | None:
    return [
        core_selection.NodeSelectorRequirement(
            key=entry.key, operator=entry.operator, values=list(entry.values) or None
        )
        for entry in values
    ] or None


def read_quantity(wire: WireQuantity) -> Quantity:
    """Return a quantity; a bare JSON number counts as its own text.

    Raises:
        QuantityFormatError: The text is no quantity.
    """
    return parse_quantity(wire if isinstance(wire, str) else str(wire))


def parse_quantities(wire: Mapping[str, WireQuantity] | None) -> dict[str, Quantity]:
    """Return amounts by name; empty when the field is absent.

    Raises:
        QuantityFormatError: One of the texts is no quantity.
    """
    return {name: read_quantity(amount) for name, amount in wire.items()} if wire else {}


def encode_quantities(values: Mapping[str, Quantity]) -> dict[str, WireQuantity]:
    """Return amounts as text by name."""
    return {name: str(amount) for name, amount in values.items()}

"""Claims that several members of a batch share: allocated once, on a node of one of them, and a bond for the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from claimsmith.allocate.cpsat.linear import add_up
from claimsmith.allocate.cpsat.model import PlacementModel, Use
from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.cpsat.patterns import BatchKind
from claimsmith.allocate.prepared.node_selector import matches_node
from claimsmith.model.node import Node

__all__ = ["add_sharing"]


def add_sharing(model: PlacementModel) -> None:
    """Tie the members that share a claim to the nodes that reach what it gets, and the claim to one of their nodes."""
    parts = tuple(model.parts.values())
    for part in parts:
        if part.claim is not None:
            sharers = [other for other in parts if part.number in other.shared]
            _tie_claim(model, part, sharers)
            for other in sharers:
                _tie_member(model, part, other)


def _tie_claim(model: PlacementModel, part: Part, sharers: Iterable[Part]) -> None:
    """The claim is allocated only on a node that one of its members goes to."""
    for node, variable in model.placed[part.number].items():
        there = [placed for other in sharers if (placed := model.placed[other.number].get(node)) is not None]
        model.linear.add_row({variable: 1} | dict.fromkeys(there, -1), upper=0)


def _tie_member(model: PlacementModel, part: Part, other: Part) -> None:
    """A member is placed only with the claim, and only where the claim's devices can be reached."""
    model.linear.add_row(add_up([(model.total(other), 1), (model.total(part), -1)]), upper=0)
    local, wide = _find_bonds(model, part)
    for node, variable in model.placed[other.number].items():
        elsewhere = dict.fromkeys((used for home, used in local.items() if home != node), 1)
        model.linear.add_row({variable: 1} | elsewhere, upper=1)
        for kind, used in wide.items():
            if not _reaches(kind, model.layout.nodes[node]):
                model.linear.add_row({variable: 1, used: 1}, upper=1)


def _find_bonds(model: PlacementModel, part: Part) -> tuple[Mapping[str, int], Mapping[BatchKind, int]]:
    """Variables that tell whether the claim is bound to a node, and whether it has devices of a kind for some nodes."""
    local: dict[str, list[Use]] = defaultdict(list)
    wide: dict[BatchKind, list[Use]] = defaultdict(list)
    for use in model.uses:
        if use.part is not part:
            continue
        if use.kind.node or use.kind.first.device.binds_to_node:
            local[use.node].append(use)
        else:
            wide[use.kind].append(use)
    return (
        {node: _add_flag(model, uses) for node, uses in local.items()},
        {kind: _add_flag(model, uses) for kind, uses in wide.items()},
    )


def _add_flag(model: PlacementModel, uses: Iterable[Use]) -> int:
    """Return a variable that is 1 when any of the uses is made."""
    total = add_up((use.expression, 1) for use in uses)
    flag = model.linear.add_variable(1)
    model.linear.add_row(total | {flag: -model.linear.find_range(total)[1]}, upper=0)
    return flag


def _reaches(kind: BatchKind, node: Node) -> bool:
    """Whether a claim that has the devices can be used on the node."""
    record = kind.first
    target = record.device if record.slice.per_device_node_selection else record.slice
    return target.node_selector is None or matches_node(target.node_selector, node)

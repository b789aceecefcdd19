"""Short ways to ask the independent checker in tests: hand-made allocations, answers as names of rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.verify import VerifyCase, Violation, verify_allocation
from claimsmith.model.claim import AllocationConfig, AllocationResult, DeviceClass, DeviceResult, ResourceClaim
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.topology import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from claimsmith.testing.builders import NODE, node, result

HERE = NodeSelector(
    terms=(
        NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(NODE,)),)),
    )
)
"""The node selector of an allocation of devices that only the default node has."""

SHARE_1, SHARE_2 = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"

Scene = ResourceSlice | DeviceClass | ResourceClaim


def granted(
    *devices: DeviceResult | str,
    selector: NodeSelector | None = HERE,
    config: Iterable[AllocationConfig] = (),
) -> AllocationResult:
    """Return what a claim got; text names a device of the default pool for request `r`."""
    results = tuple(result(item) if isinstance(item, str) else item for item in devices)
    return AllocationResult(results=results, node_selector=selector, config=tuple(config))


def find_broken(asked: AllocationProblem, *allocations: AllocationResult, like_upstream: bool = False) -> list[str]:
    """Return the names of the rules that the allocations break, each once, in the order in which they are found."""
    found = _verify(asked, allocations, LIKE_UPSTREAM if like_upstream else OURS)
    return list(dict.fromkeys(violation.rule for violation in found))


def find_texts(asked: AllocationProblem, *allocations: AllocationResult) -> list[str]:
    """Return what the checker says of the allocations."""
    return [str(violation) for violation in _verify(asked, allocations)]


def _verify(
    asked: AllocationProblem, allocations: Sequence[AllocationResult], deviations: frozenset[Deviation] = OURS
) -> tuple[Violation, ...]:
    case = VerifyCase(
        node=asked.node,
        claims=asked.claims,
        slices=asked.slices,
        classes=asked.classes,
        allocated=asked.allocated,
        features=asked.features,
        deviations=deviations,
        history=asked.history,
    )
    return verify_allocation(case, allocations)


def declaring(*features: str) -> Node:
    """Return the default node with features that its kubelet declares."""
    return replace(node(), declared_features=frozenset(features))

"""Which of the nodes that fit is the best one: pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from claimsmith.model.claim import AllocationResult, DeviceResult, ResourceClaim
from claimsmith.model.names import RequestName
from claimsmith.model.node import Node
from claimsmith.schedule.usage import NodeUsage

__all__ = ["ALTERNATIVES_MAX", "Placement", "get_rank", "has_alternatives", "order_nodes", "rate_node"]

Placement = Literal["spread", "pack"]
"""Prefer nodes with the most room, or with the least."""

ALTERNATIVES_MAX: Final = 8
"""Most alternatives of one request. Source: FirstAvailableDeviceRequestMaxSize of resource.k8s.io/v1."""


def has_alternatives(claims: Iterable[ResourceClaim]) -> bool:
    """Tell whether one node may serve a better alternative than another."""
    return any(request.first_available for claim in claims for request in claim.spec.requests)


def get_rank(claims: Iterable[ResourceClaim], results: Iterable[AllocationResult]) -> int:
    """Return how good the chosen alternatives are: the sum of 8 minus their index; higher is better.

    Source: computeScore in kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources.
    """
    total = 0
    for claim, allocation in zip(claims, results, strict=True):
        chosen = {(name.request, name.subrequest) for name in map(_parse_request, allocation.results)}
        for request in claim.spec.requests:
            for index, alternative in enumerate(request.first_available):
                if (request.name, alternative.name) in chosen:
                    total += ALTERNATIVES_MAX - index
    return total


def order_nodes(nodes: Iterable[tuple[Node, NodeUsage]], *, placement: Placement = "spread") -> list[Node]:
    """Return nodes with the best one first, by how full they are; equal ones in order of name."""
    rated = sorted((rate_node(usage, placement), node.name, node) for node, usage in nodes)
    return [node for _, _, node in rated]


def rate_node(usage: NodeUsage, placement: Placement) -> float:
    """Return how a node is rated by what its pods take: the lower, the better."""
    return usage.fullness if placement == "spread" else -usage.fullness


def _parse_request(result: DeviceResult) -> RequestName:
    return RequestName.parse(result.request)

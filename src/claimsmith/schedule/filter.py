"""Whether a node can take a pod, devices left aside. Pure.

Source: plugins nodeunschedulable, tainttoleration, nodeaffinity and noderesources of kube-scheduler v1.37.2.

Deviates: node-not-ready, node-without-amounts, pod-placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Reason
from claimsmith.model.node import Node, NodeTaint
from claimsmith.model.quantity import format_milli
from claimsmith.model.topology import NodeSelector
from claimsmith.model.workload import Pod, PodToleration
from claimsmith.schedule.usage import NodeUsage

__all__ = ["OPTIONAL_NODE_OPERATIONS", "NodeFilter", "find_claim_obstacle", "tolerates"]

OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""A feature that nodes declare whose kubelet need not call a driver for every device."""

_UNSCHEDULABLE: Final = NodeTaint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_NOT_READY: Final = NodeTaint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})

MatchesNode = Callable[[NodeSelector, Node], bool]
"""Tells whether a node selector matches a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFilter:
    """The checks of one pod against nodes.

    Args:
        pod: The pod.
        wanted: What it takes from a node, in thousandths by resource name.
        claims: Its claims that are already allocated: the pod can only run where they can be used.
        matches: Tells whether a node selector matches a node.
    """

    pod: Pod
    wanted: Mapping[str, int]
    claims: tuple[ResourceClaim, ...]
    matches: MatchesNode

    def find_reasons(self, node: Node, usage: NodeUsage, *, by_claim: Iterable[str] = ()) -> tuple[Reason, ...]:
        """Return why the node can't take the pod; empty when it can.

        Args:
            node: The node.
            usage: What the pods on it take.
            by_claim: Extended resources that devices of a claim serve on this node instead of the node itself.
        """
        texts = self._state_texts(node)
        texts += self._selection_texts(node)
        texts += self._claim_texts(node)
        served = frozenset(by_claim)
        missing = usage.find_missing(self.wanted)
        if served:
            missing = tuple(name for name in missing if name not in served)
        if not texts and not missing:
            return ()
        reasons = [Reason(kind="node", text=text, node=node.name) for text in texts]
        if missing:
            text = f"node has too little {', '.join(missing)} left"
            data = {name: format_milli(self.wanted[name]) for name in missing}
            data["amounts"] = "; ".join(usage.describe_shortage(name, self.wanted[name]) for name in missing)
            reasons.append(Reason(kind="resources", text=text, node=node.name, data=data))
        return tuple(reasons)

    def _state_texts(self, node: Node) -> list[str]:
        texts = []
        if node.metadata.deletion_timestamp is not None:
            texts.append("node is being deleted")
        if node.unschedulable and not tolerates(self.pod.tolerations, _UNSCHEDULABLE):
            texts.append("node is unschedulable")
        if not node.ready and not tolerates(self.pod.tolerations, _NOT_READY):
            texts.append("node is not ready")
        for taint in node.taints:
            known = taint.key in (_UNSCHEDULABLE.key, _NOT_READY.key) and texts
            if not known and taint.effect in _BLOCKING and not tolerates(self.pod.tolerations, taint):
                texts.append(f"node has the taint {taint} that the pod does not tolerate")
        return texts

    def _selection_texts(self, node: Node) -> list[str]:
        texts = [
            f"node does not have the label {key}={value} of the pod's nodeSelector"
            for key, value in sorted(self.pod.node_selector.items())
            if node.labels.get(key) != value
        ]
        affinity = self.pod.node_affinity
        if affinity is not None and not self.matches(affinity, node):
            texts.append("node does not match the pod's node affinity")
        return texts

    def _claim_texts(self, node: Node) -> list[str]:
        found = ((claim, find_claim_obstacle(claim, node, self.matches)) for claim in self.claims)
        return [f"claim {claim.ref} {obstacle}" for claim, obstacle in found if obstacle]


def find_claim_obstacle(claim: ResourceClaim, node: Node, matches: MatchesNode) -> str:
    """Return why an allocated claim can't be used on a node; empty when it can.

    Source: Filter in kubernetes v1.37.2 pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go.
    """
    if claim.allocation is None:
        return ""
    selector = claim.allocation.node_selector
    if selector is not None and not matches(selector, node):
        return "is allocated for other nodes"
    needs = any(result.skip_node_operations for result in claim.allocation.results)
    if needs and OPTIONAL_NODE_OPERATIONS not in node.declared_features:
        return f"has devices that need {OPTIONAL_NODE_OPERATIONS}, which the node does not declare"
    return ""


def tolerates(tolerations: Iterable[PodToleration], taint: NodeTaint) -> bool:
    """Tell whether one of the tolerations accepts a taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)

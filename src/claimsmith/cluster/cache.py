"""The cluster as the scheduler sees it: followed through reflectors, with its own decisions on top."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from claimsmith.cluster.build import sort_quotas, sort_rules, sort_slices
from claimsmith.cluster.overlay import ClaimListener, ClaimOverlay
from claimsmith.model.claim import DeviceClass, ResourceClaim, ResourceClaimTemplate
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.model.node import Node
from claimsmith.model.podgroup import PodGroup, PodGroupRef
from claimsmith.model.policy import BudgetRef, DisruptionBudget, PriorityClass, QuotaRef, ResourceQuota
from claimsmith.model.pool import DeviceTaintRule, ResourceSlice
from claimsmith.model.record import Namespace
from claimsmith.model.snapshot import ClusterSnapshot
from claimsmith.model.workload import NodeAllocatableClaim, Pod

__all__ = ["ClusterCache", "GroupListener", "NodeListener", "PodListener", "Reservation", "SliceListener"]

SliceListener = Callable[[ResourceSlice | None, ResourceSlice | None], None]
"""Gets a slice before and after a change; None: absent."""
NodeListener = Callable[[Node | None, Node | None], None]
"""Gets a node before and after a change; None: absent."""
PodListener = Callable[[Pod | None, Pod | None], None]
"""Gets a pod, with the node that it is assumed on, before and after a change; None: absent."""
GroupListener = Callable[[PodGroup | None, PodGroup | None], None]
"""Gets a pod group before and after a change; None: absent."""

_SLICES: Final = "slices"
_RULES: Final = "taint_rules"
_QUOTAS: Final = "quotas"

_Sorted = TypeVar("_Sorted", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one pod is to get.

    Args:
        pod: The pod.
        node: The node it is to run on.
        claims: Claims that this decision allocates, as they will be, with their allocation.
        uses: Claims that were allocated before, and that the pod is to use.
        node_allocatable: What the devices of its claims take of the node's resources.
    """

    pod: Pod
    node: str
    claims: tuple[ResourceClaim, ...] = ()
    uses: frozenset[ClaimRef] = frozenset()
    node_allocatable: tuple[NodeAllocatableClaim, ...] = ()

    def place(self, pod: Pod) -> Pod:
        """Return the pod as it will be on its node."""
        return replace(pod, node_name=self.node, node_allocatable=self.node_allocatable)


@dataclass(slots=True)
class _Assumed:
    """A pod that counts as placed, and the pod as the API server shows it."""

    reservation: Reservation
    seen: Pod


class ClusterCache:
    """Nodes, slices, classes, templates, claims and pods of a cluster, each as it counts for the next decision.

    The methods named `see_*` are handlers for reflectors. Everything runs in one event loop.
    """

    def __init__(self) -> None:
        self.claims = ClaimOverlay()
        self.claims.subscribe(self._hear_claim)
        self.nodes: dict[str, Node] = {}
        self.classes: dict[str, DeviceClass] = {}
        self.pods: dict[PodRef, Pod] = {}
        self.groups: dict[PodGroupRef, PodGroup] = {}
        self._templates: dict[ClaimRef, ResourceClaimTemplate] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._budgets: dict[BudgetRef, DisruptionBudget] = {}
        self._quotas: dict[QuotaRef, ResourceQuota] = {}
        self._priorities: dict[str, PriorityClass] = {}
        self._slices: dict[str, ResourceSlice] = {}
        self._rules: dict[str, DeviceTaintRule] = {}
        self._sorted: dict[str, Any] = {}
        self._reservations: dict[str, Reservation] = {}
        self._assumed: dict[str, _Assumed] = {}
        self._pod_listeners: list[PodListener] = []
        self._node_listeners: list[NodeListener] = []
        self._group_listeners: list[GroupListener] = []
        self._slice_listeners: list[SliceListener] = []
        self._rule_listeners: list[Callable[[], None]] = []
        self._snapshot: ClusterSnapshot | None = None
        self.is_trial = False
        """Whether what is assumed now is only tried: no news for those who wait for changes."""

    def subscribe_pods(self, listener: PodListener) -> None:
        """Call the listener for all pods present, and from now on for every change of what counts."""
        self._pod_listeners.append(listener)
        for pod in tuple(self.pods.values()):
            listener(None, pod)

    def subscribe_nodes(self, listener: NodeListener) -> None:
        """Call the listener for all nodes present, and from now on for every change."""
        self._node_listeners.append(listener)
        for node in tuple(self.nodes.values()):
            listener(None, node)

    def subscribe_groups(self, listener: GroupListener) -> None:
        """Call the listener for all pod groups present, and from now on for every change."""
        self._group_listeners.append(listener)
        for group in tuple(self.groups.values()):
            listener(None, group)

    def subscribe_slices(self, listener: SliceListener) -> None:
        """Call the listener for all slices present, and from now on for every change."""
        self._slice_listeners.append(listener)
        for item in tuple(self._slices.values()):
            listener(None, item)

    def subscribe_rules(self, listener: Callable[[], None]) -> None:
        """Call the listener after every change of a class or a taint rule, which may concern any device."""
        self._rule_listeners.append(listener)

    def subscribe_claims(self, listener: ClaimListener) -> None:
        """Call the listener for all claims present, and from now on for every change of what counts."""
        self.claims.subscribe(listener)

    def snapshot(self) -> ClusterSnapshot:
        """Return the cluster with everything decided so far; the same value until something changes."""
        if self._snapshot is None:
            self._snapshot = ClusterSnapshot(
                nodes=dict(self.nodes),
                slices=self._sort_once(_SLICES, lambda: sort_slices(self._slices.values())),
                classes=dict(self.classes),
                claims=dict(self.claims.claims),
                templates=dict(self._templates),
                pods=dict(self.pods),
                taint_rules=self._sort_once(_RULES, lambda: sort_rules(self._rules.values())),
                namespace_labels=dict(self._namespaces),
                pod_groups=dict(self.groups),
                budgets=dict(self._budgets),
                quotas=self._sort_once(_QUOTAS, lambda: sort_quotas(self._quotas.values())),
                priority_classes=dict(self._priorities),
            )
        return self._snapshot

    def _sort_once(self, name: str, sort: Callable[[], _Sorted]) -> _Sorted:
        """Return what was sorted since the last change of such objects, or sort it now."""
        if name not in self._sorted:
            self._sorted[name] = sort()
        found: _Sorted = self._sorted[name]
        return found

    def find_reservation(self, pod: Pod) -> Reservation | None:
        """Return the decision for the pod whose writes are on their way; None for none."""
        return self._reservations.get(pod.uid)

    def is_promised(self, ref: ClaimRef, *, besides: Pod) -> bool:
        """Tell whether a decision for another pod, whose writes are on their way, uses an allocated claim."""
        return any(ref in item.uses for item in self._reservations.values() if item.pod.uid != besides.uid)

    def assume(self, reservation: Reservation) -> None:
        """Count a decision from now on: its claims are allocated and in flight, its pod is on its node.

        Each one is ended by `finish` or `forget`.
        """
        pod = reservation.pod
        self._reservations[pod.uid] = reservation
        for claim in reservation.claims:
            self.claims.start(claim)
        seen = self.pods.get(pod.ref)
        if seen is not None and seen.uid == pod.uid and not seen.node_name:
            self._assumed[pod.uid] = _Assumed(reservation, seen)
            self._set_pod(seen, reservation.place(seen))

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Forget at the end what is assumed meanwhile: for a decision about several pods that may come to nothing."""
        known, self.is_trial = set(self._reservations), True
        try:
            yield
        finally:
            for uid in reversed([uid for uid in self._reservations if uid not in known]):
                self.forget(self._reservations[uid].pod)
            self.is_trial = False

    def confirm_claim(self, claim: ResourceClaim, *, decided_as: ClaimRef | None = None) -> None:
        """Take in the server's answer to the write of a decided claim (see `ClaimOverlay.confirm`)."""
        self.claims.confirm(claim, decided_as=decided_as)

    def finish(self, pod: Pod) -> None:
        """End a decision whose writes are all done; the pod stays on its node until the API server shows it there."""
        self._reservations.pop(pod.uid, None)

    def forget(self, pod: Pod) -> None:
        """Take back a decision; claims that were already written count as the server showed them."""
        reservation = self._reservations.pop(pod.uid, None)
        for claim in reservation.claims if reservation else ():
            self.claims.drop(claim.ref)
        assumed, known = self._assumed.pop(pod.uid, None), self.pods.get(pod.ref)
        if assumed is not None and known is not None and known.uid == pod.uid:
            self._set_pod(known, assumed.seen)

    def see_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take in a change of a pod."""
        if old is not None and (new is None or new.uid != old.uid):
            self._assumed.pop(old.uid, None)
        if new is None:
            gone = self.pods.get(old.ref) if old is not None else None
            if gone is not None:
                self._set_pod(gone, None)
            return
        if new.node_name or new.finished:
            self._assumed.pop(new.uid, None)
        elif assumed := self._assumed.get(new.uid):
            assumed.seen = new
            new = assumed.reservation.place(new)
        self._set_pod(self.pods.get(new.ref), new)

    def see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Take in a change of a claim."""
        self.claims.see(old, new)

    def see_node(self, old: Node | None, new: Node | None) -> None:
        """Take in a change of a node."""
        self._put(self.nodes, old.name if old else "", new.name if new else "", new)
        for listener in self._node_listeners:
            listener(old, new)

    def see_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Take in a change of a pod group."""
        self._put(self.groups, old.ref if old else None, new.ref if new else None, new)
        for listener in self._group_listeners:
            listener(old, new)

    def see_class(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Take in a change of a class."""
        self._put(self.classes, old.name if old else "", new.name if new else "", new)
        self._tell_rules()

    def see_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Take in a change of a slice."""
        self._sorted.pop(_SLICES, None)
        self._put(self._slices, old.name if old else "", new.name if new else "", new)
        for listener in self._slice_listeners:
            listener(old, new)

    def see_taint_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        """Take in a change of a taint rule."""
        self._sorted.pop(_RULES, None)
        self._put(self._rules, old.metadata.name if old else "", new.metadata.name if new else "", new)
        self._tell_rules()

    def see_template(self, old: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        """Take in a change of a claim template."""
        self._put(self._templates, _template_ref(old), _template_ref(new), new)

    def see_namespace(self, old: Namespace | None, new: Namespace | None) -> None:
        """Take in a change of a namespace, of which the labels count."""
        self._put(self._namespaces, old.name if old else "", new.name if new else "", new.labels if new else None)

    def see_budget(self, old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        """Take in a change of a disruption budget."""
        self._put(self._budgets, old.ref if old else None, new.ref if new else None, new)

    def see_quota(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        """Take in a change of a quota."""
        self._sorted.pop(_QUOTAS, None)
        self._put(self._quotas, old.ref if old else None, new.ref if new else None, new)

    def see_priority_class(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        """Take in a change of a priority class."""
        self._put(self._priorities, old.name if old else "", new.name if new else "", new)

    def _put(self, target: dict[Any, Any], old_key: object, new_key: object, new: object | None) -> None:
        if new is None:
            target.pop(old_key, None)
        else:
            target[new_key] = new
        self._spoil()

    def _set_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self.pods[new.ref] = new
        elif old is not None:
            del self.pods[old.ref]
        self._spoil()
        for listener in self._pod_listeners:
            listener(old, new)

    def _tell_rules(self) -> None:
        for listener in self._rule_listeners:
            listener()

    def _hear_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._spoil()

    def _spoil(self) -> None:
        self._snapshot = None


def _template_ref(template: ResourceClaimTemplate | None) -> ClaimRef | None:
    return None if template is None else ClaimRef(template.metadata.namespace, template.metadata.name)

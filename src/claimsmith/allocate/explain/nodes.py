"""Why claims are pending: for each claim and request, which rule keeps the devices of a node from it.

The reasons follow the rules of the search one by one: pools, then devices, then what the devices that are left can't
do together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from claimsmith.allocate.explain.devices import DeviceFinding, DeviceSorter, format_names
from claimsmith.allocate.explain.pool_gaps import describe_obsolete, find_pool_gap
from claimsmith.allocate.prepared.constraints import AttributeValue, read_value
from claimsmith.allocate.prepared.index import NodeView, PreparedCluster
from claimsmith.allocate.prepared.plan import ClaimPlan, ConstraintPlan, PodPlan, RequestPlan, refuse_limit
from claimsmith.allocate.prepared.pools import PoolView
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.errors import InputError
from claimsmith.model.claim import ALLOCATION_RESULTS_MAX, ResourceClaim
from claimsmith.model.decision import Reason, ReasonKind, Refused
from claimsmith.model.names import ClaimRef, DeviceId
from claimsmith.model.node import Node

__all__ = ["explain_node", "explain_nodes", "explain_refusal"]

_REFUSED_KINDS: dict[str, ReasonKind] = {
    "no-class": "no-class",
    "all-incomplete-pool": "pool-incomplete",
    "all-invalid-pool": "pool-invalid",
    "invalid-pool": "pool-invalid",
    "all-constraint": "constraint",
    "cel-runtime": "selector-error",
    "cel-compile": "selector-error",
    "derived-runtime": "selector-error",
    "derived-compile": "selector-error",
    "capacity": "capacity",
    "node-selector": "node",
}


def explain_nodes(
    cluster: PreparedCluster, claims: Iterable[ResourceClaim], *, nodes: Iterable[Node]
) -> tuple[Reason, ...]:
    """Return the reasons on each of the nodes, in order."""
    plan = cluster.plan(claims)
    return tuple(reason for node in nodes for reason in explain_node(cluster, plan, node))


def explain_node(cluster: PreparedCluster, plan: PodPlan, node: Node) -> tuple[Reason, ...]:
    """Return why the claims don't fit on one node: pools first, then claim by claim and request by request."""
    view = cluster.view_node(node)
    explanation = _NodeExplanation(cluster, view)
    reasons = list(explanation.explain_pools())
    if plan.refusal is not None:
        return (*reasons, explain_refusal(plan.refusal, node=node.name))
    for claim in plan.claims:
        reasons.extend(explanation.explain_claim(claim))
    if not any(reason.request or reason.kind in ("constraint", "count") for reason in reasons):
        reasons.append(explanation.explain_together(plan))
    return tuple(reasons)


def explain_refusal(refused: Refused, *, node: str = "") -> Reason:
    """Return a refusal as a reason, whose text does not repeat claim and request."""
    text = refused.text.removeprefix(f"claim {refused.claim}")
    text = text.removeprefix(f", request {refused.request}").removeprefix(": ")
    return Reason(
        kind=_REFUSED_KINDS.get(refused.kind, "count" if refused.kind == "limit" else "claim-full"),
        text=text,
        node=node or refused.node,
        claim=refused.claim,
        request=refused.request,
        devices=refused.devices,
    )


@dataclass(slots=True, eq=False)
class _Wanted:
    """What one request, or alternative, wants and may have."""

    plan: RequestPlan
    count: int
    usable: list[DeviceRecord]


class _NodeExplanation:
    """The reasons on one node."""

    def __init__(self, cluster: PreparedCluster, view: NodeView) -> None:
        self._cluster = cluster
        self._view = view
        self._sorter = DeviceSorter(cluster, view.node)
        self._node = view.node.name

    def explain_pools(self) -> Iterator[Reason]:
        """Give the pools that offer nothing, and devices that count although they are no longer published."""
        for view in self._view.pools:
            gap = find_pool_gap(view)
            if gap is not None:
                yield Reason(kind=gap[0], text=gap[1], node=self._node, data={"pool": str(view.id)})
            elif view.counter_sets:
                yield from self._explain_vanished(view)
        for pool in self._view.obsolete:
            text = describe_obsolete(pool)
            yield Reason(kind="pool-obsolete", text=text, node=self._node, data={"pool": str(pool)})

    def explain_claim(self, claim: ClaimPlan) -> Iterator[Reason]:
        """Give what speaks against each request on its own, else what speaks against them together."""
        found = False
        wanted: list[_Wanted] = []
        for group in claim.groups:
            options = [self._sort(plan) for plan in group.alternatives]
            served = [option for option, _ in options if len(option.usable) >= option.count > 0]
            wanted.append(min(served or [option for option, _ in options], key=lambda option: option.count))
            total = sum(option.count for option in wanted)
            if total > ALLOCATION_RESULTS_MAX:
                yield explain_refusal(refuse_limit(claim.claim, group.request.name, total), node=self._node)
                return
            if served:
                continue
            found = True
            for option, findings in options:
                yield from self._explain_request(claim.claim.ref, option, findings)
        for position, constraint in enumerate(claim.constraints):
            bound = [option for option in wanted if position in option.plan.constraints]
            reason = self._explain_constraint(claim.claim.ref, constraint, bound) if bound else None
            if reason is not None and not found:
                yield reason

    def explain_together(self, plan: PodPlan) -> Reason:
        """Say that each request can be served, but not all at once."""
        needed, devices = 0, set[DeviceId]()
        for claim in plan.claims:
            for group in claim.groups:
                option = min((self._sort(request)[0] for request in group.alternatives), key=lambda o: o.count)
                needed += option.count
                devices.update(record.id for record in option.usable)
        if needed > len(devices):
            text = f"{needed} devices needed by all requests together, {len(devices)} can be had"
        else:
            text = "each request can be served on its own, but not all of them together"
        return Reason(kind="count", text=text, node=self._node, devices=tuple(sorted(devices)))

    def _sort(self, plan: RequestPlan) -> tuple[_Wanted, list[DeviceFinding]]:
        """The devices that the request may have, and why not the others."""
        usable, findings = self._sorter.sort([view for view in self._view.pools if view.usable], plan)
        records = [record for _, record in usable]
        if not plan.takes_all:
            return _Wanted(plan, plan.count, records), findings
        selected = [finding for finding in findings if finding.kind in _BLOCKING_ALL]
        return _Wanted(plan, len(records) + len(selected), records), findings

    def _explain_request(self, claim: ClaimRef, wanted: _Wanted, findings: list[DeviceFinding]) -> Iterator[Reason]:
        """Give one reason for each rule, with the devices that fell to it."""
        name = wanted.plan.label
        by_pattern: dict[tuple[ReasonKind, str], list[DeviceFinding]] = defaultdict(list)
        for finding in findings:
            by_pattern[finding.kind, finding.pattern].append(finding)
        for (kind, pattern), group in by_pattern.items():
            devices = tuple(finding.device for finding in group)
            text = pattern.replace("{devices}", format_names(devices))
            data = {**group[0].data, "rule": group[0].rule}
            yield Reason(kind=kind, text=text, node=self._node, claim=claim, request=name, devices=devices, data=data)
        matching = len(wanted.usable) + sum(finding.kind not in _NOT_MEANT for finding in findings)
        if not matching:
            text = f"no matching device on {self._node}"
            yield Reason(
                kind="count", text=text, node=self._node, claim=claim, request=name, data={"rule": "no matching device"}
            )
        elif wanted.usable:
            text = f"{wanted.count} devices needed, only {format_count(len(wanted.usable))} can be had"
            devices = tuple(record.id for record in wanted.usable)
            yield Reason(
                kind="count",
                text=text,
                node=self._node,
                claim=claim,
                request=name,
                devices=devices,
                data={"rule": text},
            )

    def _explain_constraint(self, claim: ClaimRef, constraint: ConstraintPlan, bound: list[_Wanted]) -> Reason | None:
        """The reason when too few devices agree, or differ, in the attribute."""
        needed = sum(option.count for option in bound)
        devices_of: dict[tuple[str, object], set[DeviceId]] = defaultdict(set)
        for option in bound:
            for record in option.usable:
                value = self._read(record, option.plan, constraint.attribute)
                for element in value.values if value is not None else ():
                    devices_of[value.kind if value else "", element].add(record.id)
        if constraint.kind == "match":
            best = max(devices_of.values(), key=len, default=set())
            if len(best) >= needed:
                return None
            text = f"largest set with equal {constraint.attribute}: {len(best)}, needed {needed}"
        else:
            if len(devices_of) >= needed:
                return None
            best = {device for devices in devices_of.values() for device in devices}
            values = "value" if len(devices_of) == 1 else "values"
            text = f"only {len(devices_of)} distinct {values} of {constraint.attribute}, {needed} needed"
        data = {"attribute": constraint.attribute, "needed": str(needed), "rule": text}
        return Reason(
            kind="constraint", text=text, node=self._node, claim=claim, devices=tuple(sorted(best)), data=data
        )

    def _read(self, record: DeviceRecord, plan: RequestPlan, attribute: str) -> AttributeValue | None:
        expression = plan.derived.get(attribute)
        found = self._cluster.selectors.derive(expression, record) if expression else record.find_attribute(attribute)
        if isinstance(found, InputError):
            return None
        return read_value(found, lists=self._cluster.features.list_type_attributes)

    def _explain_vanished(self, view: PoolView) -> Iterator[Reason]:
        for device in self._cluster.find_counters(view).vanished:
            holders = ", ".join(map(str, device.use.holders)) or "a claim"
            text = f"{device.id.device} held by {holders} is no longer published"
            if not device.known:
                text += f", and what it takes is not known: nothing is left of pool {view.id}"
            yield Reason(
                kind="in-use", text=text, node=self._node, devices=(device.id,), data={"holders": holders, "rule": text}
            )


_BLOCKING_ALL = frozenset({"taint", "in-use", "counter", "compatibility-group", "node-operations"})
"""Kinds of findings about devices that count among all devices all the same."""
_NOT_MEANT = frozenset({"class-selector", "selector", "selector-error", "node", "binding-conditions"})
"""Kinds of findings about devices that the request never meant."""


def format_count(count: int) -> str:
    """Return a number as a word of a sentence."""
    return "none" if count == 0 else str(count)

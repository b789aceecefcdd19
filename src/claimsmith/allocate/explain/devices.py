"""Why single devices don't serve a request: each device of a node falls to the first rule that speaks against it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from claimsmith.allocate.prepared.counters import Groups, PoolCounters
from claimsmith.allocate.prepared.eligibility import MATCH, RequestShape, Verdict
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.prepared.plan import RequestPlan
from claimsmith.allocate.prepared.pools import PoolView, node_reaches
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.taints import find_blocking_taint
from claimsmith.model.decision import ReasonKind
from claimsmith.model.names import CounterId, DeviceId
from claimsmith.model.node import Node
from claimsmith.model.quantity import Quantity, QuantityFormat

__all__ = ["NAMES_SHOWN", "DeviceFinding", "DeviceSorter", "format_names"]

NAMES_SHOWN: Final = 4
"""Devices that a sentence names before it counts the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFinding:
    """Why one device doesn't serve a request.

    Args:
        rule: One sentence without the device; findings with the same rule are told together.
        pattern: The sentence with `{devices}` for the names of the devices.
        data: Parts for machines.
    """

    kind: ReasonKind
    rule: str
    pattern: str
    device: DeviceId
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class DeviceSorter:
    """Sorts the devices of one node into those that a request may have and those that it may not."""

    cluster: PreparedCluster
    node: Node

    def sort(
        self, pools: Iterable[PoolView], plan: RequestPlan
    ) -> tuple[list[tuple[PoolView, DeviceRecord]], list[DeviceFinding]]:
        """Return the devices that the request may have, and a finding for each of the others, in order."""
        shape = plan.shape
        usable, findings = [], []
        for view in pools:
            for record in view.devices:
                finding = self.find_obstacle(view, record, shape)
                if finding is None:
                    usable.append((view, record))
                else:
                    findings.append(finding)
        return usable, findings

    def find_obstacle(self, view: PoolView, record: DeviceRecord, shape: RequestShape) -> DeviceFinding | None:
        """Return the first rule that keeps the device from the shape; None when there is none."""
        verdict = self.cluster.selectors.find_verdict(shape, record)
        if verdict is not MATCH:
            return self._explain_verdict(record, shape, verdict)
        if record.slice.per_device_node_selection and not node_reaches(record.device, self.node):
            return _find("node", record, "{devices} can't be reached from the node")
        return (
            self._explain_taint(record, shape)
            or self._explain_use(record, shape)
            or self._explain_capacity(record, shape)
            or self._explain_node_operations(record)
            or self._explain_counters(view, record)
        )

    def _explain_verdict(self, record: DeviceRecord, shape: RequestShape, verdict: Verdict) -> DeviceFinding:
        if verdict.kind == "gate":
            return _find("binding-conditions", record, "{devices} has binding conditions, which are off")
        whose = f"selector of class {shape.class_name}" if verdict.of_class else "selector"
        data = {"expression": verdict.expression, "class": shape.class_name if verdict.of_class else ""}
        if verdict.error is not None:
            pattern = f"{{devices}}: {whose} {verdict.expression} can't be evaluated: {verdict.problem}"
            return _find("selector-error", record, pattern, {**data, "error": verdict.problem})
        kind: ReasonKind = "class-selector" if verdict.of_class else "selector"
        clause = self.cluster.selectors.find_false_clause(verdict.expression, record)
        return _find(kind, record, f"{{devices}}: {whose} {clause} is false", {**data, "clause": clause})

    def _explain_taint(self, record: DeviceRecord, shape: RequestShape) -> DeviceFinding | None:
        if self.cluster.screen.tolerates(record, shape):
            return None
        taint = find_blocking_taint(record.device.taints, shape.tolerations)
        if taint is None:
            return None
        text = f"{{devices}} tainted {taint}, which is not tolerated"
        return _find("taint", record, text, {"taint": str(taint)})

    def _explain_use(self, record: DeviceRecord, shape: RequestShape) -> DeviceFinding | None:
        if shape.admin or not record.use.dedicated:
            return None
        holders = ", ".join(map(str, record.use.holders)) or "another claim"
        return _find("in-use", record, f"{{devices}} in use by {holders}", {"holders": holders}, rule="in use")

    def _explain_capacity(self, record: DeviceRecord, shape: RequestShape) -> DeviceFinding | None:
        plan = self.cluster.screen.plan(record, shape)
        if plan is None or self.cluster.screen.fits_capacity(record, plan):
            return None
        if plan.kind != "fits":
            return _find("capacity", record, f"{{devices}}: {plan.text}", {"capacity": plan.text})
        consumed = record.use.consumed
        for name, nanos, total in plan.nanos:
            left = total - consumed.get(name, 0)
            if nanos > left:
                amounts = (record.device.capacity[name].value, plan.amounts[name])
                return _explain_shortage(record, name, left, amounts)
        return None

    def _explain_node_operations(self, record: DeviceRecord) -> DeviceFinding | None:
        if self.cluster.screen.node_operates(record, self.node):
            return None
        return _find(
            "node-operations", record, "{devices} skips node operations, which the node's kubelet can't do without"
        )

    def _explain_counters(self, view: PoolView, record: DeviceRecord) -> DeviceFinding | None:
        screen = self.cluster.screen
        if not screen.charges(record) or screen.fits_counters(view, record):
            return None
        if not self.cluster.features.partitionable_devices:
            return _find("counter", record, "{devices} takes counters, but DRAPartitionableDevices is off")
        counters = self.cluster.find_counters(view)
        if not screen.fits_groups(counters, record):
            return _explain_groups(record, counters)
        for counter, nanos in record.consumption:
            if nanos > counters.left[counter]:
                return _explain_counter(record, counters, counter, wanted=nanos, view=view)
        overdrawn = next(counter for counter, left in counters.left.items() if left < 0)
        pattern = f"{{devices}}: counter {overdrawn.counter} of set {overdrawn.counter_set} is overdrawn"
        return _find("counter", record, pattern, {"counter": str(overdrawn)})


def format_names(devices: Iterable[DeviceId]) -> str:
    """Return the names of devices, a few of them in full and the rest counted."""
    names = [device.device for device in devices]
    if len(names) <= NAMES_SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN} more"


def format_amount(nanos: int, *, like: Quantity) -> str:
    """Return an amount in the format of another one."""
    whole = nanos % 10**9 == 0
    return str(
        Quantity(nanos=nanos, format=like.format if whole else QuantityFormat.DECIMAL_SI, exponent=0 if whole else -9)
    )


def _find(
    kind: ReasonKind, record: DeviceRecord, pattern: str, data: Mapping[str, str] | None = None, *, rule: str = ""
) -> DeviceFinding:
    plain = rule or pattern.replace("{devices}: ", "").replace("{devices} ", "")
    return DeviceFinding(kind=kind, rule=plain, pattern=pattern, device=record.id, data=data or {})


def _explain_shortage(record: DeviceRecord, name: str, left: int, amounts: tuple[Quantity, Quantity]) -> DeviceFinding:
    total, needed = amounts
    rest = format_amount(max(left, 0), like=total)
    pattern = f"{{devices}}: {rest} of {total} {name} left, {needed} needed"
    data = {"capacity": name, "left": rest, "total": str(total), "needed": str(needed)}
    return _find("capacity", record, pattern, data, rule=f"not enough {name} left, {needed} needed")


def _explain_counter(
    record: DeviceRecord, counters: PoolCounters, counter: CounterId, *, wanted: int, view: PoolView
) -> DeviceFinding:
    total = view.counter_sets[counter.counter_set].counters[counter.counter]
    left, needed = format_amount(max(counters.left[counter], 0), like=total), format_amount(wanted, like=total)
    pattern = (
        f"{{devices}}: counter {counter.counter} of set {counter.counter_set}: {left} of {total} left, {needed} needed"
    )
    data = {"counter": str(counter), "left": left, "total": str(total), "needed": needed}
    return _find("counter", record, pattern, data)


def _explain_groups(record: DeviceRecord, counters: PoolCounters) -> DeviceFinding:
    for consumption in record.device.consumes_counters:
        bound: Groups = counters.groups.get(consumption.counter_set, frozenset())
        own = ", ".join(consumption.compatibility_groups) or "no groups"
        theirs = ", ".join(sorted(bound or ())) or "no groups"
        if consumption.counter_set in counters.groups and not set(consumption.compatibility_groups) & set(bound or ()):
            pattern = (
                f"{{devices}} ({own}) can't be used beside the devices on set {consumption.counter_set} ({theirs})"
            )
            return _find("compatibility-group", record, pattern, {"groups": own, "bound": theirs})
    return _find("compatibility-group", record, "{devices} can't be used beside the devices in use")

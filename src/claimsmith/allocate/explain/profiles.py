"""What of a device the claims can tell from other devices: devices of equal profile are interchangeable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from claimsmith.allocate.explain.case import ClauseBook
from claimsmith.allocate.explain.comparisons import find_comparison
from claimsmith.allocate.prepared.constraints import read_value
from claimsmith.allocate.prepared.index import NodeView, PreparedCluster
from claimsmith.allocate.prepared.kinds import find_names, read_values
from claimsmith.allocate.prepared.pools import PoolView, node_reaches
from claimsmith.allocate.prepared.records import DeviceRecord, find_attribute
from claimsmith.allocate.prepared.screening import NODE_OPERATIONS_FEATURE
from claimsmith.allocate.prepared.usage import FREE, DeviceUse
from claimsmith.cel import CelEnvironment, Program, compile_expression, prepare_device
from claimsmith.errors import CelCompileError, CelDeviceError, CelRuntimeError, InputError
from claimsmith.model.claim import SubRequest
from claimsmith.model.device import Device
from claimsmith.model.names import DeviceId
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice

__all__ = ["ProfileBook", "Signature", "UseKey", "is_plain"]

UseKey = tuple[object, ...]
"""How a device is used, without the holders."""
VALUES_MAX: Final = 4096
"""Devices that are looked at, one for each that reads otherwise, for the values that clauses compare with constants."""


class Signature(NamedTuple):
    """What decides about claims on a node: two nodes of equal signature give the same answers, but for names.

    Args:
        lasting: All but who holds what and which devices are tainted.
        present: The rest.
    """

    lasting: object
    present: object


@dataclass(slots=True, eq=False)
class ProfileBook:
    """Profiles of devices, and signatures of nodes made from them, for the claims of one book.

    Attributes:
        attributes: The attributes that constraints read.
    """

    book: ClauseBook
    attributes: tuple[str, ...] = field(init=False)
    _clauses: tuple[str, ...] = field(init=False)
    _operands: tuple[Program, ...] = field(init=False)
    _derived: tuple[str, ...] = field(init=False)
    _reads_capacity: bool = field(init=False)
    _names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    _verdicts: dict[object, int] = field(default_factory=dict)
    _values: dict[object, object] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        specs = list(_list_specs(self.book))
        self._clauses = self.book.texts
        constraints = [item for claim in self.book.claims for item in claim.spec.constraints]
        self.attributes = tuple(
            dict.fromkeys(item.match_attribute or item.distinct_attribute or "" for item in constraints)
        )
        self._operands = tuple(_find_operands(self._clauses, self._cluster))
        self._derived = tuple(dict.fromkeys(d.expression for spec in specs for d in spec.derived_attributes))
        self._reads_capacity = any(spec.capacity for spec in specs) or bool(self.book.pinned)

    @property
    def _cluster(self) -> PreparedCluster:
        return self.book.cluster

    def find_profile(self, slice: ResourceSlice, device: Device) -> int:
        """Return a number for what the claims see of a device, whoever uses it; equal for equal devices."""
        found = self._find_lasting(slice, device)
        return self._intern((found, _sort_taints(device))) if device.taints else found

    def _find_lasting(self, slice: ResourceSlice, device: Device) -> int:
        """The same, taints left aside."""
        shares, capacity = device.allow_multiple_allocations, self._read_capacity(device)
        read = (slice.driver, shares, capacity, *self._read_values(slice.driver, device))
        found = self._verdicts.get(read)
        if found is None:
            key = (self._judge(slice, device), shares, self._read_operands(slice, device), *sorted(capacity, key=str))
            found = self._verdicts[read] = self._intern(key)
        if device.consumes_counters or device.binding_conditions or slice.skip_node_operations:
            found = self._intern((found, *_describe_rest(slice, device)))
        if self._derived:
            found = self._intern((found, tuple(self._derive(text, slice, device) for text in self._derived)))
        return found

    def find_value(self, operand: str, slice: ResourceSlice, device: Device) -> object:
        """Return what a part of a clause comes to for a device; None where it fails.

        When too many were looked at, it is what the clauses read of the device, which is no value but tells it apart.
        """
        shares, capacity = device.allow_multiple_allocations, self._read_capacity(device)
        key = (operand, slice.driver, shares, capacity, *self._read_values(slice.driver, device))
        if key not in self._values:
            if len(self._values) >= VALUES_MAX:
                return key
            self._values[key] = self._evaluate(operand, slice, device)
        return self._values[key]

    def _evaluate(self, operand: str, slice: ResourceSlice, device: Device) -> object:
        environment = CelEnvironment.for_stored_expressions(self._cluster.features)
        try:
            program = compile_expression(operand, environment=environment, purpose="part")
            return program.evaluate_value(prepare_device(slice.driver, device, environment=environment))
        except (CelCompileError, CelRuntimeError, CelDeviceError):
            return None

    def _read_capacity(self, device: Device) -> tuple[object, ...]:
        if not device.capacity or not (self._reads_capacity or device.allow_multiple_allocations):
            return ()
        return tuple(
            [(name, item.value.nanos, item.policy and repr(item.policy)) for name, item in device.capacity.items()]
        )

    def find_use(self, device: DeviceId) -> UseKey:
        """Return how a device is used, without the holders."""
        use = self._cluster.find_use(device)
        if use is FREE:
            return ()
        if is_plain(use):
            return ("whole",)
        parts = self._cluster.find_uses(device)
        return tuple(
            sorted((part.dedicated, part.shares, part.tracked, *sorted(part.consumed.items())) for part in parts)
        )

    def sign_node(self, node: Node, view: NodeView, operand: str = "") -> Signature:
        """Return what decides about the claims on a node; the order of its devices does not.

        Args:
            operand: A part of a clause that is to be compared with another constant, which decides as well.
        """
        pools = [self._sign_pool(pool, node, operand) for pool in view.pools]
        skips = NODE_OPERATIONS_FEATURE in node.declared_features
        rest = (tuple(pool.driver for pool in view.obsolete), bool(view.bad_selectors), skips)
        return Signature(
            lasting=(tuple(lasting for lasting, _ in pools), *rest), present=tuple(present for _, present in pools)
        )

    def _sign_pool(self, pool: PoolView, node: Node, operand: str) -> tuple[object, object]:
        """What is lasting about a pool, and what is so at present."""
        if not pool.usable:
            return (pool.id.driver, pool.incomplete, pool.found, pool.expected, pool.invalid, pool.id), ()
        numbers: dict[object, int] = {}
        lasting, present = list[int](), list[int]()
        for record in pool.slices:
            slice = record.slice
            local = slice.per_device_node_selection
            for device in slice.devices:
                found = self._find_lasting(slice, device)
                if self.attributes:
                    row = tuple(self._number(numbers, slice.driver, device, name) for name in self.attributes)
                    found = self._intern((found, "row", row))
                if operand:
                    value = self.find_value(operand, slice, device)
                    found = self._intern((found, "value", type(value).__name__, str(value)))
                if local and not node_reaches(device, node):
                    found = -1
                lasting.append(found)
                use = self.find_use(DeviceId(slice.driver, slice.pool, device.name))
                if use or device.taints:
                    found = self._intern((found, use, _sort_taints(device)))
                present.append(found)
        lasting.sort()
        present.sort()
        sets = tuple((item.name, *sorted(item.counters.items())) for item in pool.counter_sets.values())
        counted = self._sign_counters(pool) if sets else ()
        return (pool.id.driver, tuple(lasting), sets), (tuple(present), counted)

    def _sign_counters(self, pool: PoolView) -> tuple[object, ...]:
        counters = self._cluster.find_counters(pool)
        far = (record for record in pool.elsewhere if record.use is not FREE)
        return (
            tuple(sorted(counters.left.items())),
            tuple(sorted((record.consumption, self.find_use(record.id)) for record in far)),
            len(counters.vanished),
        )

    def _number(self, numbers: dict[object, int], driver: str, device: Device, name: str) -> object:
        """The value of an attribute that a constraint reads, numbered in order of appearance on the node."""
        attribute = find_attribute(device, driver, name)
        value = read_value(attribute, lists=self._cluster.features.list_type_attributes)
        if value is None:
            return -1
        found = (numbers.setdefault((name, value.kind, item), len(numbers)) for item in value.values)
        return (value.kind, *sorted(found))

    def _intern(self, value: object) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def _read_values(self, driver: str, device: Device) -> Iterable[object]:
        """What the clauses read of a device's attributes."""
        if driver not in self._names:
            self._names[driver] = find_names(self._cluster.selectors, self._clauses, driver)
        names = self._names[driver]
        if names is not None:
            return read_values(device, names)
        return (part for name, item in device.attributes.items() for part in (name, item.kind, item.value))

    def _judge(self, slice: ResourceSlice, device: Device) -> int:
        """Which clauses are true of a device, a bit for each."""
        record, verdicts = DeviceRecord(slice, device), 0
        for text in self._clauses:
            verdicts = verdicts * 2 + (self._cluster.selectors.evaluate(text, record) is True)
        return verdicts

    def _read_operands(self, slice: ResourceSlice, device: Device) -> tuple[object, ...]:
        """What the clauses compare with constants, so that nodes are told apart on which other constants would do."""
        if not self._operands:
            return ()
        environment = CelEnvironment.for_stored_expressions(self._cluster.features)
        try:
            prepared = prepare_device(slice.driver, device, environment=environment)
        except CelDeviceError:
            return ()
        values: list[object] = []
        for program in self._operands:
            try:
                value = program.evaluate_value(prepared)
            except (CelRuntimeError, CelDeviceError):
                value = None
            values.append((type(value).__name__, str(value)))
        return tuple(values)

    def _derive(self, text: str, slice: ResourceSlice, device: Device) -> str:
        found = self._cluster.selectors.derive(text, DeviceRecord(slice, device))
        return "error" if isinstance(found, InputError) else repr(found)


def _find_operands(clauses: Iterable[str], cluster: PreparedCluster) -> Iterator[Program]:
    """Give what the clauses put in order with constants; equality may tell every node from all others."""
    environment = CelEnvironment.for_stored_expressions(cluster.features)
    for text in clauses:
        try:
            comparison = find_comparison(text, environment)
            if comparison is not None and comparison.operator != "==":
                yield compile_expression(comparison.operand, environment=environment, purpose="part")
        except CelCompileError:
            continue


def _sort_taints(device: Device) -> tuple[object, ...]:
    return tuple(sorted((taint.key, taint.value, taint.effect) for taint in device.taints))


def _describe_rest(slice: ResourceSlice, device: Device) -> tuple[object, ...]:
    """What few devices have."""
    return (
        tuple(
            (item.counter_set, *sorted(item.counters.items()), item.compatibility_groups)
            for item in device.consumes_counters
        ),
        bool(device.binding_conditions),
        bool(slice.skip_node_operations),
    )


def is_plain(use: DeviceUse) -> bool:
    """Tell whether one claim at most holds the device, as a whole."""
    return use.dedicated and not use.shares and len(use.holders) <= 1


def _list_specs(book: ClauseBook) -> Iterable[SubRequest]:
    return (spec for claim in book.split_claims for request in claim.spec.requests for spec in request.alternatives)

"""What of a device the claims can tell from other devices: devices of equal profile are interchangeable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from claimsmith.allocate.constraints import read_value
from claimsmith.allocate.explain.case import ClauseBook
from claimsmith.allocate.index import NodeView, PreparedCluster
from claimsmith.allocate.pools import PoolView, node_reaches
from claimsmith.allocate.records import DeviceRecord
from claimsmith.allocate.screening import NODE_OPERATIONS_FEATURE
from claimsmith.allocate.usage import FREE, DeviceUse
from claimsmith.errors import InputError
from claimsmith.model.claim import SubRequest
from claimsmith.model.node import Node

__all__ = ["ProfileBook", "UseKey", "is_plain"]

UseKey = tuple[object, ...]
"""How a device is used, without the holders."""


@dataclass(slots=True, eq=False)
class ProfileBook:
    """Profiles of devices, and signatures of nodes made from them, for the claims of one book.

    Two nodes of equal signature give the same answers, but for the names of devices and holders.

    Attributes:
        attributes: The attributes that constraints read.
    """

    book: ClauseBook
    _clauses: tuple[str, ...] = field(init=False)
    attributes: tuple[str, ...] = field(init=False)
    _derived: tuple[str, ...] = field(init=False)
    _reads_capacity: bool = field(init=False)
    _known: dict[DeviceRecord, int] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        specs = list(_list_specs(self.book))
        selectors = [selector for spec in specs for selector in spec.selectors]
        selectors += [selector for item in self.book.split_classes.values() for selector in item.selectors]
        texts = [selector.expression for selector in selectors if selector.expression]
        self._clauses = tuple(dict.fromkeys(texts))
        constraints = [item for claim in self.book.claims for item in claim.spec.constraints]
        self.attributes = tuple(
            dict.fromkeys(item.match_attribute or item.distinct_attribute or "" for item in constraints)
        )
        self._derived = tuple(dict.fromkeys(d.expression for spec in specs for d in spec.derived_attributes))
        self._reads_capacity = any(spec.capacity for spec in specs)

    @property
    def _cluster(self) -> PreparedCluster:
        return self.book.cluster

    def find_profile(self, record: DeviceRecord) -> int:
        """Return a number for what the claims see of a device, whoever uses it; equal for equal devices."""
        found = self._known.get(record)
        if found is None:
            found = self._known[record] = self._intern(self._read_profile(record))
        return found

    def _intern(self, value: object) -> int:
        return self._numbers.setdefault(value, len(self._numbers))

    def find_use(self, record: DeviceRecord) -> UseKey:
        """Return how a device is used, without the holders."""
        use = record.use
        if use is FREE:
            return ()
        if is_plain(use):
            return ("whole",)
        parts = self._cluster.find_uses(record.id)
        return tuple(
            sorted((part.dedicated, part.shares, part.tracked, *sorted(part.consumed.items())) for part in parts)
        )

    def sign_node(self, node: Node, view: NodeView) -> tuple[object, ...]:
        """Return what decides about the claims on a node; the order of its devices does not."""
        pools = tuple(self._sign_pool(pool, node) for pool in view.pools)
        skips = NODE_OPERATIONS_FEATURE in node.declared_features
        return (pools, tuple(pool.driver for pool in view.obsolete), bool(view.bad_selectors), skips)

    def _sign_pool(self, pool: PoolView, node: Node) -> tuple[object, ...]:
        if not pool.usable:
            return (pool.id.driver, pool.incomplete, pool.found, pool.expected, pool.invalid, pool.id)
        local = any(record.slice.per_device_node_selection for record in pool.devices)
        numbers: dict[object, int] = {}
        devices = [
            self._intern(
                (
                    self.find_profile(record),
                    self.find_use(record),
                    tuple(self._number(numbers, record, name) for name in self.attributes),
                    not local or node_reaches(record.device, node),
                )
            )
            for record in pool.devices
        ]
        counted: tuple[object, ...] = ()
        if pool.counter_sets:
            counters = self._cluster.find_counters(pool)
            far = (record for record in pool.elsewhere if record.use is not FREE)
            elsewhere = sorted((record.consumption, self.find_use(record)) for record in far)
            counted = (
                tuple(sorted(counters.declared.items())),
                tuple(sorted(counters.left.items())),
                tuple(elsewhere),
                len(counters.vanished),
            )
        return (pool.id.driver, tuple(sorted(devices)), counted)

    def _number(self, numbers: dict[object, int], record: DeviceRecord, name: str) -> object:
        """The value of an attribute that a constraint reads, numbered in order of appearance on the node."""
        value = read_value(record.find_attribute(name), lists=self._cluster.features.list_type_attributes)
        if value is None:
            return -1
        return (
            value.kind,
            *sorted(numbers.setdefault((name, value.kind, item), len(numbers)) for item in value.values),
        )

    def _read_profile(self, record: DeviceRecord) -> tuple[object, ...]:
        device, selectors = record.device, self._cluster.selectors
        verdicts = 0
        for text in self._clauses:
            verdicts = verdicts * 2 + (selectors.evaluate(text, record) is True)
        capacity: tuple[object, ...] = ()
        if device.capacity and (self._reads_capacity or device.allow_multiple_allocations):
            capacity = tuple(
                sorted((name, item.value.nanos, repr(item.policy)) for name, item in device.capacity.items())
            )
        taints = tuple(sorted((t.key, t.value, t.effect) for t in device.taints)) if device.taints else ()
        groups = tuple(item.compatibility_groups for item in device.consumes_counters)
        derived = tuple(_describe(selectors.derive(text, record)) for text in self._derived)
        return (
            verdicts,
            device.allow_multiple_allocations,
            capacity,
            taints,
            record.consumption,
            groups,
            derived,
            bool(device.binding_conditions),
            bool(record.slice.skip_node_operations),
        )


def is_plain(use: DeviceUse) -> bool:
    """Tell whether one claim at most holds the device, as a whole."""
    return use.dedicated and not use.shares and len(use.holders) <= 1


def _list_specs(book: ClauseBook) -> Iterable[SubRequest]:
    return (spec for claim in book.split_claims for request in claim.spec.requests for spec in request.alternatives)


def _describe(value: object) -> str:
    return "error" if isinstance(value, InputError) else repr(value)

"""One node and the claims that don't fit on it, taken apart: clauses of selectors, and uses of devices one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from claimsmith.allocate.explain.context import ALONE, ExplainContext
from claimsmith.allocate.prepared.index import NodeView, PreparedCluster
from claimsmith.allocate.prepared.pools import is_ignored, node_reaches
from claimsmith.allocate.prepared.problem import AllocationProblem
from claimsmith.allocate.prepared.records import DeviceRecord, SliceRecord
from claimsmith.allocate.prepared.usage import FREE, DeviceUse
from claimsmith.cel import CelEnvironment, compile_expression
from claimsmith.errors import CelCompileError
from claimsmith.model.claim import (
    AllocationResult,
    DeviceClass,
    DeviceResult,
    ResourceClaim,
    ResourceClaimSpec,
    Selector,
)
from claimsmith.model.features import Features
from claimsmith.model.metadata import Metadata
from claimsmith.model.names import ClaimRef, DeviceId, PoolId
from claimsmith.model.node import Node
from claimsmith.model.pool import ResourceSlice
from claimsmith.model.quantity import Quantity

__all__ = ["ClauseBook", "NodeCase", "UsePart", "build_case", "find_near_classes", "split_clauses", "targets_node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsePart:
    """What one claim holds of one device.

    Args:
        holder: The claim; None when nobody knows it.
        standin: A claim that holds exactly this, for problems in which others' uses are left out.
    """

    device: DeviceId
    use: DeviceUse
    holder: ClaimRef | None
    standin: ResourceClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """Everything that decides whether the claims fit on one node.

    Args:
        asked: The claims as they are.
        is_whole: Selectors are not split into clauses.
        pinned: Clauses that read capacity: where a problem gives devices capacity, their answers are kept as they were.
        claims: The claims, with one selector for each clause.
        slices: All slices of the pools that the node sees.
        classes: The classes that the claims name, with one selector for each clause.
        uses: What is held of the devices of these pools.
        records: The devices of these slices as the cluster knows them.
        targeting: Names of the slices of each pool that target the node, of the newest generation among them.
        history: Slices that tell what devices in use take that are no longer published.
        context: What is known of the claims beside the cluster.
    """

    cluster: PreparedCluster
    node: Node
    view: NodeView
    asked: tuple[ResourceClaim, ...]
    claims: tuple[ResourceClaim, ...]
    classes: Mapping[str, DeviceClass]
    slices: tuple[ResourceSlice, ...]
    uses: tuple[UsePart, ...]
    records: Mapping[DeviceId, DeviceRecord]
    targeting: Mapping[PoolId, tuple[str, ...]]
    history: tuple[ResourceSlice, ...] = ()
    is_whole: bool = False
    pinned: tuple[str, ...] = ()
    context: ExplainContext = ALONE

    @property
    def features(self) -> Features:
        """The gates."""
        return self.cluster.features

    @property
    def problem(self) -> AllocationProblem:
        """The problem with nothing relaxed."""
        return AllocationProblem(
            node=self.node,
            claims=self.claims,
            slices=self.slices,
            classes=self.classes,
            allocated=tuple(part.standin for part in self.uses),
            features=self.features,
            history=self.history,
        )


@dataclass(slots=True, eq=False)
class ClauseBook:
    """Claims and classes with one selector for each clause; the same for all nodes.

    Args:
        whole: Leave selectors as they are.
        context: What is known of the claims beside the cluster.
    """

    cluster: PreparedCluster
    claims: tuple[ResourceClaim, ...]
    whole: bool = False
    context: ExplainContext = ALONE
    split_claims: tuple[ResourceClaim, ...] = field(init=False)
    split_classes: dict[str, DeviceClass] = field(init=False)

    def __post_init__(self) -> None:
        self.split_claims = tuple(self._split_claim(claim) for claim in self.claims)
        names = {
            spec.device_class
            for claim in self.claims
            for request in claim.spec.requests
            for spec in request.alternatives
        }
        known = self.cluster.classes
        for name in sorted(names - set(known)):
            names.update(find_near_classes(name, known))
        self.split_classes = {
            name: replace(known[name], selectors=self._split(known[name].selectors))
            for name in sorted(names)
            if name in known
        }

    @property
    def pinned(self) -> tuple[str, ...]:
        """The clauses that read capacity, or the device as a whole."""
        find_reads = self.cluster.selectors.find_reads
        return tuple(
            text for text in self.texts if any(read.field in ("capacity", "device") for read in find_reads(text))
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """All clauses, each once."""
        specs = (s for claim in self.split_claims for request in claim.spec.requests for s in request.alternatives)
        selectors = [selector for spec in specs for selector in spec.selectors]
        selectors += [selector for item in self.split_classes.values() for selector in item.selectors]
        return tuple(dict.fromkeys(selector.expression for selector in selectors if selector.expression))

    def _split(self, selectors: Iterable[Selector]) -> tuple[Selector, ...]:
        if self.whole:
            return tuple(selectors)
        features = self.cluster.features
        return tuple(
            Selector(expression=text or None)
            for selector in selectors
            for text in (
                split_clauses(selector.expression, features) if selector.expression else (selector.expression,)
            )
        )

    def _split_claim(self, claim: ResourceClaim) -> ResourceClaim:
        requests = tuple(
            replace(
                request,
                exactly=request.exactly and replace(request.exactly, selectors=self._split(request.exactly.selectors)),
                first_available=tuple(
                    replace(spec, selectors=self._split(spec.selectors)) for spec in request.first_available
                ),
            )
            for request in claim.spec.requests
        )
        return replace(claim, spec=replace(claim.spec, requests=requests))


def find_near_classes(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return classes of nearly the same name as one that does not exist, the nearest first."""
    return tuple(get_close_matches(name, sorted(known), n=3, cutoff=0.4))


def split_clauses(expression: str, features: Features) -> tuple[str, ...]:
    """Return the parts of a selector between `&&` at its top; the selector itself when it has none that stand alone."""
    environment = CelEnvironment.for_stored_expressions(features)
    try:
        texts = tuple(clause.text for clause in compile_expression(expression, environment=environment).clauses())
        for text in texts:
            compile_expression(text, environment=environment)
    except CelCompileError:
        return (expression,)
    return texts


def build_case(book: ClauseBook, node: Node) -> NodeCase:
    """Return the case of the claims on one node."""
    cluster = book.cluster
    view = cluster.view_node(node)
    targeting = _find_targeting(cluster, node)
    pools = [*dict.fromkeys((*(pool.id for pool in view.pools), *view.obsolete))]
    slices = [record for pool in pools for record in cluster.find_slices(pool)]
    slices.sort(key=lambda record: record.position)
    records = {device.id: device for item in slices for device in item.devices if _counts(item, view)}
    vanished = [device.id for pool in view.pools if pool.usable for device in cluster.find_counters(pool).vanished]
    old = [record.slice for device in vanished if (record := cluster.find_old(device)) is not None]
    known = {id(item.slice) for item in slices}
    return NodeCase(
        cluster=cluster,
        node=node,
        view=view,
        asked=book.claims,
        is_whole=book.whole,
        context=book.context,
        pinned=book.pinned,
        claims=book.split_claims,
        classes=book.split_classes,
        slices=tuple(item.slice for item in slices),
        uses=tuple(_list_uses(cluster, [*_list_used(slices), *vanished])),
        records=records,
        targeting=targeting,
        history=tuple({id(slice): slice for slice in old if id(slice) not in known}.values()),
    )


def _counts(record: SliceRecord, view: NodeView) -> bool:
    """Whether a slice is of the generation that the node sees."""
    newest = {pool.id: pool.generation for pool in view.pools}
    return record.slice.generation == newest.get(record.slice.pool_id, record.slice.generation)


def _find_targeting(cluster: PreparedCluster, node: Node) -> dict[PoolId, tuple[str, ...]]:
    found: dict[PoolId, list[ResourceSlice]] = {}
    for record in cluster.find_visible(node):
        slice = record.slice
        if is_ignored(record, cluster.features) or record.selector_error or not targets_node(slice, node):
            continue
        known = found.setdefault(slice.pool_id, [])
        if known and slice.generation > known[0].generation:
            known.clear()
        if not known or slice.generation == known[0].generation:
            known.append(slice)
    return {pool: tuple(slice.name for slice in slices) for pool, slices in found.items()}


def targets_node(slice: ResourceSlice, node: Node) -> bool:
    """Tell whether a slice, or one of its devices, is for the node."""
    if slice.per_device_node_selection:
        return any(node_reaches(device, node) for device in slice.devices)
    return node_reaches(slice, node)


def _list_used(slices: Iterable[SliceRecord]) -> Iterator[DeviceId]:
    seen: set[DeviceId] = set()
    for item in slices:
        for device in item.devices:
            if device.use is not FREE and device.id not in seen:
                seen.add(device.id)
                yield device.id


def _list_uses(cluster: PreparedCluster, devices: Iterable[DeviceId]) -> Iterator[UsePart]:
    for device in dict.fromkeys(devices):
        for number, use in enumerate(cluster.find_uses(device)):
            holder = use.holders[0] if use.holders else None
            yield UsePart(device=device, use=use, holder=holder, standin=_stand_in(device, use, holder, number))


def _stand_in(device: DeviceId, use: DeviceUse, holder: ClaimRef | None, number: int) -> ResourceClaim:
    """A claim that holds what the use says, and nothing else."""
    results = [DeviceResult(request="held", driver=device.driver, pool=device.pool, device=device.device)]
    results = results if use.dedicated else []
    amounts = {
        name: Quantity(nanos=nanos, exponent=0 if nanos % 10**9 == 0 else -9) for name, nanos in use.consumed.items()
    }
    for share in range(use.shares):
        consumed = (amounts if share == 0 else {}) if use.tracked else None
        results.append(
            DeviceResult(
                request="held",
                driver=device.driver,
                pool=device.pool,
                device=device.device,
                share_id=f"00000000-0000-4000-8000-{number:06d}{share:06d}",
                consumed_capacity=consumed,
            )
        )
    ref = holder or ClaimRef("", "unknown")
    return ResourceClaim(
        metadata=Metadata(name=ref.name, namespace=ref.namespace),
        spec=ResourceClaimSpec(),
        allocation=AllocationResult(results=tuple(results)),
    )

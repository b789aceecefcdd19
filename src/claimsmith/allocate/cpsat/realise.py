"""Turns values of the model into allocations: each member in turn by the exact search, held to what the model chose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from claimsmith.allocate.cpsat.ledger import BatchLedger
from claimsmith.allocate.cpsat.linear import Expression
from claimsmith.allocate.cpsat.model import Chosen, PlacementModel
from claimsmith.allocate.cpsat.offers import Cell
from claimsmith.allocate.cpsat.parts import Part
from claimsmith.allocate.cpsat.patterns import BatchKind
from claimsmith.allocate.prepared.plan import RequestPlan
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.screening import Screened
from claimsmith.allocate.prepared.usage import DeviceUse
from claimsmith.allocate.search.decide import NodeSearch
from claimsmith.allocate.search.engine import SearchLimits
from claimsmith.allocate.verify import VerifyCase, verify_allocation
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.names import ClaimRef, DeviceId, PoolId

__all__ = ["Realiser", "Target", "read_targets"]

Devices = dict[RequestPlan, tuple[DeviceRecord, ...]]


@dataclass(slots=True, eq=False, kw_only=True)
class Target:
    """Where a member goes, and which devices the requests of each of its own claims get.

    Args:
        claims: By place among the claims that only the member has: devices by place of the request, with the place
            of the alternative.
        hosted: The same for claims that it shares and that are allocated for it.
    """

    node: str
    claims: list[dict[int, tuple[int, tuple[DeviceRecord, ...]]]] = field(default_factory=list)


def read_targets(model: PlacementModel, values: Sequence[int]) -> tuple[dict[int, Target], dict[ClaimRef, Target]]:
    """Return where the model puts each member, and each claim that members share."""
    reader = _Reader(model, values)
    members: dict[int, Target] = {}
    shared: dict[ClaimRef, Target] = {}
    for part in model.parts.values():
        places = iter(part.members)
        for node, variable in model.placed[part.number].items():
            targets = [Target(node=node) for _ in range(values[variable])]
            reader.fill(part, node, targets)
            for target in targets:
                if part.claim is not None:
                    shared[part.claim.ref] = target
                else:
                    members[next(places)] = target
    return members, shared


class _Reader:
    """Deals the devices that the model counts out to the members that it counts."""

    def __init__(self, model: PlacementModel, values: Sequence[int]) -> None:
        self._values = values
        self._free: dict[BatchKind, Iterator[DeviceRecord]] = {}
        self._chosen: dict[tuple[int, str], dict[int, dict[Cell, list[Chosen]]]] = {}
        self._uses, self._cells = model.uses_of, model.cells
        for chosen in model.chosen:
            by_claim = self._chosen.setdefault((chosen.offer.part.number, chosen.offer.node), defaultdict(dict))
            by_claim[chosen.cell.claim].setdefault(chosen.cell, []).append(chosen)

    def fill(self, part: Part, node: str, targets: list[Target]) -> None:
        """Give each of the equal targets on a node its devices."""
        for target in targets:
            target.claims = [{} for _ in part.plan.claims]
        for claim, cells in self._chosen.get((part.number, node), {}).items():
            left = iter(targets)
            for cell, chosen in cells.items():
                its = [next(left) for _ in range(self._values[self._cells[cell]])] if targets else []
                self._fill_cell(claim, chosen, its)

    def _fill_cell(self, claim: int, chosen: list[Chosen], targets: list[Target]) -> None:
        by_request: dict[int, Iterator[Target]] = {}
        for item in chosen:
            request = item.choice.request
            left = by_request.setdefault(request.request, iter(targets))
            its = [next(left) for _ in range(self._values[item.variable])] if targets else []
            for target, records in zip(its, self._deal(item, len(its)), strict=True):
                target.claims[claim][request.request] = (request.alternative, records)

    def _deal(self, chosen: Chosen, count: int) -> list[tuple[DeviceRecord, ...]]:
        """Deal devices out in turn, so that nobody gets two shares of one."""
        units = [
            kind
            for use in self._uses[chosen]
            for kind in [use.kind] * self._evaluate(use.expression)
        ]  # fmt: skip
        records = [self._take(kind, chosen.choice.request) for kind in units]
        return [tuple(records[start::count]) for start in range(count)]

    def _evaluate(self, expression: Expression) -> int:
        return sum(self._values[variable] * factor for variable, factor in expression.items())

    def _take(self, kind: BatchKind, request: RequestPlan) -> DeviceRecord:
        if kind.size == 1 or request.shape.admin:
            return kind.first
        return next(self._free.setdefault(kind, iter(kind.records)))


class _HeldSearch(NodeSearch):
    """A search that may take the given devices alone."""

    held: Devices

    def find_candidates(self, plan: RequestPlan) -> Screened:
        """Return those of the devices that the request may have."""
        records = self.held.get(plan, ())
        screened = NodeSearch.find_candidates(self, plan) if records else Screened()
        kept = tuple(candidate for candidate in screened.candidates if candidate.record in records)
        return Screened(candidates=kept, poisoned=screened.poisoned, warnings=screened.warnings)

    def find_all(self, plan: RequestPlan) -> Screened:
        """Return all devices for the alternatives that are chosen."""
        return NodeSearch.find_all(self, plan) if plan in self.held else Screened()


class Realiser:
    """Allocates for members what the model chose, and has each allocation checked independently."""

    def __init__(self, model: PlacementModel, ledger: BatchLedger, share_ids: Callable[[], str]) -> None:
        self._model, self._ledger, self._share_ids = model, ledger, share_ids
        self._uses: dict[PoolId, list[tuple[DeviceId, DeviceUse]]] = defaultdict(list)
        for device, use in model.layout.cluster.uses.items():
            self._uses[device.pool_id].append((device, use))
        self._fresh: list[ResourceClaim] = []

    def realise(self, values: Sequence[int]) -> str:
        """Book all members that the model places; return what went wrong, empty when nothing did."""
        members, shared = read_targets(self._model, values)
        waiting = dict(sorted(members.items()))
        while waiting:
            ready = [place for place, target in waiting.items() if self._is_ready(place, target, shared)]
            if not ready:
                return "members wait for each other's shared claims"
            for place in ready:
                problem = self._place(place, waiting.pop(place), shared)
                if problem:
                    return problem
        return ""

    def _is_ready(self, place: int, target: Target, shared: dict[ClaimRef, Target]) -> bool:
        wanted = (claim.ref for claim in self._ledger.find_wanted(place))
        return all(shared[ref].node == target.node for ref in wanted if ref in shared)

    def _place(self, place: int, target: Target, shared: dict[ClaimRef, Target]) -> str:
        cluster, name = self._model.layout.cluster, self._model.layout.members[place].name
        wanted = self._ledger.find_wanted(place)
        if not self._ledger.is_open(place, target.node):
            return f"member {name}: node {target.node} is not open to it"
        plan = cluster.plan(wanted)
        search = _HeldSearch(cluster, plan, self._model.layout.nodes[target.node], SearchLimits(budget_steps=10_000))
        search.held = {}
        own = iter(target.claims)
        for claim in plan.claims:
            ref = claim.claim.ref
            devices = shared[ref].claims[0] if ref in shared else next(own)
            for number, (alternative, records) in devices.items():
                search.held[claim.groups[number].alternatives[alternative]] = records
        decision = search.decide(self._share_ids)
        if not isinstance(decision, Allocation):
            return f"member {name}: node {target.node} does not give what the model chose: {decision}"
        broken = verify_allocation(self._build_case(target.node, wanted), decision.results)
        if broken:
            return f"member {name}: {broken[0]}"
        self._ledger.book(place, decision, wanted)
        placed = self._ledger.placed[place]
        self._fresh.extend(placed.fresh if placed is not None else ())
        return ""

    def _build_case(self, node: str, wanted: tuple[ResourceClaim, ...]) -> VerifyCase:
        cluster = self._model.layout.cluster
        here = self._model.layout.nodes[node]
        slices = cluster.find_node_slices(here)
        pools = dict.fromkeys(slice.pool_id for slice in slices)
        uses = [item for pool in pools for item in self._uses.get(pool, ())]
        return VerifyCase(
            node=here,
            claims=wanted,
            slices=slices,
            classes=cluster.classes,
            allocated=tuple(self._fresh),
            taken=frozenset(device for device, use in uses if use.dedicated),
            shared={device: use.consumed for device, use in uses if use.shares},
            features=cluster.features,
            deviations=cluster.deviations,
            history=cluster.history,
        )

"""The limits of devices: their number, their capacity, the counters and compatibility groups of their pools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from claimsmith.allocate.cpsat.linear import Expression, add_up
from claimsmith.allocate.cpsat.model import PlacementModel, Use
from claimsmith.allocate.cpsat.patterns import BatchKind
from claimsmith.allocate.prepared.counters import PoolCounters
from claimsmith.model.names import CounterId, PoolId

__all__ = ["add_resources"]


def add_resources(model: PlacementModel) -> None:
    """Demand that nothing is taken twice or overdrawn.

    What administrators look at counts for nobody but the member itself, so that each of them is added up with all
    others' devices on its own.
    """
    normal = [use for use in model.uses if not use.is_admin]
    _add_sizes(model, normal)
    _add_scope(model, normal)
    looking = {use.part.number: use.part for use in model.uses if use.is_admin}
    for part in looking.values():
        own = [use for use in model.uses if use.part is part]
        _add_views(model, own)
        _add_scope(model, [*normal, *(use for use in own if use.is_admin)], only=own)
    if looking and sum(part.count for part in model.parts.values()) > 1:
        model.narrowed.append("devices that administrators look at beside those of the other members")


def _add_sizes(model: PlacementModel, uses: Iterable[Use]) -> None:
    """No device has two holders."""
    by_kind: dict[BatchKind, list[Use]] = defaultdict(list)
    for use in uses:
        if not use.kind.shareable:
            by_kind[use.kind].append(use)
    for kind, same in by_kind.items():
        model.linear.add_row(add_up((use.expression, 1) for use in same), upper=kind.size)


def _add_views(model: PlacementModel, uses: Iterable[Use]) -> None:
    """Within a pod an administrator's device is not had twice by one claim, nor by a later request that wants it alone.

    Source: allocateDevice in structured/internal/experimental, k8s.io/dynamic-resource-allocation v0.37.2.
    """
    by_kind: dict[BatchKind, list[Use]] = defaultdict(list)
    for use in uses:
        if use.kind.admin_seen and not use.kind.shareable:
            by_kind[use.kind].append(use)
    for same in by_kind.values():
        by_claim: dict[int, list[Use]] = defaultdict(list)
        for use in same:
            by_claim[use.chosen.cell.claim].append(use)
        for mine in by_claim.values():
            model.linear.add_row(add_up((use.expression, 1) for use in mine), upper=1)
        for use in same:
            earlier = [other for other in same if other.is_admin and other.chosen.cell.claim < use.chosen.cell.claim]
            if not use.is_admin:
                for other in earlier:
                    model.linear.add_row(add_up([(use.expression, 1), (other.expression, 1)]), upper=1)


def _add_scope(model: PlacementModel, uses: list[Use], *, only: list[Use] | None = None) -> None:
    """Add up what the uses take of capacities and counters.

    Args:
        only: Leave out whatever none of these takes part in.
    """
    kinds = {use.kind for use in (uses if only is None else only)}
    pools = {use.kind.view.id for use in (uses if only is None else only)}
    flags: dict[BatchKind, Expression] = {}
    by_kind: dict[BatchKind, list[Use]] = defaultdict(list)
    for use in uses:
        by_kind[use.kind].append(use)
    for kind, same in by_kind.items():
        if kind.shareable and kind in kinds:
            _add_capacity(model, kind, same)
    drawing = [kind for kind in by_kind if kind.view.id in pools and _draws(kind)]
    for kind in drawing:
        total = add_up((use.expression, 1) for use in by_kind[kind])
        if kind.shareable:
            flag = model.linear.add_variable(1)
            model.linear.add_row(total | {flag: -model.linear.find_range(total)[1]}, upper=0)
            total = {flag: 1}
        flags[kind] = total
    _add_counters(model, flags)
    if model.layout.cluster.features.compatibility_groups:
        _add_groups(model, flags)


def _draws(kind: BatchKind) -> bool:
    """Whether taking a device of the kind takes counters, or a place among compatible devices."""
    return next(iter(kind.answers.values())).charges


def _add_capacity(model: PlacementModel, kind: BatchKind, uses: Iterable[Use]) -> None:
    """The shares of a device take no more than it has left."""
    uses = list(uses)
    for name, capacity in kind.first.device.capacity.items():
        left = capacity.value.nanos - kind.first.use.consumed.get(name, 0)
        amounts = [(use.expression, use.nanos.get(name, 0)) for use in uses]
        model.add_limit(amounts, left, f"capacity {name} of device {kind.first.id}")


def _add_counters(model: PlacementModel, flags: dict[BatchKind, Expression]) -> None:
    """The devices of a pool draw no more from its counters than is left."""
    drawn: dict[tuple[PoolId, CounterId], list[tuple[Expression, int]]] = defaultdict(list)
    left: dict[tuple[PoolId, CounterId], int] = {}
    for kind, taken in flags.items():
        counters = model.layout.cluster.find_counters(kind.view)
        for counter, nanos in kind.first.consumption:
            key = (kind.view.id, counter)
            drawn[key].append((taken, nanos))
            left[key] = min(left.get(key, counters.left[counter]), counters.left[counter])
    for (pool, counter), amounts in drawn.items():
        model.add_limit(amounts, left[pool, counter], f"counter {counter} of pool {pool}")


def _add_groups(model: PlacementModel, flags: dict[BatchKind, Expression]) -> None:
    """The devices on a counter set have a compatibility group in common, or none of them has groups."""
    by_set: dict[tuple[PoolId, str], list[tuple[frozenset[str], Expression]]] = defaultdict(list)
    known: dict[tuple[PoolId, str], PoolCounters] = {}
    for kind, taken in flags.items():
        for item in kind.first.device.consumes_counters:
            key = (kind.view.id, item.counter_set)
            by_set[key].append((frozenset(item.compatibility_groups) or frozenset({""}), taken))
            known[key] = model.layout.cluster.find_counters(kind.view)
    for key, drawn in by_set.items():
        names = sorted(set().union(*(groups for groups, _ in drawn)))
        current = known[key].groups
        if key[1] in current:
            there = current[key[1]]
            names = [name for name in names if name in (frozenset({""}) if there is None else there)]
        bound = {name: model.linear.add_variable(1) for name in names}
        model.linear.add_row(dict.fromkeys(bound.values(), 1), upper=1)
        for groups, taken in drawn:
            most = model.linear.find_range(taken)[1]
            common = {bound[name]: -most for name in groups if name in bound}
            model.linear.add_row({**taken, **common}, upper=0)

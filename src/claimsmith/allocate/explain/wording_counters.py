"""Sentences about counters: what is left at present, and what devices that could serve take of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from claimsmith.allocate.explain.devices import format_amount, format_names
from claimsmith.allocate.explain.finding import NodeFinding
from claimsmith.allocate.explain.obstacles import Obstacles, find_places
from claimsmith.allocate.explain.relaxations import Relaxation
from claimsmith.allocate.explain.wording_sets import Sentence
from claimsmith.allocate.prepared.records import DeviceRecord
from claimsmith.allocate.prepared.usage import FREE
from claimsmith.model.names import CounterId, DeviceId, PoolId
from claimsmith.model.quantity import Quantity

__all__ = ["word_counter"]


def word_counter(finding: NodeFinding, obstacles: Obstacles, relaxation: Relaxation) -> Sentence:
    """Say what is left of a counter beside all that is in use, and what devices that could serve take of it.

    The reasons list only the uses that are needed as reasons, so that more may be in use than they tell; what is left
    is short all the more.
    """
    pool, counter = _read_counter(relaxation)
    totals = _find_totals(finding, pool)
    left = _find_left(finding, pool, totals)
    takers = list(_find_takers(finding, obstacles, pool, counter, left=left[counter]))
    by_amount: dict[int, list[DeviceId]] = defaultdict(list)
    for record in takers:
        by_amount[dict(record.consumption)[counter]].append(record.id)
    needed = "; ".join(
        f"{format_amount(nanos, like=totals[counter])} needed for "
        f"{'each of ' if len(devices) > 1 else ''}{format_names(devices)}"
        for nanos, devices in sorted(by_amount.items())
    )
    rest = format_amount(max(left[counter], 0), like=totals[counter])
    where = f"counter {counter.counter} of set {counter.counter_set}: {rest} of {totals[counter]} left"
    others = _find_others(finding, pool, counter)
    short = ", ".join(_list_short(takers, totals, left, others))
    text = (f"{where}, {needed}" if needed else where) + (f"; short as well: {short}" if short else "")
    data = {"counter": str(counter), "pool": str(pool), "left": rest, "total": str(totals[counter]), "rule": where}
    return text, tuple(record.id for record in takers), data


def _read_counter(relaxation: Relaxation) -> tuple[PoolId, CounterId]:
    subject = relaxation.subject
    if isinstance(subject, tuple) and isinstance(subject[1], CounterId):
        return subject[0], subject[1]
    raise TypeError(f"relaxation {relaxation.id}: found no counter")


def _find_totals(finding: NodeFinding, pool: PoolId) -> dict[CounterId, Quantity]:
    """The amounts of the pool's counters."""
    return {
        CounterId(item.name, name): amount
        for slice in reversed(finding.case.slices)
        if slice.pool_id == pool
        for item in slice.shared_counters
        for name, amount in item.counters.items()
    }


def _find_left(finding: NodeFinding, pool: PoolId, totals: Mapping[CounterId, Quantity]) -> dict[CounterId, int]:
    """What is left of them at present; all of them where the pool is not in order."""
    case = finding.case
    view = next((view for view in case.view.pools if view.id == pool and view.usable), None)
    known = {} if view is None else case.cluster.find_counters(view).left
    return {counter: known.get(counter, total.nanos) for counter, total in totals.items()}


def _find_takers(
    finding: NodeFinding, obstacles: Obstacles, pool: PoolId, counter: CounterId, *, left: int
) -> Iterator[DeviceRecord]:
    """The devices that are not in use and take of the counter: those that could serve, of them those that need more."""
    found = [
        record
        for record in obstacles.devices
        if record.id.pool_id == pool and dict(record.consumption).get(counter) and record.use is FREE
    ]
    places = find_places(finding)
    fitting = [record for record in found if any(obstacles.is_asked_for(record, place) for place in places)] or found
    short = [record for record in fitting if dict(record.consumption)[counter] > left]
    yield from short or fitting


def _find_others(finding: NodeFinding, pool: PoolId, counter: CounterId) -> list[CounterId]:
    """The other counters that draw on the same set and are no reasons of their own."""
    told = {r.subject for r in finding.kept if r.part == "counter"}
    others = [r.subject for r in finding.relaxations if r.part == "counter" and r.subject not in told]
    found = (subject[1] for subject in others if isinstance(subject, tuple) and subject[0] == pool)
    return [other for other in found if other.counter_set == counter.counter_set]


def _list_short(
    takers: Sequence[DeviceRecord],
    totals: Mapping[CounterId, Quantity],
    left: Mapping[CounterId, int],
    others: Iterable[CounterId],
) -> Iterator[str]:
    """What else each of the devices finds too little of."""
    for other in others:
        needs = [dict(record.consumption).get(other, 0) for record in takers]
        if not needs or min(needs) <= left.get(other, 0) or other not in totals:
            continue
        total = totals[other]
        rest, least = format_amount(max(left[other], 0), like=total), format_amount(min(needs), like=total)
        yield f"{other.counter} ({rest} of {total} left, {least} needed)"

"""Mixed batches decided jointly beside the same batches decided one by one, as many schedulers do.

`make bench ARGS=mixed` runs forty seeds of fifty and of sixty claims.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import mean, quantiles
from time import process_time
from typing import Final

from claimsmith.allocate.batch import JointDecision, JointLimits
from claimsmith.allocate.cpsat.hint import FirstFit, OneByOne, list_orders, search_batch
from claimsmith.allocate.cpsat.layout import lay_out
from claimsmith.allocate.cpsat.objective import Objective
from claimsmith.allocate.cpsat.solution import Solution
from claimsmith.allocate.joint import allocate_jointly
from claimsmith.allocate.policy.objective import PACK
from claimsmith.model.decision import Allocation
from tests.bench.figures import Figure
from tests.bench.mixed import MixedBatch, draw_batch
from tests.unit.allocate.jointly import check_jointly

SEEDS: Final = range(40)
SIZES: Final = (50, 60)
LIMIT_S: Final = 2.0
"""What the slowest twentieth of the batches may take at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one batch.

    Args:
        first, best: Claims placed by the first node that fits, and by the best of all passes one by one.
        joint: Claims placed jointly.
        seconds: Processor time of the joint decision.
        proven: Levels of the objective that are proven to be the best, from the first on.
        optimal: All levels are.
    """

    first: int
    best: int
    joint: int
    seconds: float
    proven: int
    optimal: bool


def measure() -> Iterator[Figure]:
    """Give how many claims find devices, and how long the decision takes."""
    decide(draw_batch(0, claims=5))
    for size in SIZES:
        found = [try_batch(draw_batch(seed, claims=size)) for seed in SEEDS]
        yield from report(size, found)


def try_batch(drawn: MixedBatch) -> Outcome:
    """Return what comes of a batch; the joint answer is checked independently."""
    layout = lay_out(drawn.cluster, drawn.batch, drawn.nodes)
    objective, limits = Objective.of(layout, PACK), JointLimits()
    first = OneByOne(layout, FirstFit(layout, limits.search, number_shares())).run(list_orders(layout)[0])
    best = search_batch(layout, objective, limits=limits.search, share_ids=number_shares())
    start = process_time()
    decision = decide(drawn)
    seconds = process_time() - start
    check_jointly(drawn.cluster, drawn.batch, decision, nodes=drawn.nodes)
    return Outcome(
        first=count_placed(first),
        best=count_placed(best),
        joint=sum(isinstance(found, Allocation) for found in decision.decisions.values()),
        seconds=seconds,
        proven=count_proven(decision),
        optimal=decision.status == "optimal",
    )


def decide(drawn: MixedBatch) -> JointDecision:
    """Decide for a batch as the product does by default."""
    return allocate_jointly(drawn.cluster, drawn.batch, nodes=drawn.nodes, share_ids=number_shares(), policy=PACK)


def report(size: int, found: list[Outcome]) -> Iterator[Figure]:
    """Give the figures of the batches of one size."""
    gains = [100 * (item.joint - item.first) / item.first for item in found]
    fewer = sum(item.joint < max(item.first, item.best) for item in found)
    more = sum(item.joint > item.first for item in found)
    placed = 100 * mean(item.proven > 0 for item in found)
    yield Figure(
        name=f"mixed-{size}-placed",
        ours=mean(item.joint for item in found),
        peer=mean(item.first for item in found),
        peer_name="the first node that fits, one by one",
        unit="placed",
        work=f"{len(found)} seeds: jointly {mean(gains):+.1f} % on average (most {max(gains):+.1f} %), "
        f"more claims on {more}, fewer on {fewer}; proven to be the most on {placed:.0f} %",
    )
    yield Figure(
        name=f"mixed-{size}-against-best",
        ours=mean(item.joint for item in found),
        peer=mean(item.best for item in found),
        peer_name="the best of four passes one by one, by the same objective",
        unit="placed",
        work=f"levels proven, of 6: {mean(item.proven for item in found):.1f}; "
        f"all of them on {100 * mean(item.optimal for item in found):.0f} %",
    )
    seconds = [item.seconds for item in found]
    yield Figure(
        name=f"mixed-{size}-p95",
        ours=quantiles(seconds, n=20)[-1],
        peer=LIMIT_S,
        peer_name="the limit",
        unit="s",
        work=f"processor time; median {quantiles(seconds, n=2)[0]:.2f} s, most {max(seconds):.2f} s",
    )


def count_placed(solution: Solution) -> int:
    """Return how many members have a node."""
    return sum(placed is not None for placed in solution.placed)


def count_proven(decision: JointDecision) -> int:
    """Return how many levels of the objective are at their bounds, from the first on."""
    pairs = zip(decision.bound, decision.objective, strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def number_shares() -> Callable[[], str]:
    """Return a source of uids that are all different."""
    numbers = itertools.count(1)
    return lambda: f"00000000-0000-4000-8000-{next(numbers):012d}"

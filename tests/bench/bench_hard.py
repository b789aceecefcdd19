"""The hard families of recorded problems at their largest sizes: steps and time of the search, beside upstream's here.

Steps are counted, so that they are the same on every machine. Upstream gives up after ten seconds, as in its scheduler.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from claimsmith.testing.conformance.records import parse_problem
from tests.bench.figures import Figure, measure_best
from tests.bench.upstream import NAME, Peer, UpstreamPeer
from tests.conformance.hard import SQUARE_FAMILIES, HardCase, solve, solve_hard

REPEATS = 3
LIMIT_MS = 100
TIMEOUT_MS = 10_000
_QUESTION = ("name", "features", "node", "nodes", "classes", "slices", "allocatedClaims", "claims")


def measure(*, families: Container[str] | None = None, upstream: Peer | None = None) -> Iterator[Figure]:
    """Count the steps of each family at its largest size, and measure how long they take.

    Args:
        families: Which; None for all.
        upstream: Measures upstream's allocator; by default the real one, which is built on first use.

    Raises:
        AssertionError: A verdict is not true.
    """
    peer = upstream or UpstreamPeer()
    largest = {case.family: case for case in sorted(solve_hard(families), key=lambda case: case.size)}
    for family, case in largest.items():
        if case.verdict != case.truth:
            raise AssertionError(f"{family} of size {case.size}: found {case.verdict}, expected {case.truth}")
        yield _count(case)
        yield _time(case, peer)


def _count(case: HardCase) -> Figure:
    factor = SQUARE_FAMILIES.get(case.family)
    unfinished = ", which ran out of time" if case.upstream_verdict == "timeout" else ""
    return Figure(
        name=f"hard-{case.family}",
        ours=case.steps,
        peer=case.upstream_steps,
        peer_name=f"upstream v0.37.2, recorded{unfinished}",
        unit="steps",
        work=f"n = {case.size}, {case.truth}; {f'at most {factor} n²' if factor else 'searched'}",
    )


def _time(case: HardCase, peer: Peer) -> Figure:
    problem = parse_problem(case.record)
    question = {key: value for key, value in case.record.items() if key in _QUESTION} | {"timeoutMs": TIMEOUT_MS}
    upstream_ms = peer.measure_nodes(question) / 1e3
    gave_up = f", which gives up after {TIMEOUT_MS // 1000} s" if case.upstream_verdict == "timeout" else ""
    return Figure(
        name=f"hard-{case.family}-time",
        ours=measure_best(lambda: solve(problem), repeats=REPEATS) * 1e3,
        peer=upstream_ms,
        peer_name=f"{NAME}{gave_up}",
        unit="ms",
        work=f"n = {case.size}, {case.truth}; the cluster prepared and searched",
        allowed=LIMIT_MS,
    )

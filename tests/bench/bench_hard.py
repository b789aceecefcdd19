"""Steps of the search on the hard families of recorded problems, at their largest sizes, beside upstream's.

Steps are counted, not timed, so that these figures are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figures import Figure
from tests.conformance.hard import SQUARE_FAMILIES, solve_hard


def measure() -> Iterator[Figure]:
    """Count the steps of each family at its largest size."""
    largest = {case.family: case for case in solve_hard()}
    for family, case in largest.items():
        unfinished = case.upstream_verdict == "timeout"
        bound = f"at most {SQUARE_FAMILIES[family]} n²" if family in SQUARE_FAMILIES else "searched"
        yield Figure(
            name=f"hard-{family}",
            ours=case.steps,
            peer=case.upstream_steps,
            peer_name="upstream v0.37.2, recorded" + (", which ran out of time" if unfinished else ""),
            unit="steps",
            work=f"n = {case.size}, {case.truth}; {bound}",
        )

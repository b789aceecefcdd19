"""Thousands of nodes that all differ in use: cold and warm, beside upstream on the same cluster in the same run.

Upstream's figure is its time on all nodes, as its scheduler's filter looks at them; where that would take minutes, on
some of the nodes, scaled up. Ours answers for all nodes, too, by looking at those that differ.
"""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import process_time
from typing import Any, Final

from claimsmith.allocate.explain.tally import tally_reasons
from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate_first
from claimsmith.api.resource import encode_allocation_result, parse_resource_claim
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation, Decision
from tests.bench.figures import Figure, measure_best
from tests.bench.scale_cluster import ScaleCluster, make_claim, make_cluster, make_request
from tests.bench.slices import DRIVER
from tests.bench.upstream import NAME, SCHEDULER_PROGRAMS, ClusterTiming, Peer, UpstreamPeer

NODES: Final = 5_000
REPEATS: Final = 3
CLAIMS: Final = 200
SAMPLE_MS: Final = 5_000
"""What upstream may take for a question; slower ones are asked about some of the nodes."""
Json = dict[str, Any]

_MODEL = f'device.attributes["{DRIVER}"].model == "{{model}}"'
_NUMA = f"{DRIVER}/numaNode"
MEMORY_OF = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{{least}}Gi")) >= 0'
H100, L40S = _MODEL.format(model="H100"), _MODEL.format(model="L40S")
SHAPES: Final[Sequence[tuple[Sequence[Json], str]]] = (
    ([make_request("r", 1, H100)], ""),
    ([make_request("r", 2, MEMORY_OF.format(least=40))], _NUMA),
    ([make_request("r", 4, L40S)], _NUMA),
    ([make_request("r", 1, H100), make_request("s", 1, L40S)], ""),
    ([make_request("r", 6, H100)], ""),
)
"""Requests, and the attribute that their devices have in common; the fourth fits nowhere."""


def measure(*, nodes: int = NODES, claims: int = CLAIMS, upstream: Peer | None = None) -> Iterator[Figure]:
    """Measure a cluster of so many nodes, and so many claims in turn.

    Args:
        upstream: Measures upstream's allocator; by default the real one, which is built on first use.
    """
    bench = _Bench(make_cluster(nodes), upstream or UpstreamPeer())
    yield from bench.measure_warm(claims)
    yield from bench.measure_cold()
    yield from bench.measure_unique()
    yield from bench.measure_selectors()
    yield from _measure_labels(nodes, bench.peer)
    yield from _measure_process(nodes, bench)


class _Bench:
    """One cluster, asked by both sides."""

    def __init__(self, made: ScaleCluster, peer: Peer) -> None:
        self.made, self.peer = made, peer
        self.size = f"{len(made.nodes):,} nodes of 8 devices, {len(made.held):,} devices in use at random"
        self.nothing = make_claim("c", make_request("r", 1, MEMORY_OF.format(least=200)))
        self._asked: dict[str, ClusterTiming] = {}

    def prepare(self) -> PreparedCluster:
        """Return the cluster made anew."""
        return PreparedCluster.from_snapshot(self.made.snapshot())

    def decide(self, cluster: PreparedCluster, claim: ResourceClaim) -> Decision:
        """Return the decision over all nodes."""
        return allocate_first(cluster, (claim,), nodes=self.made.nodes.values(), share_ids=itertools.count().__str__)

    def ask(self, claim: Json, *, programs: int = SCHEDULER_PROGRAMS) -> ClusterTiming:
        """Return what upstream takes on all nodes; asked about some of them first, and scaled up if that is slow."""
        key = json.dumps(claim)
        if key not in self._asked:
            self._asked[key] = ask_scaled(self.made, self.peer, claim, programs=programs)
        return self._asked[key]

    def measure_warm(self, count: int) -> Iterator[Figure]:
        """Claims of several shapes, one after the other, each counted as allocated before the next one comes."""
        cluster, elapsed = self.prepare(), list[float]()
        for number in range(count + len(SHAPES)):
            requests, same = SHAPES[number % len(SHAPES)]
            text = json.dumps(make_claim(f"c-{number}", *requests, same=same)).encode()
            start = process_time()
            claim = parse_resource_claim(text)
            decision = self.decide(cluster, claim)
            if isinstance(decision, Allocation):
                status = {"allocation": encode_allocation_result(decision.results[0])}
                json.dumps(status)
                cluster.see_claim(None, _allocated(claim, decision))
            elapsed.append((process_time() - start) * 1e3)
        peers = [self.ask(make_claim("c", *requests, same=same)) for requests, same in SHAPES]
        warm = sorted(elapsed[len(SHAPES) :])
        work = (
            f"{count} claims of {len(SHAPES)} shapes in turn, from JSON to the JSON of the allocation, each counted "
            f"before the next; {self.size}"
        )
        every = f"{NAME}, all nodes for one claim of each shape, mean"
        yield _figure("claim-warm-median", statistics.median(warm), _mean(peers), work=work, peer=every, allowed=2)
        yield _figure("claim-warm-p95", warm[int(len(warm) * 0.95)], _mean(peers), work=work, peer=every, allowed=2)
        first = sum(peer.first_ms for peer in peers) / len(peers)
        ended = f"{NAME}, nodes up to the first that fits, mean"
        yield _figure("claim-warm-to-first-node", statistics.median(warm), first, work=work, peer=ended)

    def measure_cold(self) -> Iterator[Figure]:
        """The first decisions of a cluster, from decoded objects."""
        requests, same = SHAPES[1]
        first = make_claim("c", *requests, same=same)
        claim, nothing = parse_resource_claim(first), parse_resource_claim(self.nothing)
        index = measure_best(lambda: self.decide(self.prepare(), claim), repeats=REPEATS)
        timing = self.ask(first)
        yield _figure(
            "cold-index", index * 1e3, timing.total_ms, allowed=100,
            work=f"decoded slices and claims to the first decision; {self.size}", peer=f"{NAME}, all nodes",
        )  # fmt: skip
        timing = self.ask(self.nothing)
        prepared = [self.prepare() for _ in range(REPEATS)]
        known = prepared[0]
        cold = measure_best(lambda: self._refuse(prepared.pop(), nothing), repeats=REPEATS)
        yield _figure(
            "nothing-fits-cold", cold * 1e3, timing.total_ms, allowed=100, peer=f"{NAME}, all nodes, without a reason",
            work=f"a selector that no device passes: every node judged for the first time, and the reason; {self.size}",
        )  # fmt: skip
        warm = measure_best(lambda: self.decide(known, nothing), repeats=REPEATS)
        yield _figure(
            "nothing-fits-warm", warm * 1e3, timing.total_ms, allowed=2, peer=f"{NAME}, all nodes",
            work=f"the same, asked again; {self.size}",
        )  # fmt: skip

    def _refuse(self, cluster: PreparedCluster, claim: ResourceClaim) -> None:
        """Find out that a claim fits nowhere, and why."""
        decision = self.decide(cluster, claim)
        reasons = tally_reasons(cluster, (claim,), nodes=self.made.nodes.values())
        if isinstance(decision, Allocation) or not reasons:
            raise AssertionError(f"found {decision}, expected that the claim does not fit, with a reason")

    def measure_unique(self) -> Iterator[Figure]:
        """A selector that reads an attribute which is different on every device."""
        wanted = make_claim("c", make_request("r", 1, f'device.attributes["{DRIVER}"].uuid == "GPU-none"'))
        claim, timing = parse_resource_claim(wanted), self.ask(wanted)
        cold, warm = self.decide_cold(claim), self._decide_again([claim])
        for name, elapsed, when in (("cold", cold, "for the first time"), ("warm", warm, "asked again")):
            yield _figure(
                f"unique-attribute-{name}", elapsed * 1e3, timing.total_ms, peer=f"{NAME}, all nodes",
                work=f"a selector on the uuid, which no device has: evaluated on every device, {when}; {self.size}",
            )  # fmt: skip

    def measure_selectors(self) -> Iterator[Figure]:
        """Twelve claims in turn, with one selector for all, and with one for each."""
        texts = [f"{H100} && {MEMORY_OF.format(least=least)}" for least in range(12)]
        cards = [f'device.attributes["{DRIVER}"].index != {100 + number}' for number in range(12)]
        for name, selectors, asked in (
            ("one", texts[:1] * 12, cards[:1]),
            ("twelve", texts, cards),
        ):
            claims = [parse_resource_claim(make_claim("c", make_request("r", 1, text))) for text in selectors]
            yield _figure(
                f"selectors-{name}",
                self._decide_again(claims) * 1e3 / len(claims),
                self.ask(make_claim("c", make_request("r", 8, *asked))).total_ms,
                work=f"twelve claims in turn with {name} selector{'s' * (name != 'one')}, for each claim; {self.size}",
                peer=f"{NAME}, all nodes, a claim with so many selectors, of which {SCHEDULER_PROGRAMS} stay compiled",
            )

    def _decide_again(self, claims: Sequence[ResourceClaim]) -> float:
        """The least time in seconds that all claims take that have been decided once before."""
        cluster = self.prepare()

        def decide_all() -> None:
            for claim in claims:
                self.decide(cluster, claim)

        decide_all()
        return measure_best(decide_all, repeats=REPEATS)

    def decide_cold(self, claim: ResourceClaim) -> float:
        """Return the least time in seconds of a first decision of a prepared cluster."""
        prepared = [self.prepare() for _ in range(REPEATS)]
        return measure_best(lambda: self.decide(prepared.pop(), claim), repeats=REPEATS)


def ask_scaled(made: ScaleCluster, peer: Peer, claim: Json, *, programs: int = SCHEDULER_PROGRAMS) -> ClusterTiming:
    """Return what upstream takes on all nodes; if that is long, what it takes on a fiftieth of them, times fifty."""
    few = max(1, len(made.nodes) // 50)
    sample = peer.measure_cluster(made.ask(claim, nodes=few) | {"cachedPrograms": programs})
    if sample.total_ms * len(made.nodes) / few > SAMPLE_MS:
        factor = len(made.nodes) / few
        return ClusterTiming(sample.total_ms * factor, sample.first_ms, sample.fitting, sample.peak_mb)
    return peer.measure_cluster(made.ask(claim) | {"cachedPrograms": programs})


def _measure_labels(nodes: int, peer: Peer) -> Iterator[Figure]:
    """Pools that choose their node by a label: a quarter of the nodes, then all."""
    wanted = make_claim("c", make_request("r", 1, MEMORY_OF.format(least=200)))
    claim = parse_resource_claim(wanted)
    for name, count in (("quarter", max(4, nodes // 4)), ("all", nodes)):
        made = make_cluster(count, by_label=True)
        bench = _Bench(made, peer)
        yield _figure(
            f"pools-by-label-{name}", bench.decide_cold(claim) * 1e3, ask_scaled(made, peer, wanted).total_ms,
            work=f"every node judged for the first time; each pool selects its node by a label; {bench.size}",
            peer=f"{NAME}, all nodes, from a fiftieth of them where that takes long",
        )  # fmt: skip


def _measure_process(nodes: int, bench: _Bench) -> Iterator[Figure]:
    """A process that begins with JSON."""
    child = [sys.executable, "-m", "tests.bench.scale_child", str(nodes)]
    found = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    timing, go = bench.ask(bench.nothing), f"{NAME}: the harness, with its copies of the JSON"
    yield _figure(
        "memory", found["added_mb"], timing.peak_mb, unit="MB", allowed=400, peer=go,
        work=f"resident memory that JSON, slices, claims, index and a decision add, {found['total_mb']:.0f} MB in all; "
        f"{bench.size}",
    )  # fmt: skip
    yield _figure(
        "from-json", found["seconds"] * 1e3, timing.total_ms, allowed=2_000, peer=f"{NAME}, the decision alone",
        work=f"decoding {len(bench.made.text) / 1e6:.0f} MB of slices, indexing them, and the first decision, in a new "
        f"process; {bench.size}",
    )  # fmt: skip


def _allocated(claim: ResourceClaim, decision: Allocation) -> ResourceClaim:
    return replace(claim, allocation=decision.results[0])


def _mean(timings: Sequence[ClusterTiming]) -> float:
    return sum(timing.total_ms for timing in timings) / len(timings)


def _figure(
    name: str, ours: float, peer_value: float, *, work: str, peer: str, unit: str = "ms", allowed: float | None = None
) -> Figure:
    return Figure(
        name=f"scale-{name}", ours=ours, peer=peer_value, peer_name=peer, unit=unit, work=work, allowed=allowed
    )

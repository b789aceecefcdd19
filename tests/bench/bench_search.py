"""The search for one pod on every node of a cluster: microseconds per node, beside upstream's medians.

Recorded ones come from another machine; those of the real upstream that runs here are measured on the same cluster.

Each node has 8 GPUs; class and request carry a selector, as in the recorded runs of upstream's allocator.
`first pod` pays for preparing the cluster and for every selector; a further pod of the same shape finds the answers.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate_on_nodes
from claimsmith.api.resource import parse_device_class, parse_resource_claim, parse_resource_slice_list
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.decision import Allocation
from claimsmith.model.metadata import Metadata
from claimsmith.model.node import Node
from claimsmith.model.snapshot import ClusterSnapshot
from tests.bench.figures import Figure, measure_best
from tests.bench.slices import DEVICES_PER_SLICE, DRIVER, HOSTNAME, make_slice_list, node_name
from tests.bench.upstream import NAME, Peer, UpstreamPeer

REPEATS = 3
UPSTREAM = "upstream's allocator v0.37.2 (Go), recorded on another 2-core machine"
LIVE_LIMIT_US = 10_000_000
"""What upstream may take for all nodes of a case; slow cases are measured on fewer nodes."""
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
}
FITS = (
    f'device.attributes["{DRIVER}"].model == "H100" && '
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("70Gi")) >= 0'
)
NOTHING_FITS = FITS.replace("70Gi", "200Gi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of claim.

    Args:
        recorded_us: What upstream takes per node, in microseconds.
        fits: Whether every node can serve the claim.
        by_label: Whether slices select their node by a label instead of naming it.
        is_live: Whether upstream can be measured here: its program for tests keeps more expressions than its scheduler.
    """

    name: str
    work: str
    requests: Sequence[Mapping[str, Any]]
    constraints: Sequence[Mapping[str, Any]] = ()
    recorded_us: float
    fits: bool = True
    by_label: bool = False
    is_live: bool = True


def _request(name: str, count: int, *selectors: str) -> dict[str, Any]:
    exactly = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": selector}} for selector in selectors],
    }
    return {"name": name, "exactly": exactly}


CASES = (
    Case(name="one-gpu", work="one GPU; the first fits", requests=[_request("r", 1, FITS)], recorded_us=17),
    Case(name="eight-gpus", work="all eight GPUs", requests=[_request("r", 8, FITS)], recorded_us=100),
    Case(
        name="four-on-one-numa",
        work="four GPUs with the same NUMA node",
        requests=[_request("r", 4, FITS)],
        constraints=[{"matchAttribute": f"{DRIVER}/numaNode"}],
        recorded_us=57,
    ),
    Case(
        name="nothing-fits",
        work="a selector that no GPU passes",
        requests=[_request("r", 1, NOTHING_FITS)],
        recorded_us=90,
        fits=False,
    ),
    Case(
        name="nine-requests",
        work="nine requests for one GPU each, on eight",
        requests=[_request(f"r{number}", 1, FITS) for number in range(9)],
        recorded_us=224_000,
        fits=False,
    ),
    Case(
        name="nodes-by-label",
        work="one GPU of a slice that selects its node by a label",
        requests=[_request("r", 1, FITS)],
        recorded_us=1_200,
        by_label=True,
    ),
    Case(
        name="eleven-expressions",
        work="all eight GPUs by ten selectors and that of the class",
        requests=[_request("r", 8, *(f'device.attributes["{DRIVER}"].index != {100 + n}' for n in range(10)))],
        recorded_us=6_100,
        is_live=False,
    ),
)


def measure(*, nodes: int = 1_000, upstream: Peer | None = None) -> Iterator[Figure]:
    """Measure each case on so many nodes.

    Args:
        upstream: Measures upstream's allocator; by default the real one, which is built on first use.
    """
    snapshots = {by_label: make_snapshot(nodes, by_label=by_label) for by_label in (False, True)}
    for case in CASES:
        yield from _measure_case(case, snapshots[case.by_label], upstream or UpstreamPeer())
    yield _measure_brute_force()


def make_snapshot(nodes: int, *, by_label: bool = False) -> ClusterSnapshot:
    """Return a cluster of so many nodes with 8 free GPUs each."""
    names = [node_name(number) for number in range(nodes)]
    return ClusterSnapshot(
        nodes={name: Node(metadata=Metadata(name=name, labels={HOSTNAME: name})) for name in names},
        slices=parse_resource_slice_list(make_slice_list(nodes, model="H100", by_label=by_label)),
        classes={"gpu": parse_device_class(CLASS)},
    )


def make_claim(case: Case) -> dict[str, Any]:
    """Return the claim of a case, as JSON."""
    spec = {"devices": {"requests": list(case.requests), "constraints": list(case.constraints)}}
    metadata = {"name": "c", "namespace": "default", "uid": "1"}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    return kind | {"metadata": metadata, "spec": spec}


def make_problem(case: Case, nodes: int) -> dict[str, Any]:
    """Return the question to upstream: the same claim on the same cluster."""
    names = [node_name(number) for number in range(nodes)]
    return {
        "name": case.name,
        "features": "default",
        "nodes": [{"metadata": {"name": name, "labels": {HOSTNAME: name}}} for name in names],
        "classes": [CLASS],
        "slices": json.loads(make_slice_list(nodes, model="H100", by_label=case.by_label))["items"],
        "claims": [make_claim(case)],
        "timeoutMs": 15_000,
    }


def _measure_case(case: Case, snapshot: ClusterSnapshot, upstream: Peer) -> Iterator[Figure]:
    claim = parse_resource_claim(make_claim(case))
    per_node = 1e6 / len(snapshot.nodes)
    cluster = PreparedCluster.from_snapshot(snapshot)
    _search(cluster, claim, snapshot, fits=case.fits)
    further = measure_best(lambda: _search(cluster, claim, snapshot, fits=case.fits), repeats=REPEATS)
    first = measure_best(
        lambda: _search(PreparedCluster.from_snapshot(snapshot), claim, snapshot, fits=case.fits), repeats=REPEATS
    )
    for name, elapsed, pod in (
        ("", further, "a further pod"),
        ("-first", first, "the first pod, with the cluster prepared"),
    ):
        yield Figure(
            name=f"search-{case.name}{name}",
            ours=elapsed * per_node,
            peer=case.recorded_us,
            peer_name=UPSTREAM,
            unit="us",
            work=f"per node: {case.work}; {pod}; {len(snapshot.nodes):,} nodes of 8",
        )
    if case.is_live:
        asked = max(1, min(len(snapshot.nodes), int(LIVE_LIMIT_US / case.recorded_us)))
        yield Figure(
            name=f"search-{case.name}-beside-upstream",
            ours=further * per_node,
            peer=upstream.measure_nodes(make_problem(case, asked)),
            peer_name=f"{NAME}, on {asked:,} nodes",
            unit="us",
            work=f"per node: {case.work}; a further pod; {len(snapshot.nodes):,} nodes of 8",
        )


def _search(cluster: PreparedCluster, claim: ResourceClaim, snapshot: ClusterSnapshot, *, fits: bool) -> None:
    decisions = allocate_on_nodes(cluster, (claim,), nodes=snapshot.nodes.values(), share_ids=itertools.count().__str__)
    for decision in decisions:
        if isinstance(decision, Allocation) is not fits:
            raise AssertionError(f"found {decision}, expected that the claim {'fits' if fits else 'does not fit'}")


def _measure_brute_force() -> Figure:
    """Compare with trying every choice, on one node, where the counting bound is worth most."""
    case = next(case for case in CASES if case.name == "nine-requests")
    snapshot = make_snapshot(1)
    claim = parse_resource_claim(make_claim(case))
    cluster = PreparedCluster.from_snapshot(snapshot)
    ours = measure_best(lambda: _search(cluster, claim, snapshot, fits=False), repeats=REPEATS)
    return Figure(
        name="search-beside-brute-force",
        ours=ours * 1e6,
        peer=measure_best(lambda: place_each(range(len(case.requests)), range(DEVICES_PER_SLICE)), repeats=1) * 1e6,
        peer_name="every choice tried, in Python",
        unit="us",
        work=f"one node: {case.work}",
    )


def place_each(requests: Sequence[int], devices: Sequence[int]) -> bool:
    """Tell whether each request gets a device of its own, by trying every choice."""

    def place(position: int, free: frozenset[int]) -> bool:
        return position == len(requests) or any(place(position + 1, free - {device}) for device in free)

    return place(0, frozenset(devices))

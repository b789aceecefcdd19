"""A process of its own that reads a cluster from JSON and decides for one claim: how long, and how much memory.

python -m tests.bench.scale_child NODES
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import process_time

from claimsmith.allocate.prepared.index import PreparedCluster
from claimsmith.allocate.search.decide import allocate_first
from claimsmith.api.resource import parse_device_class, parse_resource_claim, parse_resource_slice_list
from tests.bench.scale_cluster import CLASS, make_claim, make_held, make_nodes, make_request, parse_held
from tests.bench.slices import make_slice_list

__all__ = ["main"]


def main(nodes: int) -> None:
    """Print how long it took to read and to build, in seconds, and how much memory that took, in MB."""
    before_mb = _read_mb()
    text, names = make_slice_list(nodes), make_nodes(nodes)
    claims = parse_held(make_held(nodes))
    start = process_time()
    slices = parse_resource_slice_list(text)
    cluster = PreparedCluster()
    cluster.classes = {"gpu": parse_device_class(CLASS)}
    cluster.replace_slices(slices)
    cluster.replace_claims(claims)
    claim = parse_resource_claim(make_claim("c", make_request("r", 1, "false")))
    allocate_first(cluster, (claim,), nodes=names.values(), share_ids=str)
    elapsed_s = process_time() - start
    added_mb = _read_mb() - before_mb
    print(json.dumps({"seconds": elapsed_s, "added_mb": added_mb, "total_mb": _read_mb()}))


def _read_mb() -> float:
    """Resident memory, as Linux tells."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


if __name__ == "__main__":
    main(int(sys.argv[1]))

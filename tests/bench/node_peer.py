"""The peer that runs here: a driver on upstream's Go library, with as many devices, on the same node."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.cluster.agents import WITH_THE_TESTS
from tests.cluster.cluster import RealCluster
from tests.cluster.recipe import NODE
from tests.toolchain import CACHE, hash_files, run_go

__all__ = ["GO_HERE", "build_peer", "peer_command"]

GO_HERE: Final = "a driver on k8s.io/dynamic-resource-allocation v0.37.2 (Go), run here"
_SOURCES: Final = Path(__file__).parent / "godriver"
_FLAGS: Final = ("-trimpath", "-ldflags", "-s -w")


def build_peer() -> Path:
    """Return the program for the present sources, built if nobody has built it before.

    Raises:
        ToolchainError: It can't be built.
    """
    program = CACHE / f"godriver-{hash_files(sorted(_SOURCES.iterdir()))}"
    if program.exists():
        return program
    print("building the peer, which takes a minute the first time", file=sys.stderr)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        built = Path(scratch) / "driver"
        run_go(["build", *_FLAGS, "-o", built, "."], folder=_SOURCES)
        built.replace(program)
    return program


def peer_command(program: Path, cluster: RealCluster, devices: int) -> list[str]:
    """Return the command line of the peer on the cluster's node."""
    paths = cluster.paths
    folders = (paths.plugins, paths.plugins_registry, paths.cdi)
    return [*WITH_THE_TESTS, str(program), str(cluster.kubeconfig), NODE, *map(str, folders), str(devices)]

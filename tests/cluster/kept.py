"""Which cluster a test gets: one that was left running for development, or a fresh one.

CLAIMSMITH_CLUSTER names a folder in which clusters stay from run to run, one for each set of gates.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.cluster.binaries import build_binaries
from tests.cluster.cluster import RealCluster
from tests.cluster.daemons import ClusterError
from tests.cluster.packages import install_packages
from tests.cluster.place import find_obstacle
from tests.cluster.recipe import GATE_SETS, GateSet

__all__ = ["open_cluster", "stop_kept"]

_VARIABLE: Final = "CLAIMSMITH_CLUSTER"
_LOGS: Final = Path(__file__).resolve().parents[2] / "build" / "cluster"
_LONGEST_FOLDER: Final = 30


@contextmanager
def open_cluster(gates: GateSet) -> Iterator[RealCluster]:
    """Give a running cluster; unless it is kept, it ends with the block, and leaves nothing but logs in build/cluster.

    Raises:
        ClusterError: It can't run here, or it left something behind.
    """
    if reason := find_obstacle():
        raise ClusterError(f"no real cluster here: {reason}")
    install_packages()
    binaries = build_binaries()
    if kept := os.environ.get(_VARIABLE):
        with _locked(Path(kept).resolve(), gates) as folder:
            yield _open_kept(folder, binaries, gates)
        return
    folder = Path(tempfile.mkdtemp(prefix="cs", dir="/tmp"))
    cluster = RealCluster(folder, binaries=binaries, gates=gates)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        leaks = cluster.find_leaks()
        _keep_logs(cluster)
        shutil.rmtree(folder)
    if leaks:
        raise ClusterError(f"the cluster in {folder} left behind: {'; '.join(leaks)}")


def stop_kept(folder: Path) -> None:
    """End the clusters of a folder and remove it."""
    folder = folder.resolve()
    for gates in GATE_SETS:
        if (folder / gates / "ports.json").exists():
            RealCluster(folder / gates, binaries=build_binaries(), gates=gates).stop()
            shutil.rmtree(folder / gates)


@contextmanager
def _locked(root: Path, gates: GateSet) -> Iterator[Path]:
    """Give the folder of one set of gates; one run of the tests at a time uses it."""
    if len(str(root)) > _LONGEST_FOLDER:
        raise ClusterError(f"{_VARIABLE}={root}: found {len(str(root))} letters, allowed {_LONGEST_FOLDER}")
    folder = root / gates
    folder.mkdir(parents=True, exist_ok=True)
    with (root / f"{gates}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _open_kept(folder: Path, binaries: Path, gates: GateSet) -> RealCluster:
    """Return the cluster of a folder, started anew if not all of it runs."""
    cluster = RealCluster(folder, binaries=binaries, gates=gates)
    running = cluster.daemons.running() if cluster.daemons.are_there else {}
    if not running or not all(running.values()):
        cluster.stop()
        shutil.rmtree(folder)
        folder.mkdir()
        cluster = RealCluster(folder, binaries=binaries, gates=gates)
        cluster.start(stays=True)
    return cluster


def _keep_logs(cluster: RealCluster) -> None:
    target = _LOGS / cluster.gates
    target.mkdir(parents=True, exist_ok=True)
    for path in cluster.folder.glob("*.log"):
        shutil.copy(path, target)

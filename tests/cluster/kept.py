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
from typing import Final, Protocol

from tests.cluster.binaries import build_binaries
from tests.cluster.cluster import RealCluster
from tests.cluster.daemons import ClusterError
from tests.cluster.packages import install_packages
from tests.cluster.place import find_obstacle
from tests.cluster.recipe import GATE_SETS, GateSet

__all__ = ["open_cluster", "open_control_plane", "stop_kept"]

_VARIABLE: Final = "CLAIMSMITH_CLUSTER"
_LOGS: Final = Path(__file__).resolve().parents[2] / "build" / "cluster"
_LONGEST_FOLDER: Final = 30
_CONTROL_PLANE: Final = "api"


class _Start(Protocol):
    def __call__(self, cluster: RealCluster, /, *, stays: bool = ...) -> None: ...


@contextmanager
def open_cluster(gates: GateSet) -> Iterator[RealCluster]:
    """Give a running cluster; unless it is kept, it ends with the block, and leaves nothing but logs in build/cluster.

    Raises:
        ClusterError: It can't run here, or it left something behind.
    """
    with _open(gates, gates, RealCluster.start) as cluster:
        yield cluster


@contextmanager
def open_control_plane() -> Iterator[RealCluster]:
    """Give a running API server with etcd and controllers, of default gates and without a node; kept as clusters are.

    Raises:
        ClusterError: It can't run here, or it left something behind.
    """
    with _open("defaults", _CONTROL_PLANE, RealCluster.start_control_plane) as cluster:
        yield cluster


@contextmanager
def _open(gates: GateSet, place: str, start: _Start) -> Iterator[RealCluster]:
    """Give a running cluster that is kept in a folder of some name, if it is."""
    if reason := find_obstacle():
        raise ClusterError(f"no real cluster here: {reason}")
    install_packages()
    binaries = build_binaries()
    if kept := os.environ.get(_VARIABLE):
        with _locked(Path(kept).resolve(), place) as folder:
            yield _open_kept(RealCluster(folder, binaries=binaries, gates=gates), start)
        return
    folder = Path(tempfile.mkdtemp(prefix="cs", dir="/tmp"))
    cluster = RealCluster(folder, binaries=binaries, gates=gates)
    try:
        start(cluster)
        yield cluster
    finally:
        cluster.stop()
        leaks = cluster.find_leaks()
        _keep_logs(cluster, place)
        shutil.rmtree(folder)
    if leaks:
        raise ClusterError(f"the cluster in {folder} left behind: {'; '.join(leaks)}")


def stop_kept(folder: Path) -> None:
    """End the clusters of a folder and remove it."""
    folder = folder.resolve()
    for place in (*GATE_SETS, _CONTROL_PLANE):
        if (folder / place / "ports.json").exists():
            RealCluster(folder / place, binaries=build_binaries(), gates="defaults").stop()
            shutil.rmtree(folder / place)


@contextmanager
def _locked(root: Path, place: str) -> Iterator[Path]:
    """Give the folder of one cluster; one run of the tests at a time uses it."""
    if len(str(root)) > _LONGEST_FOLDER:
        raise ClusterError(f"{_VARIABLE}={root}: found {len(str(root))} letters, allowed {_LONGEST_FOLDER}")
    folder = root / place
    folder.mkdir(parents=True, exist_ok=True)
    with (root / f"{place}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _open_kept(cluster: RealCluster, start: _Start) -> RealCluster:
    """Return a cluster, started anew if not all of it runs."""
    running = cluster.daemons.running() if cluster.daemons.are_there else {}
    if running and all(running.values()):
        return cluster
    cluster.stop()
    shutil.rmtree(cluster.folder)
    cluster.folder.mkdir()
    fresh = RealCluster(cluster.folder, binaries=cluster.binaries, gates=cluster.gates)
    start(fresh, stays=True)
    return fresh


def _keep_logs(cluster: RealCluster, place: str) -> None:
    target = _LOGS / place
    target.mkdir(parents=True, exist_ok=True)
    for path in cluster.folder.glob("*.log"):
        shutil.copy(path, target)

"""The real upstream as a peer that runs here: its CEL and its allocator, in the Go program of the conformance tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tests.conformance.fuzz.upstream import Upstream, build_upstream

__all__ = ["NAME", "SCHEDULER_PROGRAMS", "ClusterTiming", "Peer", "SelectorRates", "UpstreamPeer"]

NAME: Final = "upstream v0.37.2 (Go), run here"

SCHEDULER_PROGRAMS: Final = 10
"""How many compiled selectors upstream's scheduler keeps."""

Json = dict[str, Any]


class SelectorRates(NamedTuple):
    """Evaluations per second.

    Args:
        prepared: On devices that were made ready before.
        scheduler: As upstream's scheduler does it, which makes each device ready for each evaluation.
    """

    prepared: float
    scheduler: float


class ClusterTiming(NamedTuple):
    """What a search on many nodes took.

    Args:
        total_ms: On all of them.
        first_ms: On those up to the first that fits; as `total_ms` when none does.
        fitting: How many fit.
        peak_mb: Most memory that the program has had resident.
    """

    total_ms: float
    first_ms: float
    fitting: int
    peak_mb: float


class Peer(Protocol):
    """Who measures itself on the same work."""

    def measure_selector(self, expression: str, devices: Sequence[Json], *, driver: str, repeats: int) -> SelectorRates:
        """Return how fast an expression is evaluated that every device passes."""

    def measure_nodes(self, problem: Json) -> float:
        """Return the median of the microseconds that a search takes on a node."""

    def measure_cluster(self, problem: Json) -> ClusterTiming:
        """Return what a search on all nodes of the problem takes, one after the other."""


class UpstreamPeer:
    """Upstream, built on first use; Go is fetched where there is none."""

    def measure_selector(self, expression: str, devices: Sequence[Json], *, driver: str, repeats: int) -> SelectorRates:
        """Return how fast an expression is evaluated that every device passes.

        Raises:
            AssertionError: Some devices don't pass.
        """
        workload = {
            "name": "selector", "features": "default", "expression": expression, "driver": driver,
            "devices": list(devices), "repeats": repeats,
        }  # fmt: skip
        with Upstream(build_upstream(), "bench") as upstream:
            timing = upstream.ask(workload)
        if timing["matching"] != len(devices):
            raise AssertionError(f"upstream found {timing['matching']} matching devices, expected {len(devices)}")
        return SelectorRates(1e9 / timing["prepared"], 1e9 / timing["scheduler"])

    def measure_nodes(self, problem: Json) -> float:
        """Return the median of the microseconds that a search takes on a node."""
        with Upstream(build_upstream(), "alloc") as upstream:
            micros = sorted(result["micros"] for result in upstream.ask(problem)["results"])
        return max(float(micros[len(micros) // 2]), 1.0)

    def measure_cluster(self, problem: Json) -> ClusterTiming:
        """Return what a search on all nodes of the problem takes, one after the other."""
        with Upstream(build_upstream(), "alloc") as upstream:
            results = upstream.ask(problem)["results"]
            peak_mb = _read_peak_mb(upstream.pid)
        total, first, fitting = 0.0, 0.0, 0
        for result in results:
            total += result["micros"] / 1e3
            first = first if fitting else total
            fitting += result["verdict"] == "feasible"
        return ClusterTiming(max(total, 0.001), max(first, 0.001), fitting, peak_mb)


def _read_peak_mb(pid: int) -> float:
    """The most memory that a process has had resident, as Linux tells."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024

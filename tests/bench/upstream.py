"""The real upstream as a peer that runs here: its CEL and its allocator, in the Go program of the conformance tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from tests.conformance.fuzz.upstream import Upstream, build_upstream

__all__ = ["NAME", "Peer", "SelectorRates", "UpstreamPeer"]

NAME: Final = "upstream v0.37.2 (Go), run here"

Json = dict[str, Any]


class SelectorRates(NamedTuple):
    """Evaluations per second.

    Args:
        prepared: On devices that were made ready before.
        scheduler: As upstream's scheduler does it, which makes each device ready for each evaluation.
    """

    prepared: float
    scheduler: float


class Peer(Protocol):
    """Who measures itself on the same work."""

    def measure_selector(self, expression: str, devices: Sequence[Json], *, driver: str, repeats: int) -> SelectorRates:
        """Return how fast an expression is evaluated that every device passes."""

    def measure_nodes(self, problem: Json) -> float:
        """Return the median of the microseconds that a search takes on a node."""


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

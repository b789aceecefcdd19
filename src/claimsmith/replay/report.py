"""What a replay is compared with: published results, and the summary of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Final

from claimsmith.replay.online import MARKS, Run

__all__ = ["PUBLISHED_FGD", "Summary", "summarize"]

PUBLISHED_FGD: Final[Mapping[str, Mapping[int, float]]] = {
    "default": {100: 95.23, 130: 95.39},
    "cpu050": {100: 95.00, 130: 95.21},
    "cpu200": {100: 94.82, 130: 95.05},
    "cpu250": {100: 93.20, 130: 93.41},
    "gpushare40": {100: 93.96, 130: 94.15},
    "gpushare100": {100: 86.64, 130: 86.90},
    "gpuspec33": {100: 87.84, 130: 94.55},
    "multigpu20": {100: 95.53, 130: 95.65},
    "multigpu50": {100: 97.09, 130: 97.18},
}
"""Allocated GPUs in percent by trace and rate of arrival, means of ten seeds.

Source: Weng et al., USENIX ATC 2023; analysis_allo.csv of the simulator.
"""

Summary = Mapping[int, tuple[float, float]]
"""Mean and standard deviation over seeds by rate of arrival, all in percent."""


def summarize(runs: Sequence[Run]) -> Summary:
    """Return the rates at the marks that every run has reached."""
    found = {}
    for mark in MARKS:
        rates = [run.rates[mark] for run in runs if mark in run.rates]
        if rates and len(rates) == len(runs):
            found[mark] = (mean(rates), stdev(rates) if len(rates) > 1 else 0.0)
    return found

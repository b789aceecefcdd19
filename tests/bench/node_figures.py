"""A figure of the agent on a node beside its goal and the recorded figures of its peers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from tests.bench.node_peer import GO_HERE

__all__ = ["GO", "PYDRA", "NodeFigure", "is_met", "print_node_figures", "write_node_figures"]

GO: Final = "dra-example-driver (Go)"
PYDRA: Final = "pydra 0.1.0 (Python)"
"""Recorded with Kubernetes 1.37.2 on another machine with as many cores, under other load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigure:
    """One figure; less is better.

    Args:
        name: Name in lower case with hyphens.
        ours: Our figure in `unit`; the mean when it was measured several times.
        worst: The worst of several measurements; None for a single one.
        goal: What it must not exceed; None where there is no goal.
        go_here: What the Go driver of this run had, on the same machine in the same minutes; None when not measured.
        go: Recorded figure of dra-example-driver, as text; empty when there is none.
        pydra: Recorded figure of pydra, as text; empty when there is none.
        work: What was done, in a few words.
    """

    name: str
    ours: float
    worst: float | None = None
    goal: float | None
    go_here: float | None = None
    go: str = ""
    pydra: str = ""
    unit: str
    work: str


def is_met(figure: NodeFigure) -> bool:
    """Tell whether a figure meets its goal; one without a goal does."""
    return figure.goal is None or figure.ours <= figure.goal


def write_node_figures(figures: Iterable[NodeFigure], folder: Path, *, machine: str) -> None:
    """Write all figures to one JSON file."""
    folder.mkdir(parents=True, exist_ok=True)
    found = [asdict(figure) | {"met": is_met(figure)} for figure in figures]
    content = {"machine": machine, "peers": {"go_here": GO_HERE, "go": GO, "pydra": PYDRA}, "figures": found}
    (folder / "node.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def print_node_figures(figures: Iterable[NodeFigure], console: Console, *, machine: str) -> None:
    """Print the figures as a table, with a line below for each that says what was done."""
    figures = tuple(figures)
    table = Table(title=machine, title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for header in ("ours", "worst", "goal", "Go here", "unit", "Go", "pydra", "met"):
        table.add_column(header, justify="right", no_wrap=True)
    for figure in figures:
        numbers = (_print(figure.ours), _print(figure.worst), _print(figure.goal), _print(figure.go_here), figure.unit)
        table.add_row(figure.name, *numbers, figure.go or "–", figure.pydra or "–", "yes" if is_met(figure) else "NO")
    console.print(table)
    for figure in figures:
        console.print(f"{figure.name}: {figure.work}", highlight=False, soft_wrap=True)
    console.print(
        f"Go here: {GO_HERE}; Go: {GO}; pydra: {PYDRA}; the last two recorded on another machine, under other load",
        soft_wrap=True,
    )


def _print(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

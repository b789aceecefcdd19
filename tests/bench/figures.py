"""What a benchmark gives: figures beside a peer, and how they are measured and written."""

from __future__ import annotations

import gc
import json
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured figure beside that of a peer on the same work.

    Args:
        name: Name of the figure and of its file; lower case with hyphens.
        ours: Our figure in `unit`.
        peer: The peer's figure in `unit`.
        peer_name: Who the peer is, and whether it ran here or was recorded elsewhere.
        unit: `.../s` or `placed` where more is better; a unit of time, or steps, where less is better.
        work: What was done, in a few words.
        allowed: The most, in `unit`, that ours is meant to be; None for no limit.
    """

    name: str
    ours: float
    peer: float
    peer_name: str
    unit: str
    work: str
    allowed: float | None = None

    @property
    def ratio(self) -> float:
        """How many times better ours is; below 1 the peer is better."""
        more_is_better = self.unit.endswith("/s") or self.unit == "placed"
        return self.ours / self.peer if more_is_better else self.peer / self.ours


def measure_best(work: Callable[[], object], *, repeats: int) -> float:
    """Return the least processor time in seconds that one call takes, which other load disturbs little.

    The garbage collector stays on, as in a daemon.
    """
    gc.collect()
    return min(_measure_once(work) for _ in range(repeats))


def _measure_once(work: Callable[[], object]) -> float:
    start = process_time()
    result = work()
    elapsed = process_time() - start
    del result
    return elapsed


def describe_machine() -> str:
    """Return processor, count of cores and Python version, so that figures can be told apart."""
    return f"{_find_processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _find_processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def write_figures(figures: Iterable[Figure], folder: Path, *, machine: str) -> None:
    """Write each figure to a JSON file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        content = asdict(figure) | {"ratio": round(figure.ratio, 3), "machine": machine}
        (folder / f"{figure.name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def format_markdown(figures: Iterable[Figure], *, command: str, machine: str) -> str:
    """Return a page with one table for each benchmark: ours beside the peer's, and what was done."""
    by_benchmark: dict[str, list[Figure]] = {}
    for figure in figures:
        by_benchmark.setdefault(figure.name.partition("-")[0], []).append(figure)
    lines = [
        "# Benchmarks",
        "",
        f"Made by `{command}` in one run on one machine: {machine}.",
        "Times are processor time on both sides; ours is the least of some repeats where the work does not say",
        "otherwise. `allowed` is what ours is meant to stay below.",
    ]
    for benchmark, found in by_benchmark.items():
        lines += ["", f"## {benchmark}", "", "| figure | ours | upstream | unit | times better | allowed |"]
        lines += ["|---|---:|---:|---|---:|---:|", *map(_format_row, found), ""]
        lines += [f"- **{figure.name}**: {figure.work}. Peer: {figure.peer_name}." for figure in found]
    return "\n".join(lines) + "\n"


def _format_row(figure: Figure) -> str:
    allowed = "" if figure.allowed is None else _print_number(figure.allowed)
    numbers = (_print_number(figure.ours), _print_number(figure.peer), figure.unit, f"{figure.ratio:,.1f}", allowed)
    return f"| {figure.name} | {' | '.join(numbers)} |"


def print_figures(figures: Iterable[Figure], console: Console, *, machine: str) -> None:
    """Print the figures as a table, with a line below for each that says what was done."""
    figures = tuple(figures)
    table = Table(title=machine, title_justify="left", box=SIMPLE, pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for header in ("ours", "peer's", "unit", "ratio"):
        table.add_column(header, justify="right", no_wrap=True)
    for figure in figures:
        numbers = (_print_number(figure.ours), _print_number(figure.peer), figure.unit, f"{figure.ratio:,.2f}")
        table.add_row(figure.name, *numbers)
    console.print(table)
    for figure in figures:
        console.print(f"{figure.name}: {figure.work}; peer: {figure.peer_name}", highlight=False, soft_wrap=True)


def _print_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

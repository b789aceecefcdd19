"""The frame of the benchmarks: ratios point the right way, and what is written can be read back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.bench import bench_cel, bench_decode, bench_hard, bench_scale, bench_search
from tests.bench.__main__ import main
from tests.bench.figures import Figure, format_markdown, measure_best, print_figures, write_figures
from tests.bench.upstream import ClusterTiming, SelectorRates


class OtherPeer:
    """Stands for upstream where no Go program is to be built: as fast as it is said to be."""

    def measure_selector(
        self, expression: str, devices: Sequence[dict[str, Any]], *, driver: str, repeats: int
    ) -> SelectorRates:
        return SelectorRates(prepared=2.0, scheduler=1.0)

    def measure_nodes(self, problem: dict[str, Any]) -> float:
        return float(len(problem.get("nodes", "1")))

    def measure_cluster(self, problem: dict[str, Any]) -> ClusterTiming:
        return ClusterTiming(total_ms=float(len(problem["nodes"])), first_ms=1.0, fitting=1, peak_mb=1.0)


def make_figure(*, ours: float = 2.0, peer: float = 8.0, unit: str = "ms") -> Figure:
    return Figure(name="decode", ours=ours, peer=peer, peer_name="another", unit=unit, work="10 slices")


def test_less_time_is_better() -> None:
    assert make_figure(unit="ms").ratio == 4.0


def test_a_higher_rate_is_better() -> None:
    assert make_figure(unit="evaluations/s").ratio == 0.25


def test_best_time_is_not_negative_and_every_repeat_runs() -> None:
    calls: list[int] = []

    assert measure_best(lambda: calls.append(1), repeats=3) >= 0
    assert len(calls) == 3


def test_written_figure_holds_what_a_reader_needs(tmp_path: Path) -> None:
    write_figures([make_figure()], tmp_path / "new", machine="a machine")

    content = json.loads((tmp_path / "new" / "decode.json").read_text())
    assert content == {
        "name": "decode",
        "ours": 2.0,
        "peer": 8.0,
        "peer_name": "another",
        "ratio": 4.0,
        "unit": "ms",
        "work": "10 slices",
        "machine": "a machine",
        "allowed": None,
    }


def test_printed_table_names_figure_and_peer() -> None:
    text = io.StringIO()

    print_figures([make_figure()], Console(file=text, width=80), machine="a machine")

    assert "4.00" in text.getvalue()
    assert "decode: 10 slices; peer: another" in text.getvalue()


def test_a_page_has_a_table_with_what_is_allowed_and_the_command_that_made_it() -> None:
    figure = replace(make_figure(), name="scale-memory", unit="MB", allowed=400)
    page = format_markdown([figure], command="make bench", machine="a machine")

    assert "| scale-memory | 2 | 8 | MB | 4.0 | 400 |" in page
    assert "## scale" in page
    assert "`make bench` in one run on one machine: a machine" in page


def test_upstream_is_asked_about_the_cluster_that_we_search() -> None:
    figures = {figure.name: figure for figure in bench_search.measure(nodes=5, upstream=OtherPeer())}

    assert figures["search-one-gpu-beside-upstream"].peer == 5
    assert "search-eleven-expressions-beside-upstream" not in figures


def test_unknown_benchmark_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decoed"]) == 2
    assert "found decoed, allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "figures",
    [
        lambda: bench_cel.measure(slices=5, upstream=OtherPeer()),
        lambda: bench_decode.measure(slices=5),
        lambda: bench_hard.measure(families=("count-pigeonhole", "mig-count"), upstream=OtherPeer()),
        lambda: bench_scale.measure(nodes=8, claims=9, upstream=OtherPeer()),
        lambda: bench_search.measure(nodes=5, upstream=OtherPeer()),
    ],
    ids=["cel", "decode", "hard", "scale", "search"],
)
def test_benchmark_runs(figures: Callable[[], Iterator[Figure]]) -> None:
    assert all(figure.ours > 0 and figure.peer > 0 for figure in figures())
